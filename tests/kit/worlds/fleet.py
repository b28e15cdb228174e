"""A fleet that is decided on again and again."""

import math

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import FleetLimits
from tests.kit.fleet import (
    Demand,
    LaneDemand,
    Scaled,
    Staff,
    Staffed,
    decide,
    needed_workers,
    scale,
)
from tests.kit.requests import Entry
from tests.kit.worlds.memory import DOCS, START, World

NOW = 1_800_000_000_000
MINUTE = 60_000
LIMITS = FleetLimits(max_consumers=50, quiet_seconds=120)

paces = st.floats(0.01, 10_000)
rates = st.one_of(st.just(math.inf), st.floats(0, 10_000))
lanes = st.builds(
    LaneDemand,
    backlog=st.integers(0, 10**7),
    seconds_left=st.one_of(st.none(), st.floats(-(10**6), 10**6)),
    polite_per_second=rates,
)
demands = st.builds(Demand, lanes=st.lists(lanes, max_size=8).map(tuple), polite_per_second=rates)
limits = st.builds(
    FleetLimits,
    max_consumers=st.integers(1, 1000),
    requests_per_consumer=st.integers(1, 10_000),
    quiet_seconds=st.floats(1, 600),
)


def lane(backlog: int, **more: float) -> LaneDemand:
    return LaneDemand(backlog=backlog, **more)


def of(*found: LaneDemand) -> Demand:
    return Demand(lanes=found)


def needed(demand: Demand, pace: float = 10.0, limits: FleetLimits = LIMITS) -> int:
    return needed_workers(demand, pace, limits, limits.max_consumers)


class Decider:
    """Decides again and again, as ticks do; ``live`` follows at once."""

    def __init__(self, limits: FleetLimits = LIMITS, pace: float | None = 10.0) -> None:
        self.limits = limits
        self.standing = Staffed(now_ms=NOW, pace=pace)
        self.live = 0

    def tick(self, demand: Demand, after_ms: int = MINUTE) -> Staff:
        now_ms = self.standing.now_ms + after_ms
        self.standing = replace(self.standing, now_ms=now_ms)
        staff = decide(self.standing, demand, self.limits, live=self.live)
        self.standing = replace(self.standing, staff=staff, version=self.standing.version + 1)
        self.live = min(max(self.live, staff.needed), staff.kept)
        return staff


def scaled(world: World, **changes: object) -> Scaled:
    return scale(world.scaling(**changes), world.tree, world.clock)


def queued(world: World, count: int) -> None:
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(count)], START)
