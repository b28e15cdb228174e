"""Which workers live, in memory: what :mod:`crawlfleet.adapters.redis_queue.workers` does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Final
from uuid import uuid4

from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.staff import Mustered
from crawlfleet.model.times import to_ms
from crawlfleet.model.worker import Card
from crawlfleet.policy.liveness import WATCH_LAPSE, WINDOW
from crawlfleet.policy.presence import LIVENESS, MEMORY, Presence

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_CARD: Final = Card()


class Beating:
    """What the watch knows of one worker, by the clock that stands for the server's."""

    def __init__(self) -> None:
        self.last_ms = 0
        self.intervals: tuple[int, ...] = ()
        self.card = _NO_CARD


class Fleet:
    """The workers as the watch sees them, and since when they are watched without a lapse."""

    def __init__(self) -> None:
        self.beating: dict[str, Beating] = {}
        self._since_ms = self._seen_ms = 0

    def watched_since(self, now_ms: int, lapse: timedelta) -> int:
        """Note that the fleet is watched now. A clock that was set back is a lapse too."""
        watched = self._since_ms <= self._seen_ms <= now_ms
        if not watched or now_ms - self._seen_ms > lapse // _MILLISECOND:
            self._since_ms = now_ms
        self._seen_ms = now_ms
        return self._since_ms


class MemoryWorkers:
    """A :class:`~crawlfleet.ports.Workers` that lives as long as it is held; thread-safe.

    Args:
        liveness: How long after its last beat a worker is taken to live.
        clock: Stands for the server's.
    """

    def __init__(
        self,
        *,
        liveness: timedelta = LIVENESS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._lock = RLock()
        self._liveness = liveness
        self._clock = clock
        self._fleet = Fleet()
        self._beats: dict[str, int] = {}
        self._wakes: dict[str, int] = {}
        self._leaving: set[str] = set()
        self._pools = {MAIN_POOL: self}

    def pool(self, name: str) -> "MemoryWorkers":
        """The workers of another pool, which the same watch looks at."""
        with self._lock:
            if name not in self._pools:
                other = MemoryWorkers(liveness=self._liveness, clock=self._clock)
                other._lock, other._fleet, other._pools = self._lock, self._fleet, self._pools
                self._pools[name] = other
            return self._pools[name]

    @contextmanager
    def opened(self) -> Iterator[tuple[Fleet, int]]:
        """The fleet and its clock, in ms, for as long as nobody else may touch it."""
        with self._lock:
            yield self._fleet, to_ms(self._clock())

    def beat(self, worker: str, now: datetime, card: Card = _NO_CARD) -> bool:
        """The worker lives; its first beat takes the place of one reserved wake-up."""
        with self._lock:
            known = self._feel(worker, card)
            presence = Presence.at(now, self._liveness)
            last = self._beats.get(worker)
            self._beats[worker] = presence.now_ms
            self._forget(presence)
            if self._wakes and (last is None or last <= presence.live_after_ms):
                del self._wakes[min(self._wakes, key=lambda wake: (self._wakes[wake], wake))]
            return known

    def leave(self, worker: str) -> None:
        """The worker ends of its own will; nothing is kept of it."""
        self.forget(worker)

    def retire(self, worker: str, now: datetime, least: int) -> bool:
        """The worker ends, unless fewer than ``least`` others live; whether it has."""
        with self._lock:
            presence = Presence.at(now, self._liveness)
            others = {*_later(self._beats, presence.live_after_ms)} - self._going(presence)
            if len(others - {worker}) < least:
                return False
            self.forget(worker)
            return True

    def forget(self, worker: str) -> bool:
        """Keep nothing of the worker; whether the watch knew it."""
        with self._lock:
            self._beats.pop(worker, None)
            self._leaving.discard(worker)
            return self._fleet.beating.pop(worker, None) is not None

    def live(self, now: datetime | None = None) -> list[str]:
        """Ids of the workers that live, then of wake-ups that have not become workers yet."""
        with self._lock:
            presence = Presence.at(now or self._clock(), self._liveness)
            return [
                *_later(self._beats, presence.live_after_ms),
                *_later(self._wakes, presence.wakes_after_ms),
            ]

    def staying(self, now: datetime) -> list[str]:
        """Ids of the workers that live and are not told to leave; wake-ups are nobody yet."""
        with self._lock:
            live = _later(self._beats, Presence.at(now, self._liveness).live_after_ms)
            return [worker for worker in live if worker not in self._leaving]

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers."""
        with self._lock:
            presence = Presence.at(now or self._clock(), self._liveness)
            self._forget(presence)
            self._wakes = {
                wake: self._wakes[wake] for wake in _later(self._wakes, presence.wakes_after_ms)
            }
            live = len(_later(self._beats, presence.live_after_ms)) + len(self._wakes)
            live -= len(self._going(presence))
            missing = max(0, wanted - live)
            missing = missing if most is None else min(missing, max(0, most))
            self._wakes.update({f"wake:{uuid4().hex}": presence.now_ms for _ in range(missing)})
            return missing

    def mustered(self, worker: str, now: datetime, kept: int | None, floor: int = 0) -> Mustered:
        """What the worker is told, where so many are kept; None tells nobody to leave."""
        with self._lock:
            presence = Presence.at(now, self._liveness)
            self._leaving = self._going(presence)
            staying = {*_later(self._beats, presence.live_after_ms)} - self._leaving
            others = len(staying - {worker})
            if worker in self._leaving:
                return Mustered(leaves=True, others=others)
            known = kept is not None and worker in self._beats
            if not known or len(staying) <= max(1, kept or 0):
                return Mustered(leaves=False, others=others, floor=floor)
            self._leaving.add(worker)
            return Mustered(leaves=True, others=others)

    @property
    def leaving(self) -> int:
        """How many are told to leave and have not been seen gone."""
        with self._lock:
            return len(self._leaving)

    def _going(self, presence: Presence) -> set[str]:
        return self._leaving.intersection(_later(self._beats, presence.live_after_ms))

    def _feel(self, worker: str, card: Card) -> bool:
        """Note the pulse; whether the watch knew the worker."""
        now_ms = to_ms(self._clock())
        since_ms = self._fleet.watched_since(now_ms, WATCH_LAPSE)
        forget_ms = now_ms - MEMORY // _MILLISECOND
        beating = self._fleet.beating
        for name in [name for name in beating if beating[name].last_ms <= forget_ms]:
            del beating[name]
        known = worker in beating
        one = beating.setdefault(worker, Beating())
        if known and since_ms <= one.last_ms <= now_ms:
            one.intervals = (*one.intervals, now_ms - one.last_ms)[-WINDOW:]
        one.last_ms, one.card = now_ms, card
        return known

    def _forget(self, presence: Presence) -> None:
        self._beats = {name: self._beats[name] for name in _later(self._beats, presence.forget_ms)}


def _later(scores: dict[str, int], than: int) -> list[str]:
    return sorted((name for name in scores if scores[name] > than), key=lambda n: (scores[n], n))
