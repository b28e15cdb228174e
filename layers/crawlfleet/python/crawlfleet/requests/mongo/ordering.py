"""Read a shard in the order of its lists: by a time and then by id, as the indexes are.

A position in a list is ``(epoch ms, id)``; ids are numbers or texts, and numbers come first.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from math import inf

from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection

from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.kernel.time import from_ms


def ranges_of(
    field: str,
    since: datetime | None,
    after: tuple[int, object] | None,
    *,
    newest: bool = False,
) -> list[Document]:
    """Return what lies from ``since`` and after a position, as ranges of the index in its order.

    A million requests may have one ``ts``: the page must begin where the last one ended, not at its
    millisecond. MongoDB compares within a type and sorts numbers before strings, so integer ids are
    followed by hex ones; the ``newest`` first, hex ones by integers.
    """
    if newest:
        return _ranges_back(field, since, after)
    if after is None or (since is not None and since > from_ms(after[0])):
        return [{} if since is None else {field: {"$gte": since}}]
    at = from_ms(after[0])
    rest: list[Document] = [{field: {"$gt": at}}]
    if isinstance(after[1], int):
        rest.insert(0, {field: at, "_id": {"$gte": ""}})
    return [{field: at, "_id": {"$gt": after[1]}}, *rest]


def _ranges_back(
    field: str, since: datetime | None, after: tuple[int, object] | None
) -> list[Document]:
    from_since: Document = {} if since is None else {"$gte": since}
    if after is None:
        return [{field: from_since} if from_since else {}]
    at = from_ms(after[0])
    if since is not None and at < since:
        return []
    rest: list[Document] = [{field: {"$lt": at, **from_since}}]
    if not isinstance(after[1], int):
        rest.insert(0, {field: at, "_id": {"$lt": inf}})
    return [{field: at, "_id": {"$lt": after[1]}}, *rest]


def ordered(
    collection: Collection[Document],
    match: Document,
    ranges: Sequence[Document],
    field: str,
    index: str,
    limit: int,
    fields: Sequence[str] | None = None,
    *,
    newest: bool = False,
) -> Iterator[Document]:
    """Yield up to ``limit`` documents of the ranges, in the order of ``field`` and id."""
    way = DESCENDING if newest else ASCENDING
    for found in ranges:
        # Of one time, the planner merges the states' runs of the index by id alone; asked for the
        # time as well, it would sort all of that time.
        keys = ["_id"] if isinstance(found.get(field), datetime) else [field, "_id"]
        cursor = collection.find({**match, **found}, projection=fields, hint=index)
        for document in cursor.sort([(key, way) for key in keys]).limit(limit):
            yield document
            limit -= 1
        if limit <= 0:
            return


def order(ms: int, request_id: RequestId) -> tuple[int, str, int, str]:
    """Return a key that sorts as MongoDB does: by time, numbers before strings, by value."""
    if isinstance(request_id, int):
        return ms, "", request_id, ""
    return ms, "s", 0, request_id


def typed(text: str) -> RequestId:
    """Read an id from its text in a position."""
    return int(text) if text.isdigit() and len(text) < 20 else text
