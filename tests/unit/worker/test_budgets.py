"""A worker under quotas of money: what pages cost is charged, and no page begins beyond it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.config import PriceTerms
from tests.kit.costs import cost_of, prices_of
from tests.kit.quotas import (
    Account,
    AtLimit,
    Quota,
    QuotaPeriod,
    QuotaUnit,
    Reservation,
    Scope,
    Window,
    nano_dollars,
    worst_case,
)
from tests.kit.requests import Bill, State
from tests.kit.worlds.memory import World, make_biz, make_tree
from tests.kit.worlds.quotas import limited
from tests.kit.worlds.worker import submitted, tracked, work

URLS = [f"https://example.org/{n}" for n in range(20)]
PAGES = dict.fromkeys(URLS, b"x" * 1_000)
#: Nothing but bytes is paid for, a dollar a GB: 1,000 of a page, 1,500 sent and 3,000 to MongoDB.
BYTES_ALONE = {
    "gb_second": 0.0,
    "nat_gb": 1.0,
    "out_gb": 0.0,
    "region_gb": 0.0,
    "disk_gb_month": 0.0,
    "million_calls": 0.0,
}
A_PAGE = 5_500
#: A body may have 4,000 bytes.
AT_MOST = 8_500


def with_prices(world: World, **prices: float) -> None:
    terms = PriceTerms(**BYTES_ALONE | prices)
    world.tree = replace(world.tree, stage=replace(world.tree.stage, prices=terms))


def under(world: World, usd: float, **quota: object) -> World:
    one = Quota(unit=QuotaUnit.USD, most=usd, **quota)
    biz = make_biz(fetch=replace(world.biz.fetch, max_body_bytes=4_000), quotas=(one,))
    world.tree = make_tree(biz, concurrency=4, batch=5)
    with_prices(world)
    return world


def run(world: World, pages: dict[str, object] = PAGES):
    fetcher = MemoryFetcher(pages)
    report = work(world, {}, fetcher=fetcher)
    return report, len(fetcher.asked)


def test_no_page_begins_that_could_cost_more_than_is_left_of_a_budget(world):
    ids = submitted(under(world, 0.00005), *URLS)

    report, asked = run(world)

    # After eight pages 6,000 nano-dollars are left, and one may cost 8,500.
    assert (report.done, asked) == (8, 8)
    [standing] = world.standings("docs")
    assert (standing.used, standing.held) == (8 * A_PAGE, 0)
    waiting = [tracked(world, an_id) for an_id in ids]
    said = {one.timeline[-1].why for one in waiting if one.state == State.PENDING} - {"submitted"}
    assert said
    for why in said:
        assert why.startswith("deferred: biz docs has used $0.000044 of $0.00005 in all (quotas[0")
        assert "a page may cost up to $0.0000085" in why


def test_at_a_budget_that_ends_work_requests_become_dead_letters_that_name_it(world):
    ids = submitted(under(world, 0.00002, at_limit=AtLimit.END), *URLS[:6])

    report, _ = run(world)

    assert report.done == 3
    dead = [tracked(world, an_id) for an_id in ids if tracked(world, an_id).state == State.DEAD]
    assert {one.reason for one in dead} == {"QuotaExceeded"}
    assert len(dead) == 3


def test_what_a_budget_was_charged_is_what_its_job_cost(world):
    submitted(under(world, 1.0), *URLS, job="june")

    run(world)

    [standing] = world.standings("docs")
    figures = world.demands.measured("default", "docs", "june")
    cost = cost_of(replace(figures, workers=0), prices_of(world.tree.stage.prices)).usd
    assert standing.used == pytest.approx(nano_dollars(cost), abs=len(URLS))


def test_prices_that_change_while_it_runs_hold_for_the_pages_after_that(world):
    submitted(under(world, 0.00005), *URLS)

    class Dearer(MemoryFetcher):
        async def fetch(self, *of: object, **more: object):
            page = await super().fetch(*of, **more)
            if len(self.asked) == 1:
                with_prices(world, nat_gb=2.0)
            return page

    world.tree = replace(
        world.tree,
        stage=replace(
            world.tree.stage, fleet=replace(world.tree.stage.fleet, concurrency=1, batch=1)
        ),
    )
    report = work(world, {}, fetcher=Dearer(PAGES))

    [standing] = world.standings("docs")
    # The first page's bytes came at the new price: what is charged is never above its reservation.
    assert AT_MOST <= standing.used - (report.done - 1) * 2 * A_PAGE <= 2 * A_PAGE
    assert standing.used <= 50_000 < standing.used + 2 * AT_MOST


def test_a_failed_page_costs_its_part_and_one_that_waits_its_time(world):
    submitted(under(world, 0.001), *URLS[:3])

    run(world, {})

    # What is sent, and kept, of each attempt.
    assert world.standings("docs")[0].used == 3 * 4_500


def test_a_user_has_one_budget_over_all_bizs(world):
    under(world, 1.0)
    world.tree = limited(world.tree, user_quotas=(Quota(unit=QuotaUnit.USD, most=0.00002),))
    submitted(world, *URLS[:8], user="ann")
    submitted(world, *URLS[8:12])

    report, _ = run(world)

    assert report.done == 3 + 4


def test_the_worst_case_has_the_time_the_body_the_memory_and_the_proxies(world):
    biz, stage = world.biz, world.tree.stage
    base = worst_case(stage, biz)
    fetch = replace(biz.fetch, total_seconds=2 * biz.fetch.total_seconds)

    assert worst_case(stage, replace(biz, fetch=fetch)) > base
    assert worst_case(stage, biz, gb=2.0) > base
    fetch = replace(biz.fetch, max_body_bytes=2 * biz.fetch.max_body_bytes)
    assert worst_case(stage, replace(biz, fetch=fetch)) > base


ACCOUNT = Account("acme", Scope.BIZ, "docs", QuotaUnit.USD, QuotaPeriod.ALL)


@given(
    costs=st.lists(st.floats(0, 1e-3), max_size=200),
    reserved=st.integers(1, 2_000_000),
)
def test_sums_of_charges_are_exact_and_miss_costs_by_half_a_nano_dollar_a_page(costs, reserved):
    charges = [
        Reservation({(ACCOUNT, Window("all")): reserved}).charged(Bill(usd=usd)) for usd in costs
    ]

    assert all(isinstance(one, int) and 0 <= one <= reserved for one in charges)
    truth = sum(min(usd * 1e9, reserved) for usd in costs)
    assert abs(sum(charges) - truth) <= 0.5 * len(costs) + 1e-3


@given(st.integers(1, 10**15))
def test_dollars_with_nine_places_are_the_nano_dollars_that_were_meant(amount):
    assert Quota(unit=QuotaUnit.USD, most=amount / 1e9).amount == amount
