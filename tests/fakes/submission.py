"""In-memory fakes admit submissions and keep their idempotency keys."""

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from tests.fakes.queue import MemoryQueue
from tests.kit.config import IntakeLimits
from tests.kit.kernel import QueueKey, to_ms
from tests.kit.queue import Pressure
from tests.kit.requests import Keyed, KeyName

#: No wait is longer.
_LONGEST_US: Final = 30 * 86_400 * 1_000_000


class MemoryIntake:
    """An ``Intake`` of a queue in memory; thread-safe.

    Args:
        queue: Whose backlog counts.
        memory: How much of the memory is used, from 0 to 1 and beyond.
        clock: Stands for the server's; where none is given it is the caller's.
    """

    def __init__(
        self,
        queue: MemoryQueue,
        *,
        memory: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._queue = queue
        self._memory = memory
        self._clock = clock
        self._full_at: dict[tuple[str, str], float] = defaultdict(float)

    def admit(
        self,
        queue_key: QueueKey,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,
        beside: Sequence[QueueKey] = (),
    ) -> Pressure:
        """Ask for ``count`` more, and count them towards the rate if there is room."""
        now = now if self._clock is None else self._clock()
        others = sum(self._backlog(one) for one in beside)
        with self._queue.opened(queue_key):
            backlog = self._backlog(queue_key) + others
            wait, full_at = self._rate(queue_key, count, limits, to_ms(now) * 1_000)
            pressure = Pressure(
                backlog=backlog,
                backlog_full=backlog > 0 and backlog + count > limits.max_backlog,
                memory_full=self._memory() > memory_ratio,
                wait_seconds=wait / 1_000_000,
            )
            if pressure.admitted and limits.per_second is not None:
                self._full_at[queue_key.tenant, queue_key.biz] = full_at
            return pressure

    def _backlog(self, queue_key: QueueKey) -> int:
        with self._queue.opened(queue_key) as held:
            waiting = sum(one.count for one in held.waiting.values())
            return held.queued + len(held.leases) + len(held.delayed) + waiting

    def _rate(
        self, queue_key: QueueKey, count: int, limits: IntakeLimits, now_us: int
    ) -> tuple[int, float]:
        """Microseconds to wait, and when the bucket is full again if it is not waited."""
        if limits.per_second is None:
            return 0, 0.0
        interval = min(_LONGEST_US, 1_000_000 / limits.per_second)
        full_at = max(now_us, self._full_at[queue_key.tenant, queue_key.biz])
        wait = full_at - now_us - max(0, (limits.burst - count) * interval)
        full_at = round(min(now_us + _LONGEST_US, full_at + count * interval))
        return max(0, math.ceil(wait)), full_at


class MemorySubmissionKeys:
    """In-memory ``MongoSubmissionKeys``."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, KeyName], Keyed] = {}
        self._lock = threading.Lock()

    def find(self, queue_key: QueueKey, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        with self._lock:
            found = ((name, self._kept.get(_key(queue_key, name))) for name in names)
            return {name: keyed for name, keyed in found if keyed is not None}

    def open(
        self,
        queue_key: QueueKey,
        keyed: Sequence[Keyed],
        until: datetime,
    ) -> list[Keyed]:
        with self._lock:
            return [self._kept.setdefault(_key(queue_key, one.name), one) for one in keyed]

    def close(self, queue_key: QueueKey, keyed: Sequence[Keyed]) -> None:
        with self._lock:
            for one in keyed:
                key = _key(queue_key, one.name)
                standing = self._kept.get(key)
                if standing is not None and standing.queued_at == one.queued_at:
                    self._kept[key] = msgspec.structs.replace(standing, stored=True)

    def forget(self, queue_key: QueueKey, keyed: Sequence[Keyed]) -> None:
        with self._lock:
            for one in keyed:
                key = _key(queue_key, one.name)
                standing = self._kept.get(key)
                if (
                    standing is not None
                    and standing.queued_at == one.queued_at
                    and not standing.stored
                ):
                    del self._kept[key]


def _key(queue_key: QueueKey, name: KeyName) -> tuple[str, str, KeyName]:
    return queue_key.tenant, queue_key.biz, name
