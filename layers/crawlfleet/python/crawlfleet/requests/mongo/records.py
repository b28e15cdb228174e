"""Records as documents; those with keys of their own, where a repeat replaces (SPEC.md B9).

A record of a page::

    _id      {r: the request's id, i: its place on the page}: a second copy is impossible
    tenant, biz, at, url, rule, version, fields
    job      the job of its request; missing where there is none
    trace    the id of its request's trace; missing where that is not traced

One with a key of its own, in a collection of its own::

    _id      {k: its key}
    request, index   whose page it was found on last, and where
    put              when the item was put that it came as, epoch ns; without one it is as old as at
    tenant, biz, at, url, rule, version, fields, job, trace
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, TypeAlias

from bson.dbref import DBRef
from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import NS_OF_MS, Record
from crawlfleet.requests.mongo import ordering, sharding
from crawlfleet.requests.mongo.sharding import BY_ID, BY_REQUEST
from crawlfleet.requests.routing import Shard, keyed_home, keyed_homes


def record_document(tenant: str, record: Record) -> Document:
    """Write a record as it is stored."""
    if record.key is None:
        place: Document = {"_id": {"r": record.request_id, "i": record.index}}
    else:
        place = {"_id": {"k": record.key}, "request": record.request_id, "index": record.index}
        if record.put is not None:
            place["put"] = record.put
    if record.job is not None:
        place["job"] = record.job
    if record.trace is not None:
        place["trace"] = record.trace
    return {
        **place,
        "tenant": tenant,
        "biz": record.biz,
        "at": record.stored_at,
        "url": record.url,
        "rule": record.rule,
        "version": record.rule_version,
        "fields": record.fields,
    }


def record_of(document: Document) -> Record:
    """Read the record in a document of either kind."""
    place: dict[str, Any] = document["_id"]
    key = place.get("k")
    request_id, index = (
        (place["r"], place["i"]) if key is None else (document["request"], document["index"])
    )
    put = document.get("put")
    return Record(
        request_id=int(request_id) if isinstance(request_id, int) else request_id,
        index=int(index),
        biz=document["biz"],
        url=document["url"],
        rule=document["rule"],
        rule_version=document["version"],
        stored_at=document["at"],
        fields=_plain(document["fields"]),
        key=key,
        put=None if put is None else int(put),
        job=document.get("job"),
        trace=document.get("trace"),
    )


def keys_of(request_id: RequestId, first: int = 0) -> Document:
    """Match the keys of a request's records, from the index ``first`` on."""
    return {"$gte": {"r": request_id, "i": first}, "$lte": {"r": request_id, "i": 2**31 - 1}}


def delete_parts(
    records: Collection[Document], documents: Iterable[Document], session: ClientSession
) -> None:
    """Delete records of requests that ended while their page was read in part: none is left."""
    for document in documents:
        if "parts" in document:
            remains = {"_id": keys_of(document["_id"])}
            records.delete_many(remains, hint=BY_ID, session=session)


def latest_of(records: Iterable[Record]) -> dict[str, Record]:
    """Return the keyed records by key: of each key the newest, or the last of these."""
    found: dict[str, Record] = {}
    for record in records:
        key = record.key
        if key is not None and (key not in found or found[key].version_ns <= record.version_ns):
            found[key] = record
    return found


def _plain(value: Any) -> Any:
    """Convert a value that was read from the driver's classes to Python's."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, DBRef):  # a mapping that a site has given such names
        value = value.as_doc()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


#: Where a list of keyed records begins: the time of storing, and the key, if it is one of these.
After: TypeAlias = tuple[int, str | None]


class KeyedRecords:
    """Store and list the keyed records of one biz: one place, where a repeat replaces."""

    def __init__(self, shards: sharding.Shards, queue_key: QueueKey, biz: Biz) -> None:
        self._shards, self._queue_key, self._biz = shards, queue_key, biz

    def home(self, now: datetime) -> Shard:
        """Return the shard they are written to, its indexes made sure of."""
        home = keyed_home(self._biz, now)
        self._shards.keyed(self._queue_key, self._biz, home, made_sure=True)
        return home

    def write(
        self, home: Shard, records: Iterable[Record], session: ClientSession | None = None
    ) -> None:
        """Store those that have keys, each replacing what under its key is not newer."""
        updates = [
            _replacing(record_document(self._queue_key.tenant, record), record.version_ns)
            for _, record in sorted(latest_of(records).items())
        ]
        if updates:
            collection = self._shards.keyed(self._queue_key, self._biz, home)
            collection.bulk_write(updates, ordered=False, session=session)

    def stored_after(self, after: After | None, limit: int) -> list[Record]:
        """List up to ``limit`` by time of storing, then by key."""
        match = {"tenant": self._queue_key.tenant, "biz": self._queue_key.biz}

        def look(home: Shard, last: Record | None) -> list[Record]:
            place = after if last is None else (to_ms(last.stored_at), last.key)
            ranges = [{"at": {"$gte": from_ms(place[0])}}] if place else [{}]
            if place is not None and place[1] is not None:
                ranges = ordering.ranges_of("at", None, (place[0], {"k": place[1]}))
            collection = self._shards.keyed(self._queue_key, self._biz, home)
            found = ordering.ordered(collection, match, ranges, "at", sharding.BY_STORING, limit)
            return [record_of(document) for document in found]

        parts = self._current(look, limit)
        return list(islice(merge(*parts, key=lambda r: (to_ms(r.stored_at), r.key)), limit))

    def of_request(self, request_id: RequestId, after: str | None, limit: int) -> list[Record]:
        """List up to ``limit`` that were found last on the page of this request, by key."""
        mine = {"request": request_id, "tenant": self._queue_key.tenant, "biz": self._queue_key.biz}

        def look(home: Shard, last: Record | None) -> list[Record]:
            key = after if last is None else last.key
            match = mine if key is None else {**mine, "_id": {"$gt": {"k": key}}}
            collection = self._shards.keyed(self._queue_key, self._biz, home)
            found = collection.find(match, hint=BY_REQUEST).sort(["request", "_id"]).limit(limit)
            return [record_of(document) for document in found]

        parts = self._current(look, limit)
        return list(islice(merge(*parts, key=lambda r: r.key or ""), limit))

    def count(self) -> int:
        """Estimate their number; what was replaced since an older home counts twice."""
        return sum(
            self._shards.keyed(self._queue_key, self._biz, home).estimated_document_count()
            for home in keyed_homes(self._biz)
        )

    def _current(
        self, look: Callable[[Shard, Record | None], list[Record]], limit: int
    ) -> list[list[Record]]:
        """List up to ``limit`` records of each home, without those that a newer home has replaced.

        ``look`` gives the next ones at a home after a record, or the first ones.
        """
        found: list[list[Record]] = []
        newer: list[Shard] = []
        for home in keyed_homes(self._biz):
            mine: list[Record] = []
            last: Record | None = None
            while len(mine) < limit:
                page = look(home, last)
                replaced = self._there(newer, page)
                mine += [record for record in page if record.key not in replaced]
                if len(page) < limit:
                    break
                last = page[-1]
            found.append(mine)
            newer.append(home)
        return found

    def _there(self, homes: Sequence[Shard], records: Sequence[Record]) -> set[str | None]:
        """Return the keys of these that any of the homes has."""
        if not records:
            return set()
        match = {"_id": {"$in": [{"k": record.key} for record in records]}}
        return {
            document["_id"]["k"]
            for home in homes
            for document in self._shards.keyed(self._queue_key, self._biz, home).find(
                match, projection=["_id"], hint=BY_ID
            )
        }


def _replacing(document: Document, version_ns: int) -> UpdateOne:
    """Replace a document unless what has its key is newer (requests.models).

    One statement, so that two writers of a key need not know of each other. Nothing in a document
    is taken for an expression. Its time of storing never goes back: a reader that goes on from
    there would miss it.
    """
    there = {"$ifNull": ["$put", {"$multiply": [{"$toLong": "$at"}, NS_OF_MS]}]}
    at = {"$max": ["$at", {"$literal": document["at"]}]}
    replaced = {"$mergeObjects": [{"$literal": document}, {"at": at}]}
    change = {"$cond": [{"$gt": [there, version_ns]}, "$$ROOT", replaced]}
    return UpdateOne({"_id": document["_id"]}, [{"$replaceWith": change}], upsert=True, hint=BY_ID)
