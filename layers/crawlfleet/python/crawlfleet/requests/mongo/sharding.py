"""Shards of a biz: their collections and indexes, batches by shard and node, ordered reads.

A shard's share of a batch is small, and most of its time is a wait for the majority's journal. One
after the other, eight shards take twice as long as one; at once, they take as long.

Lists are sorted by a time and then by id, as the indexes are; a position is ``(epoch ms, id)``.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import cache, partial
from math import inf
from typing import Final, TypeAlias, TypeVar

from pymongo import ASCENDING, IndexModel, MongoClient
from pymongo.collection import Collection
from pymongo.errors import ConnectionFailure, OperationFailure

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, Waits, border
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms
from crawlfleet.requests.models import JOB_LIFE
from crawlfleet.requests.routing import Shard, keyed_homes, route


def ranges_of(
    field: str, since: datetime | None, after: tuple[int, object] | None
) -> list[Document]:
    """Return what lies from ``since`` and after a position, as ranges of the index in its order.

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
    """Yield up to ``limit`` documents of the ranges, in the order of ``field`` and id."""
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
    """Return a key that sorts as MongoDB does: by time, numbers before strings, by value."""
    if isinstance(request_id, int):
        return ms, "", request_id, ""
    return ms, "s", 0, request_id


def typed(text: str) -> RequestId:
    """Read an id from its text in a position."""
    return int(text) if text.isdigit() and len(text) < 20 else text


T = TypeVar("T")
R = TypeVar("R")

#: The members of a batch by shard.
ByShard: TypeAlias = dict[Shard, list[T]]
#: What routes a thing: its request's id and time of queueing.
Key: TypeAlias = Callable[[T], tuple[RequestId, datetime]]

#: Parts of batches that are worked on at once, over all batches of the process.
THREADS: Final = 8


def by_shard(biz: Biz, things: Iterable[T], key: Key[T]) -> ByShard[T]:
    """Group things by the shard they are routed to."""
    parts: ByShard[T] = defaultdict(list)
    for thing in things:
        request_id, queued_at = key(thing)
        parts[route(biz, request_id, queued_at)].append(thing)
    return parts


def by_node(biz: Biz, things: Iterable[T], key: Key[T]) -> dict[str, ByShard[T]]:
    """Group things by node, then by shard."""
    nodes: dict[str, ByShard[T]] = defaultdict(dict)
    for shard, part in by_shard(biz, things, key).items():
        nodes[shard.node][shard] = part
    return nodes


def on_shards(
    parts: ByShard[T], work: Callable[[Shard, list[T]], R]
) -> tuple[list[R], list[tuple[list[T], StoreError]]]:
    """Do the work of every shard at once; one that fails costs the others nothing.

    Of a node that does not answer, shards that were not begun are given up with it: to wait for it
    again would only make the caller wait. Returns what the shards gave, and the parts that failed
    with their errors.
    """
    down: dict[str, StoreError] = {}

    def one(shard: Shard, part: list[T]) -> R:
        if shard.node in down:
            raise down[shard.node]
        try:
            return work(shard, part)
        except StoreError as error:
            if isinstance(error.__cause__, ConnectionFailure):
                down[shard.node] = error
            raise

    return _at_once([(part, partial(one, shard, part)) for shard, part in parts.items()])


def on_nodes(
    nodes: dict[str, ByShard[T]], work: Callable[[str, ByShard[T]], R]
) -> tuple[list[R], list[tuple[ByShard[T], StoreError]]]:
    """Do the work of every node at once; one that fails costs the others nothing."""
    return _at_once([(parts, partial(work, node, parts)) for node, parts in nodes.items()])


def all_of(found: tuple[list[R], list[tuple[T, StoreError]]]) -> list[R]:
    """Return what every part gave; raise the first failure."""
    for _, error in found[1]:
        raise error
    return found[0]


def any_of(found: tuple[list[R], list[tuple[T, StoreError]]]) -> list[R]:
    """Return what some parts gave; raise the first failure where none gave anything."""
    return found[0] or all_of(found)


def _at_once(
    tasks: Sequence[tuple[T, Callable[[], R]]],
) -> tuple[list[R], list[tuple[T, StoreError]]]:
    done: list[R] = []
    failed: list[tuple[T, StoreError]] = []
    # The caller's own thread does the last one instead of waiting; a single one needs no thread.
    waits = [(part, _executor().submit(task).result) for part, task in tasks[:-1]]
    for part, wait in [*tasks[-1:], *waits]:
        try:
            done.append(wait())
        except StoreError as error:
            failed.append((part, error))
    return done, failed


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="mongo")


_Lives: TypeAlias = tuple[int, int | None]

#: The indexes that statements name, so that the planner has nothing to guess.
BY_ID: Final = "_id_"
BY_STATE: Final = "by_state"
BY_DUE: Final = "due"
BY_STORING: Final = "by_storing"
BY_JOB: Final = "by_job"
BY_COUNTING: Final = "uncounted"
BY_PRIORITY: Final = "by_priority"
BY_POOL: Final = "by_pool"
BY_REQUEST: Final = "by_request"

BY_TIME: Final = "ttl"

_TTL: Final = BY_TIME
#: What the ledger has not counted as submitted yet is not for MongoDB to remove: it would never
#: have been there. See ``call`` in :mod:`crawlfleet.requests.mongo.documents`.
_COUNTED: Final[Document] = {"call": {"$gte": 0}}
#: Recovery removes the counters of old jobs, all of a job's at once (counting.forget_jobs). MongoDB
#: removes them one by one, so it comes so much later: where a biz has gone, and no recovery runs.
_JOB_BACKSTOP: Final = timedelta(days=30)
_INDEX_OPTIONS_CONFLICT: Final = 85
_INDEX_KEY_SPECS_CONFLICT: Final = 86
_INDEX_NOT_FOUND: Final = 27

_REQUEST_INDEXES: Final = [
    IndexModel([("flag", ASCENDING), ("ts", ASCENDING), ("_id", ASCENDING)], name=BY_STATE),
    # Only leased and waiting requests have ``due``: the index is as small as what is in flight.
    IndexModel(
        [("due", ASCENDING)], name=BY_DUE, partialFilterExpression={"due": {"$exists": True}}
    ),
    IndexModel(
        [("job", ASCENDING), ("flag", ASCENDING), ("ts", ASCENDING), ("_id", ASCENDING)],
        name=BY_JOB,
        partialFilterExpression={"job": {"$exists": True}},
    ),
    # Single submissions of the last minute, and nothing else.
    IndexModel(
        [("call", ASCENDING)], name=BY_COUNTING, partialFilterExpression={"call": {"$lt": 0}}
    ),
]
#: Only requests of another priority than the usual one have ``priority``. Not among those that are
#: made sure of: where a collection was before priorities were, it is built beside recovery's rounds
#: (requests.mongo.reclaim).
PRIORITIES: Final = IndexModel(
    [("priority", ASCENDING), ("flag", ASCENDING), ("ts", ASCENDING), ("_id", ASCENDING)],
    name=BY_PRIORITY,
    partialFilterExpression={"priority": {"$exists": True}},
)
#: Only requests that are bound for a pool have ``pool``. Built where something is known to be.
_POOLS: Final = IndexModel(
    [("pool", ASCENDING), ("flag", ASCENDING), ("ts", ASCENDING), ("_id", ASCENDING)],
    name=BY_POOL,
    partialFilterExpression={"pool": {"$exists": True}},
)
#: Documents of a collection in which that takes a few seconds, how long it may take, and after
#: what it is tried again where it has not succeeded. Larger ones have it built by hand.
_SMALL: Final = 1_000_000
_BUILD_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 3_600.0
_RECORD_INDEXES: Final = [IndexModel([("at", ASCENDING), ("_id", ASCENDING)], name=BY_STORING)]
_KEYED_INDEXES: Final = [
    *_RECORD_INDEXES,
    IndexModel([("request", ASCENDING), ("_id", ASCENDING)], name=BY_REQUEST),
]


class Shards:
    """Open the collections that shards stand for.

    A collection's name begins with its biz: two bizs of a tenant may name the same database and
    collection in the config centre, and still neither counts, expires nor collides with the other.
    Indexes are made sure of once a process by what writes (``made_sure``); a read takes the
    collection as it is. A TTL that was changed in the config centre comes into force by
    :meth:`keep_lives` and by nothing else.
    """

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure: set[tuple[str, str, Shard, str]] = set()
        self._lives: dict[tuple[str, str, Shard], _Lives] = {}
        self._indexed: dict[tuple[str, str, Shard, str], float] = {}

    @property
    def waits(self) -> Waits:
        """Seconds that the nodes are waited for."""
        return self._nodes.waits

    def client(self, shard: Shard) -> MongoClient[Document]:
        """The client of the shard's node, for transactions."""
        return self._nodes.client(shard.node)

    def requests(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the shard's requests. ``ts`` carries the TTL index (SPEC.md A5, A9)."""
        collection = self._collection(queue_key, biz, shard, f"{shard.number:03d}")
        if made_sure:
            self._make_sure(queue_key, shard, collection, _REQUEST_INDEXES, _requests_ttl(biz))
        return collection

    def records(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the shard's records, which may live longer than their requests, or for ever."""
        collection = self._collection(queue_key, biz, shard, f"{shard.number:03d}_records")
        if made_sure:
            self._make_sure(queue_key, shard, collection, _RECORD_INDEXES, _records_ttl(biz))
        return collection

    def keyed(
        self, queue_key: QueueKey, biz: Biz, home: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the records that have keys of their own, at one of their homes."""
        collection = self._collection(queue_key, biz, home, "keyed")
        if made_sure:
            self._make_sure(queue_key, home, collection, _KEYED_INDEXES, _records_ttl(biz))
        return collection

    def counts(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the counters, which outlive the requests: one collection a biz and database."""
        collection = self._collection(queue_key, biz, shard, "counts")
        if made_sure:
            self._make_sure(queue_key, shard, collection, [], _counts_ttl(biz))
        return collection

    def keep_lives(self, queue_key: QueueKey, biz: Biz, shard: Shard) -> None:
        """Bring the biz's times to live into force, also where nothing is written any more.

        Only recovery may, once it has marked what has passed the new time unprocessed: a shorter
        TTL lets MongoDB remove at once what was not counted as expired.
        """
        if self._lives.get((queue_key.tenant, queue_key.biz, shard)) == _lives(biz):
            return
        _keep_ttl(self.requests(queue_key, biz, shard, made_sure=True), _requests_ttl(biz))
        _keep_ttl(self.counts(queue_key, biz, shard, made_sure=True), _counts_ttl(biz))
        _keep_ttl(self.records(queue_key, biz, shard, made_sure=True), _records_ttl(biz))
        if shard in keyed_homes(biz):
            _keep_ttl(self.keyed(queue_key, biz, shard, made_sure=True), _records_ttl(biz))
        self._lives[(queue_key.tenant, queue_key.biz, shard)] = _lives(biz)

    def attempts(self, queue_key: QueueKey, biz: Biz, shard: Shard) -> Collection[Document]:
        """Open the attempts at building the biz's indexes: one document each."""
        return self._collection(queue_key, biz, shard, "indexing")

    def index_pools(self, queue_key: QueueKey, biz: Biz, shard: Shard) -> None:
        """Build what finds requests by pool, where that is cheap.

        For recovery where there are pools, and for the first task that is bound for one: tasks are
        made of jobs, and nobody waits for them. Those who read do without until it is there
        (requests.mongo.recovery); for a large collection it is built by hand.
        """
        key = (queue_key.tenant, queue_key.biz, shard, BY_POOL)
        if self._indexed.get(key, -inf) > time.monotonic():
            return
        self._indexed[key] = time.monotonic() + _AGAIN_SECONDS
        with border(_BUILD_SECONDS):
            requests = self.requests(queue_key, biz, shard)
            if requests.estimated_document_count() > _SMALL:
                return
            requests.create_indexes([_POOLS])
        self._indexed[key] = inf

    def _collection(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, part: str
    ) -> Collection[Document]:
        name = f"{queue_key.biz}.{biz.collection}_{part}"
        return self._nodes.collection(shard.node, queue_key.tenant, shard.database, name)

    def _make_sure(
        self,
        queue_key: QueueKey,
        shard: Shard,
        collection: Collection[Document],
        indexes: list[IndexModel],
        ttl: IndexModel | None,
    ) -> None:
        key = (queue_key.tenant, queue_key.biz, shard, collection.name)
        if key in self._sure:
            return
        # Two threads may do this at once; either of them alone would do, and both do no harm.
        try:
            collection.create_indexes([*indexes, ttl] if ttl else indexes)
        except OperationFailure as error:
            if error.code not in (_INDEX_OPTIONS_CONFLICT, _INDEX_KEY_SPECS_CONFLICT):
                raise
            # It has another TTL; see keep_lives.
            if indexes:
                collection.create_indexes(indexes)
        self._sure.add(key)


def job_life(biz: Biz) -> timedelta:
    """Return how long the counters of a job are kept after it was last counted."""
    return timedelta(seconds=biz.ttl_seconds + biz.expiry_grace_seconds) + JOB_LIFE


def _lives(biz: Biz) -> _Lives:
    return biz.ttl_seconds + biz.expiry_grace_seconds, biz.records_ttl_seconds


def _requests_ttl(biz: Biz) -> IndexModel:
    return IndexModel(
        [("ts", ASCENDING)],
        name=_TTL,
        expireAfterSeconds=biz.ttl_seconds + biz.expiry_grace_seconds,
        partialFilterExpression=_COUNTED,
    )


def _records_ttl(biz: Biz) -> IndexModel | None:
    if biz.records_ttl_seconds is None:
        return None
    return IndexModel([("at", ASCENDING)], name=_TTL, expireAfterSeconds=biz.records_ttl_seconds)


def _counts_ttl(biz: Biz) -> IndexModel:
    # Only the counters of jobs have ``at``.
    life = int((job_life(biz) + _JOB_BACKSTOP).total_seconds())
    return IndexModel([("at", ASCENDING)], name=_TTL, expireAfterSeconds=life)


def _keep_ttl(collection: Collection[Document], ttl: IndexModel | None) -> None:
    """Make the TTL index as ``ttl`` says; None drops it: what is kept from now on stays."""
    found = collection.index_information().get(_TTL)
    wanted = None if ttl is None else ttl.document
    if found is not None and (
        wanted is None
        or found.get("partialFilterExpression") != wanted.get("partialFilterExpression")
    ):
        _drop_ttl(collection)
        found = None
    if found is None and ttl is not None:
        collection.create_indexes([ttl])
    elif found and wanted and found["expireAfterSeconds"] != wanted["expireAfterSeconds"]:
        life = wanted["expireAfterSeconds"]
        index = {"name": _TTL, "expireAfterSeconds": life}
        collection.database.command("collMod", collection.name, index=index)


def _drop_ttl(collection: Collection[Document]) -> None:
    try:
        collection.drop_index(_TTL)
    except OperationFailure as error:
        if error.code != _INDEX_NOT_FOUND:
            raise
