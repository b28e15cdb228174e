"""A worker whose work ends while it recovers what others have lost."""

import threading
from datetime import timedelta

import pytest

from tests.kit.fetching import NO_FETCH_CONTEXT
from tests.kit.recovery import recovery
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.memory import World
from tests.waiting import eventually

PAGES = {"https://example.org/": b"Title"}


@pytest.fixture(autouse=True)
def _quick(world):
    world.pace(recover=0.001, round_end=0.02)


class Slow:
    """A store whose first queue takes as long as the test lets it."""

    def __init__(self, world: World) -> None:
        self._store = world.store
        self.asked = []
        self.begun = threading.Event()
        self.ends = threading.Event()

    def expire(self, queue_key, *args):
        self.asked.append(queue_key)
        self.begun.set()
        if not self.ends.wait(60):
            raise TimeoutError
        return self._store.expire(queue_key, *args)

    def __getattr__(self, name):
        return getattr(self._store, name)


class Waiting:
    """Downloads that end when the round is under way."""

    def __init__(self, world: World, begun: threading.Event) -> None:
        self._fetcher = world.work(PAGES).fetcher
        self._begun = begun

    async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
        await worlds.until(self._begun.is_set)
        return await self._fetcher.fetch(body, limits, hop_guard, fetch_context)


def work(world: World, slow: Slow):
    worlds.submitted(world, *PAGES)
    recovery = world.recovery(store=slow)
    return worlds.work(world, fetcher=Waiting(world, slow.begun), recovery=recovery)


def parts_at_work() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("parts")]


def is_free(world: World) -> bool:
    return world.detector.acquire_lock(recovery.LOCK, "next", timedelta(), timedelta())


def test_a_worker_that_ends_in_the_middle_of_a_round_leaves_it_to_others(world):
    """Lambda freezes what still runs; the turn would be taken for as long as its term is."""
    slow = Slow(world)

    report = work(world, slow)

    assert report.done == 1
    assert is_free(world)
    slow.ends.set()
    eventually(lambda: not parts_at_work(), what="the round goes on")
    assert len(slow.asked) == 1, "no queue is begun by a worker that has ended"
