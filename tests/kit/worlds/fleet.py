"""A fleet that is decided on again and again."""

import math

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import FleetLimits
from tests.kit.fleet import (
    Demand,
    QueueDemand,
    Scaled,
    ScalingState,
    ScalingTarget,
    decide,
    needed_workers,
)
from tests.kit.requests import Entry
from tests.kit.worlds.memory import DOCS, START, World

NOW = 1_800_000_000_000
MINUTE = 60_000
LIMITS = FleetLimits(max_consumers=50, quiet_seconds=120)

throughputs = st.floats(0.01, 10_000)
rates = st.one_of(st.just(math.inf), st.floats(0, 10_000))
queues = st.builds(
    QueueDemand,
    backlog=st.integers(0, 10**7),
    seconds_left=st.one_of(st.none(), st.floats(-(10**6), 10**6)),
    polite_per_second=rates,
)
demands = st.builds(Demand, queues=st.lists(queues, max_size=8).map(tuple), polite_per_second=rates)
limits = st.builds(
    FleetLimits,
    max_consumers=st.integers(1, 1000),
    requests_per_consumer=st.integers(1, 10_000),
    quiet_seconds=st.floats(1, 600),
)


def queue_key(backlog: int, **more: float) -> QueueDemand:
    return QueueDemand(backlog=backlog, **more)


def of(*found: QueueDemand) -> Demand:
    return Demand(queues=found)


def needed(demand: Demand, throughput: float = 10.0, limits: FleetLimits = LIMITS) -> int:
    return needed_workers(demand, throughput, limits, limits.max_consumers)


class Decider:
    """Decides again and again, as ticks do; ``live`` follows at once."""

    def __init__(self, limits: FleetLimits = LIMITS, throughput: float | None = 10.0) -> None:
        self.limits = limits
        self.standing = ScalingState(now_ms=NOW, throughput=throughput)
        self.live = 0

    def tick(self, demand: Demand, after_ms: int = MINUTE) -> ScalingTarget:
        now_ms = self.standing.now_ms + after_ms
        self.standing = replace(self.standing, now_ms=now_ms)
        target = decide(self.standing, demand, self.limits, live=self.live)
        self.standing = replace(self.standing, target=target, version=self.standing.version + 1)
        self.live = min(max(self.live, target.needed), target.kept)
        return target


def scaled(world: World, **changes: object) -> Scaled:
    return world.scaling(**changes).scale(world.tree, world.clock)


def queued(world: World, count: int) -> None:
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(count)], START)
