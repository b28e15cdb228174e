"""Rounds of recovery in a world in memory."""

from tests.fakes.fleet import MemoryFailureDetector
from tests.kit.kernel import to_ms
from tests.kit.requests import Entry, Submission
from tests.kit.worlds.memory import World


def submitted(world: World, count: int, **changes: object) -> list[Entry]:
    submissions = [Submission(url=f"https://example.org/{n}") for n in range(count)]
    receipts = world.submission(**changes).submit(
        world.tree, "default", "docs", submissions, world.now
    )
    return [Entry(receipt.id, "docs", to_ms(world.now)) for receipt in receipts]


def run(world: World, time_left: float = 120.0, **changes: object):
    """Do a round and release its lock, so that the next one may come at once."""
    ports = world.recovery(**changes)
    done = ports.recover(world.tree, "scheduler", world.now, lambda: time_left)
    world.detector = MemoryFailureDetector(world.workers)
    return done
