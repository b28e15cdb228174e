"""A worker under quotas: what is over one is not asked for, waits or ends, and says so."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.quotas import AtLimit, Quota, QuotaLedgers, QuotaPeriod, QuotaUnit, Use
from tests.kit.requests import State
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, World, make_biz, make_tree
from tests.kit.worlds.quotas import limited
from tests.kit.worlds.worker import submitted, tracked, work

URLS = [f"https://example.org/{n}" for n in range(20)]
PAGES = dict.fromkeys(URLS, b"x" * 1_000)


def under(world: World, unit: QuotaUnit, most: int, **quota: object) -> World:
    biz = replace(world.biz, quotas=(Quota(unit=unit, most=most, **quota),))
    world.tree = make_tree(biz, concurrency=4, batch=5)
    return world


def run(world: World, pages: dict[str, object] = PAGES, **changes: object):
    fetcher = MemoryFetcher(pages)
    report = work(world, {}, fetcher=fetcher, **changes)
    return report, len(fetcher.asked)


def states(world: World, ids: list[int]) -> list[int]:
    return [tracked(world, an_id).state for an_id in ids]


def test_no_more_pages_are_asked_for_than_a_quota_of_requests_allows(world):
    ids = submitted(under(world, QuotaUnit.REQUESTS, 7), *URLS)

    report, asked = run(world)

    assert (report.done, asked) == (7, 7)
    assert states(world, ids).count(State.PENDING) == 13
    assert report.stopped_because == "idle"


def test_what_waits_says_which_limit_how_much_is_used_and_when_it_goes_on(world):
    ids = submitted(under(world, QuotaUnit.REQUESTS, 3, per=QuotaPeriod.DAY), *URLS[:5])

    run(world)

    waiting = [tracked(world, an_id) for an_id in ids]
    said = {one.timeline[-1].why for one in waiting if one.state == State.PENDING} - {"submitted"}
    assert said
    for why in said:
        assert why.startswith("deferred: biz docs has used 3 of 3 requests of this day (quotas[0])")
        assert "it goes on at 2026-03-02T00:00:00Z" in why
    assert all(one.attempts == 0 for one in waiting if one.state == State.PENDING)


def test_in_the_next_period_it_goes_on(world):
    submitted(under(world, QuotaUnit.REQUESTS, 3, per=QuotaPeriod.DAY), *URLS[:5])
    run(world)

    world.now += timedelta(hours=12)
    report, asked = run(world)

    assert (report.done, asked) == (2, 2)


def test_a_higher_limit_is_in_force_at_once(world):
    submitted(under(world, QuotaUnit.REQUESTS, 3), *URLS[:8])
    run(world)

    world.now += timedelta(minutes=2)
    report, _ = run(under(world, QuotaUnit.REQUESTS, 6))

    assert report.done == 3


def test_at_a_limit_that_ends_work_requests_become_dead_letters_that_say_so(world):
    ids = submitted(under(world, QuotaUnit.REQUESTS, 2, at_limit=AtLimit.END), *URLS[:6])

    report, asked = run(world)

    assert (report.done, report.dead, asked) == (2, 4, 2)
    [reason] = {tracked(world, an_id).reason for an_id in ids} - {None}
    assert reason == "QuotaExceeded"


def test_the_worst_case_is_reserved_and_what_was_not_used_returned(world):
    biz = make_biz(
        fetch=replace(world.biz.fetch, max_body_bytes=4_000),
        quotas=(Quota(unit=QuotaUnit.BYTES, most=12_000),),
    )
    world.tree = make_tree(biz, concurrency=4, batch=5)
    submitted(world, *URLS)

    report, _ = run(world)

    # Nine of a thousand bytes: below four thousand no download may begin.
    assert report.done == 9
    [standing] = world.standings("docs")
    assert (standing.used, standing.held) == (9_000, 0)


def test_records_beyond_a_quota_are_not_stored(world):
    ids = submitted(under(world, QuotaUnit.RECORDS, 4), *URLS[:8])

    report, _ = run(world)

    stored = sum(
        len(world.store.records(DOCS, world.biz, request_id=an_id, after=None, limit=9))
        for an_id in ids
    )
    assert (report.done, stored) == (4, 4)


def test_a_user_has_one_quota_over_all_bizs_and_others_are_not_held_up(world):
    world.tree = limited(world.tree, user_quotas=(Quota(unit=QuotaUnit.REQUESTS, most=2),))
    ann = submitted(world, *URLS[:4], user="ann")
    bob = submitted(world, *URLS[4:6], user="bob")
    nobody = submitted(world, *URLS[6:12])

    report, _ = run(world)

    assert report.done == 10
    assert states(world, ann).count(State.DONE) == 2
    assert states(world, bob) == [State.DONE] * 2
    assert states(world, nobody) == [State.DONE] * 6


def test_two_workers_share_a_quota(world):
    submitted(under(world, QuotaUnit.REQUESTS, 7), *URLS)

    done = [run(world, jitter=lambda: 0.5)[0].done, run(world)[0].done]

    assert sum(done) == 7


def test_where_redis_has_lost_the_ledger_no_more_is_used_than_was_left(world):
    submitted(under(world, QuotaUnit.REQUESTS, 7), *URLS[:5])
    assert run(world)[0].done == 5

    world.quota_ledgers.lose()
    submitted(world, *URLS[5:])
    report, _ = run(world)

    assert 5 + report.done <= 7
    assert world.standings("docs")[0].used <= 7


def test_nothing_is_leased_of_a_biz_whose_limit_is_used_up(world):
    many = [f"https://example.org/{n}" for n in range(60)]
    submitted(under(world, QuotaUnit.REQUESTS, 2), *many)
    run(world)

    report, asked = run(world)

    # What fits into a worker's hands is leased before it knows; the rest stays in the queue.
    assert (report.done, asked) == (0, 0)
    assert report.leased <= 4 + 4 * 5
    assert report.stopped_because == "idle"


def test_without_an_answer_of_the_ledgers_nothing_is_asked_for(world):
    submitted(under(world, QuotaUnit.REQUESTS, 7), *URLS[:3])

    report, asked = run(world, quotas=QuotaLedgers(Broken(), world.quota_ceilings))

    assert (report.done, asked) == (0, 0)
    assert any("shares of quotas could not be had" in warning for warning in world.warnings)


def test_a_failed_download_is_a_request_and_one_that_waits_is_none(world):
    submitted(under(world, QuotaUnit.REQUESTS, 3), *URLS[:5])

    _, asked = run(world, {})

    assert asked == 3
    assert world.standings("docs")[0].used == 3


@pytest.mark.parametrize("unit", list(QuotaUnit))
def test_a_use_has_an_amount_of_each_unit(unit):
    assert Use(requests=1, records=1, bytes=1, usd=1, items=1).of(unit) == 1
