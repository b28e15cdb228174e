"""The document of a seed in MongoDB, its indexes, and what is counted by them.

A seed::

    _id      segment/key: a key is there once a segment
    state    0 ready, 1 dispatched, 2 finished, 3 failed
    due      when it is to be dispatched or rechecked next; once ended, when it did
    offered  when it was added
    ends     the end of its segment, None where that has none
    data     its spec in MessagePack
    job      the job that it is of, as in the spec; missing where it is of none
    req, handed    the request that it was last dispatched as, and when; tries: how often
    why      why it failed, or was released
    archived_at    ended ones alone: when the time begins for which they are kept
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from crawlfleet.crawling.frontier.fingerprint import KEY_BYTES
from crawlfleet.crawling.frontier.models import Seed, SeedSpec, SeedState
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.requests.mongo.documents import read_id

#: Segments that are counted: the newest.
MOST_SEGMENTS: Final = 31
#: Names that begin with a year sort below, others above.
_DATED_BELOW: Final = ":"
READY: Final = int(SeedState.READY)
HANDED: Final = int(SeedState.HANDED)
BY_ID: Final = "_id_"
BY_DUE: Final = "due"
BY_STATE: Final = "by_state"
BY_JOB: Final = "by_job"

_TTL: Final = "ttl"
_INDEXES: Final = [
    # What has ended is not in it: it stays as small as what is to be done.
    IndexModel(
        [("state", ASCENDING), ("due", ASCENDING), ("_id", ASCENDING)],
        name=BY_DUE,
        partialFilterExpression={"state": {"$lte": HANDED}},
    ),
    IndexModel([("state", ASCENDING), ("_id", ASCENDING)], name=BY_STATE),
]
#: The same by job. Where there are many seeds already it is not built in passing.
_OF_JOB: Final = IndexModel(
    [("job", ASCENDING), ("state", ASCENDING)],
    name=BY_JOB,
    partialFilterExpression={"state": {"$lte": HANDED}, "job": {"$exists": True}},
)
MOST_TO_INDEX: Final = 100_000
#: Without it so many open seeds are searched, and no more.
MOST_LOOKED_THROUGH: Final = 10_000
_BAD_VALUE: Final = 2
_DUPLICATE_KEY: Final = 11000
_INDEX_OPTIONS_CONFLICT: Final = 85

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SeedSpec)


def make_sure(
    seeds: Collection[Document], life_seconds: int, most_to_index: int = MOST_TO_INDEX
) -> None:
    """Have the indexes, and the life that ended seeds are to have now."""
    seeds.create_indexes(_INDEXES)
    if seeds.estimated_document_count() <= most_to_index:
        seeds.create_indexes([_OF_JOB])
    ttl = IndexModel([("archived_at", ASCENDING)], name=_TTL, expireAfterSeconds=life_seconds)
    try:
        seeds.create_indexes([ttl])
    except OperationFailure as error:
        if error.code != _INDEX_OPTIONS_CONFLICT:
            raise
        index = {"name": _TTL, "expireAfterSeconds": life_seconds}
        seeds.database.command("collMod", seeds.name, index=index)


def insert_new(seeds: Collection[Document], documents: Sequence[Document]) -> set[str]:
    """Insert; return what was there already."""
    try:
        seeds.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        faults = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(
            fault["code"] != _DUPLICATE_KEY for fault in faults
        ):
            raise
        return {fault["op"]["_id"] for fault in faults}
    return set()


def ids_of(segment: str) -> dict[str, str]:
    """Match the ids of a segment: ``0`` is what follows the slash."""
    return {"$gte": f"{segment}/", "$lt": f"{segment}0"}


def newest_segments(seeds: Collection[Document]) -> Iterator[str]:
    """Give the newest segments there are of each kind of name, each by one read of the index.

    In the order of names the weeks of a year stand above its days, those of jobs above the day
    they began on, and names without a time above all: none of them hides the others.
    """
    yield from _last_segments(seeds, _DATED_BELOW, None)
    below, given = _DATED_BELOW, 0
    while given < MOST_SEGMENTS:
        newest = next(_last_segments(seeds, "", below), None)
        if newest is None:
            return
        year = newest[:4]
        bounds = (year, f"{year}-W", f"{year}-X", below)
        found = {*_days(seeds, *bounds[:2])}
        for low, high in pairwise(bounds):
            found.update(_last_segments(seeds, low, high))
        yield from found
        given, below = given + len(found), year


def _last_segments(
    seeds: Collection[Document], low: str, below: str | None, most: int = MOST_SEGMENTS
) -> Iterator[str]:
    """Give the last segments of a range of names, each by one read of the index."""
    for _ in range(most):
        match = {"_id": {"$gte": low} | ({} if below is None else {"$lt": below})}
        last = seeds.find_one(match, projection=["_id"], sort=[("_id", DESCENDING)], hint=BY_ID)
        if last is None:
            return
        segment = last["_id"][: -2 * KEY_BYTES - 1]
        yield segment
        below = f"{segment}/"


def _days(seeds: Collection[Document], low: str, below: str) -> Iterator[str]:
    """Give the last days and months of a range of names: of each the jobs are passed over."""
    for _ in range(2 * MOST_SEGMENTS):
        segment = next(_last_segments(seeds, low, below), None)
        if segment is None:
            return
        day, time, _ = segment.partition("T")
        if not time:
            yield segment
        below = f"{day}{time}" if time else f"{segment}/"


def waiting_by_segment(seeds: Collection[Document], now: datetime) -> Iterator[tuple[str, int]]:
    """Count the ready seeds that are due later, by segment, from the index alone."""
    length = {"$subtract": [{"$strLenBytes": "$_id"}, 2 * KEY_BYTES + 1]}
    found = seeds.aggregate(
        [
            {"$match": {"state": READY, "due": {"$gt": now}}},
            {"$group": {"_id": {"$substrBytes": ["$_id", 0, length]}, "count": {"$sum": 1}}},
        ],
        hint=BY_DUE,
    )
    return ((each["_id"], each["count"]) for each in found)


def find_open(
    seeds: Collection[Document], job: str, limit: int, most_looked_through: int
) -> list[Document]:
    """Find open seeds of a job; StoreError if too many are open to do it without its index."""
    match: Document = {"state": {"$lte": HANDED}, "job": job}
    try:
        return list(seeds.find(match, hint=BY_JOB).limit(limit))
    except OperationFailure as error:
        if error.code != _BAD_VALUE:  # as it calls the hint of an index that is not there
            raise
    is_open: Document = {"state": {"$lte": HANDED}}
    if count_keys(seeds, is_open, BY_DUE, most_looked_through + 1) > most_looked_through:
        message = f"{seeds.name} has no index {BY_JOB}, and too many open seeds to look through"
        raise StoreError(message)
    return list(seeds.find(match, hint=BY_DUE).limit(limit))


def count_keys(
    seeds: Collection[Document], match: Mapping[str, Any], index: str, limit: int = 0
) -> int:
    """Count keys of an index, which the command does twice as fast as an aggregation."""
    command = {"count": seeds.name, "query": match, "hint": index, "limit": limit}
    return int(seeds.database.command(command)["n"])


def key_of(seed_id: str) -> str:
    """Return the key in the id of a seed."""
    return seed_id.rpartition("/")[2]


def document_of(seed: Seed) -> Document:
    """Write a seed as it is first stored."""
    handed = {} if seed.request is None else {"req": seed.request, "handed": seed.handed_at}
    of_job = {} if seed.spec.job is None else {"job": seed.spec.job}
    has_end = seed.state > HANDED and seed.ends_at is not None
    ended = {"archived_at": max(seed.ends_at or seed.due_at, seed.due_at)} if has_end else {}
    return {
        **handed,
        **ended,
        **of_job,
        "_id": seed.id,
        "state": int(seed.state),
        "due": seed.due_at,
        "offered": seed.offered_at,
        "ends": seed.ends_at,
        "data": _encoder.encode(seed.spec),
        "tries": seed.tries,
        "why": seed.why,
    }


def seed_of(document: Document) -> Seed:
    """Read the seed of a document."""
    segment, _, key = document["_id"].rpartition("/")
    try:
        spec = _decoder.decode(document["data"])
    except msgspec.DecodeError:
        # No biz has a rule of that name: whoever dispatches it finds that it cannot be worked on.
        spec = SeedSpec(url="", rule="")
    request_id = document.get("req")
    return Seed(
        key=key,
        segment=segment,
        spec=spec,
        state=SeedState(document["state"]),
        offered_at=document["offered"],
        due_at=document["due"],
        ends_at=document["ends"],
        request=None if request_id is None else read_id(request_id),
        handed_at=document.get("handed"),
        tries=document["tries"],
        why=document["why"],
    )
