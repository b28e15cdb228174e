"""What waits for a job's or a user's quota waits for its account: no slots, no leases, one look."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.jobs import JobOrder, JobState, job_of
from tests.kit.quotas import (
    AtLimit,
    Quota,
    QuotaLedgers,
    QuotaPeriod,
    QuotaUnit,
    job_terms,
)
from tests.kit.requests import Page, State
from tests.kit.spiders import Start
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import START, World, make_tree
from tests.kit.worlds.quotas import limited
from tests.kit.worlds.worker import submitted, tracked, until, work

URLS = [f"https://example.org/{n}" for n in range(40)]
PAGES = dict.fromkeys(URLS, b"x" * 1_000)


def for_users(world: World, most: int = 2, **quota: object) -> None:
    one = Quota(**{"unit": QuotaUnit.REQUESTS, "most": most} | quota)
    world.tree = limited(make_tree(world.biz, concurrency=4, batch=5), user_quotas=(one,))


def run(world: World, **changes: object):
    fetcher = MemoryFetcher(PAGES)
    report = work(world, {}, fetcher=fetcher, **changes)
    return report, len(fetcher.asked)


def a_job(world: World, most: int, **quota: object) -> None:
    one = Quota(**{"unit": QuotaUnit.REQUESTS, "most": most} | quota)
    key = ("default", "docs", "june")
    if not world.jobs.set_quotas(key, (one,)):
        order = JobOrder(
            tenant="default",
            biz="docs",
            by="api",
            rule="page",
            start=Start(urls=tuple(URLS)),
            quotas=(one,),
        )
        job = job_of(order, None, "page", "v", order.start, None, START, waits=False)
        # All of its pages are submitted under it: a worker has nothing to expand.
        world.jobs.create(replace(job, name="june", state=JobState.RUNNING))


def test_what_waits_for_a_users_limit_is_not_leased_again_until_it_lifts(world):
    for_users(world)
    ids = submitted(world, *URLS, user="ann")
    assert run(world)[0].done == 2

    world.now += timedelta(minutes=5)
    report, asked = run(world)

    assert (report.leased, report.done, asked) == (0, 0, 0)
    assert [tracked(world, an_id).state for an_id in ids].count(State.PENDING) == 38


def test_it_takes_no_slot_at_its_host_before_the_quota_is_asked(world):
    for_users(world)
    submitted(world, *URLS[:4], user="ann")
    run(world)
    submitted(world, *URLS[4:], user="ann")

    report, asked = run(world, hosts=Broken())

    assert (report.leased, report.deferred, asked) == (36, 36, 0)
    assert not any("slots" in warning or "leased" in warning for warning in world.warnings)


@pytest.mark.parametrize("unit", [QuotaUnit.REQUESTS, QuotaUnit.BYTES])
def test_when_the_next_period_begins_it_goes_on(world, unit):
    most = 2 if unit is QuotaUnit.REQUESTS else world.biz.fetch.max_body_bytes + 1_500
    for_users(world, most, unit=unit, per=QuotaPeriod.DAY)
    submitted(world, *URLS[:20], user="ann")
    assert run(world)[0].done == 2

    world.now += timedelta(days=1)

    assert run(world)[0].done == 2


def test_many_lists_that_are_due_at_once_are_asked_about_in_one_go(world, monkeypatch):
    for_users(world, 1, per=QuotaPeriod.DAY)
    for n in range(20):
        submitted(world, *URLS[:3], user=f"u{n}")
    assert run(world)[0].done == 20
    asked: list[int] = []
    read = world.quotas.redis.read

    def counted(accounts: Sequence[object]) -> object:
        asked.append(len(accounts))
        return read(accounts)

    monkeypatch.setattr(world.quotas.redis, "read", counted)
    world.tree = limited(
        make_tree(world.biz, concurrency=4, batch=50),
        user_quotas=world.tree.tenants["default"].user_quotas,
    )
    world.now += timedelta(minutes=2)

    assert run(world)[0].leased == 0
    assert asked[0] == 20


def test_a_raised_limit_is_seen_within_a_minute(world):
    for_users(world)
    submitted(world, *URLS[:20], user="ann")
    run(world)

    for_users(world, 7)
    world.now += timedelta(minutes=1)

    assert run(world)[0].done == 5


def test_without_a_limit_any_more_all_of_it_goes_on(world):
    for_users(world)
    submitted(world, *URLS[:10], user="ann")
    run(world)

    world.tree = make_tree(world.biz, concurrency=4, batch=5)
    world.now += timedelta(minutes=1)

    assert run(world)[0].done == 8


def test_a_jobs_limit_by_day_parks_the_jobs_own_requests_alone(world):
    a_job(world, 3, per=QuotaPeriod.DAY)
    submitted(world, *URLS[:20], job="june")
    submitted(world, *URLS[20:25])
    run(world)

    world.now += timedelta(minutes=5)
    report, asked = run(world)

    assert (report.leased, asked) == (0, 0)


def test_while_the_ledgers_are_away_nothing_parked_is_leased(world):
    for_users(world)
    submitted(world, *URLS[:10], user="ann")
    run(world)

    world.now += timedelta(minutes=2)
    report, asked = run(world, quotas=QuotaLedgers(Broken(), world.quota_ceilings))

    assert (report.leased, asked) == (0, 0)


def test_at_a_limit_that_ends_work_nothing_is_parked(world):
    for_users(world, at_limit=AtLimit.END)
    submitted(world, *URLS[:10], user="ann")

    report, _ = run(world)

    assert (report.done, report.dead) == (2, 8)


@pytest.mark.parametrize("owner", ["tenant", "user", "biz", "job"])
def test_what_a_quota_ends_takes_no_slot_at_its_host_before(world, owner):
    ends = Quota(unit=QuotaUnit.REQUESTS, most=2, at_limit=AtLimit.END)
    facts = {"user": "ann"} if owner == "user" else {"job": "june"} if owner == "job" else {}
    if owner == "job":
        a_job(world, 2, at_limit=AtLimit.END)
    biz = replace(world.biz, quotas=(ends,)) if owner == "biz" else world.biz
    world.tree = make_tree(biz, concurrency=4, batch=5)
    if owner in {"tenant", "user"}:
        own = {"quotas" if owner == "tenant" else "user_quotas": (ends,)}
        world.tree = limited(world.tree, **own)
    submitted(world, *URLS[:2], **facts)
    assert run(world)[0].done == 2
    ids = submitted(world, *URLS[2:], **facts)

    report, asked = run(world, hosts=Broken())

    assert (report.leased, report.dead, report.deferred, asked) == (38, 38, 0, 0)
    assert not any("slots" in warning for warning in world.warnings)
    assert "has used 2 of 2 requests" in (tracked(world, ids[0]).error or "")


class Raising(MemoryFetcher):
    """Has the job's quota raised while its pages are fetched."""

    def __init__(self, raised: Callable[[], None]) -> None:
        super().__init__(PAGES)
        self._raised = raised

    async def fetch(self, *of: object, **more: object) -> Page:
        page = await super().fetch(*of, **more)
        self._raised()
        return page


@pytest.mark.parametrize("at_limit", list(AtLimit))
def test_a_jobs_quota_that_is_raised_while_a_worker_runs_ends_and_parks_nothing(
    world, at_limit, monkeypatch
):
    monkeypatch.setattr(job_terms, "FRESH_SECONDS", 0.0)
    a_job(world, 2, at_limit=at_limit)
    world.tree = make_tree(world.biz, concurrency=1, batch=1)
    submitted(world, *URLS[:8], job="june")

    fetcher = Raising(lambda: a_job(world, 20, at_limit=at_limit))
    report = work(world, {}, fetcher=fetcher)

    assert (report.done, report.dead) == (8, 0)


class Lowering(MemoryFetcher):
    """Has the job's quota lowered while the fourth page is fetched, which takes until it is heard.

    Said between two pages, the next one's charge and the word would be in a race.
    """

    def __init__(self, world: World) -> None:
        super().__init__(PAGES)
        self.world, self.heard = world, False

    async def fetch(self, *of: object, **more: object) -> Page:
        page = await super().fetch(*of, **more)
        if len(self.asked) == 4:
            a_job(self.world, 6)
            self.world.cancellations.announce_quotas(("default", "docs", "june"))
            await until(lambda: self.heard)
        return page


@pytest.mark.parametrize("is_limited", [True, False])
def test_a_jobs_quota_that_is_lowered_while_a_worker_runs_is_in_force_within_seconds(
    world, is_limited, monkeypatch
):
    world.pace(cancellations=0.01)
    a_job(world, 1_000)
    if not is_limited:
        world.jobs.set_quotas(("default", "docs", "june"), ())
    world.tree = make_tree(world.biz, concurrency=1, batch=1)
    submitted(world, *URLS, job="june")
    fetcher, note = Lowering(world), job_terms.KnownTerms.note

    def hear(self: object, job: tuple[str, str, str]) -> None:
        note(self, job)
        fetcher.heard = True

    monkeypatch.setattr(job_terms.KnownTerms, "note", hear)
    report = work(world, {}, fetcher=fetcher)

    # What was used before is no part of a quota that there was not.
    assert report.done == (6 if is_limited else 10)


def test_what_a_job_says_is_asked_for_once_while_nothing_is_used_up(world, monkeypatch):
    asked: list[str] = []
    known = world.jobs.quota_terms

    def terms(tenant: str, biz: str, name: str):
        asked.append(name)
        return known(tenant, biz, name)

    monkeypatch.setattr(world.jobs, "quota_terms", terms)
    a_job(world, 1_000)
    world.tree = make_tree(world.biz, concurrency=4, batch=5)
    submitted(world, *URLS, job="june")

    assert run(world)[0].done == 40
    assert len(asked) <= 5
