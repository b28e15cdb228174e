"""Outcomes that the store does not take yet, and those that it never will: how they end."""

import pytest
from msgspec.structs import replace

from tests.kit.frontier import SeedState
from tests.kit.kernel import StoreConflictError, StoreError
from tests.kit.requests import Dead, Page, State
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.frontier import a_spec, url
from tests.kit.worlds.memory import DOCS, World
from tests.kit.worlds.worker import submitted, tracked, work

URLS = [f"https://example.org/{n}" for n in range(8)]
PAGES = dict.fromkeys(URLS, b"x")


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(dispatch_seeds=0.01)


class Refusing:
    """A store that will not take outcomes of these requests, or nothing but that they are dead."""

    def __init__(self, world: World, ids: list[int], error: StoreError, *, dead: bool) -> None:
        self._store = world.store
        self._ids = set(ids)
        self._error = error
        self._dead = dead
        self.calls = 0

    def settle(self, queue_key, biz, outcomes, *args):
        self.calls += 1
        for claim, outcome in outcomes:
            refused = not (self._dead and isinstance(outcome, Dead))
            if claim.request.id in self._ids and refused:
                raise self._error
        return self._store.settle(queue_key, biz, outcomes, *args)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.mark.parametrize(
    ("seconds_left", "failures", "done"), [(12.0, 5, len(URLS)), (10.0, 10**9, 0)]
)
def test_a_worker_that_is_to_leave_waits_for_the_store_while_there_is_time(
    world, seconds_left, failures, done
):
    submitted(world, *URLS)
    store = Failing(world.store, settle=failures)
    left = [600.0]

    class Site:
        """Its last answer comes when the worker has begun to leave."""

        def __init__(self) -> None:
            self.asked = 0

        async def fetch(self, body, *_):
            self.asked += 1
            if self.asked == len(URLS):
                left[0] = seconds_left
            return Page(url=body.url, status=200, headers={}, body=b"x")

    site = Site()
    report = work(world, {}, store=store, fetcher=site, remaining=lambda: left[0])

    assert report.stopped_because == "time"
    assert (report.done, site.asked) == (done, len(URLS))


def test_an_outcome_that_the_store_never_takes_is_dead_lettered_and_not_tried_for_ever(world):
    ids = submitted(world, *URLS)
    store = Refusing(world, ids[2:4], StoreConflictError("never"), dead=True)

    report = work(world, PAGES, store=store)

    assert (report.done, report.dead, report.left) == (6, 2, 0)
    assert report.stopped_because == "idle"
    assert store.calls < 40
    found = tracked(world, ids[2])
    assert (found.state, found.reason) == (State.DEAD, "Unstorable")


def test_what_cannot_even_be_dead_lettered_is_left_to_its_lease_counted_and_reported(world):
    ids = submitted(world, *URLS)
    store = Refusing(world, ids[2:4], StoreError("the node's URI is not usable"), dead=False)

    report = work(world, PAGES, store=store)

    assert (report.done, report.dead, report.left) == (6, 0, 2)
    assert report.stopped_because == "idle"
    reported = [warning for warning in world.warnings if "left to its lease" in warning]
    assert [str(an_id) in line for an_id, line in zip(ids[2:4], reported, strict=True)] == [
        True,
        True,
    ]
    assert {world.store.get(DOCS, world.biz, one).state for one in ids[2:4]} == {State.LEASED}


def test_a_page_whose_records_the_store_refuses_is_dead_in_the_report_and_for_its_seed(world):
    world.seeding().add(DOCS, world.biz, [a_spec(1), a_spec(2)], world.now)
    world.seeding().dispatch(world.tree, DOCS, world.biz, world.now)

    class Burying:
        """A store that cannot hold the records of one page."""

        def settle(self, queue_key, biz, outcomes, *args):
            buried = {
                claim.request.id: Dead("too large", "Unstorable")
                for claim, _ in outcomes
                if claim.request.body.url == url(2)
            }
            ends = [(claim, buried.get(claim.request.id, end)) for claim, end in outcomes]
            return replace(world.store.settle(queue_key, biz, ends, *args), unstorable=buried)

        def __getattr__(self, name):
            return getattr(world.store, name)

    report = work(world, {url(1): b"fine", url(2): b"large"}, store=Burying())

    assert (report.done, report.dead, report.records) == (1, 1, 1)
    seeds = world.seeds.find(DOCS, world.biz, segment=None, state=None, after=None, limit=9)
    ends = {seed.spec.url: (seed.state, seed.why) for seed in seeds}
    assert ends[url(1)] == (SeedState.FINISHED, "")
    state, why = ends[url(2)]
    assert state is SeedState.FAILED
    assert "too large" in why
