"""Looking at a world in memory as the monitor does."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from tests.fakes.queue import MemoryOverview
from tests.kit.fleet import ScalingTarget, Ticked
from tests.kit.kernel import QueueKey
from tests.kit.monitoring import Bounds, Sample, SamplingPorts, sample
from tests.kit.queue import NodeHealth
from tests.kit.requests import Submission
from tests.kit.worlds.memory import World
from tests.steady import SteadyClock


class Looks:
    """ports.Health that sees what it is given."""

    def __init__(self, *looks: NodeHealth) -> None:
        self._looks = looks

    def looks(self) -> dict[tuple[str, str], Callable[[], NodeHealth]]:
        return {(look.part, look.name): partial(_itself, look) for look in self._looks}


def _itself(look: NodeHealth) -> NodeHealth:
    return look


def ports(world: World, *looks: NodeHealth, **changes: object) -> SamplingPorts:
    all_of_them: dict[str, object] = {
        "queue": world.queue,
        "overview": MemoryOverview(world.queue),
        "store": world.store,
        "ledgers": world.ledgers,
        "workers": world.workers,
        "detector": world.detector,
        "hosts": world.hosts,
        "health": Looks(*looks),
        "decided": lambda: ScalingTarget(needed=3, kept=4, allowed=6),
        "orphaned": lambda tree, now: (0, 0),
        "ticked": lambda: Ticked(seconds_ago=1.0),
    }
    return SamplingPorts(**(all_of_them | changes))  # type: ignore[arg-type]


def look(
    world: World, *looks: NodeHealth, bounds: Bounds | None = None, **changes: object
) -> Sample:
    parts = ports(world, *looks, **changes)
    with SteadyClock() as clock:
        return sample(parts, world.tree, world.now, bounds=bounds or Bounds(), clock=clock)


def put(world: World, count: int, tenant: str = "default") -> None:
    """Submit so many pages."""
    entries = [Submission(url=f"https://example.org/{tenant}/{n}") for n in range(count)]
    world.submission().submit(world.tree, tenant, "docs", entries, world.now)


def do(world: World, queue_key: QueueKey, count: int) -> None:
    """Have so many dealt with, as far as the queue knows."""
    leased = world.queue.lease(queue_key, "t", count, world.now, world.now + timedelta(seconds=60))
    world.queue.finish(queue_key, "t", leased, len(leased), world.now)
