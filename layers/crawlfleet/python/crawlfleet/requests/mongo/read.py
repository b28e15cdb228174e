"""Requests and records read by id, state and time, and in totals (SPEC.md A8); one cancelled."""

from datetime import datetime
from heapq import merge
from itertools import islice

from pymongo import ASCENDING, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document, border, in_transaction
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import KEY_BYTES, Record, Tracked
from crawlfleet.requests.mongo.documents import book, event, pushed, tally_of, tracked_of
from crawlfleet.requests.mongo.records import KeyedRecords, delete_parts, keys_of, record_of
from crawlfleet.requests.mongo.sharding import (
    BY_ID,
    BY_STATE,
    BY_STORING,
    Shards,
    order,
    ordered,
    ranges_of,
    typed,
)
from crawlfleet.requests.routing import all_shards, candidates, live_shards


class MongoTracking:
    """Read requests and records; cancel one request."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

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
        """Cancel a pending or waiting request; return it as it then stands, None if unknown."""
        match = {
            "_id": request_id,
            "tenant": queue_key.tenant,
            "biz": queue_key.biz,
            "flag": {"$in": [int(State.PENDING), int(State.WAITING)]},
        }
        change = {
            "$set": {"flag": int(State.CANCELLED)},
            "$unset": {"due": ""},
            "$push": pushed(event(now, State.CANCELLED, by, "cancelled")),
        }
        with border():
            for shard in candidates(biz, request_id):
                requests = self._shards.requests(queue_key, biz, shard)
                records = self._shards.records(queue_key, biz, shard)
                if requests.find_one(match, projection=["_id"], hint=BY_ID) is None:
                    continue
                counts = self._shards.counts(queue_key, biz, shard, made_sure=True)

                def write(
                    session: ClientSession,
                    requests: Collection[Document] = requests,
                    counts: Collection[Document] = counts,
                    records: Collection[Document] = records,
                ) -> Document | None:
                    document = requests.find_one_and_update(
                        match,
                        change,
                        return_document=ReturnDocument.AFTER,
                        hint=BY_ID,
                        session=session,
                    )
                    if document is not None:
                        book(counts, tally_of([document.get("job")], "cancelled"), now, session)
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
        *,
        state: int | None,
        since: datetime | None,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> list[Tracked]:
        """List requests by time of queueing, oldest first, after the position ``(ts, id)``.

        One indexed query a shard, merged.
        """
        flags = [state] if state is not None else sorted({*State, *biz.states.values()})
        match: Document = {
            "flag": {"$in": [int(flag) for flag in flags]},
            "tenant": queue_key.tenant,
            "biz": queue_key.biz,
        }
        ranges = ranges_of("ts", since, None if after is None else (after[0], typed(after[1])))
        found: list[list[Tracked]] = []
        with border():
            for shard in live_shards(biz, now):
                collection = self._shards.requests(queue_key, biz, shard)
                documents = ordered(collection, match, ranges, "ts", BY_STATE, limit)
                found.append([tracked_of(document) for document in documents])
        return list(islice(merge(*found, key=_place), limit))

    def records(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """List records by time of storing, oldest first, after the position ``(ms, record id)``.

        One indexed query a shard, merged.
        """
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
                documents = ordered(collection, match, ranges, "at", BY_STORING, limit)
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
        """Estimate how many records there are; exact unless a node has just crashed.

        What the collections know of themselves.
        """
        with border(self._shards.waits.glance):
            return KeyedRecords(self._shards, queue_key, biz).count() + sum(
                self._shards.records(queue_key, biz, shard).estimated_document_count()
                for shard in all_shards(biz)
            )


def _place(tracked: Tracked) -> tuple[int, str, int, str]:
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
