"""A worker's parts where hosts and sites have their say, and time that only tests move."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

from msgspec.structs import replace

from tests.kit.config import HostLimits, Politeness, Robots
from tests.kit.fakes import MemoryFetcher
from tests.kit.politeness import HostReport
from tests.kit.requests import Held, State, Submission
from tests.kit.submission import submit
from tests.kit.worker import Worker
from tests.unit.flows.world import DOCS, World, make_biz

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


def submitted(world: World, *urls: str, tenant: str = "default") -> list[int]:
    pages = [Submission(url=url) for url in urls]
    receipts = submit(world.submission(), world.tree, tenant, "docs", pages, world.now)
    return [receipt.id for receipt in receipts]


def worker(world: World, pages: dict[str, object] | None = None, name: str = "w", **ports: object):
    return Worker(world.work(pages or {}, **ports), name)


def held_of(world: World, url: str, mine: Worker | None = None, tenant: str = "default") -> Held:
    """A request as a worker holds it."""
    [an_id] = submitted(world, url, tenant=tenant)
    taken = (mine or worker(world))._leasing.take().held
    [held] = [one for one in taken if one.claim.request.id == an_id]
    return held


def leave_alone(world: World, host: str, seconds: float, tenant: str = "default") -> None:
    """Let the host ask for fewer requests: nobody has a turn there for so long."""
    limits = world.tree.stage.hosts
    strain = HostReport(
        host=host, tenant=tenant, running=0, strained=1, retry_after_seconds=seconds, limits=limits
    )
    world.hosts.report([strain], "another")


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
    """Stands for the modules `time` and `asyncio`: sleeping moves the clock, and nothing waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.world.now += timedelta(seconds=seconds)

    def in_place_of(self, monkeypatch, *modules: object) -> "Time":
        for module in modules:
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self.monotonic))
            if hasattr(module, "asyncio"):
                monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=self.sleep))
        return self


def run(world: World, pages: dict[str, object], **ports: object):
    mine = worker(world, pages, **ports)
    report = asyncio.run(asyncio.wait_for(mine.run(), 60))
    assert mine._turns.busy() == {}
    assert (mine._courtesy._told, mine._beginning.tasks) == ({}, set())
    return report


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


def state_of(world: World, an_id: int, lane=DOCS) -> State:
    return world.store.get(lane, world.biz, an_id).state


def depth(world: World, lane=DOCS) -> tuple[int, int, int]:
    found = world.queue.depth(lane)
    return found.queued, found.parked, found.leased


def idle(world: World) -> bool:
    """Whether nobody holds permits at the hosts of these tests, their grants' grace being over."""
    world.now += timedelta(seconds=1)
    return all(one.running == 0 for one in world.hosts.states(["a.example", "b.example"]))
