"""The latest tick, in memory: what :mod:`..redis_queue.ticks` does."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from threading import Lock

from crawlfleet.model.tick import BETWEEN_SECONDS, MOST_BETWEEN, Ticked, TickPart
from crawlfleet.ports import Clock


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryTicks:
    """A :class:`~crawlfleet.ports.Ticks`; thread-safe."""

    def __init__(
        self,
        clock: Clock = _now,
        *,
        between_seconds: float = BETWEEN_SECONDS,
        most_between: int = MOST_BETWEEN,
    ) -> None:
        self._clock = clock
        self._life = timedelta(seconds=between_seconds)
        self._most = most_between
        self._lock = Lock()
        self._asked_at: datetime | None = None
        self._last: tuple[datetime, float, dict[str, int]] | None = None
        self._between: dict[tuple[TickPart, str], datetime] = {}

    def note(self, took_seconds: float, faults: Mapping[TickPart, int]) -> None:
        """See ports.Ticks.note."""
        with self._lock:
            noted = {part.value: count for part, count in faults.items()}
            self._last = self._clock(), took_seconds, noted

    def tell_fault(self, part: TickPart, what: str) -> None:
        """See ports.Ticks.tell_fault."""
        with self._lock:
            self._between.pop((part, what), None)
            self._between[part, what] = self._clock()
            for old in list(self._between)[: -self._most]:
                del self._between[old]

    def last(self) -> Ticked:
        """See ports.Ticks.last."""
        with self._lock:
            now = self._clock()
            if self._last is None:
                self._asked_at = self._asked_at or now
                return Ticked(awaited_seconds=max(0.0, (now - self._asked_at).total_seconds()))
            ended_at, took, faults = self._last
            ago = max(0.0, (now - ended_at).total_seconds())
            since = now - self._life
            told = Counter(faults)
            told.update(part.value for (part, _), at in self._between.items() if at > since)
            return Ticked(seconds_ago=ago, took_seconds=took, faults=dict(told))
