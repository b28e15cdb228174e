"""Whether a silent worker is dead: an accrual failure detector (SPEC.md C5).

After Hayashibara, Défago, Yared, Katayama: "The phi accrual failure detector" (SRDS 2004). A fixed
time-out is either too short for a slow network or too long for a quick one. So the detector learns
from the pauses between a worker's beats how they are spread, and says how unlikely it is, as a
power of ten, that one that has been silent for so long will beat again. As in the paper the pauses
are taken to be spread normally; as in Akka's detector there is a least deviation, for beats as
regular as a machine's, and a pause that a healthy worker may make beyond its history: a slow
garbage collection, a page that parses for a second.

Nothing here knows a clock or a store. What was not watched is no silence: see
:class:`~crawlfleet.ports.Watch`.

How long a beat and a reserved wake-up count: who is taken to live (SPEC.md C6, D1).

Who is dead is for fleet.failure_detector to say, from how each worker beats. The fixed spans here
are for where it is not asked: wake-ups, which have no history, how long a worker is remembered,
and, as the backstop, how many workers are counted as live when it is decided how many to start. A
worker that was found dead is counted no more, however fresh its last beat.
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

#: How many intervals of each worker are kept. The paper's experiments have 1,000; at a beat a
#: second that would remember a slow network for a quarter of an hour.
WINDOW: Final = 32
#: Fewer intervals say little of how they are spread: the first guess widens it until then.
FEW: Final = 5
#: The first guess: beats vary by this part of their interval (Akka's choice).
GUESSED_VARIATION: Final = 0.25
#: Beyond this nothing is told apart. Thresholds end at 30; ``erfc`` is exact to 300.
HIGHEST_PHI: Final = 100.0
#: How long the watch may pause (no look, no beat of anybody) before what went by counts as
#: unwatched. Redis away for longer than this is nobody's silence; it is away for less only within
#: what the default limits let every worker be silent for (4.7 s, of which one beat is 1 s). So
#: whoever is to find the dead looks again within this time.
DETECTOR_LAPSE: Final = timedelta(seconds=3)

_A_YEAR_SECONDS: Final = 365 * 86_400.0


def phi(silent_ms: float, intervals: Sequence[int], limits: DetectorLimits) -> float:
    """How unlikely it is that a worker silent for so long still lives: ``-log10(P_later)``.

    ``P_later`` is the chance that a pause between two beats is longer than this silence. Grows with
    the silence, from 0 to at most ``HIGHEST_PHI``. ``intervals`` are in milliseconds.

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
    """Dead from the threshold on, suspected from half of it on."""
    return _health(phi(beats.silent_ms, beats.intervals, limits), limits)


def status(beats: WorkerHeartbeats, limits: DetectorLimits) -> WorkerHealth:
    """A worker as people see it (SPEC.md C6).

    Nobody is called alive for want of a watch: who was silent for as long as the dead are, of which
    less was watched, is unwatched.
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
    """Below this silence no worker can be dead, whatever its history.

    What is silent for longer is all that has to be read, so that a look costs by the silent and
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
    """Mean and deviation of the pauses, in seconds, as far as they are known.

    A worker that beats more often than it is asked to is not expected to keep that up.
    """
    mean, deviation = limits.beat_seconds, limits.deviation_seconds
    if intervals:
        mean = max(mean, fmean(intervals) / 1_000)
        deviation = max(deviation, pstdev(intervals) / 1_000)
    if len(intervals) < FEW:
        deviation = max(deviation, limits.beat_seconds * GUESSED_VARIATION)
    return mean, deviation


#: How long after its last beat a worker is counted as live, if nobody has found it dead before.
LIVENESS: Final = timedelta(seconds=15)
#: How long a started consumer may take to its first beat. Longer than a cold start in a network.
WAKE_TERM: Final = timedelta(seconds=10)
#: How long a dead worker is remembered.
MEMORY: Final = timedelta(minutes=10)


class Presence(msgspec.Struct, frozen=True):
    """The three limits at one moment, in epoch milliseconds; each excludes its own value."""

    now_ms: int
    live_after_ms: int
    wakes_after_ms: int
    forget_ms: int

    @classmethod
    def at(cls, now: datetime, liveness: timedelta = LIVENESS) -> Self:
        """The limits at ``now``; a longer liveness is also a longer memory."""
        return cls(
            now_ms=to_ms(now),
            live_after_ms=to_ms(now - liveness),
            wakes_after_ms=to_ms(now - WAKE_TERM),
            forget_ms=to_ms(now - max(MEMORY, liveness)),
        )
