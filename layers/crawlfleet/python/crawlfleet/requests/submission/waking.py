"""Waking of workers for what was queued: a worker of its pool lives, or one is started."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from crawlfleet.kernel import errors
from crawlfleet.kernel.log import warn


class Waker(Protocol):
    """Start consumers."""

    def wake(self, count: int) -> None:
        """Start ``count`` consumer invocations, without waiting for them."""
        ...


class WakeReservations(Protocol):
    """Reserve the start of a pool's workers; a Protocol, as the fleet stands above requests."""

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """Return how many workers the caller shall start so that ``wanted`` live.

        Atomic over callers. ``now`` is None for the server's clock, which workers go by. No more
        than ``most``, if that is said: the caller asks again when these are started. Each is
        counted as live for a few seconds, so that no two callers start the same one.
        """
        ...


class PoolStarter(NamedTuple):
    """Count a pool's live workers, and start one."""

    workers: WakeReservations
    waker: Waker


#: Submissions that find others waiting check this often that a worker lives.
LIVENESS_SECONDS: Final = 5.0


class LivenessChecks:
    """Tell when submissions to queues that are not empty check again that a worker lives."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._checked_at: dict[str | None, float] = {}

    def is_due(self, pool: str | None) -> bool:
        """Tell whether a check of a pool is due, every :data:`LIVENESS_SECONDS`; note that it is.

        >>> checks = LivenessChecks(iter([0.0, 1.0, 6.0]).__next__)
        >>> [checks.is_due(None) for _ in range(3)]
        [True, False, True]
        """
        now = self._now()
        if 0 <= now - self._checked_at.get(pool, float("-inf")) < LIVENESS_SECONDS:
            return False
        self._checked_at[pool] = now
        return True


def wake_if_idle(workers: WakeReservations, waker: Waker) -> None:
    """Start one consumer if none lives. If that fails, the scheduler's next tick does it."""
    # Who lives is judged by the clock that workers go by, and not by this machine's.
    if wanted := workers.reserve_wake(None, 1):
        try:
            waker.wake(wanted)
        except errors.StoreUnavailableError as error:
            warn("no consumer could be woken", error)
