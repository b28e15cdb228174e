"""Back-pressure without a round trip for each submission.

A backlog of millions does not fill up within a second. Where a biz has no limit to its rate, what
Redis said a moment ago, and what this process has sent there since, decide as well.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.model.biz import IntakeLimits
from crawlfleet.model.lane import Lane
from crawlfleet.model.totals import Pressure
from crawlfleet.ports import Intake

#: How long an answer is good for. Each environment may put in what it takes in so long beyond the
#: limit; a full backlog, and a full memory, are asked about anew each time.
GOOD_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Answer:
    backlog: int
    ratio: float
    good_until: float


class RememberedIntake:
    """A :class:`~crawlfleet.ports.Intake` before another one. Used by one thread at a time.

    Args:
        intake: Is asked where nothing good is remembered.
        steady: Seconds on a clock that nobody sets.
    """

    def __init__(self, intake: Intake, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._intake = intake
        self._steady = steady
        self._answers: dict[Lane, _Answer] = {}

    def admit(
        self,
        lane: Lane,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,
        beside: Sequence[Lane] = (),
    ) -> Pressure:
        """See ports.Intake.admit."""
        if limits.per_second is not None:
            return self._intake.admit(lane, count, limits, memory_ratio, now, beside)
        moment = self._steady()
        known = self._answers.get(lane)
        if (
            known is not None
            and moment < known.good_until
            and known.ratio == memory_ratio
            and known.backlog + count <= limits.max_backlog
        ):
            known.backlog += count
            return Pressure(backlog=known.backlog)
        self._answers.pop(lane, None)
        pressure = self._intake.admit(lane, count, limits, memory_ratio, now, beside)
        if pressure.admitted:
            self._answers[lane] = _Answer(
                pressure.backlog + count, memory_ratio, moment + GOOD_SECONDS
            )
        return pressure
