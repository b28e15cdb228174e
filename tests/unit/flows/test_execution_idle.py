"""A worker that finds nothing to do."""

import asyncio
import threading

from tests.kit.requests import Submission
from tests.kit.submission import submit
from tests.kit.worker import Worker, chores, execution
from tests.unit.flows.world import World, make_tree


class Slow:
    """An index with so many lanes, or so many who ask, that a look at them takes a while."""

    SECONDS = 0.02

    def __init__(self, world: World) -> None:
        self._queue = world.queue
        self.looks = 0

    def loads(self, *args):
        self.looks += 1
        threading.Event().wait(self.SECONDS)
        return self._queue.loads(*args)

    def __getattr__(self, name):
        return getattr(self._queue, name)


def test_where_looking_for_work_costs_much_it_is_looked_seldom(world, monkeypatch):
    """Two hundred workers, five hundred lanes: ten looks a second of each are ten Redis servers."""
    monkeypatch.setattr(execution, "POLL_SECONDS", 0.001)
    idle = 1.0
    world.tree = make_tree(world.biz, idle_seconds=idle)
    index = Slow(world)

    report = asyncio.run(Worker(world.work({}, queue=index), "w").run())

    assert report.stopped_because == "idle"
    # The first look, about one in eleven times its cost, and the last one before it leaves.
    assert index.looks <= 2 + idle / (11 * Slow.SECONDS) + 1


class HalfHandedOut:
    """Seeds that are handed out by the first who asks, whose requests are stored a while later."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.begun = threading.Event()
        self.waited_for = threading.Event()

    def hand_out(self, tree) -> int:
        if self.begun.is_set():
            return 0
        self.begun.set()
        threading.Event().wait(0.5)
        page = Submission(url="https://example.org/1", rule="page")
        world = self._world
        return len(submit(world.submission(), tree, "default", "docs", [page], world.now))


def test_who_leaves_waits_for_the_seeds_that_are_being_handed_out(world, monkeypatch):
    """They are not ready any more and not queued yet: both looks would find nothing to do."""
    monkeypatch.setattr(chores, "SOW_SECONDS", 0.0)
    world.tree = make_tree(world.biz, idle_seconds=0.0)
    worker = Worker(world.work({"https://example.org/1": b"<title>one</title>"}), "w")
    worker._chores._sower = HalfHandedOut(world)

    report = asyncio.run(worker.run())

    assert (report.stopped_because, report.done) == ("idle", 1)
