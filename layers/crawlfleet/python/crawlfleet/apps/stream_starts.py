"""Start the readers of streams that are missing: a part of the scheduler's tick.

Only a tick starts readers, and none starts another: a chain of invocations would be taken for a
loop. Starts are reserved in Redis, so that two ticks at once start no two for one.
"""

from datetime import datetime, timedelta
from typing import Final

from crawlfleet.apps.context import Parts
from crawlfleet.config.documents.biz import Tree
from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisWorkers
from crawlfleet.kernel.time import from_ms
from crawlfleet.streams.delivery.mongo.leasing import MongoLeasing
from crawlfleet.streams.reading.demand import StreamDemand
from crawlfleet.streams.reading.succession import (
    FLEET,
    Tenure,
    may_leave,
    readers_needed,
    readers_wanted,
)
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.streams.subscriptions.service import is_served

#: A reader beats once a second; one that has not for so long is taken to be dead.
SILENT: Final = timedelta(seconds=15)


class StreamStarts:
    """The readers of a stage as a scheduler, or one of them, sees them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._demand = StreamDemand(
            MongoSubscriptions(parts.nodes), MongoLeasing(parts.nodes), is_served
        )
        self._workers = RedisWorkers(parts.redis, fleet=FLEET, liveness=SILENT)
        self._registry = RedisFailureDetector(parts.redis, fleet=FLEET)

    def needed(self, tree: Tree, now: datetime) -> int:
        """Return how many readers are needed now."""
        most = max(1, self._parts.settings.stream_readers)
        each = tree.stage.streams.sources_per_reader
        return readers_needed(self._demand.look(tree, now), each, most)

    def start(self, tree: Tree, now: datetime) -> int:
        """Start those who are missing, successors among them; return how many."""
        needed = self.needed(tree, now)
        if not needed:
            return 0
        overlap = timedelta(seconds=tree.stage.streams.overlap_seconds)
        wanted = readers_wanted(needed, self.living(), overlap, now)
        missing = self._workers.reserve_wake(now, wanted, most=needed)
        if missing:
            self._parts.waker_of(self._parts.settings.streams_function).wake(missing)
        return missing

    def may_leave(self, worker: str, needed: int, tree: Tree, now: datetime) -> bool:
        """Tell whether a reader may leave before its time."""
        overlap = timedelta(seconds=tree.stage.streams.overlap_seconds)
        return may_leave(worker, self.living(), needed, overlap, now)

    def living(self) -> list[Tenure]:
        """List the readers that live."""
        return [
            Tenure(
                one.worker,
                from_ms(one.worker_status.started_ms),
                from_ms(one.worker_status.ends_ms),
            )
            for one in self._registry.heartbeats()
            if timedelta(milliseconds=one.silent_ms) < SILENT
        ]
