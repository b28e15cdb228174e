"""Measure a recovery: half of the workers are killed at once, and the others are on their own.

No scheduler ticks here and nobody is started anew: what is measured is what the survivors do.
"""

import time
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from benchmarks.chaos.busy import LOOK_SECONDS, WORKERS, busy_fleet, until, until_busy
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.runs import Servers
from benchmarks.chaos.stored import StoredRequests
from crawlfleet.config.documents.biz import FleetLimits
from infra.local.parts import PartError

_WINDOW: Final = 1_500
#: Each worker holds at least so much before the next round.
_IN_HAND: Final = 60
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
    dice = Random(seed)
    found: list[Halving] = []
    with busy_fleet(servers, limits, size=WORKERS, window=_WINDOW, dice=dice) as (_, stored, fleet):
        for _ in range(rounds):
            fleet.size = WORKERS
            fleet.report_throughput()
            until_busy(stored, _IN_HAND, _PATIENCE_SECONDS)
            fleet.size = fleet.most = 0
            found.append(_round(fleet, stored, dice))
            fleet.most = WORKERS
            announce(f"{found[-1].leases_seconds:.1f} s, {found[-1].all_seconds:.1f} s")
    return found


def _round(fleet: Fleet, stored: StoredRequests, dice: Random) -> Halving:
    victims = dice.sample(fleet.living(), WORKERS // 2)
    for victim in victims:
        fleet.kill(victim)
    started = time.monotonic()
    pids = {victim.pid for victim in victims}
    until(lambda: not pids & {m.pid for m in fleet.living()}, "nobody died", _PATIENCE_SECONDS)
    dead = [victim.worker for victim in victims]
    held = {page for worker in dead for page in stored.owned_by(worker)}
    series: list[tuple[float, int, int]] = []
    leases_seconds: float | None = None
    while True:
        leased = stored.leased()
        theirs = sum(leased.get(worker, 0) for worker in dead)
        undone = stored.undone(held)
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
        time.sleep(LOOK_SECONDS)
