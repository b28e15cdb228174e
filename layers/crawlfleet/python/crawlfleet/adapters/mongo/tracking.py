"""Reading requests and records: by id, by state and time, in totals (SPEC.md A8); and cancelling."""

from collections.abc import Iterable
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Final

from pymongo import ASCENDING, ReturnDocument
from pymongo.collection import Collection

from crawlfleet.adapters.mongo.connection import Document, border
from crawlfleet.adapters.mongo.documents import (
    event,
    position_of,
    pushed,
    record_of,
    tracked_of,
)
from crawlfleet.adapters.mongo.shards import Shards
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.record import Record
from crawlfleet.model.request import State, Tracked
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.routing import all_shards, candidates, live_shards

#: No read of the API may hold a connection longer.
READ_MS: Final = 10_000


class MongoTracking:
    """The reading half of ports.RequestStore."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def get(self, lane: Lane, biz: Biz, request_id: RequestId) -> Tracked | None:
        """See ports.RequestStore.get: one look-up by primary key in the likeliest shard."""
        mine = {"_id": request_id, "tenant": lane.tenant, "biz": lane.biz}
        with border():
            for shard in candidates(biz, request_id):
                document = self._shards.requests(lane, biz, shard).find_one(
                    mine, max_time_ms=READ_MS
                )
                if document is not None:
                    return tracked_of(document)
        return None

    def cancel(
        self, lane: Lane, biz: Biz, request_id: RequestId, by: str, now: datetime
    ) -> Tracked | None:
        """See ports.RequestStore.cancel."""
        match = {
            "_id": request_id,
            "tenant": lane.tenant,
            "biz": lane.biz,
            "flag": {"$in": [int(State.PENDING), int(State.WAITING)]},
        }
        change = {
            "$set": {"flag": int(State.CANCELLED)},
            "$unset": {"due": ""},
            "$push": pushed(event(now, State.CANCELLED, by, "cancelled")),
        }
        with border():
            for shard in candidates(biz, request_id):
                document = self._shards.requests(lane, biz, shard).find_one_and_update(
                    match, change, return_document=ReturnDocument.AFTER
                )
                if document is not None:
                    return tracked_of(document)
        return self.get(lane, biz, request_id)

    def find(
        self,
        lane: Lane,
        biz: Biz,
        *,
        state: int | None,
        since: datetime | None,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> list[Tracked]:
        """See ports.RequestStore.find: one indexed query a shard, merged."""
        flags = [state] if state is not None else sorted({*State, *biz.states.values()})
        match: Document = {
            "flag": {"$in": [int(flag) for flag in flags]},
            "tenant": lane.tenant,
            "biz": lane.biz,
        }
        floor = since
        if after is not None:
            at = from_ms(after[0])
            floor = at if since is None else max(at, since)
        if floor is not None:
            match["ts"] = {"$gte": floor}

        found: list[list[Tracked]] = []
        with border():
            for shard in live_shards(biz, now):
                cursor = (
                    self._shards.requests(lane, biz, shard)
                    .find(match, max_time_ms=READ_MS)
                    .sort([("ts", ASCENDING), ("_id", ASCENDING)])
                )
                found.append(_after(map(tracked_of, cursor), after, limit))
        return list(islice(merge(*found, key=_place), limit))

    def records(
        self,
        lane: Lane,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """See ports.RequestStore.records: one indexed query a shard, merged."""
        match: Document = {"tenant": lane.tenant, "biz": lane.biz}
        if request_id is not None:
            first, last = {"r": request_id, "i": 0}, {"r": request_id, "i": 2**31 - 1}
            match["_id"] = {"$gte": first, "$lte": last}
        if after is not None:
            match["at"] = {"$gte": from_ms(after[0])}

        found: list[list[Record]] = []
        shards = candidates(biz, request_id) if request_id is not None else all_shards(biz)
        with border():
            for shard in shards:
                cursor = (
                    self._shards.records(lane, biz, shard)
                    .find(match, max_time_ms=READ_MS)
                    .sort([("at", ASCENDING), ("_id", ASCENDING)])
                )
                part: list[Record] = []
                for record in map(record_of, cursor):
                    if after is None or _record_place(record) > _record_place_of(after):
                        part.append(record)
                    if len(part) == limit:
                        break
                found.append(part)
        return list(islice(merge(*found, key=_record_place), limit))

    def totals(self, lane: Lane, biz: Biz, now: datetime) -> tuple[dict[int, int], int]:
        """See ports.RequestStore.totals: one count on the index for each shard and state."""
        flags = sorted({*State, *biz.states.values()} - {State.EXPIRED})
        counts = dict.fromkeys([*map(int, flags), int(State.EXPIRED)], 0)
        records = 0
        with border():
            for shard in live_shards(biz, now):
                requests = self._shards.requests(lane, biz, shard)
                for flag in flags:
                    counts[int(flag)] += _count(requests, {"flag": int(flag)})
            for shard in all_shards(biz):
                records += self._shards.records(lane, biz, shard).estimated_document_count()
                kept = self._shards.counts(lane, biz, shard).find_one({"_id": shard.number})
                counts[int(State.EXPIRED)] += kept["expired"] if kept else 0
        return counts, records


def _count(collection: Collection[Document], query: Document) -> int:
    # The count command runs on the index's keys alone; count_documents would read each entry.
    answer = collection.database.command("count", collection.name, query=query, maxTimeMS=READ_MS)
    return int(answer["n"])


def _place(tracked: Tracked) -> tuple[int, str, int, str]:
    return _order(to_ms(tracked.request.queued_at), tracked.request.id)


def _order(ms: int, request_id: RequestId) -> tuple[int, str, int, str]:
    # MongoDB sorts numbers before strings, numbers by value; heapq.merge must agree with it.
    if isinstance(request_id, int):
        return ms, "", request_id, ""
    return ms, "s", 0, request_id


def _after(tracked: Iterable[Tracked], after: tuple[int, str] | None, limit: int) -> list[Tracked]:
    floor = None if after is None else _order(after[0], _typed(after[1]))
    beyond = (one for one in tracked if floor is None or _place(one) > floor)
    return list(islice(beyond, limit))


def _typed(text: str) -> RequestId:
    return int(text) if text.isdigit() and len(text) < 20 else text


def _record_place(record: Record) -> tuple[int, str, int, str, int]:
    ms, _ = position_of(record)
    return (*_order(ms, record.request_id), record.index)


def _record_place_of(after: tuple[int, str]) -> tuple[int, str, int, str, int]:
    request_id, _, index = after[1].rpartition("-")
    return (*_order(after[0], _typed(request_id)), int(index))
