"""In-memory fakes keep records, the data queue and the coverage of rules."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from time import time_ns
from typing import TypeAlias

from tests.fakes.request_state import Kept, KeptState, place, typed, why_not
from tests.kit.config import Biz
from tests.kit.extract import MOST_VERSIONS, countable, together
from tests.kit.kernel import QueueKey, RequestId, StoreError, to_ms
from tests.kit.records import KEY_BYTES, LEASE_BYTES, QUEUE_BYTES, item_ids, no_room, refuse_large
from tests.kit.requests import Claim, Coverage, HourCoverage, QueuedItem, Record, State

#: Within one millisecond those with keys of their own come last, as in MongoDB.
_Place: TypeAlias = tuple[int, int, int, str, int]


class MemoryRecords:
    """In-memory ``MongoRequestStore``: the part that stores records."""

    def __init__(self, state: KeptState) -> None:
        self.state = state

    def store_part(
        self, queue_key: QueueKey, biz: Biz, claim: Claim, records: Sequence[Record], now: datetime
    ) -> bool:
        _refuse(records)
        with self.state.lock:
            kept = self.owned(queue_key, claim)
            if kept is None:
                return False
            kept.parts += 1
            self.state.of(queue_key).keep(records)
            return True

    def store_keyed(
        self, queue_key: QueueKey, biz: Biz, records: Sequence[Record], now: datetime
    ) -> None:
        _refuse(records)
        with self.state.lock:
            self.state.of(queue_key).keep(record for record in records if record.key is not None)

    def records(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        with self.state.lock:
            mine = self.state.of(queue_key)
            found = [
                record
                for record in (*mine.records.values(), *mine.keyed.values())
                if request_id is None or record.request_id == request_id
            ]
        if request_id is None:
            placed = sorted(((_place(record), record) for record in found), key=_first)
            floor = None if after is None else _place_after(*after)
        else:  # a repeat may have moved a keyed one in time: these go by their keys
            placed = sorted(((_on_page(record), record) for record in found), key=_first)
            floor = None if after is None else _on_page_after(request_id, after[1])
        return [record for at, record in placed if floor is None or at > floor][:limit]

    def record_count(self, queue_key: QueueKey, biz: Biz) -> int:
        with self.state.lock:
            mine = self.state.of(queue_key)
            return len(mine.records) + len(mine.keyed)

    def owned(self, queue_key: QueueKey, claim: Claim) -> Kept | None:
        """The request, if the claim's token owns it."""
        kept = self.state.of(queue_key).requests.get(claim.request.id)
        owns = kept is not None and kept.state == State.LEASED and kept.token == claim.token
        return kept if owns else None


def _refuse(records: Sequence[Record]) -> None:
    problem = why_not(records)
    if problem is not None:
        raise StoreError(f"the store cannot hold it: {problem}")


def _first(pair: tuple[_Place, Record]) -> _Place:
    return pair[0]


def _place(record: Record) -> _Place:
    ms = to_ms(record.stored_at)
    if record.key is not None:
        return ms, 2, 0, record.key, 0
    return (*place(ms, record.request_id), record.index)


def _place_after(ms: int, record_id: str) -> _Place:
    if _is_key(record_id):
        return ms, 2, 0, record_id, 0
    owner, _, index = record_id.partition("-")
    return (*place(ms, typed(owner)), int(index) if index else -1)


def _on_page(record: Record) -> _Place:
    if record.key is not None:
        return 0, 2, 0, record.key, 0
    return 0, 0, 0, "", record.index


def _on_page_after(request_id: RequestId, record_id: str) -> _Place:
    if _is_key(record_id):
        return 0, 2, 0, record_id, 0
    owner, _, index = record_id.partition("-")
    return 0, 0, 0, "", int(index) if index and typed(owner) == request_id else -1


def _is_key(record_id: str) -> bool:
    return len(record_id) == 2 * KEY_BYTES


class MemoryAnnounced:
    """The data queues that were announced, each until it is forgotten."""

    def __init__(self) -> None:
        self._announced: dict[QueueKey, int] = {}

    def announce(self, queues: Iterable[QueueKey]) -> None:
        self._announced |= dict.fromkeys(queues, 0)

    def listed(self) -> dict[QueueKey, int]:
        return dict(self._announced)

    def forget(self, seen: Mapping[QueueKey, int]) -> int:
        for queue_key in seen:
            del self._announced[queue_key]
        return len(seen)


@dataclass(slots=True)
class _Items:
    """A queue key's items. The right end of ``queued`` is served next."""

    data: dict[str, bytes] = field(default_factory=dict)
    queued: deque[str] = field(default_factory=deque)
    leases: dict[tuple[str, str], datetime] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)


class MemoryDataQueue:
    """In-memory ``RedisDataQueue``."""

    def __init__(self, *, queue_bytes: int = QUEUE_BYTES) -> None:
        self.open = MemoryAnnounced()
        self._queue_bytes = queue_bytes
        self._queues: dict[tuple[str, str], _Items] = {}
        self._lock = Lock()
        self._put_us = 0

    def put(self, queue_key: QueueKey, items: Sequence[bytes]) -> int:
        refuse_large(items)
        with self._lock:
            mine = self._of(queue_key)
            size = sum(map(len, items))
            if size and sum(map(len, mine.data.values())) + size > self._queue_bytes:
                raise no_room(queue_key.biz, len(items))
            # Never the same time twice, as with a server that is asked over a network.
            self._put_us = max(self._put_us + 1, time_ns() // 1_000)
            for name, item in zip(item_ids(self._put_us, len(items)), items, strict=True):
                mine.data[name] = item
                mine.queued.appendleft(name)
            return len(mine.data)

    def lease(
        self, queue_key: QueueKey, token: str, count: int, now: datetime, until: datetime
    ) -> list[QueuedItem]:
        found: list[QueuedItem] = []
        room = LEASE_BYTES
        with self._lock:
            mine = self._of(queue_key)
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

    def finish(self, queue_key: QueueKey, token: str, items: Sequence[str]) -> int:
        with self._lock:
            mine = self._of(queue_key)
            held = list(self._let_go(mine, token, items))
            for name in held:
                del mine.data[name]
                del mine.tries[name]
            return len(held)

    def give_back(self, queue_key: QueueKey, token: str, items: Sequence[str]) -> int:
        with self._lock:
            mine = self._of(queue_key)
            held = list(self._let_go(mine, token, items[::-1]))
            for name in held:
                mine.queued.append(name)
                mine.tries[name] -= 1
            return len(held)

    def waiting(self, queues: Sequence[QueueKey]) -> list[int]:
        with self._lock:
            return [len(self._of(queue_key).data) for queue_key in queues]

    def _of(self, queue_key: QueueKey) -> _Items:
        return self._queues.setdefault((queue_key.tenant, queue_key.biz), _Items())

    @staticmethod
    def _let_go(mine: _Items, token: str, items: Sequence[str]) -> Iterator[str]:
        for name in items:
            if mine.leases.pop((token, name), None) is not None:
                yield name


class MemoryCoverages:
    """In-memory ``RedisCoverages``."""

    def __init__(self) -> None:
        # The last one was counted last.
        self._counts: dict[tuple[str, str], dict[tuple[str, str], Coverage]] = {}
        self._lock = Lock()
        self._hours: dict[tuple[str, str], dict[tuple[datetime, str, str], Coverage]] = {}
        self.clock: Callable[[], datetime] = partial(datetime.now, UTC)

    def by_hour(self, queue_key: QueueKey) -> list[HourCoverage]:
        with self._lock:
            mine = self._hours.get((queue_key.tenant, queue_key.biz), {})
            return [
                HourCoverage(started_at=at, rule=rule, version=version, coverage=coverage)
                for (at, rule, version), coverage in sorted(mine.items(), key=lambda one: one[0])
            ]

    def add(self, queue_key: QueueKey, rule: str, version: str, coverage: Coverage) -> None:
        with self._lock:
            hours = self._hours.setdefault((queue_key.tenant, queue_key.biz), {})
            hour = self.clock().replace(minute=0, second=0, microsecond=0), rule, version
            hours[hour] = together(hours.get(hour, Coverage()), countable(coverage))
            mine = self._counts.setdefault((queue_key.tenant, queue_key.biz), {})
            before = mine.pop((rule, version), Coverage())
            mine[rule, version] = together(before, countable(coverage))
            if len(mine) > MOST_VERSIONS:
                del mine[next(iter(mine))]

    def of(self, queue_key: QueueKey) -> dict[tuple[str, str], Coverage]:
        with self._lock:
            return dict(self._counts.get((queue_key.tenant, queue_key.biz), {}))
