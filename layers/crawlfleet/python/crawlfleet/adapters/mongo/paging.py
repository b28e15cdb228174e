"""Pages of a list over many collections: where the next one begins, and in which order things are.

A list is sorted by a time and then by id, as the indexes are; a position is ``(epoch ms, id)``.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from pymongo.collection import Collection

from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.model.ids import RequestId
from crawlfleet.model.times import from_ms


def ranges_of(
    field: str, since: datetime | None, after: tuple[int, object] | None
) -> list[Document]:
    """What lies at or after ``since`` and after a position, as ranges of the index in its order.

    A million requests may have one ``ts``: the page must begin where the last one ended, not at its
    millisecond. MongoDB compares within a type and sorts numbers before strings, so integer ids are
    followed by hex ones.
    """
    if after is None or (since is not None and since > from_ms(after[0])):
        return [{} if since is None else {field: {"$gte": since}}]
    at = from_ms(after[0])
    rest: list[Document] = [{field: {"$gt": at}}]
    if isinstance(after[1], int):
        rest.insert(0, {field: at, "_id": {"$gte": ""}})
    return [{field: at, "_id": {"$gt": after[1]}}, *rest]


def ordered(
    collection: Collection[Document],
    match: Document,
    ranges: Sequence[Document],
    field: str,
    index: str,
    limit: int,
    fields: Sequence[str] | None = None,
) -> Iterator[Document]:
    """Up to ``limit`` documents of the ranges, in the order of ``field`` and id."""
    for found in ranges:
        # Of one time, the planner merges the states' runs of the index by id alone; asked for the
        # time as well, it would sort all of that time.
        keys = ["_id"] if isinstance(found.get(field), datetime) else [field, "_id"]
        cursor = (
            collection.find({**match, **found}, projection=fields, hint=index)
            .sort(keys)
            .limit(limit)
        )
        for document in cursor:
            yield document
            limit -= 1
        if limit <= 0:
            return


def order(ms: int, request_id: RequestId) -> tuple[int, str, int, str]:
    """What sorts as MongoDB does: by time, numbers before strings, numbers by value."""
    if isinstance(request_id, int):
        return ms, "", request_id, ""
    return ms, "s", 0, request_id


def typed(text: str) -> RequestId:
    """An id from its text in a position."""
    return int(text) if text.isdigit() and len(text) < 20 else text
