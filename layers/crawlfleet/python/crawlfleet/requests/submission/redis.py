"""Back-pressure on Redis, and without a round trip for each submission.

A backlog of millions does not fill up within a second. Where a biz has no limit to its rate, the
latest answer of Redis, and what this process has sent there since, decide as well.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.config.documents.biz import IntakeLimits
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.queue.redis.keys import level_keys, redis_keys
from crawlfleet.requests.queue.stats import Pressure
from crawlfleet.requests.submission.admission import Intake

_ADMIT: Final = Script("requests/submission/admit", "requests/queue/levels_prelude")


class RedisIntake:
    """Admit submissions by one script; the server's clock counts where none is given."""

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis, self._clock = connection, clock

    def admit(
        self,
        queue_key: QueueKey,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,  # noqa: ARG002  a caller that is an hour ahead would keep all others out
        beside: Sequence[QueueKey] = (),
    ) -> Pressure:
        """Ask for ``count`` more, and count them towards the rate if there is room.

        A batch larger than the burst, or than the backlog may be, is taken when nothing else is
        there. The answer does not reserve a place in the backlog: batches that are admitted at the
        same moment may together pass it.
        """
        keys = redis_keys(queue_key)
        answer = self._redis.once(
            _ADMIT,
            (keys.intake, *(key for one in (queue_key, *beside) for key in _backlog_keys(one))),
            *(count, limits.max_backlog),
            "" if limits.per_second is None else limits.per_second,
            *(limits.burst, memory_ratio),
            "" if self._clock is None else to_ms(self._clock()) * 1_000,
        )
        backlog, backlog_full, memory_full, wait = several(answer, 4)
        with self._redis.translated():
            return Pressure(
                backlog=whole(backlog),
                backlog_full=whole(backlog_full) == 1,
                memory_full=whole(memory_full) == 1,
                wait_seconds=int(text(wait)) / 1_000_000,
            )


def _backlog_keys(queue_key: QueueKey) -> tuple[str, ...]:
    """Return the keys that hold the entries of a queue."""
    keys = redis_keys(queue_key)
    return keys.leases, keys.delayed, keys.parked, *level_keys(queue_key)


#: How long an answer is good for. Each environment may put in what it takes in so long beyond the
#: limit; a full backlog, and a full memory, are asked about anew each time.
GOOD_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Answer:
    backlog: int
    ratio: float
    good_until: float


class RememberedIntake:
    """Remember answers of another intake, by a steady clock. Used by one thread at a time."""

    def __init__(self, intake: Intake, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._intake, self._steady = intake, steady
        self._answers: dict[QueueKey, _Answer] = {}

    def admit(
        self,
        queue_key: QueueKey,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,
        beside: Sequence[QueueKey] = (),
    ) -> Pressure:
        """Ask for ``count`` more; remember the answer where the biz has no rate."""
        if limits.per_second is not None:
            return self._intake.admit(queue_key, count, limits, memory_ratio, now, beside)
        moment, known = self._steady(), self._answers.get(queue_key)
        is_good = known and moment < known.good_until and known.ratio == memory_ratio
        if known and is_good and known.backlog + count <= limits.max_backlog:
            known.backlog += count
            return Pressure(backlog=known.backlog)
        self._answers.pop(queue_key, None)
        pressure = self._intake.admit(queue_key, count, limits, memory_ratio, now, beside)
        if pressure.admitted:
            backlog, good_until = pressure.backlog + count, moment + GOOD_SECONDS
            self._answers[queue_key] = _Answer(backlog, memory_ratio, good_until)
        return pressure
