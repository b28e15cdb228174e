"""A worker in doubt asks for no page before it knows that it is still its own."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.fakes.fetching import MemoryFetcher
from tests.kit.kernel import StoreUnavailableError
from tests.kit.requests import State
from tests.kit.worlds.memory import DOCS, World
from tests.kit.worlds.worker import quick_tree, states, submitted, work
from tests.waiting import eventually, in_time

URLS = [f"https://example.org/{n}" for n in range(12)]
PAGES = dict.fromkeys(URLS, b"Title")


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(owned=0.01, renew=10.0)


class Away:
    """A store whose node does not say whose leases are whose, as often as is said."""

    def __init__(self, world: World, times: float) -> None:
        self._store = world.store
        self.left = times
        self.asked = 0

    def renew(self, *args):
        self.asked += 1
        self.left -= 1
        if self.left >= 0:
            raise StoreUnavailableError("mongodb", "away")
        return self._store.renew(*args)

    def __getattr__(self, name):
        return getattr(self._store, name)


class SlowToAnswer:
    """Outcomes are written at once, and that is answered when leases have been looked at."""

    def __init__(self, world: World) -> None:
        self._store, self._world = world.store, world
        self._looks = 0

    def renew(self, *args):
        try:
            return self._store.renew(*args)
        finally:
            self._looks += 1

    def settle(self, *args):
        settled = self._store.settle(*args)
        self._world.detector.reap("w")
        looks = self._looks
        eventually(lambda: self._looks > looks, what="nobody looks meanwhile")
        return settled

    def __getattr__(self, name):
        return getattr(self._store, name)


class Freezing(MemoryFetcher):
    """The whole worker stands still in its first download, as under SIGSTOP."""

    def __init__(self, meanwhile: Callable[[], None], world: World) -> None:
        super().__init__(PAGES)
        self._meanwhile = meanwhile
        self._world = world
        self.begun = 0

    async def fetch(self, body, limits, hop_guard=None, fetch_context=None):
        self.begun += 1
        if self.begun == 1:
            self._meanwhile()
            self._world.detector.reap("w")
            eventually(lambda: bool(self._world.detector.heartbeats()), what="its heart beats anew")
        return await super().fetch(body, limits, hop_guard)


def taken_by_another(world: World) -> None:
    entries = [entry for _, entry in world.book.leases(DOCS)]
    world.revocation.revoke(DOCS, world.biz, entries, "w", "x", "dead", world.now)
    until = world.now + timedelta(minutes=5)
    world.store.claim(DOCS, world.biz, entries, "other", world.now, until, "other.a.1")


def test_a_look_that_got_no_answer_is_none_for_one_that_thaws(world):
    """The worker waits for a check that is answered; it fetches nothing that another owns."""
    world.tree = quick_tree(world, concurrency=3, batch=12)
    ids = submitted(world, *URLS)
    store = Away(world, 5)
    fetcher = Freezing(lambda: taken_by_another(world), world)

    report = work(world, PAGES, store=store, fetcher=fetcher)

    assert fetcher.asked == []
    assert store.asked > 5
    assert (report.lost, report.left, report.done) == (12, 0, 0)
    assert {world.store.get(DOCS, world.biz, one).worker for one in ids} == {"other"}


def test_what_is_settled_while_it_looks_is_done_and_not_lost(world):
    """A settled request has no owner any more, and MongoDB says so to a later check."""
    world.pace(renew=0.05)
    world.tree = quick_tree(world, concurrency=3, batch=12)
    ids = submitted(world, *URLS)

    report = work(world, PAGES, store=SlowToAnswer(world), fetcher=Freezing(lambda: None, world))

    assert (report.done, report.lost, report.left) == (12, 0, 0)
    assert states(world, ids) == [State.DONE] * 12


def test_what_is_still_its_own_after_looks_in_vain_is_done(world):
    world.tree = quick_tree(world, concurrency=3, batch=12)
    ids = submitted(world, *URLS)
    fetcher = Freezing(lambda: None, world)

    report = work(world, PAGES, store=Away(world, 5), fetcher=fetcher)

    assert (report.done, report.lost, report.left) == (12, 0, 0)
    assert states(world, ids) == [State.DONE] * 12


def test_waiting_for_a_look_ends_with_the_lease(world):
    """The one that takes the requests when their leases are over finds them in MongoDB."""
    world.tree = quick_tree(world, concurrency=3, batch=12, lease_seconds=0.3)
    ids = submitted(world, *URLS)
    fetcher = Freezing(lambda: taken_by_another(world), world)

    with in_time(0.3, "it waits for longer than the lease"):
        report = work(world, PAGES, store=Away(world, float("inf")), fetcher=fetcher)

    assert fetcher.asked == []
    assert (report.left, report.lost, report.retried) == (12, 0, 0)
    assert all(any(f"{an_id} " in one for one in world.warnings) for an_id in ids)
    assert {world.store.get(DOCS, world.biz, one).worker for one in ids} == {"other"}


def test_a_lease_that_is_over_is_looked_up_before_its_page_is_asked_for(world):
    """The worker was not reaped: its node was away for longer than its leases."""
    world.tree = quick_tree(world, concurrency=1, batch=3, lease_seconds=0.05)
    submitted(world, *URLS[:3])

    class Slow(MemoryFetcher):
        async def fetch(self, body, limits, hop_guard=None, fetch_context=None):
            if not self.asked:
                taken_by_another(world)
                over = world.steady.now() + 0.1
                eventually(lambda: world.steady.now() > over, what="the leases are over")
            return await super().fetch(body, limits, hop_guard)

    fetcher = Slow(PAGES)
    report = work(world, PAGES, fetcher=fetcher)

    assert fetcher.asked == []
    assert report.lost == 3


def test_many_that_wait_for_the_same_node_do_not_ask_it_each(world):
    world.pace(owned=0.1)
    world.tree = quick_tree(world, concurrency=12, batch=12, lease_seconds=0.5)
    submitted(world, *URLS)
    store = Away(world, float("inf"))

    report = work(
        world, PAGES, store=store, fetcher=Freezing(lambda: taken_by_another(world), world)
    )

    assert report.left == 12
    assert store.asked < 30
