"""The failure detector's view in memory: what :mod:`crawlfleet.adapters.redis_queue.watch` does."""

from datetime import timedelta
from typing import Final

from crawlfleet.adapters.memory.workers import MemoryWorkers
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.worker import Pulse
from crawlfleet.policy.liveness import WATCH_LAPSE

_MILLISECOND: Final = timedelta(milliseconds=1)


class MemoryWatch:
    """A :class:`~crawlfleet.ports.Watch` over workers in memory, by their clock; thread-safe."""

    def __init__(self, workers: MemoryWorkers, *, lapse: timedelta = WATCH_LAPSE) -> None:
        self._workers = workers
        self._lapse = lapse
        self._turns: dict[str, tuple[int, int, str]] = {}

    def take_turn(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Whether the holder is to do ``name`` now."""
        with self._workers.opened() as (_, now_ms):
            if name in self._turns:
                started_ms, ends_ms, _ = self._turns[name]
                taken = ends_ms > now_ms or now_ms - started_ms < every // _MILLISECOND
                if taken and started_ms <= now_ms:
                    return False
            self._turns[name] = (now_ms, now_ms + term // _MILLISECOND, holder)
            return True

    def end_turn(self, name: str, holder: str) -> None:
        """The holder is done; no effect if the turn is another's now."""
        with self._workers.opened():
            started_ms, _, present = self._turns.get(name, (0, 0, None))
            if present == holder:
                self._turns[name] = (started_ms, 0, holder)

    def pulses(self, silent_for: timedelta | None = None) -> list[Pulse]:
        """Known workers, the longest silent first."""
        least_ms = (silent_for or timedelta()) // _MILLISECOND
        with self._workers.opened() as (fleet, now_ms):
            since_ms = fleet.watched_since(now_ms, self._lapse)
            found = []
            for name, one in sorted(fleet.beating.items(), key=lambda it: (it[1].last_ms, it[0])):
                last_ms = one.last_ms if since_ms <= one.last_ms <= now_ms else since_ms
                if now_ms - last_ms >= least_ms:
                    pulse = Pulse(
                        worker=name,
                        silent_ms=now_ms - last_ms,
                        beat_ms=max(0, now_ms - one.last_ms),
                        intervals=one.intervals,
                        card=one.card,
                    )
                    found.append(pulse)
            return found

    def watched_for(self) -> timedelta:
        """How long the fleet has been watched without a lapse."""
        with self._workers.opened() as (fleet, now_ms):
            return (now_ms - fleet.watched_since(now_ms, self._lapse)) * _MILLISECOND

    def bury(self, worker: str, pool: str = MAIN_POOL) -> bool:
        """The worker is dead, and counted as live no more; False if it was not known any more."""
        return self._workers.pool(pool).forget(worker)
