"""Filling a queue in memory: what :mod:`crawlfleet.adapters.redis_queue.filling` does."""

from collections.abc import Sequence
from datetime import datetime

from crawlfleet.adapters.memory.queue import Held, MemoryQueue
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, Mark
from crawlfleet.model.times import to_ms


class MemoryFilling:
    """A :class:`~crawlfleet.ports.QueueFilling` of a queue in memory; thread-safe."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def mark(self, lane: Lane) -> Mark:
        """Which server holds the queue now, and what was written there when it was filled."""
        with self._queue.opened(lane) as held:
            nonce, reached = held.filled or (None, None)
            return Mark(server=self._queue.server, nonce=nonce, reached=reached)

    def clear(self, lane: Lane, nonce: str) -> None:
        """Drop what is queued, parked and delayed (not what is leased), begin a filling at 0."""
        with self._queue.opened(lane) as held:
            for level in held.levels:
                level.clear()
            held.times.clear()
            held.oldests.clear()
            held.parked.clear()
            held.parked_due.clear()
            held.waiting.clear()
            held.delayed.clear()
            held.filled = (nonce, 0)

    def fill(self, lane: Lane, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first, and note how far this has come. False: another has begun anew."""
        with self._queue.opened(lane) as held:
            if not _under_way(held, nonce):
                return False
            held.append(entries)
            held.filled = (nonce, reached)
            return True

    def fill_delayed(
        self, lane: Lane, nonce: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> bool:
        """The same for what waits for its time; what a worker has delayed meanwhile stays."""
        with self._queue.opened(lane) as held:
            if not _under_way(held, nonce):
                return False
            for entry, due_at in entries:
                held.delayed.setdefault(entry, to_ms(due_at))
            return True

    def filled(self, lane: Lane, nonce: str) -> bool:
        """The queue is complete; True also if this nonce had completed it before."""
        with self._queue.opened(lane) as held:
            if not _under_way(held, nonce):
                return held.filled == (nonce, None)
            held.filled = (nonce, None)
            return True


def _under_way(held: Held, nonce: str) -> bool:
    return held.filled is not None and held.filled[0] == nonce and held.filled[1] is not None
