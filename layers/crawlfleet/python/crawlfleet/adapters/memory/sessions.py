"""The twin of the cookies on Redis."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from crawlfleet.model.lane import Lane

_LIFE: Final = timedelta(days=1)
_MAX_BYTES: Final = 262_144


class MemorySessions:
    """ports.Sessions in memory; as on Redis, a lane's queues share its jobs."""

    def __init__(
        self, *, life: timedelta = _LIFE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = life.total_seconds()
        self._clock = clock
        self._kept: dict[tuple[str, str, str], tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def load(self, lane: Lane, job: str) -> bytes | None:
        """What was saved last, or None."""
        key = lane.tenant, lane.biz, job
        with self._lock:
            cookies, until = self._kept.get(key, (None, 0.0))
            if cookies is not None and until <= self._clock():
                del self._kept[key]
                return None
            return cookies

    def save(self, lane: Lane, job: str, cookies: bytes) -> None:
        """Save, unless it is too long."""
        if len(cookies) <= _MAX_BYTES:
            with self._lock:
                until = self._clock() + self._seconds
                self._kept[lane.tenant, lane.biz, job] = bytes(cookies), until
