"""Jobs that are being cancelled, in memory: what :mod:`..redis_queue.cancellations` does."""

from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock

from crawlfleet.model.times import to_ms
from crawlfleet.policy.cancelling import ANNOUNCED_SECONDS, MOST_ANNOUNCED
from crawlfleet.ports import Clock
from crawlfleet.ports.cancelling import Heard, JobKey


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryCancellations:
    """A :class:`~crawlfleet.ports.Cancellations`; thread-safe."""

    def __init__(self, clock: Clock = _now) -> None:
        self._clock = clock
        self._lock = Lock()
        self._announced: dict[JobKey, int] = {}

    def announce(self, jobs: Sequence[JobKey]) -> None:
        """See ports.Cancellations.announce."""
        with self._lock:
            now = to_ms(self._clock())
            oldest = now - int(ANNOUNCED_SECONDS * 1000)
            kept = {job: at for job, at in self._announced.items() if oldest < at <= now}
            for job in jobs:
                kept.pop(job, None)
                kept[job] = now
            self._announced = dict(list(kept.items())[-MOST_ANNOUNCED:])

    def heard(self, since: int = 0) -> Heard:
        """See ports.Cancellations.heard."""
        with self._lock:
            now = to_ms(self._clock())
            oldest = now - int(ANNOUNCED_SECONDS * 1000)
            first = max(oldest + 1, since if since <= now else 0)
            found = [job for job, at in self._announced.items() if first <= at <= now]
            return Heard(found, now)
