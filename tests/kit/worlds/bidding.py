"""Workers in a world with bidding, moved round by round."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from tests.fakes.fleet import MemoryFailureDetector, MemoryReadings
from tests.fakes.spiders import MemorySpiders
from tests.kit.bidding import Awarded, Bidder, Probe
from tests.kit.config import BiddingTerms
from tests.kit.fleet import Remaining
from tests.kit.jobs import (
    Job,
    JobDemand,
    JobOrder,
    JobStarter,
    RunRecord,
    Usage,
)
from tests.kit.spiders import SpiderPlan, Start
from tests.kit.worlds.jobs import NoSpiders
from tests.kit.worlds.memory import START, World

URL = "https://example.org/1"
GOOD = Probe(at=START, seconds=0.1, bytes_per_second=1e6)
SLOW = Probe(at=START, seconds=2.0, bytes_per_second=1e6)
GB = 1e9
TERMS = BiddingTerms(window_seconds=1.0, wait_seconds=30.0, acknowledge_seconds=10.0)
KEY = ("default", "docs", "june")
#: Fields of an order that say what the job needs itself, by the arguments of ``start``.
_OWN = {"link": "own_link", "demand": "demand"}


async def threaded(function, *args, **kwargs):
    return function(*args, **kwargs)


class Fleet:
    """A world with bidding, and workers in it that are moved round by round."""

    def __init__(self, terms=TERMS):
        self.world = World()
        #: What each worker has left, by its name.
        self.readings: dict[str, MemoryReadings] = {}
        self.bid(terms)

    def bid(self, terms):
        tree = self.world.tree
        self.world.tree = replace(tree, stage=replace(tree.stage, bidding=terms))

    def pools(self, *names):
        self.world.tree = replace(self.world.tree, pools=frozenset(names))

    def start(self, name="june", *, board=True, url=URL, link=None, pool=None, **own) -> Job:
        start, spiders = Start(urls=(url,)), MemorySpiders()
        what = {"start": start}
        if link is not None:
            plan = SpiderPlan(rule="page", start=start, link=link)
            spiders.put("default", "docs", "page", plan, self.world.now)
            what = {"spider": "page"}
        ports = JobStarter(
            jobs=self.world.jobs,
            spiders=spiders,
            rules=self.world.rules,
            board=self.world.board if board else None,
        )
        what |= {name: own[given] for name, given in _OWN.items() if given in own}
        order = JobOrder(tenant="default", biz="docs", by="api", name=name, pool=pool, **what)
        return ports.start(self.world.tree, order, self.world.now)

    def learn(self, memory, bandwidth=0.0):
        usage = Usage(memory=memory, memory_max=memory, bandwidth=bandwidth)
        demand = JobDemand(tenant="default", biz="docs", spider="page", runs=3, usage=usage)
        run = RunRecord(
            tenant="default", biz="docs", job="before", spider="page", ended_at=self.world.now
        )
        self.world.demands.end_run(run)
        assert self.world.demands.close_run(run, replace(demand, runs=0), demand)

    def worker(self, name, pool="main", *, way=GOOD, memory=8 * GB, **changes) -> Bidder:
        readings = MemoryReadings()
        readings.left = Remaining(memory=memory)
        self.readings[name] = readings
        links = way if isinstance(way, dict) else {URL: way}
        make = self.world.bidder(links, readings=readings, **changes)
        return make(pool, name, threaded, lambda: 600.0)

    def look(self, *workers):
        async def all_of_them():
            for worker in workers:
                await worker.round()
                if probes := asyncio.all_tasks() - {asyncio.current_task()}:
                    await asyncio.wait(probes)

        asyncio.run(all_of_them())

    def award(self, by="w0", **changes) -> Awarded:
        world = self.world
        return world.auction(**changes).run_round(world.tree, by, world.clock, lambda: 60.0)

    def pass_time(self, seconds, **changes) -> Awarded:
        self.world.now += timedelta(seconds=seconds)
        # Nobody else has had the turn lately, however short the time was.
        return self.award(**({"detector": MemoryFailureDetector(self.world.workers)} | changes))

    def job(self, name="june") -> Job:
        return self.world.jobs.get("default", "docs", name)

    @property
    def standing(self):
        found = self.world.board.read(KEY)
        return None if found is None else found[0]


def start(world: World, tenant: str, biz: str, count: int, *, board: bool = True) -> None:
    ports = JobStarter(
        jobs=world.jobs,
        spiders=NoSpiders(),  # type: ignore[arg-type]
        rules=world.rules,
        board=world.board if board else None,
    )
    for n in range(count):
        pages = Start(urls=("https://example.org/",))
        order = JobOrder(tenant=tenant, biz=biz, by="api", name=f"{biz}{n:02}", start=pages)
        ports.start(world.tree, order, world.now)
