"""Requests and records read by id, state and time, and in totals (SPEC.md A8); one cancelled."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Final, TypeAlias

from pymongo import ASCENDING, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import OWN, RequestId, State
from crawlfleet.kernel.mongo.connection import Document, border
from crawlfleet.kernel.mongo.transactions import in_transaction
from crawlfleet.kernel.paging import Position
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import ALL_REQUESTS, KEY_BYTES, Body, Record, RequestFilter, Tracked
from crawlfleet.requests.mongo import sharding
from crawlfleet.requests.mongo.documents import (
    UNLEASED,
    book,
    event,
    pushed,
    tally_of,
    tracked_of,
)
from crawlfleet.requests.mongo.ordering import order, ordered, ranges_of, typed
from crawlfleet.requests.mongo.records import KeyedRecords, delete_parts, keys_of, record_of
from crawlfleet.requests.mongo.sharding import BY_ID, BY_STATE
from crawlfleet.requests.routing import Shard, all_shards, candidates, live_shards

#: Bodies that one search reads, over all shards; and of each one at least.
SCAN: Final = 4_000
LEAST_SCAN: Final = 100
_BODY: Final = ("tenant", "biz", "ts", "data", "job", "priority", "pool")
#: A request without its timeline and its error.
_BRIEF: Final = (*_BODY, "flag", "attempts", "reason")

#: Sorts as the index does.
_Place: TypeAlias = tuple[int, str, int, str]


class MongoTracking:
    """Read requests and records; cancel one request. A search reads about ``scan`` bodies."""

    def __init__(
        self, shards: sharding.Shards, scan: int = SCAN, least_scan: int = LEAST_SCAN
    ) -> None:
        self._shards = shards
        self._scan, self._least_scan = scan, least_scan

    def get(self, queue_key: QueueKey, biz: Biz, request_id: RequestId) -> Tracked | None:
        """Get everything about one request, or None, by its primary key in the likeliest shard."""
        mine = {"_id": request_id, "tenant": queue_key.tenant, "biz": queue_key.biz}
        with border():
            for shard in candidates(biz, request_id):
                document = self._shards.requests(queue_key, biz, shard).find_one(mine)
                if document is not None:
                    return tracked_of(document)
        return None

    def cancel(
        self, queue_key: QueueKey, biz: Biz, request_id: RequestId, by: str, now: datetime
    ) -> Tracked | None:
        """Cancel a request that is open and not leased; return it as it then stands.

        None if it is unknown.
        """
        match = {
            "_id": request_id,
            "tenant": queue_key.tenant,
            "biz": queue_key.biz,
            "flag": UNLEASED,
        }
        change = {
            "$set": {"flag": int(State.CANCELLED)},
            "$unset": {"due": ""},
            "$push": pushed(event(now, State.CANCELLED, by, "cancelled")),
        }
        with border():
            for shard in candidates(biz, request_id):
                requests = self._shards.requests(queue_key, biz, shard)
                if requests.find_one(match, projection=["_id"], hint=BY_ID) is None:
                    continue
                self._shards.counts(queue_key, biz, shard, made_sure=True)

                def write(session: ClientSession, shard: Shard = shard) -> Document | None:
                    requests = self._shards.requests(queue_key, biz, shard)
                    document = requests.find_one_and_update(
                        match,
                        change,
                        return_document=ReturnDocument.AFTER,
                        hint=BY_ID,
                        session=session,
                    )
                    if document is not None:
                        counts = self._shards.counts(queue_key, biz, shard)
                        book(counts, tally_of([document.get("job")], "cancelled"), now, session)
                        records = self._shards.records(queue_key, biz, shard)
                        delete_parts(records, [document], session)
                    return document

                document = in_transaction(self._shards.client(shard), write)
                if document is not None:
                    return tracked_of(document)
        return self.get(queue_key, biz, request_id)

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        wanted: RequestFilter = ALL_REQUESTS,
        *,
        after: Position | None = None,
        limit: int,
        now: datetime,
        brief: bool = False,
    ) -> list[Tracked]:
        """List requests by ``(ts, id)``, after a position: one indexed query a shard, merged.

        Those that are ``brief`` come without timelines and errors.
        """
        fields = _BRIEF if brief else None
        found: list[list[Tracked]] = []
        with border():
            for shard in live_shards(biz, now):
                requests = self._shards.requests(queue_key, biz, shard)
                match = _match(requests, queue_key, wanted)
                documents = _read(requests, match, wanted, after, limit, fields)
                found.append([tracked_of(document) for document in documents])
        return list(islice(merge(*found, key=_place, reverse=wanted.newest), limit))

    def search(
        self,
        queue_key: QueueKey,
        biz: Biz,
        wanted: RequestFilter,
        is_wanted: Callable[[Body], bool],
        *,
        after: Position | None = None,
        limit: int,
        now: datetime,
    ) -> tuple[list[Tracked], Position | None]:
        """List up to ``limit`` requests whose bodies are wanted, which no index tells.

        About ``scan`` bodies are read, over all shards. Where others may follow, the position from
        where to go on comes with what was found.
        """
        shards = live_shards(biz, now)
        many = max(self._scan // len(shards), self._least_scan)
        found: list[Tracked] = []
        ends: list[_Place] = []
        with border():
            for shard in shards:
                requests = self._shards.requests(queue_key, biz, shard)
                match = _match(requests, queue_key, wanted)
                read = list(_read(requests, match, wanted, after, many, _BRIEF))
                if len(read) == many:
                    ends.append(order(to_ms(read[-1]["ts"]), read[-1]["_id"]))
                bodies = ((one["_id"], tracked_of(one).request.body) for one in read)
                ids = [own_id for own_id, body in bodies if is_wanted(body)][: limit + 1]
                chosen = requests.find({"_id": {"$in": ids}, **match}, hint=BY_ID)
                found += map(tracked_of, chosen)
        first = max if wanted.newest else min
        end = first(ends, default=None)
        found.sort(key=_place, reverse=wanted.newest)
        found = [one for one in found if end is None or first(_place(one), end) == _place(one)]
        if len(found) > limit:
            found, end = found[:limit], _place(found[limit - 1])
        return found, None if end is None else (end[0], end[3] or str(end[2]))

    def records(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """List records by ``(ms, record id)``, after a position: one indexed query a shard."""
        match: Document = {"tenant": queue_key.tenant, "biz": queue_key.biz}
        keyed = KeyedRecords(self._shards, queue_key, biz)
        if request_id is not None:
            with border():
                return self._records_of(queue_key, biz, keyed, request_id, match, after, limit)
        at, key = (None, None) if after is None else (after[0], _key_in(after[1]))
        if at is None:
            ranges: list[Document] = [{}]
        elif key is not None:  # keyed records come after the others of their millisecond
            ranges = [{"at": {"$gt": from_ms(at)}}]
        else:
            owner, index = _split(after[1] if after else "")
            ranges = ranges_of("at", None, (at, {"r": owner, "i": index}))
        found: list[list[Record]] = []
        with border():
            for shard in all_shards(biz):
                collection = self._shards.records(queue_key, biz, shard)
                documents = ordered(collection, match, ranges, "at", sharding.BY_STORING, limit)
                found.append([record_of(document) for document in documents])
            found.append(keyed.stored_after(None if at is None else (at, key), limit))
        return list(islice(merge(*found, key=_record_place), limit))

    def _records_of(
        self,
        queue_key: QueueKey,
        biz: Biz,
        keyed: KeyedRecords,
        request_id: RequestId,
        match: Document,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """List the records of one request: those of its place first, then the keyed ones."""
        key = None if after is None else _key_in(after[1])
        found: list[Record] = []
        if key is None:
            match = {**match, "_id": keys_of(request_id)}
            if after is not None and _split(after[1])[0] == request_id:
                match["_id"] = {**match["_id"], "$gt": {"r": request_id, "i": _split(after[1])[1]}}
            for shard in candidates(biz, request_id):
                collection = self._shards.records(queue_key, biz, shard)
                cursor = collection.find(match, hint=BY_ID).sort("_id", ASCENDING).limit(limit)
                found = [record_of(document) for document in cursor]
                if found:
                    break
        left = limit - len(found)
        return found + keyed.of_request(request_id, key, left) if left > 0 else found

    def record_count(self, queue_key: QueueKey, biz: Biz) -> int:
        """Estimate how many records there are; exact unless a node has just crashed."""
        with border(self._shards.waits.glance):
            return KeyedRecords(self._shards, queue_key, biz).count() + sum(
                self._shards.records(queue_key, biz, shard).estimated_document_count()
                for shard in all_shards(biz)
            )


def _match(requests: Collection[Document], queue_key: QueueKey, wanted: RequestFilter) -> Document:
    """Match requests in terms of the index that has them in order."""
    flags = [*map(int, State), *_own(requests)] if wanted.state is None else [wanted.state]
    mine = {"flag": {"$in": flags}, "tenant": queue_key.tenant, "biz": queue_key.biz}
    return mine if wanted.job is None else {**mine, "job": wanted.job}


def _read(
    requests: Collection[Document],
    match: Document,
    wanted: RequestFilter,
    after: Position | None,
    limit: int,
    fields: Sequence[str] | None,
) -> Iterator[Document]:
    """Read those after a position, in order, along an index."""
    place = None if after is None else (after[0], typed(after[1]))
    ranges = ranges_of("ts", wanted.since, place, newest=wanted.newest)
    index = BY_STATE if wanted.job is None else sharding.BY_JOB
    return ordered(requests, match, ranges, "ts", index, limit, fields, newest=wanted.newest)


def _own(requests: Collection[Document]) -> list[int]:
    """Return the states of the biz's own that requests are in: one step of the index for each."""
    pipeline: list[Document] = [
        {"$match": {"flag": {"$gte": OWN}}},
        {"$group": {"_id": "$flag"}},
    ]
    return [int(one["_id"]) for one in requests.aggregate(pipeline, hint=sharding.BY_STATE)]


def _place(tracked: Tracked) -> _Place:
    return order(to_ms(tracked.request.queued_at), tracked.request.id)


def _split(record_id: str) -> tuple[RequestId, int]:
    owner, _, index = record_id.partition("-")
    # A bare id, such as the 0 of a cursor that stands before all, is before its records.
    return typed(owner), int(index) if index else -1


def _key_in(record_id: str) -> str | None:
    """Return the key in a record's id, None for an id made of request and place."""
    return record_id if len(record_id) == 2 * KEY_BYTES else None


def _record_place(record: Record) -> tuple[int, str, int, str, int]:
    if record.key is not None:
        return to_ms(record.stored_at), "k", 0, record.key, 0
    ms, kind, number, text = order(to_ms(record.stored_at), record.request_id)
    return ms, f"a{kind}", number, text, record.index
