"""Have consumers with their hands full, on a slow site, for whoever kills some of them."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Final

from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.house import World
from benchmarks.chaos.runs import Servers, world_of
from benchmarks.chaos.stored import StoredRequests
from benchmarks.chaos.submitter import Submitter
from crawlfleet.config.documents.biz import FleetLimits
from infra.local.parts import PartError

WORKERS: Final = 4
#: The site is slow, so that workers have their hands full.
_PAUSE_SECONDS: Final = 0.5
#: More than any number of rounds gets done.
_REQUESTS: Final = 200_000
LOOK_SECONDS: Final = 0.1


@contextmanager
def busy_fleet(
    servers: Servers,
    limits: FleetLimits,
    *,
    size: int,
    window: int,
    dice: Random,
    cold_seconds: float = 0.0,
) -> Iterator[tuple[World, StoredRequests, Fleet]]:
    """Submit to a fleet of ``size`` consumers that are kept up, of at most ``WORKERS``."""
    world = world_of(servers, limits)
    servers.site.pause(_PAUSE_SECONDS)
    with ExitStack() as stack:
        stored = stack.enter_context(StoredRequests(world))
        stack.callback(stored.drop)
        fleet = stack.enter_context(
            Fleet(world, size=size, most=WORKERS, on_loss=lambda _: None, cold_seconds=cold_seconds)
        )
        submitter = Submitter(
            world,
            servers.site,
            _REQUESTS,
            window=window,
            done=stored.done,
            dice=dice,
            wake=fleet.wake,
            announce=lambda _: None,
        )
        stack.callback(submitter.stop)
        submitter.start()
        yield world, stored, fleet


def until_busy(stored: StoredRequests, in_hand: int, seconds: float) -> None:
    """Wait until each worker holds at least so much."""

    def are_busy() -> bool:
        return sum(count >= in_hand for count in stored.leased().values()) >= WORKERS

    until(are_busy, "the workers found nothing to do", seconds)


def until(holds: Callable[[], bool], failure: str, seconds: float) -> None:
    """Wait until something holds; PartError where it does not."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise PartError(failure)
        time.sleep(LOOK_SECONDS)
