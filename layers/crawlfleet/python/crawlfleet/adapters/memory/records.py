"""The records of the twin of MongoDB's request store."""
# ruff: noqa: ARG002  the port hands every method what a store with shards needs

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from crawlfleet.adapters.memory.kept import Kept, KeptState, place, typed
from crawlfleet.adapters.memory.storable import why_not
from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.record import Record
from crawlfleet.model.request import Claim, State
from crawlfleet.model.times import to_ms
from crawlfleet.policy.record_keys import KEY_BYTES

#: Within one millisecond those with keys of their own come last, as in MongoDB.
_Place: TypeAlias = tuple[int, int, int, str, int]


class MemoryRecords:
    """The part of ports.RequestStore that is about records."""

    def __init__(self, state: KeptState) -> None:
        self.state = state

    def store_part(
        self, lane: Lane, biz: Biz, claim: Claim, records: Sequence[Record], now: datetime
    ) -> bool:
        """See ports.RequestStore.store_part."""
        _refuse(records)
        with self.state.lock:
            kept = self.owned(lane, claim)
            if kept is None:
                return False
            kept.parts += 1
            self.state.of(lane).keep(records)
            return True

    def store_keyed(self, lane: Lane, biz: Biz, records: Sequence[Record], now: datetime) -> None:
        """See ports.RequestStore.store_keyed."""
        _refuse(records)
        with self.state.lock:
            self.state.of(lane).keep(record for record in records if record.key is not None)

    def records(
        self,
        lane: Lane,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """See ports.RequestStore.records."""
        with self.state.lock:
            mine = self.state.of(lane)
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

    def record_count(self, lane: Lane, biz: Biz) -> int:
        """See ports.RequestStore.record_count."""
        with self.state.lock:
            mine = self.state.of(lane)
            return len(mine.records) + len(mine.keyed)

    def owned(self, lane: Lane, claim: Claim) -> Kept | None:
        """The request, if the claim's token owns it."""
        kept = self.state.of(lane).requests.get(claim.request.id)
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
