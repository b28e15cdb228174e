"""Settings that a running worker could keep for itself: each is changed under it, and obeyed."""

import asyncio
import threading

import pytest
from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.config import DetectorLimits
from tests.kit.worker import Heartbeat, Session, SteadyTime, Worker, renew_leases
from tests.kit.worlds.memory import make_tree
from tests.kit.worlds.worker import Parts, quick_tree, submitted, until

PAGES = 40
URLS = [f"https://a.example/{n}" for n in range(PAGES)]


def change(world, **fleet):
    """Push other limits, while whatever runs goes on."""
    stage = world.tree.stage
    world.tree = replace(world.tree, stage=replace(stage, fleet=replace(stage.fleet, **fleet)))


def detect(world, **detector):
    stage = world.tree.stage
    limits = replace(stage.detector, **detector)
    world.tree = replace(world.tree, stage=replace(stage, detector=limits))


class Counting(MemoryFetcher):
    """Counts the downloads that run at once, each of which ends when it is let go."""

    def __init__(self):
        super().__init__(dict.fromkeys(URLS, b"page"))
        self.running = self.most = 0
        self.go = asyncio.Event()

    async def fetch(self, body, limits, hop_guard=None, fetch_context=None):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go.wait()
            await asyncio.sleep(0)
            return await super().fetch(body, limits, hop_guard)
        finally:
            self.running -= 1


def test_concurrency_grows_and_shrinks_while_a_worker_runs(world):
    world.pace(follow=0.005, poll=0.005)
    world.tree = make_tree(world.biz, concurrency=2, batch=20)
    submitted(world, *URLS)

    async def run():
        fetcher, left = Counting(), [600.0]
        services = world.work({}, fetcher=fetcher, remaining=lambda: left[0])
        worker = Worker(services, "w")
        running = asyncio.create_task(worker.run())
        await until(lambda: fetcher.running == 2)
        change(world, concurrency=7)
        await until(lambda: fetcher.running == 7)
        change(world, concurrency=3)
        await until(lambda: worker.employed == 3)
        fetcher.go.set()
        await until(lambda: fetcher.running <= 3)
        fetcher.most = 0
        report = await asyncio.wait_for(running, 60)
        return fetcher.most, report.done

    most, done = asyncio.run(run())

    assert most <= 3
    assert done == PAGES


def test_a_batch_has_the_size_that_is_in_force_when_it_is_leased(world):
    world.tree = make_tree(world.biz, batch=3)
    parts = Parts(world)
    submitted(world, *URLS)

    sizes = [len(parts.leases.take().leased)]
    change(world, batch=9)
    sizes.append(len(parts.leases.take().leased))

    assert sizes == [3, 9]


def test_a_lease_lasts_as_is_in_force_when_it_is_taken_or_renewed(world):
    world.tree = make_tree(world.biz, batch=1, lease_seconds=60.0)
    parts = Parts(world)
    submitted(world, *URLS)

    def seconds(leased):
        return round(leased.ends_at - parts.services.steady.now())

    [first] = parts.leases.take().leased
    change(world, lease_seconds=600.0)
    [second] = parts.leases.take().leased
    assert [seconds(first), seconds(second)] == [60, 600]

    renew_leases(parts.session, [first])
    assert seconds(first) == 600


def test_a_worker_that_may_be_idle_for_long_leaves_when_that_is_changed(world):
    world.pace(follow=0.005, poll=0.005)
    world.tree = make_tree(world.biz, idle_seconds=3600.0)

    async def run():
        running = asyncio.create_task(Worker(world.work({}), "w").run())
        await until(lambda: bool(world.detector.heartbeats()))
        change(world, idle_seconds=0.0)
        return await asyncio.wait_for(running, 60)

    assert asyncio.run(run()).stopped_because == "idle"


@pytest.fixture
def beating(world):
    """A heartbeat on time that the test moves, of a worker whose detector's limits it changes."""
    world.tree = quick_tree(world)
    now = [100.0]
    services = world.work({}, steady=SteadyTime(lambda: now[0]))
    heartbeat = Heartbeat(Session(services, "w"), Parts(world).scheduler)
    heartbeat.now = now
    return heartbeat


def test_a_quicker_beat_holds_at_once_and_a_slower_one_when_others_know_of_it(world, beating):
    detect(world, beat_seconds=0.001)
    assert beating.pause() == 0.001

    detect(world, beat_seconds=2.0)
    assert beating.pause() == 0.001
    beating.now[0] += 5.0
    assert beating.pause() == 0.001, "who listens may go by what it was"
    beating.now[0] += 2.0
    assert beating.pause() == 2.0


def test_when_a_worker_is_cut_off_is_as_is_in_force(world, beating):
    beating.now[0] += 30.0
    assert not beating.is_cut_off
    detect(world, detached_seconds=20.0)
    assert beating.is_cut_off


@pytest.mark.parametrize(
    "change_", [{"threshold": 20.0}, {"pause_seconds": 9.0}, {"deviation_seconds": 3.0}], ids=str
)
def test_for_how_long_a_silent_worker_lives_is_as_is_in_force(world, beating, change_):
    before = beating.doubt_seconds
    detect(world, **change_)
    assert beating.doubt_seconds > before
    assert DetectorLimits() != world.tree.stage.detector


def test_leases_are_renewed_in_time_where_they_have_become_shorter_or_longer(world):
    world.pace(follow=0.005, poll=0.005, renew=0.005)
    world.tree = make_tree(world.biz, concurrency=1, batch=1, lease_seconds=0.3)
    submitted(world, *URLS[:2])
    renewed = threading.Event()

    class Watching:
        """A store that tells of renewals."""

        def __getattr__(self, name):
            if name == "renew":
                renewed.set()
            return getattr(world.store, name)

    async def run():
        fetcher = Counting()
        services = world.work({}, fetcher=fetcher, store=Watching())
        running = asyncio.create_task(Worker(services, "w").run())
        await until(lambda: fetcher.running == 1)
        # By the new time alone the next renewal would come long after the lease's end.
        change(world, lease_seconds=3000.0)
        renewed.clear()
        await until(renewed.is_set)
        fetcher.go.set()
        return await asyncio.wait_for(running, 60)

    report = asyncio.run(run())

    assert (report.done, report.lost, report.left) == (2, 0, 0)
