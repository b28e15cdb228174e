"""robots.txt files in memory: what :mod:`crawlfleet.adapters.redis_queue.robots` does."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final

from msgspec.structs import replace

from crawlfleet.model.politeness import RobotsCopy
from crawlfleet.policy.robots import MAX_BYTES

_LONGEST_SECONDS: Final = 86_400.0
_ROOM: Final = 10_000


def _wall() -> datetime:
    return datetime.now(UTC)


class MemoryRobotsCache:
    """A :class:`~crawlfleet.ports.RobotsCache` that lives as long as it is held; thread-safe."""

    def __init__(self, *, clock: Callable[[], datetime] = _wall) -> None:
        self._clock = clock
        self._lock = Lock()
        self._copies: dict[str, tuple[RobotsCopy, datetime]] = {}

    def load(self, origin: str) -> RobotsCopy | None:
        """The copy of ``https://example.org``, or None where one is to be fetched."""
        with self._lock:
            copy, until = self._copies.get(origin, (None, self._clock()))
            return copy if self._clock() < until else None

    def save(self, origin: str, copy: RobotsCopy, seconds: float) -> None:
        """Keep a copy for ``seconds``, a day at most, and of its text what is read at most."""
        if seconds < 0.001:
            return
        until = self._clock() + timedelta(seconds=min(seconds, _LONGEST_SECONDS))
        with self._lock:
            self._copies.pop(origin, None)
            while len(self._copies) >= _ROOM:  # a cache may forget: the oldest first
                del self._copies[next(iter(self._copies))]
            self._copies[origin] = (replace(copy, text=copy.text[:MAX_BYTES]), until)
