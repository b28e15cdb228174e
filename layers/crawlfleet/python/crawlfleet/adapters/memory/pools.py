"""The twin of the book of pools."""

import threading
from collections.abc import Collection
from datetime import datetime

from crawlfleet.model.times import from_ms, to_ms


class MemoryPoolBook:
    """ports.PoolBook in memory."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def known(self) -> dict[str, datetime]:
        """See ports.PoolBook.known."""
        with self._lock:
            return dict(self._seen)

    def saw(self, pools: Collection[str], now: datetime) -> None:
        """See ports.PoolBook.saw."""
        at = from_ms(to_ms(now))
        with self._lock:
            for pool in pools:
                self._seen[pool] = max(at, self._seen.get(pool, at))

    def forget(self, pool: str, seen: datetime) -> None:
        """See ports.PoolBook.forget."""
        with self._lock:
            if pool in self._seen and self._seen[pool] <= seen:
                del self._seen[pool]
