"""Many lanes at a glance: what :mod:`crawlfleet.adapters.redis_queue.overview` does."""

from collections.abc import Sequence

from crawlfleet.adapters.memory.queue import MemoryQueue
from crawlfleet.model.lane import Lane
from crawlfleet.model.politeness import Parked


class MemoryOverview:
    """A :class:`~crawlfleet.ports.Overview` of a queue in memory."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    def counts(self, lanes: Sequence[Lane]) -> list[tuple[dict[int, int], dict[int, int]] | None]:
        """See ports.Overview.counts."""
        return [self._queue.counted(lane) for lane in lanes]

    def waiting_hosts(self, lanes: Sequence[Lane], limit: int) -> list[list[Parked]]:
        """See ports.Overview.waiting_hosts."""
        return [self._of(lane, max(0, limit)) for lane in lanes]

    def _of(self, lane: Lane, limit: int) -> list[Parked]:
        with self._queue.opened(lane) as queue:
            due = sorted(
                queue.parked_due, key=lambda host: (queue.parked_due[host], host), reverse=True
            )
            return queue.hosts(due[:limit])
