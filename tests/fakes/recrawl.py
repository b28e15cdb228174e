"""An in-memory fake keeps visits of pages for as long as the process lives."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from tests.kit.config import Biz
from tests.kit.kernel import QueueKey, from_ms, to_ms
from tests.kit.recrawl import META_ROOM, with_room
from tests.kit.requests import Visit, VisitTotals


class MemoryVisits:
    """In-memory ``MongoVisits``."""

    def __init__(self, *, meta_room: int = META_ROOM) -> None:
        self._meta_room = meta_room
        self._kept: dict[tuple[str, str], dict[str, Visit]] = defaultdict(dict)
        self._lock = threading.Lock()

    def known(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> dict[str, Visit]:
        with self._lock:
            kept = self._of(queue_key)
            return {key: kept[key] for key in keys if key in kept}

    def saw(self, queue_key: QueueKey, biz: Biz, visits: Sequence[Visit]) -> None:
        with self._lock:
            kept = self._of(queue_key)
            for visit in visits:
                standing = kept.get(visit.key)
                if standing is None or standing.visited_at <= visit.visited_at:
                    kept[visit.key] = visit

    def spared(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> None:
        with self._lock:
            kept = self._of(queue_key)
            for key in keys:
                if key in kept:
                    kept[key] = replace(kept[key], spared=kept[key].spared + 1)

    def due(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> list[Visit]:
        with self._lock:
            found = [
                (visit.next_at, visit.key, visit)
                for visit in self._of(queue_key).values()
                if visit.next_at is not None and visit.next_at <= now
            ]
        first = sorted(found, key=lambda one: one[:2])[:limit]
        sized = ((visit, len(msgspec.msgpack.encode(visit.meta))) for *_, visit in first)
        return with_room(sized, self._meta_room)

    def put_off(
        self,
        queue_key: QueueKey,
        biz: Biz,
        offs: Sequence[tuple[Visit, datetime]],
    ) -> list[Visit]:
        mine = []
        with self._lock:
            kept = self._of(queue_key)
            for visit, until in offs:
                standing = kept.get(visit.key)
                if standing is not None and standing.next_at == visit.next_at:
                    next_at = from_ms(to_ms(until))
                    kept[visit.key] = replace(standing, next_at=next_at)
                    mine.append(replace(visit, next_at=next_at))
        return mine

    def totals(self, queue_key: QueueKey, biz: Biz, now: datetime) -> VisitTotals:
        with self._lock:
            kept = list(self._of(queue_key).values())
        return VisitTotals(
            pages=len(kept),
            visits=sum(visit.visits for visit in kept),
            changes=sum(visit.changes for visit in kept),
            saved=sum(visit.saved for visit in kept),
            spared=sum(visit.spared for visit in kept),
            due=sum(visit.next_at is not None and visit.next_at <= now for visit in kept),
        )

    def _of(self, queue_key: QueueKey) -> dict[str, Visit]:
        return self._kept[queue_key.tenant, queue_key.biz]
