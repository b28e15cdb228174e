"""The twin of the data queue on Redis."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from time import time_ns

from crawlfleet.model.harvest import QueuedItem
from crawlfleet.model.lane import Lane
from crawlfleet.policy.items import LANE_BYTES, LEASE_BYTES, item_ids, no_room, refuse_large


@dataclass(slots=True)
class _Items:
    """A lane's items. The right end of ``queued`` is served next."""

    data: dict[str, bytes] = field(default_factory=dict)
    queued: deque[str] = field(default_factory=deque)
    leases: dict[tuple[str, str], datetime] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)


class MemoryDataQueue:
    """ports.DataQueue in memory."""

    def __init__(self, *, lane_bytes: int = LANE_BYTES) -> None:
        self._lane_bytes = lane_bytes
        self._lanes: dict[tuple[str, str], _Items] = {}
        self._lock = Lock()
        self._put_us = 0

    def put(self, lane: Lane, items: Sequence[bytes]) -> int:
        """See ports.DataQueue.put."""
        refuse_large(items)
        with self._lock:
            mine = self._of(lane)
            size = sum(map(len, items))
            if size and sum(map(len, mine.data.values())) + size > self._lane_bytes:
                raise no_room(lane.biz, len(items))
            # Never the same time twice, as with a server that is asked over a network.
            self._put_us = max(self._put_us + 1, time_ns() // 1_000)
            for name, item in zip(item_ids(self._put_us, len(items)), items, strict=True):
                mine.data[name] = item
                mine.queued.appendleft(name)
            return len(mine.data)

    def lease(
        self, lane: Lane, token: str, count: int, now: datetime, until: datetime
    ) -> list[QueuedItem]:
        """See ports.DataQueue.lease."""
        found: list[QueuedItem] = []
        room = LEASE_BYTES
        with self._lock:
            mine = self._of(lane)
            ended = sorted((ends, held) for held, ends in mine.leases.items() if ends <= now)[
                : max(0, count)
            ]
            waiting = [(None, name) for name in reversed(mine.queued)]
            for held, name in [*((held, held[1]) for _, held in ended), *waiting]:
                data = mine.data[name]
                if len(found) >= count or (found and len(data) > room):
                    break
                if held is None:
                    mine.queued.pop()
                else:
                    del mine.leases[held]
                mine.leases[token, name] = until
                mine.tries[name] = mine.tries.get(name, 0) + 1
                found.append(QueuedItem(name, data, mine.tries[name]))
                room -= len(data)
        return found

    def finish(self, lane: Lane, token: str, items: Sequence[str]) -> int:
        """See ports.DataQueue.finish."""
        with self._lock:
            mine = self._of(lane)
            held = list(self._let_go(mine, token, items))
            for name in held:
                del mine.data[name]
                del mine.tries[name]
            return len(held)

    def give_back(self, lane: Lane, token: str, items: Sequence[str]) -> int:
        """See ports.DataQueue.give_back."""
        with self._lock:
            mine = self._of(lane)
            held = list(self._let_go(mine, token, items[::-1]))
            for name in held:
                mine.queued.append(name)
                mine.tries[name] -= 1
            return len(held)

    def waiting(self, lanes: Sequence[Lane]) -> list[int]:
        """See ports.DataQueue.waiting."""
        with self._lock:
            return [len(self._of(lane).data) for lane in lanes]

    def _of(self, lane: Lane) -> _Items:
        return self._lanes.setdefault((lane.tenant, lane.biz), _Items())

    @staticmethod
    def _let_go(mine: _Items, token: str, items: Sequence[str]) -> Iterator[str]:
        for name in items:
            if mine.leases.pop((token, name), None) is not None:
                yield name
