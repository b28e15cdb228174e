"""Ways to sites in memory: what :mod:`..redis_queue.probes` keeps, and a prober that is told."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock

from crawlfleet.errors import FetchError
from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.probing import ProbeKey
from crawlfleet.model.usage import Probe
from crawlfleet.ports import NO_ERRAND, Errand, Passage


class MemoryProbes:
    """A :class:`~crawlfleet.ports.probing.ProbeBook` that lives as long as it is held.

    Args:
        steady: Seconds since some moment.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._lock = Lock()
        self._known: dict[ProbeKey, tuple[Probe, float]] = {}
        self._asking: dict[ProbeKey, tuple[str, float]] = {}

    def look(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        """See ports.probing.ProbeBook.look."""
        with self._lock:
            now = self._steady()
            self._forget(now)
            if key in self._known:
                return self._known[key][0]
            if self._asking.get(key, (worker, 0.0))[0] != worker:
                return False
            self._asking[key] = worker, now + hold.total_seconds()
            return True

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        """See ports.probing.ProbeBook.save."""
        self.release(key, worker)
        with self._lock:
            self._known[key] = probe, self._steady() + keep.total_seconds()

    def release(self, key: ProbeKey, worker: str) -> None:
        """See ports.probing.ProbeBook.release."""
        with self._lock:
            if self._asking.get(key, ("", 0.0))[0] == worker:
                del self._asking[key]

    def _forget(self, now: float) -> None:
        self._known = {key: found for key, found in self._known.items() if found[1] > now}
        self._asking = {key: found for key, found in self._asking.items() if found[1] > now}


class MemoryProber:
    """A :class:`~crawlfleet.ports.probing.Prober` of ways that are told by URL.

    ``asked`` lists what was asked for, with its limits and errand.
    """

    def __init__(self, ways: Mapping[str, Probe | FetchError]) -> None:
        self._ways = ways
        self.asked: list[tuple[str, FetchLimits, Errand]] = []

    async def probe(
        self,
        url: str,
        limits: FetchLimits,
        passage: Passage | None = None,
        errand: Errand = NO_ERRAND,
    ) -> Probe:
        """See ports.probing.Prober.probe."""
        if passage is not None:
            await passage(url)
        self.asked.append((url, limits, errand))
        found = self._ways[url]
        if isinstance(found, FetchError):
            raise found
        return found
