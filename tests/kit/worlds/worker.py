"""Workers in a world in memory: quick ones, their parts, and time that only tests move."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.config import DetectorLimits, HostLimits, Politeness, Robots, Tree
from tests.kit.fleet import FLEET_POOL, ScalingTarget
from tests.kit.politeness import HopGuards, HostReport
from tests.kit.requests import LeasedRequest, State, Submission
from tests.kit.worker import (
    BackgroundTasks,
    Heartbeat,
    Leases,
    Session,
    SteadyTime,
    Telemetry,
    Worker,
)
from tests.kit.worlds.memory import DOCS, World, make_biz, make_tree

ROBOTS = "https://a.example/robots.txt"
URLS = [f"https://a.example/{n}" for n in range(4)]


def polite(world: World, robots: Robots = Robots.IGNORE, **limits: object) -> World:
    """The world with these limits at every host."""
    biz = make_biz(politeness=Politeness(robots=robots))
    stage = replace(world.tree.stage, hosts=HostLimits(**({"adaptive": False} | limits)))
    bizs = {"default": {"docs": biz}, "acme": {"docs": biz}}
    world.tree = replace(world.tree, stage=stage, bizs=bizs)
    return world


def obedient(world: World) -> World:
    """The world in which sites are asked what they want, and hosts keep nobody waiting."""
    return polite(world, Robots.OBEY, per_second=100_000, concurrency=10_000)


def submitted(world: World, *urls: str, tenant: str = "default", **facts: object) -> list[int]:
    pages = [Submission(url=url, **facts) for url in urls]
    receipts = world.submission().submit(world.tree, tenant, "docs", pages, world.now)
    return [receipt.id for receipt in receipts]


def quick_tree(world: World, detached_seconds: float = 60.0, **fleet: object) -> Tree:
    """Limits for workers whose hearts beat so fast that no test waits for them."""
    tree = make_tree(world.biz, **fleet)
    limits = DetectorLimits(beat_seconds=0.002, detached_seconds=detached_seconds)
    return replace(tree, stage=replace(tree.stage, detector=limits))


def decided(world: World, needed: int, kept: int) -> None:
    """Return the number of workers that the autoscaler wants."""
    standing = world.targets.read(FLEET_POOL)
    target = ScalingTarget(needed=needed, kept=kept, at_ms=standing.now_ms)
    assert world.targets.settle(FLEET_POOL, standing, target)


async def at_once(function, *args, **kwargs):
    """Call a part in the caller's thread, so that nothing else happens meanwhile."""
    return function(*args, **kwargs)


class QuietSession(Session):
    """A session whose parts are called in the caller's thread, so that nothing else happens."""

    async def threaded(self, function, *args, **kwargs):
        """Call a part."""
        return function(*args, **kwargs)


class Parts:
    """The parts of a worker as it joins them; none of them does anything by itself."""

    def __init__(
        self,
        world: World,
        pages: dict[str, object] | None = None,
        name: str = "w",
        on_the_way_seconds: float = 330.0,
        **changes: object,
    ) -> None:
        services = self.services = world.work(pages or {}, **changes)
        session = self.session = QuietSession(services, name)
        self.fetcher = services.fetcher
        self.report = session.report
        self.hop_guards = HopGuards(
            services.config,
            services.hosts,
            services.robots,
            services.fetcher,
            services.clock,
            name,
            session.threaded,
            services.pauses.slot,
            services.steady,
            on_the_way_seconds,
        )
        self.scheduler, self.robots = self.hop_guards.scheduler, self.hop_guards.robots
        self.politeness = self.hop_guards.client
        self.frontier = session.frontier
        self.leases = Leases(session, self.hop_guards)
        self.telemetry = Telemetry(session, self.politeness)
        self.heartbeat = Heartbeat(session, self.scheduler)
        self.background = BackgroundTasks(
            session, self.heartbeat, self.leases.affinity, self.telemetry.throughput
        )

    def holds(self, url: str, tenant: str = "default") -> LeasedRequest:
        """A request for a page, submitted and leased."""
        [an_id] = submitted(self.services.config, url, tenant=tenant)
        [leased] = [one for one in self.leases.take().leased if one.claim.request.id == an_id]
        return leased


def leave_alone(world: World, host: str, seconds: float, tenant: str = "default") -> None:
    """Let the host ask for fewer requests: nobody has a turn there for so long."""
    limits = world.tree.stage.hosts
    overload = HostReport(
        host=host,
        origin=f"https://{host}",
        tenant=tenant,
        running=0,
        overloads=1,
        retry_after_seconds=seconds,
        limits=limits,
    )
    world.hosts.report([overload], "another")


class Spy:
    """A port that notes the calls of its methods."""

    def __init__(self, port: object) -> None:
        self._port = port
        self.calls: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str):
        def call(*args: object, **kwargs: object) -> object:
            self.calls.append((name, args))
            return getattr(self._port, name)(*args, **kwargs)

        return call

    def of(self, name: str) -> list[tuple[object, ...]]:
        return [args for called, args in self.calls if called == name]


class Web(MemoryFetcher):
    """Pages of which some fail in a way that nobody foresaw."""

    async def fetch(self, body, *args):
        answer = self.answers.get(body.url)
        if isinstance(answer, Exception) and type(answer).__module__ == "builtins":
            self.asked.append(body)
            raise answer
        return await super().fetch(body, *args)

    def times(self, url: str) -> int:
        return sum(body.url == url for body in self.asked)


class Time:
    """The world's clocks: sleeping moves them, and nothing waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = 1_000.0
        self.slept: list[float] = []
        world.steady = SteadyTime(lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passes(seconds)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.world.now += timedelta(seconds=seconds)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds that other threads bring about."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  what is waited for knows of no event
            await asyncio.sleep(0.001)


def work(world: World, pages: dict[str, object] | None = None, worker: str = "w", **ports: object):
    """Run a worker until it leaves, with nothing of it running then; return its report."""

    async def run():
        async with asyncio.timeout(60):
            report = await Worker(world.work(pages or {}, **ports), worker).run()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return report

    return asyncio.run(run())


async def while_time_passes(world: World, work):
    """The world's clock goes, twenty times as fast as ours."""
    working = asyncio.ensure_future(work)
    for _ in range(4_000):
        if working.done():
            break
        await asyncio.wait([working], timeout=0.005)
        world.now += timedelta(seconds=0.1)
    assert working.done(), "the worker does not end"
    return working.result()


def tracked(world: World, an_id: int, queue_key=DOCS):
    """A request as it stands."""
    return world.store.get(queue_key, world.biz, an_id)


def state_of(world: World, an_id: int, queue_key=DOCS) -> State:
    return tracked(world, an_id, queue_key).state


def states(world: World, ids: list[int], queue_key=DOCS) -> list[State]:
    return [state_of(world, an_id, queue_key) for an_id in ids]


def depth(world: World, queue_key=DOCS) -> tuple[int, int, int]:
    found = world.queue.depth(queue_key)
    return found.queued, found.deferred, found.leased


def idle(world: World) -> bool:
    """Tell whether nobody holds permits at these tests' hosts, their grants' grace being over."""
    world.now += timedelta(seconds=1)
    return all(one.running == 0 for one in world.hosts.states(["a.example", "b.example"]))
