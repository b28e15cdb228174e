"""Records that have keys of their own (SPEC.md B9): one place a biz, where a repeat replaces."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import TypeAlias

from pymongo import ASCENDING, UpdateOne
from pymongo.client_session import ClientSession

from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.adapters.mongo.paging import ordered, ranges_of
from crawlfleet.adapters.mongo.record_documents import latest_of, record_document, record_of
from crawlfleet.adapters.mongo.shards import BY_ID, BY_REQUEST, BY_STORING, Shards
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.record import NS_OF_MS, Record
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.routing import Shard, keyed_home, keyed_homes

#: Where a list of keyed records begins: the time of storing, and the key, if it is one of these.
After: TypeAlias = tuple[int, str | None]


class KeyedRecords:
    """The keyed records of one biz."""

    def __init__(self, shards: Shards, lane: Lane, biz: Biz) -> None:
        self._shards = shards
        self._lane = lane
        self._biz = biz

    def home(self, now: datetime) -> Shard:
        """Where they are written; its indexes are made sure of."""
        home = keyed_home(self._biz, now)
        self._shards.keyed(self._lane, self._biz, home, made_sure=True)
        return home

    def write(
        self, home: Shard, records: Iterable[Record], session: ClientSession | None = None
    ) -> None:
        """Store those that have keys, each replacing what under its key is not newer."""
        updates = [
            _replacing(record_document(self._lane.tenant, record), record.version_ns)
            for _, record in sorted(latest_of(records).items())
        ]
        if updates:
            collection = self._shards.keyed(self._lane, self._biz, home)
            collection.bulk_write(updates, ordered=False, session=session)

    def stored_after(self, after: After | None, limit: int) -> list[Record]:
        """Up to ``limit`` by time of storing, then by key."""
        match = {"tenant": self._lane.tenant, "biz": self._lane.biz}

        def look(home: Shard, last: Record | None) -> list[Record]:
            place = after if last is None else (to_ms(last.stored_at), last.key)
            ranges = [{"at": {"$gte": from_ms(place[0])}}] if place else [{}]
            if place is not None and place[1] is not None:
                ranges = ranges_of("at", None, (place[0], {"k": place[1]}))
            collection = self._shards.keyed(self._lane, self._biz, home)
            found = ordered(collection, match, ranges, "at", BY_STORING, limit)
            return [record_of(document) for document in found]

        parts = self._current(look, limit)
        return list(islice(merge(*parts, key=lambda r: (to_ms(r.stored_at), r.key)), limit))

    def of_request(self, request_id: RequestId, after: str | None, limit: int) -> list[Record]:
        """Up to ``limit`` that were found last on the page of this request, by key."""
        mine = {"request": request_id, "tenant": self._lane.tenant, "biz": self._lane.biz}

        def look(home: Shard, last: Record | None) -> list[Record]:
            key = after if last is None else last.key
            match = mine if key is None else {**mine, "_id": {"$gt": {"k": key}}}
            found = (
                self._shards.keyed(self._lane, self._biz, home)
                .find(match, hint=BY_REQUEST)
                .sort([("request", ASCENDING), ("_id", ASCENDING)])
                .limit(limit)
            )
            return [record_of(document) for document in found]

        parts = self._current(look, limit)
        return list(islice(merge(*parts, key=lambda r: r.key or ""), limit))

    def count(self) -> int:
        """About how many there are; what was replaced since an older home counts twice."""
        return sum(
            self._shards.keyed(self._lane, self._biz, home).estimated_document_count()
            for home in keyed_homes(self._biz)
        )

    def _current(
        self, look: Callable[[Shard, Record | None], list[Record]], limit: int
    ) -> list[list[Record]]:
        """Up to ``limit`` records of each home, without those that a newer home has replaced.

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
        """The keys of these that any of the homes has."""
        if not records:
            return set()
        match = {"_id": {"$in": [{"k": record.key} for record in records]}}
        return {
            document["_id"]["k"]
            for home in homes
            for document in self._shards.keyed(self._lane, self._biz, home).find(
                match, projection=["_id"], hint=BY_ID
            )
        }


def _replacing(document: Document, version_ns: int) -> UpdateOne:
    """Stores a document unless what has its key is newer (model.record).

    One statement, so that two writers of a key need not know of each other. Nothing in a document
    is taken for an expression. Its time of storing never goes back: whoever reads on from there
    would miss it.
    """
    there = {"$ifNull": ["$put", {"$multiply": [{"$toLong": "$at"}, NS_OF_MS]}]}
    at = {"$max": ["$at", {"$literal": document["at"]}]}
    replaced = {"$mergeObjects": [{"$literal": document}, {"at": at}]}
    change = {"$cond": [{"$gt": [there, version_ns]}, "$$ROOT", replaced]}
    return UpdateOne({"_id": document["_id"]}, [{"$replaceWith": change}], upsert=True, hint=BY_ID)
