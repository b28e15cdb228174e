"""Which workers live, in memory: what :mod:`crawlfleet.adapters.redis_queue.workers` does."""

from datetime import datetime, timedelta
from threading import Lock
from uuid import uuid4

from crawlfleet.policy.presence import LIVENESS, Presence


class MemoryWorkers:
    """A :class:`~crawlfleet.ports.Workers` that lives as long as it is held; thread-safe."""

    def __init__(self, *, liveness: timedelta = LIVENESS) -> None:
        self._lock = Lock()
        self._liveness = liveness
        self._beats: dict[str, int] = {}
        self._wakes: dict[str, int] = {}

    def beat(self, worker: str, now: datetime) -> None:
        """The worker lives; its first beat takes the place of one reserved wake-up."""
        with self._lock:
            presence = Presence.at(now, self._liveness)
            last = self._beats.get(worker)
            self._beats[worker] = presence.now_ms
            self._forget(presence)
            if self._wakes and (last is None or last <= presence.live_after_ms):
                del self._wakes[min(self._wakes, key=lambda wake: (self._wakes[wake], wake))]

    def leave(self, worker: str) -> None:
        """The worker ends of its own will."""
        with self._lock:
            self._beats.pop(worker, None)

    def live(self, now: datetime) -> list[str]:
        """Ids of the workers that live, then of wake-ups that have not become workers yet."""
        with self._lock:
            presence = Presence.at(now, self._liveness)
            return [
                *_later(self._beats, presence.live_after_ms),
                *_later(self._wakes, presence.wakes_after_ms),
            ]

    def reserve_wake(self, now: datetime, wanted: int) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers."""
        with self._lock:
            presence = Presence.at(now, self._liveness)
            self._forget(presence)
            self._wakes = {
                wake: self._wakes[wake] for wake in _later(self._wakes, presence.wakes_after_ms)
            }
            live = len(_later(self._beats, presence.live_after_ms)) + len(self._wakes)
            missing = max(0, wanted - live)
            self._wakes.update({f"wake:{uuid4().hex}": presence.now_ms for _ in range(missing)})
            return missing

    def _forget(self, presence: Presence) -> None:
        self._beats = {name: self._beats[name] for name in _later(self._beats, presence.forget_ms)}


def _later(scores: dict[str, int], than: int) -> list[str]:
    return sorted((name for name in scores if scores[name] > than), key=lambda n: (scores[n], n))
