"""A worker with nothing to do: as many stay as are to be kept, the others end."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.kit.kernel import QueueKey
from tests.kit.worker import Worker, WorkerServices
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, World, make_tree
from tests.kit.worlds.worker import decided, submitted


@pytest.fixture
def world() -> World:
    return World(tree=make_tree(min_consumers=1, max_consumers=5, idle_seconds=0.02))


class Hands:
    """Workers that run at once; ``over`` says when their time is up."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ended: dict[str, str] = {}
        self._over = threading.Event()

    def left(self) -> float:
        return 0.0 if self._over.is_set() else 10_000.0

    def run(
        self,
        count: int,
        until: Callable[[], bool],
        work: Callable[[], WorkerServices] | None = None,
    ) -> None:
        """Have so many work until that holds, then until their time is up."""

        async def all_of_them() -> None:
            tasks = [asyncio.create_task(self._one(f"w{n}", work)) for n in range(count)]
            await worlds.until(until)
            # What would come yet of whoever is wrong to stay has come then.
            await asyncio.sleep(0.1)
            self.staying = count - len(self.ended)
            self._over.set()
            await asyncio.gather(*tasks)

        asyncio.run(all_of_them())

    async def _one(self, name: str, work: Callable[[], WorkerServices] | None) -> None:
        ports = self.world.work({}, remaining=self.left) if work is None else work()
        self.ended[name] = (await Worker(ports, name).run()).stopped_because


def test_an_idle_worker_stays_while_it_is_the_one_that_is_kept(world):
    decided(world, needed=1, kept=1)
    hands = Hands(world)
    loads, looks = world.queue.loads, []
    world.queue.loads = lambda queues, now: looks.append(now) or loads(queues, now)

    hands.run(1, lambda: len(looks) > 10)

    assert hands.staying == 1
    assert hands.ended == {"w0": "time"}
    assert world.woken == [1], "the next one has been called for"


def test_of_several_that_are_idle_as_many_stay_as_are_kept(world):
    world.tree = make_tree(min_consumers=2, max_consumers=5, idle_seconds=0.02)
    decided(world, needed=2, kept=5)
    hands = Hands(world)

    hands.run(5, lambda: len(hands.ended) == 3)

    assert hands.staying == 2
    assert sorted(hands.ended.values()) == ["idle"] * 3 + ["time"] * 2


def test_who_is_kept_works_when_there_is_something_to_do(world):
    decided(world, needed=1, kept=1)
    hands = Hands(world)
    pages: dict[str, bytes] = {}
    world.workers.beat("w0", world.now)

    def until() -> bool:
        if not pages:
            urls = [f"https://example.org/{n}" for n in range(3)]
            submitted(world, *urls)
            pages.update(dict.fromkeys(urls, b"<title>one</title>"))
        return world.queue.depth(next(iter(world.tree.queues()))).queued == 0

    hands.run(1, until, lambda: world.work(pages, remaining=hands.left))

    assert hands.ended == {"w0": "time"}


def test_nobody_is_kept_any_more_when_the_configuration_says_so(world):
    decided(world, needed=1, kept=1)
    hands = Hands(world)

    def until() -> bool:
        world.tree = make_tree(min_consumers=0, idle_seconds=0.02)
        return bool(hands.ended)

    hands.run(1, until)

    assert hands.ended == {"w0": "idle"}


def test_who_cannot_ask_whether_it_may_leave_stays_and_asks_again(world):
    world.tree = make_tree(min_consumers=1, idle_seconds=0.02)
    world.workers.beat("other", world.now)
    workers = Failing(world.workers, retire=2)
    hands = Hands(world)

    hands.run(
        1,
        lambda: bool(hands.ended),
        lambda: world.work({}, workers=workers, remaining=hands.left),
    )

    assert hands.ended == {"w0": "idle"}
    assert sum("retire: no answer" in said for said in world.warnings) == 2
    assert world.workers.live(world.now) == ["other"]


def test_who_finds_work_that_nobody_has_announced_stays_and_does_it(world, monkeypatch):
    world.tree = make_tree(min_consumers=0, idle_seconds=0.02)
    announced: dict[QueueKey, int] = {}

    def announce(queues):
        announced.update(dict.fromkeys(queues, 1))

    monkeypatch.setattr(world.queue.open, "listed", lambda: dict(announced))
    monkeypatch.setattr(world.queue, "announce", announce)
    pages = {"https://example.org/1": b"<title>one</title>"}
    submitted(world, *pages)
    announced.clear()
    # Recovery, which would find it too, is another's.
    ages = timedelta(days=1)
    assert world.detector.acquire_lock("recover", "another", ages, ages)
    hands = Hands(world)

    hands.run(1, lambda: bool(hands.ended), lambda: world.work(pages, remaining=hands.left))

    assert world.queue.depth(DOCS).queued == 0
    assert hands.ended == {"w0": "idle"}
