"""Measure a recovery: half of the workers are killed at once, and the others are on their own.

No scheduler ticks here and nobody is started anew: what is measured is what the survivors do.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Final

import msgspec

from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.runs import Servers, world_of
from benchmarks.chaos.submitter import Submitter
from benchmarks.chaos.truth import Truth
from crawlfleet.config.documents.biz import FleetLimits
from infra.local.parts import PartError

WORKERS: Final = 4
#: The site is slow, so that workers have their hands full.
PAUSE_SECONDS: Final = 0.5
WINDOW: Final = 1_500
#: More than any number of rounds gets done.
_REQUESTS: Final = 200_000
#: Each worker holds at least so much before the next round.
_IN_HAND: Final = 60
_LOOK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 180.0


class Halving(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a round, in seconds from the kill on.

    ``leases_seconds`` is until no request was the dead's any more, ``all_seconds`` until all that
    they had held was done. ``series`` has (seconds, still theirs, still to be done).
    """

    held: int
    leases_seconds: float
    all_seconds: float
    series: tuple[tuple[float, int, int], ...]


def halve(
    servers: Servers, rounds: int, announce: Callable[[str], None], *, seed: int = 1
) -> list[Halving]:
    """Kill half of the workers, as often as that, and look how long it takes to get over it.

    Raises:
        PartError: a round was not got over, or no work came about.
    """
    limits = FleetLimits(max_consumers=WORKERS, concurrency=32, batch=50, idle_seconds=10.0)
    world = world_of(servers, limits)
    servers.site.pause(PAUSE_SECONDS)
    dice = Random(seed)
    found: list[Halving] = []
    with ExitStack() as stack:
        truth = stack.enter_context(Truth(world))
        stack.callback(truth.drop)
        fleet = stack.enter_context(
            Fleet(world, size=WORKERS, most=WORKERS, on_loss=lambda _: None)
        )
        submitter = Submitter(
            world,
            servers.site,
            _REQUESTS,
            window=WINDOW,
            done=truth.done,
            dice=dice,
            wake=fleet.wake,
            announce=lambda _: None,
        )
        stack.callback(submitter.stop)
        submitter.start()
        for _ in range(rounds):
            fleet.size = WORKERS
            fleet.report_throughput()
            _until(lambda: _busy(truth) >= WORKERS, "the workers found nothing to do")
            fleet.size = fleet.most = 0
            found.append(_round(fleet, truth, dice))
            fleet.most = WORKERS
            announce(f"{found[-1].leases_seconds:.1f} s, {found[-1].all_seconds:.1f} s")
    return found


def _busy(truth: Truth) -> int:
    return sum(count >= _IN_HAND for count in truth.leased().values())


def _round(fleet: Fleet, truth: Truth, dice: Random) -> Halving:
    victims = dice.sample(fleet.living(), WORKERS // 2)
    for victim in victims:
        fleet.kill(victim)
    started = time.monotonic()
    _until(lambda: not {v.pid for v in victims} & {m.pid for m in fleet.living()}, "nobody died")
    dead = [victim.worker for victim in victims]
    held = {page for worker in dead for page in truth.owned_by(worker)}
    series: list[tuple[float, int, int]] = []
    leases_seconds: float | None = None
    while True:
        leased = truth.leased()
        theirs = sum(leased.get(worker, 0) for worker in dead)
        undone = truth.undone(held)
        seconds = time.monotonic() - started
        series.append((round(seconds, 2), theirs, undone))
        if theirs:
            leases_seconds = None
        elif leases_seconds is None:
            leases_seconds = seconds
        if leases_seconds is not None and not undone:
            return Halving(
                held=len(held),
                leases_seconds=leases_seconds,
                all_seconds=seconds,
                series=tuple(series),
            )
        if seconds > _PATIENCE_SECONDS:
            raise PartError(f"not got over: {theirs} still theirs, {undone} not done")
        time.sleep(_LOOK_SECONDS)


def _until(holds: Callable[[], bool], failure: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise PartError(failure)
        time.sleep(_LOOK_SECONDS)
