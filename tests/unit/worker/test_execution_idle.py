"""A worker that finds nothing to do."""

import threading
from dataclasses import replace

from tests.kit.worlds.memory import World, make_tree
from tests.kit.worlds.worker import Parts, submitted, work


class Slow:
    """An index with so many queues, or so many who ask, that a look at them takes a while."""

    SECONDS = 0.01

    def __init__(self, world: World) -> None:
        self._queue = world.queue
        self.looks = 0

    def loads(self, *args):
        self.looks += 1
        threading.Event().wait(self.SECONDS)
        return self._queue.loads(*args)

    def __getattr__(self, name):
        return getattr(self._queue, name)


def test_where_looking_for_work_costs_much_it_is_looked_seldom(world):
    """Two hundred workers, five hundred queues: ten looks a second each are ten Redis servers."""
    world.pace(poll=0.001, trouble=1.0)
    idle = 0.3
    world.tree = make_tree(world.biz, idle_seconds=idle)
    index = Slow(world)

    report = work(world, queue=index)

    assert report.stopped_because == "idle"
    # The first look, about one in eleven times its cost, and the last one before it leaves.
    assert index.looks <= 2 + idle / (11 * Slow.SECONDS) + 1


def test_the_more_workers_there_are_the_less_often_each_looks_at_an_empty_queue(world):
    """A thousand that look ten times a second each would take half of a Redis for it."""
    parts = Parts(world)
    assert parts.background.look_seconds == world.pauses.poll

    for worker in range(1_000):
        world.workers.beat(f"w{worker}", world.now)
    parts.background.ask_whether_surplus(None, {})

    assert 4_000 < 1_000 / parts.background.look_seconds <= 5_000.1


class SlowToStore:
    """A store of requests that takes a while for the second that is made."""

    def __init__(self, world: World) -> None:
        self._store = world.store
        self.stored = 0

    def insert(self, *args, **kwargs):
        self.stored += 1
        threading.Event().wait(0.2)
        return self._store.insert(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_leaving_worker_waits_for_seeds_that_are_being_dispatched(world):
    """They are not ready any more and not queued yet: both looks would find nothing to do."""
    world.pace(dispatch_seeds=0.0)
    first, second = "https://example.org/1", "https://example.org/2"
    submitted(world, first)
    store = SlowToStore(world)
    seeding = replace(world.seeding(), submission=world.submission(store=store))
    pages = {first: f"one -> {second}".encode(), second: b"two"}

    report = work(world, pages, seeding=seeding)

    assert (report.stopped_because, report.done, store.stored) == ("idle", 2, 1)
