"""Sampling a world in memory as the monitor does."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from tests.fakes.queue import MemoryOverview
from tests.kit.fleet import ScalingTarget, Ticked
from tests.kit.kernel import QueueKey
from tests.kit.monitoring import Bounds, Sample, Sampler
from tests.kit.queue import NodeHealth
from tests.kit.requests import Submission
from tests.kit.worlds.memory import World
from tests.steady import SteadyClock


class Checks:
    """A health of stores that is what it is given."""

    def __init__(self, *nodes: NodeHealth) -> None:
        self._nodes = nodes

    def checks(self) -> dict[tuple[str, str], Callable[[], NodeHealth]]:
        return {(node.part, node.name): partial(_itself, node) for node in self._nodes}


def _itself(node: NodeHealth) -> NodeHealth:
    return node


def sampler(world: World, *nodes: NodeHealth, **changes: object) -> Sampler:
    all_of_them: dict[str, object] = {
        "queue": world.queue,
        "overview": MemoryOverview(world.queue),
        "store": world.store,
        "ledgers": world.ledgers,
        "workers": world.workers,
        "detector": world.detector,
        "hosts": world.hosts,
        "health": Checks(*nodes),
        "decided": lambda: ScalingTarget(needed=3, kept=4, allowed=6),
        "orphaned": lambda tree, now: (0, 0),
        "ticked": lambda: Ticked(seconds_ago=1.0),
    }
    return Sampler(**(all_of_them | changes))  # type: ignore[arg-type]


def sample(
    world: World, *nodes: NodeHealth, bounds: Bounds | None = None, **changes: object
) -> Sample:
    with SteadyClock() as clock:
        made = sampler(world, *nodes, clock=clock, **changes)
        return made.sample(world.tree, world.now, bounds=bounds or Bounds())


def put(world: World, count: int, tenant: str = "default") -> None:
    """Submit so many pages."""
    entries = [Submission(url=f"https://example.org/{tenant}/{n}") for n in range(count)]
    world.submission().submit(world.tree, tenant, "docs", entries, world.now)


def do(world: World, queue_key: QueueKey, count: int) -> None:
    """Have so many dealt with, as far as the queue knows."""
    leased = world.queue.lease(queue_key, "t", count, world.now, world.now + timedelta(seconds=60))
    world.queue.finish(queue_key, "t", leased, len(leased), world.now)
