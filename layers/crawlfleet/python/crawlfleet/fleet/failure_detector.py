"""Judge silent workers by an accrual failure detector (SPEC.md C5, C6, D1).

After Hayashibara, Défago, Yared, Katayama: "The phi accrual failure detector" (SRDS 2004). A fixed
time-out is either too short for a slow network or too long for a quick one. So the detector learns
from the pauses between a worker's beats how they are spread, and says how unlikely it is, as a
power of ten, that one that has been silent for so long will beat again. As in the paper the pauses
are taken to be spread normally; as in Akka's detector there is a least deviation, for beats as
regular as a machine's, and a pause that a healthy worker may make beyond its history: a slow
garbage collection, a page that parses for a second.

Nothing here knows a clock or a store. Time that nobody observed is no silence
(fleet.redis.registry).

The fixed spans at the end are for where the detector is not asked: wake-ups, which have no history,
how long a worker is remembered, and, as the backstop, how many workers count as live when missing
ones are started. A worker that was found dead counts no more, however fresh its last beat.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import NormalDist, fmean, pstdev
from typing import Final, Self

import msgspec

from crawlfleet.config.documents.biz import DetectorLimits
from crawlfleet.fleet.models import Health, WorkerHealth, WorkerHeartbeats
from crawlfleet.kernel.time import to_ms

#: Intervals of each worker that are kept. The paper's experiments have 1,000; at a beat a
#: second that would remember a slow network for a quarter of an hour.
WINDOW: Final = 32
#: Fewer intervals say little of how they are spread: the first guess widens it until then.
FEW: Final = 5
#: The first guess: beats vary by this part of their interval (Akka's choice).
GUESSED_VARIATION: Final = 0.25
#: Beyond this nothing is told apart. Thresholds end at 30; ``erfc`` is exact to 300.
HIGHEST_PHI: Final = 100.0
#: The longest pause (no read, no beat of anybody) through which the fleet counts as observed. Redis
#: away for longer than this is nobody's silence; it is away for less only within what the default
#: limits let every worker be silent for (4.7 s, of which one beat is 1 s). So whoever is to find
#: the dead reads again within this time.
DETECTOR_LAPSE: Final = timedelta(seconds=3)

_A_YEAR_SECONDS: Final = 365 * 86_400.0


def phi(silent_ms: float, intervals: Sequence[int], limits: DetectorLimits) -> float:
    """Compute how unlikely it is that a silent worker still lives: ``-log10(P_later)``.

    ``P_later`` is the chance that a pause between two beats is longer than this silence. It grows
    with the silence, from 0 to at most ``HIGHEST_PHI``. ``intervals`` are in milliseconds.

    >>> round(phi(1_000, [1_000] * 32, DetectorLimits()), 3)
    0.0
    >>> round(phi(4_700, [1_000] * 32, DetectorLimits()), 1)
    8.1
    """
    mean, deviation = _spread(intervals, limits)
    distance = (silent_ms / 1_000 - mean - limits.pause_seconds) / deviation
    later = math.erfc(distance / math.sqrt(2)) / 2
    if later <= 10.0**-HIGHEST_PHI:
        return HIGHEST_PHI
    return max(0.0, -math.log10(later))


def judge(beats: WorkerHeartbeats, limits: DetectorLimits) -> Health:
    """Judge a worker: dead from the threshold on, suspected from half of it on."""
    return _health(phi(beats.silent_ms, beats.intervals, limits), limits)


def status(beats: WorkerHeartbeats, limits: DetectorLimits) -> WorkerHealth:
    """Judge a worker for people (SPEC.md C6).

    A worker is not called alive for want of observation: one that was silent for as long as the
    dead are, of which less was observed, is unwatched.
    """
    suspicion = phi(beats.silent_ms, beats.intervals, limits)
    health = _health(suspicion, limits)
    unheard = phi(beats.beat_ms, beats.intervals, limits) >= limits.threshold
    if health is Health.ALIVE and unheard:
        health = Health.UNWATCHED
    return WorkerHealth(
        worker=beats.worker,
        health=health,
        phi=suspicion,
        silent_ms=beats.silent_ms,
        beat_ms=max(beats.beat_ms, beats.silent_ms),
        worker_status=beats.worker_status,
    )


def worth_a_look(limits: DetectorLimits) -> timedelta:
    """Return the silence below which no worker can be dead, whatever its history.

    Only workers that are silent for longer have to be read, so that a round costs by the silent and
    not by the fleet.

    >>> worth_a_look(DetectorLimits())
    datetime.timedelta(seconds=4, microseconds=683000)
    """
    distance = -NormalDist().inv_cdf(10.0**-limits.threshold)
    seconds = limits.beat_seconds + limits.pause_seconds + distance * limits.deviation_seconds
    return timedelta(milliseconds=math.floor(min(seconds, _A_YEAR_SECONDS) * 1_000))


def _health(suspicion: float, limits: DetectorLimits) -> Health:
    if suspicion >= limits.threshold:
        return Health.DEAD
    return Health.SUSPECTED if suspicion >= limits.threshold / 2 else Health.ALIVE


def _spread(intervals: Sequence[int], limits: DetectorLimits) -> tuple[float, float]:
    """Return the mean and deviation of the pauses, in seconds, as far as they are known.

    A worker that beats more often than it is asked to is not expected to keep that up.
    """
    mean, deviation = limits.beat_seconds, limits.deviation_seconds
    if intervals:
        mean = max(mean, fmean(intervals) / 1_000)
        deviation = max(deviation, pstdev(intervals) / 1_000)
    if len(intervals) < FEW:
        deviation = max(deviation, limits.beat_seconds * GUESSED_VARIATION)
    return mean, deviation


#: A worker counts as live for so long after its last beat, unless it was found dead before.
LIVENESS: Final = timedelta(seconds=15)
#: A started consumer may take so long to its first beat: longer than a cold start in a network.
WAKE_TERM: Final = timedelta(seconds=10)
#: A dead worker is remembered for so long.
MEMORY: Final = timedelta(minutes=10)


class Presence(msgspec.Struct, frozen=True):
    """Limits of presence at one moment, in epoch milliseconds; each excludes its own value."""

    now_ms: int
    live_after_ms: int
    wakes_after_ms: int
    forget_ms: int

    @classmethod
    def at(cls, now: datetime, liveness: timedelta = LIVENESS) -> Self:
        """Compute the limits at ``now``; a longer liveness is also a longer memory."""
        return cls(
            now_ms=to_ms(now),
            live_after_ms=to_ms(now - liveness),
            wakes_after_ms=to_ms(now - WAKE_TERM),
            forget_ms=to_ms(now - max(MEMORY, liveness)),
        )
