"""A worker that others took for dead, that is cut off, or whose node is away."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.fakes.fetching import MemoryFetcher
from tests.kit.fetching import NO_FETCH_CONTEXT
from tests.kit.kernel import StoreUnavailableError
from tests.kit.requests import State
from tests.kit.worker import DEFERRED_BATCHES
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.memory import DOCS, OTHER, World
from tests.kit.worlds.worker import quick_tree, states
from tests.waiting import eventually

URLS = [f"https://example.org/{n}" for n in range(12)]
PAGES = dict.fromkeys(URLS, b"Title")


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(renew=0.002)


def submitted(world: World, count: int, tenant: str = "default") -> list[int]:
    return worlds.submitted(world, *URLS[:count], tenant=tenant)


def work(world: World, **changes: object):
    return worlds.work(world, PAGES, **changes)


class LeasedRequest:
    """Downloads that end when the test lets them."""

    def __init__(self, world: World, until: Callable[[], bool]) -> None:
        self._fetcher = world.work(PAGES).fetcher
        self._until = until
        self.begun = 0

    async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
        self.begun += 1
        while not self._until():  # noqa: ASYNC110  what it waits for happens in other threads
            await asyncio.sleep(0.001)
        return await self._fetcher.fetch(body, limits, hop_guard, fetch_context)


def test_a_worker_that_was_taken_for_dead_drops_what_is_not_its_own_any_more(world):
    world.tree = quick_tree(world, concurrency=2)
    ids = submitted(world, 6)
    buried = []

    def reap_then_wait() -> bool:
        if not buried:
            leased = world.book.leases(DOCS)
            entries = [entry for _, entry in leased]
            world.revocation.revoke(DOCS, world.biz, entries, "w", "x", "dead", world.now)
            world.detector.reap("w")
            buried.extend(entries)
            return False
        return world.detector.heartbeats() != []

    report = work(world, fetcher=LeasedRequest(world, reap_then_wait))

    assert report.lost >= 2, "what was under way was another's"
    assert {world.store.get(DOCS, world.biz, one).attempts for one in ids} <= {1, 2}
    records = world.store.records(DOCS, world.biz, request_id=None, after=None, limit=99)
    assert len({record.request_id for record in records}) == len(records)


def test_cut_off_for_a_short_time_it_finishes_what_it_has(world):
    world.tree = quick_tree(world, concurrency=2)
    ids = submitted(world, 4)
    workers = Silent(world, silent_beats=5)

    report = work(world, workers=workers)

    assert states(world, ids) == [State.DONE] * 4
    assert report.handed_back == 0


def test_cut_off_for_too_long_it_gives_back_what_it_has_not_begun(world):
    world.tree = quick_tree(world, detached_seconds=0.2, concurrency=2)
    ids = submitted(world, 6)

    def until_given_back() -> bool:
        return states(world, ids).count(State.PENDING) == 4

    report = work(world, workers=Silent(world), fetcher=LeasedRequest(world, until_given_back))

    assert (report.done, report.handed_back) == (2, 4), "what ran was finished, and stored"
    assert report.stopped_because == "cut off"
    work(world)
    done = [world.store.get(DOCS, world.biz, one) for one in ids]
    assert all(one.state == State.DONE for one in done)
    assert any("cut off" in event.why for one in done for event in one.timeline)


class Silent:
    """A register that a worker's beats do not reach, all the time or for the first few."""

    def __init__(self, world: World, silent_beats: int = 10**9) -> None:
        self._world = world
        self.left = silent_beats

    def beat(self, worker, now, worker_status):
        self.left -= 1
        if self.left >= 0:
            raise StoreUnavailableError("redis", "no answer")
        return self._world.workers.beat(worker, now, worker_status)

    def __getattr__(self, name):
        return getattr(self._world.workers, name)


class AwayFor:
    """A store whose node for one queue does not take outcomes until it is told to."""

    def __init__(self, world: World, until: Callable[[], bool]) -> None:
        self._store = world.store
        self._until = until

    def settle(self, queue_key, *args):
        if queue_key == DOCS and not self._until():
            raise StoreUnavailableError("mongodb", "away")
        return self._store.settle(queue_key, *args)

    def __getattr__(self, name):
        return getattr(self._store, name)


def all_done(world: World, queue_key) -> bool:
    return world.ledgers.totals(queue_key, world.biz, world.now).open == 0


def test_outcomes_for_a_node_that_is_away_do_not_keep_other_queues_waiting(world):
    """A worker holds 4 + 3 * 1 requests; so many of the queue whose node is away would fill it."""
    world.tree = quick_tree(world, concurrency=4, batch=1)
    ids = submitted(world, 12)
    submitted(world, 12, tenant="acme")

    report = work(world, store=AwayFor(world, lambda: all_done(world, OTHER)))

    assert all_done(world, OTHER)
    assert states(world, ids).count(State.DONE) + report.left >= 12
    assert report.done + report.left == 24


def test_what_there_is_no_room_to_defer_is_left_to_its_lease(world):
    world.tree = quick_tree(world, concurrency=4, batch=1, lease_seconds=600.0)
    ids = submitted(world, 12)
    submitted(world, 12, tenant="acme")

    report = work(world, store=AwayFor(world, lambda: all_done(world, OTHER)))

    assert report.left <= 12 - DEFERRED_BATCHES
    world.now += timedelta(seconds=601)
    work(world)
    assert states(world, ids) == [State.DONE] * 12
    records = world.store.records(DOCS, world.biz, request_id=None, after=None, limit=99)
    assert len(records) == 12


def test_a_worker_that_thaws_begins_nothing_that_was_taken_from_it(world):
    """Its own list is full of what others have got in the meantime."""
    world.pace(renew=10.0)
    world.tree = quick_tree(world, concurrency=1, batch=12)
    ids = submitted(world, 12)

    class Freezing(LeasedRequest):
        """The first download takes so long that others take all but it from the worker."""

        async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
            if self.begun == 0:
                entries = [entry for _, entry in world.book.leases(DOCS)]
                world.revocation.revoke(DOCS, world.biz, entries, "w", "x", "dead", world.now)
                until = world.now + timedelta(minutes=5)
                world.store.claim(DOCS, world.biz, entries, "other", world.now, until, "other.a.1")
                world.detector.reap("w")
                # The whole process stands still, as under SIGSTOP.
                eventually(self._until, what="the frozen process thaws")
            return await super().fetch(body, limits, hop_guard, fetch_context)

    fetcher = Freezing(world, lambda: bool(world.detector.heartbeats()))

    report = work(world, fetcher=fetcher)

    assert fetcher.begun == 1
    assert report.lost == 12
    assert {world.store.get(DOCS, world.biz, one).worker for one in ids} == {"other"}


def test_nobody_passes_while_a_worker_that_thawed_looks_what_is_left(world):
    """The first to ask looks; the others, at the same moment, wait for what it finds."""
    world.pace(renew=10.0)
    world.tree = quick_tree(world, concurrency=6, batch=12)
    submitted(world, 12)
    begun = threading.Event()

    class Looking:
        def renew(self, *args):
            begun.wait(0.3)  # as long as a look may take; it ends at once where one has passed
            return world.store.renew(*args)

        def __getattr__(self, name):
            return getattr(world.store, name)

    class Freezing(MemoryFetcher):
        """The first download takes so long that others take all from the worker."""

        def __init__(self) -> None:
            super().__init__(PAGES)
            self.sent = 0

        async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
            if self.sent == 0:
                self.sent = 1
                entries = [entry for _, entry in world.book.leases(DOCS)]
                world.revocation.revoke(DOCS, world.biz, entries, "w", "x", "dead", world.now)
                until = world.now + timedelta(minutes=5)
                world.store.claim(DOCS, world.biz, entries, "other", world.now, until, "other.a.1")
                world.detector.reap("w")
                # The whole process stands still.
                eventually(world.detector.heartbeats, what="its heart beats anew")
                return await super().fetch(body, limits)
            page = await super().fetch(body, limits, hop_guard, fetch_context)
            self.sent += 1
            begun.set()
            return page

    fetcher = Freezing()

    report = work(world, fetcher=fetcher, store=Looking())

    assert fetcher.sent == 1
    assert report.lost == 12
