"""Search of records by job, rule, time, host and field, from either end of time (SPEC.md A8, B9).

Records of a job are found by an index of their own (requests.mongo.sharding); everything else goes
along the index by time, or that of the job. A search that looks into records reads a bounded number
of the index's keys, and says how far it came. The plain list of all, oldest first, is in
requests.mongo.read.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from heapq import merge
from typing import Final, TypeAlias

import msgspec
from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.mongo.connection import Document, border
from crawlfleet.kernel.paging import Position
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import KEY_BYTES, Record, RecordFilter, RecordPage
from crawlfleet.requests.mongo.ordering import order, typed
from crawlfleet.requests.mongo.records import record_of
from crawlfleet.requests.mongo.sharding import BY_ID, BY_JOB, BY_STORING, Shards
from crawlfleet.requests.routing import all_shards, keyed_homes

#: Keys of an index that one search reads, over all collections; and of each one at least.
SCAN: Final = 4_000
LEAST_SCAN: Final = 100
#: Values by which a field counts as empty, as in the coverage of rules.
_EMPTY: Final[list[object]] = [None, "", [], {}]
_BAD_VALUE: Final = 2

#: Sorts as the plain list of records does: by time, then those without keys of their own.
_Place: TypeAlias = tuple[int, str, int, str, int]


class MongoRecordSearch:
    """Find records; one search reads about ``scan`` keys."""

    def __init__(self, shards: Shards, scan: int = SCAN, least_scan: int = LEAST_SCAN) -> None:
        self._shards = shards
        self._scan, self._least_scan = scan, least_scan

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        wanted: RecordFilter,
        *,
        after: Position | None,
        limit: int,
    ) -> RecordPage:
        """List up to ``limit`` records by time of storing, after a position in that order.

        Where it ends before all were read, or there are more than asked for, the page says from
        where to go on.
        """
        mine = {"tenant": queue_key.tenant, "biz": queue_key.biz}
        shards, homes = all_shards(biz), keyed_homes(biz)
        many = max(self._scan // (len(shards) + len(homes)), self._least_scan)
        found: list[list[Record]] = []
        reached: list[_Place] = []
        newer: list[Collection[Document]] = []
        with border():
            for shard in shards:
                collection = self._shards.records(queue_key, biz, shard)
                ranges = _ranges(wanted, after, keyed=False)
                documents, end = _search(collection, mine, wanted, ranges, many, limit + 1)
                found.append([record_of(document) for document in documents])
                reached += end
            for home in homes:
                collection = self._shards.keyed(queue_key, biz, home)
                ranges = _ranges(wanted, after, keyed=True)
                documents, end = _search(collection, mine, wanted, ranges, many, limit + 1)
                found.append([record_of(one) for one in _current(documents, newer)])
                reached += end
                newer.append(collection)
        return _page(found, reached, limit, newest=wanted.newest)


def _search(
    collection: Collection[Document],
    mine: Document,
    wanted: RecordFilter,
    ranges: Sequence[Document],
    many: int,
    most: int,
) -> tuple[list[Document], list[_Place]]:
    """Read up to ``most`` documents, of ``many`` keys where an index does not tell them all.

    With them comes the place of the last key that was read, if others may follow.
    """
    filters = _filters(wanted)
    ways: list[tuple[Document, str, Document]] = [({}, BY_STORING, filters)]
    if wanted.job is not None:
        # Until the index of jobs is there it goes without: along the time, looking at each one.
        of_job = {"job": wanted.job}
        ways = [(of_job, BY_JOB, filters), ({}, BY_STORING, filters | of_job)]
    for match, index, filters in ways:
        try:
            if not filters:
                found = _read(collection, mine | match, ranges, index, most, wanted.newest)
                return found, _end(found, most)
            # The index alone answers for keys: a page of them costs no documents.
            keys = _read(collection, match, ranges, index, many, wanted.newest, ["at"])
        except OperationFailure as error:
            if error.code != _BAD_VALUE or index == BY_STORING:
                raise
            continue
        looked_at = {"_id": {"$in": [key["_id"] for key in keys]}, **mine, **filters}
        cursor = collection.find(looked_at, hint=BY_ID).sort(_order(wanted.newest))
        return list(cursor.limit(most)), _end(keys, many)
    return [], []


def _read(
    collection: Collection[Document],
    match: Document,
    ranges: Sequence[Document],
    index: str,
    many: int,
    newest: bool,
    fields: Sequence[str] | None = None,
) -> list[Document]:
    """Read up to ``many`` documents of the ranges, in their order along an index."""
    found: list[Document] = []
    for one in ranges:
        cursor = collection.find({**match, **one}, projection=fields, hint=index)
        found += cursor.sort(_order(newest)).limit(many - len(found))
        if len(found) >= many:
            break
    return found


def _order(newest: bool) -> list[tuple[str, int]]:
    way = DESCENDING if newest else ASCENDING
    return [("at", way), ("_id", way)]


def _end(read: Sequence[Document], many: int) -> list[_Place]:
    return [_place_in(read[-1]["at"], read[-1]["_id"])] if len(read) == many else []


def _ranges(wanted: RecordFilter, after: Position | None, *, keyed: bool) -> list[Document]:
    """Return what lies after a position and within the times, as ranges of an index in its order.

    Within a millisecond records with keys of their own come after the others, and are in
    collections of their own.
    """
    ranges: list[Document] = [{}]
    step = "$lt" if wanted.newest else "$gt"
    if after is not None:
        at, own = from_ms(after[0]), _own_id(after[1])
        if ("k" in own) == keyed:
            ranges = [{"at": at, "_id": {step: own}}, {"at": {step: at}}]
        else:
            ranges = [{"at": {f"{step}e" if keyed != wanted.newest else step: at}}]
    times: Document = {}
    if wanted.since is not None:
        times["$gte"] = wanted.since
    if wanted.until is not None:
        times["$lt"] = wanted.until
    return [{"$and": [one, {"at": times}]} for one in ranges] if times else ranges


def _own_id(record_id: str) -> Document:
    """Return the ``_id`` of a record, or of what would stand before all of a request."""
    if len(record_id) == 2 * KEY_BYTES:
        return {"k": record_id}
    owner, _, index = record_id.partition("-")
    return {"r": typed(owner), "i": int(index) if index else -1}


def _filters(wanted: RecordFilter) -> Document:
    """Build the match of what only the records themselves tell."""
    found: Document = {}
    if wanted.rule is not None:
        found["rule"] = wanted.rule
    if wanted.rule_version is not None:
        found["version"] = wanted.rule_version
    if wanted.host is not None:
        host = re.escape(f"[{wanted.host}]" if ":" in wanted.host else wanted.host)
        own = rf"^[a-z][a-z0-9+.-]*://([^/?#]*@)?{host}(:[0-9]*)?([/?#]|$)"
        found["url"] = {"$regex": own, "$options": "i"}
    if wanted.field is not None:
        # A field's name may have dots and dollars, which paths of queries would take for others.
        value = {"$getField": {"field": {"$literal": wanted.field}, "input": "$fields"}}
        if wanted.value is None:
            empty = {"$in": [{"$ifNull": [value, None]}, {"$literal": _EMPTY}]}
            found["$expr"] = {"$not": [empty]}
        else:
            meant = {"$literal": _meanings(wanted.value)}
            of_list = {"$gt": [{"$size": {"$setIntersection": [value, meant]}}, 0]}
            whole = {"$in": [value, meant]}
            # A list is meant by itself, and by each of its members.
            any_of = {"$or": [whole, of_list]}
            found["$expr"] = {"$cond": [{"$isArray": [value]}, any_of, whole]}
    return found


def _meanings(text: str) -> list[object]:
    """List the values that a text may stand for: itself, and the JSON that it is.

    >>> _meanings("12.50"), _meanings("red")
    (['12.50', 12.5], ['red'])
    """
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return [text]
    is_storable = not isinstance(value, int) or -(2**63) <= value < 2**63
    return [text, value] if is_storable and value != text else [text]


def _current(found: list[Document], newer: Sequence[Collection[Document]]) -> list[Document]:
    """Leave out what a newer home of keyed records has replaced."""
    ids = [document["_id"] for document in found]
    replaced = {
        document["_id"]["k"]
        for collection in newer
        for document in collection.find({"_id": {"$in": ids}}, projection=["_id"], hint=BY_ID)
    }
    return [document for document in found if document["_id"]["k"] not in replaced]


def _page(
    found: list[list[Record]],
    reached: Sequence[_Place],
    limit: int,
    *,
    newest: bool,
) -> RecordPage:
    """Merge what lies before the first collection's end of its search."""
    first = max if newest else min
    end = first(reached, default=None)
    records = [
        record
        for record in merge(*found, key=_place_of, reverse=newest)
        if end is None or first(_place_of(record), end) == _place_of(record)
    ]
    if len(records) > limit:
        records = records[:limit]
        end = _place_of(records[-1])
    return RecordPage(records=tuple(records), reached=None if end is None else _position(end))


def _place_of(record: Record) -> _Place:
    if record.key is not None:
        return to_ms(record.stored_at), "k", 0, record.key, 0
    return _place_in(record.stored_at, {"r": record.request_id, "i": record.index})


def _place_in(at: datetime, own_id: Document) -> _Place:
    if "k" in own_id:
        return to_ms(at), "k", 0, own_id["k"], 0
    ms, kind, number, text = order(to_ms(at), own_id["r"])
    return ms, f"a{kind}", number, text, own_id["i"]


def _position(place: _Place) -> Position:
    ms, kind, number, text, index = place
    return ms, text if kind == "k" else f"{text or number}-{index}"
