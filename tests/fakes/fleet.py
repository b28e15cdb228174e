"""In-memory fakes keep workers, the failure detector, ticks, pools and resource readings."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock, RLock
from typing import Final
from uuid import uuid4

from tests.kit.fetching import HeardProxies, ProxyExchange
from tests.kit.fleet import (
    BETWEEN_SECONDS,
    DETECTOR_LAPSE,
    LIVENESS,
    MEMORY,
    MOST_BETWEEN,
    WINDOW,
    Presence,
    Remaining,
    Taken,
    ThroughputReply,
    Ticked,
    TickPart,
    WorkerHeartbeats,
    WorkerStatus,
)
from tests.kit.kernel import MAIN_POOL, Clock, from_ms, to_ms

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_STATUS: Final = WorkerStatus()


class Beating:
    """The heartbeats of one worker, by the clock that stands for the server's."""

    def __init__(self) -> None:
        self.last_ms = 0
        self.intervals: tuple[int, ...] = ()
        self.worker_status = _NO_STATUS


class Fleet:
    """The workers as the detector sees them, and since when they are observed without a lapse."""

    def __init__(self) -> None:
        self.beating: dict[str, Beating] = {}
        self._since_ms = self._seen_ms = 0

    def observed_since(self, now_ms: int, lapse: timedelta) -> int:
        """Note that the fleet is observed now. A clock that was set back is a lapse too."""
        watched = self._since_ms <= self._seen_ms <= now_ms
        if not watched or now_ms - self._seen_ms > lapse // _MILLISECOND:
            self._since_ms = now_ms
        self._seen_ms = now_ms
        return self._since_ms


class MemoryWorkers:
    """A ``Workers`` that lives as long as it is held; thread-safe.

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
        """The workers of another pool, which the same detector sees."""
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

    def beat(
        self,
        worker: str,
        now: datetime,
        worker_status: WorkerStatus = _NO_STATUS,
        proxies: ProxyExchange | None = None,
    ) -> bool:
        """The worker lives; its first beat takes the place of one reserved wake-up."""
        if proxies is not None:
            proxies.hear(HeardProxies(seen=proxies.reports().seen))
        with self._lock:
            known = self._feel(worker, worker_status)
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
        """Forget the worker; return True if it was known."""
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
        """Count the workers that the caller shall start so that ``wanted`` live; atomic."""
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

    def throughput_reply(
        self, worker: str, now: datetime, kept: int | None, floor: int = 0
    ) -> ThroughputReply:
        """Tell the worker if it is to leave where so many are kept; None tells nobody to."""
        with self._lock:
            presence = Presence.at(now, self._liveness)
            self._leaving = self._going(presence)
            staying = {*_later(self._beats, presence.live_after_ms)} - self._leaving
            others = len(staying - {worker})
            if worker in self._leaving:
                return ThroughputReply(leaves=True, others=others)
            known = kept is not None and worker in self._beats
            if not known or len(staying) <= max(1, kept or 0):
                return ThroughputReply(leaves=False, others=others, floor=floor)
            self._leaving.add(worker)
            return ThroughputReply(leaves=True, others=others)

    @property
    def leaving(self) -> int:
        """Count the workers that are told to leave and have not been seen gone."""
        with self._lock:
            return len(self._leaving)

    def _going(self, presence: Presence) -> set[str]:
        return self._leaving.intersection(_later(self._beats, presence.live_after_ms))

    def _feel(self, worker: str, worker_status: WorkerStatus) -> bool:
        """Note the beat; return True if the worker was known."""
        now_ms = to_ms(self._clock())
        since_ms = self._fleet.observed_since(now_ms, DETECTOR_LAPSE)
        forget_ms = now_ms - MEMORY // _MILLISECOND
        beating = self._fleet.beating
        for name in [name for name in beating if beating[name].last_ms <= forget_ms]:
            del beating[name]
        known = worker in beating
        one = beating.setdefault(worker, Beating())
        if known and since_ms <= one.last_ms <= now_ms:
            one.intervals = (*one.intervals, now_ms - one.last_ms)[-WINDOW:]
        one.last_ms, one.worker_status = now_ms, worker_status
        return known

    def _forget(self, presence: Presence) -> None:
        self._beats = {name: self._beats[name] for name in _later(self._beats, presence.forget_ms)}


def _later(scores: dict[str, int], than: int) -> list[str]:
    return sorted((name for name in scores if scores[name] > than), key=lambda n: (scores[n], n))


class MemoryFailureDetector:
    """A failure detector of workers in memory, by their clock; thread-safe."""

    def __init__(self, workers: MemoryWorkers, *, lapse: timedelta = DETECTOR_LAPSE) -> None:
        self._workers = workers
        self._lapse = lapse
        self._turns: dict[str, tuple[int, int, str]] = {}

    def acquire_lock(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Tell if the holder is to do ``name`` now."""
        with self._workers.opened() as (_, now_ms):
            if name in self._turns:
                started_ms, ends_ms, _ = self._turns[name]
                taken = ends_ms > now_ms or now_ms - started_ms < every // _MILLISECOND
                if taken and started_ms <= now_ms:
                    return False
            self._turns[name] = (now_ms, now_ms + term // _MILLISECOND, holder)
            return True

    def keep_lock(self, name: str, holder: str, term: timedelta) -> bool:
        """Have a lock end a term from now; False if it is no longer the holder's."""
        with self._workers.opened() as (_, now_ms):
            started_ms, ends_ms, present = self._turns.get(name, (0, 0, None))
            if present != holder or not ends_ms:
                return False
            self._turns[name] = (started_ms, now_ms + term // _MILLISECOND, holder)
            return True

    def release_lock(self, name: str, holder: str) -> None:
        """Release a lock; no effect if it is another holder's now."""
        with self._workers.opened():
            started_ms, _, present = self._turns.get(name, (0, 0, None))
            if present == holder:
                self._turns[name] = (started_ms, 0, holder)

    def heartbeats(self, silent_for: timedelta | None = None) -> list[WorkerHeartbeats]:
        """Known workers, the longest silent first."""
        least_ms = (silent_for or timedelta()) // _MILLISECOND
        with self._workers.opened() as (fleet, now_ms):
            since_ms = fleet.observed_since(now_ms, self._lapse)
            found = []
            for name, one in sorted(fleet.beating.items(), key=lambda it: (it[1].last_ms, it[0])):
                last_ms = one.last_ms if since_ms <= one.last_ms <= now_ms else since_ms
                if now_ms - last_ms >= least_ms:
                    beats = WorkerHeartbeats(
                        worker=name,
                        silent_ms=now_ms - last_ms,
                        beat_ms=max(0, now_ms - one.last_ms),
                        intervals=one.intervals,
                        worker_status=one.worker_status,
                    )
                    found.append(beats)
            return found

    def observed_for(self) -> timedelta:
        """Measure how long the fleet was observed without a lapse."""
        with self._workers.opened() as (fleet, now_ms):
            return (now_ms - fleet.observed_since(now_ms, self._lapse)) * _MILLISECOND

    def reap(self, worker: str, pool: str = MAIN_POOL) -> bool:
        """The worker is dead, and counted as live no more; False if it was not known any more."""
        return self._workers.pool(pool).forget(worker)


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryTicks:
    """A ``Ticks``; thread-safe."""

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
        with self._lock:
            noted = {part.value: count for part, count in faults.items()}
            self._last = self._clock(), took_seconds, noted

    def report_fault(self, part: TickPart, what: str) -> None:
        with self._lock:
            self._between.pop((part, what), None)
            self._between[part, what] = self._clock()
            for old in list(self._between)[: -self._most]:
                del self._between[old]

    def last(self) -> Ticked:
        with self._lock:
            now = self._clock()
            if self._last is None:
                self._asked_at = self._asked_at or now
                return Ticked(awaited_seconds=max(0.0, (now - self._asked_at).total_seconds()))
            ended_at, took, faults = self._last
            ago = max(0.0, (now - ended_at).total_seconds())
            since = now - self._life
            reported = Counter(faults)
            reported.update(part.value for (part, _), at in self._between.items() if at > since)
            return Ticked(seconds_ago=ago, took_seconds=took, faults=dict(reported))


class MemoryPoolBook:
    """In-memory ``MongoPoolBook``."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def known(self) -> dict[str, datetime]:
        with self._lock:
            return dict(self._seen)

    def saw(self, pools: Collection[str], now: datetime) -> None:
        at = from_ms(to_ms(now))
        with self._lock:
            for pool in pools:
                self._seen[pool] = max(at, self._seen.get(pool, at))

    def forget(self, pool: str, seen: datetime) -> None:
        with self._lock:
            if pool in self._seen and self._seen[pool] <= seen:
                del self._seen[pool]


class MemoryReadings:
    """In-memory ``MachineReadings``, which return the values that a test has set."""

    def __init__(self) -> None:
        self.left = Remaining()
        self.cpu_seconds = 0.0
        self.memory_bytes = 0
        self.frequency = 1.0
        #: How often the process was read.
        self.read = 0

    def remaining(self) -> Remaining:
        return self.left

    def at_rest(self) -> Remaining:
        return Remaining(memory=self.left.memory, cpu=self.left.cpu)

    def taken(self) -> Taken:
        self.read += 1
        return Taken(cpu_seconds=self.cpu_seconds, memory_bytes=self.memory_bytes)

    def ghz(self) -> float:
        return self.frequency
