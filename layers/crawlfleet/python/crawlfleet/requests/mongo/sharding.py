"""Shards of a biz: their collections and indexes, batches by shard and node.

A shard's share of a batch is small, and most of its time is a wait for the majority's journal. One
after the other, eight shards take twice as long as one; at once, they take as long.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
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
from crawlfleet.kernel.time import Recent
from crawlfleet.requests.models import JOB_LIFE
from crawlfleet.requests.routing import Shard, keyed_homes, route

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
#: What the ledger has not counted as submitted yet is not for MongoDB to remove: it would never
#: have been there. See ``call`` in :mod:`crawlfleet.requests.mongo.documents`.
_COUNTED: Final[Document] = {"call": {"$gte": 0}}
#: Recovery removes the counters of old jobs, all of a job's at once (counting.forget_jobs). MongoDB
#: removes them one by one, so it comes so much later: where a biz has gone, and no recovery runs.
_JOB_BACKSTOP: Final = timedelta(days=30)
_INDEX_OPTIONS_CONFLICT: Final = 85
_INDEX_KEY_SPECS_CONFLICT: Final = 86
_INDEX_NOT_FOUND: Final = 27


def _index(name: str, *fields: str, where: Document | None = None, **options: int) -> IndexModel:
    """Describe an index over fields, ascending; ``where`` limits it to what matches."""
    keys = [(field, ASCENDING) for field in fields]
    if where is None:
        return IndexModel(keys, name=name, **options)
    return IndexModel(keys, name=name, partialFilterExpression=where, **options)


_REQUEST_INDEXES: Final = [
    _index(BY_STATE, "flag", "ts", "_id"),
    # Only leased and waiting requests have ``due``: the index is as small as what is in flight.
    _index(BY_DUE, "due", where={"due": {"$exists": True}}),
    _index(BY_JOB, "job", "flag", "ts", "_id", where={"job": {"$exists": True}}),
    # Single submissions of the last minute, and nothing else.
    _index(BY_COUNTING, "call", where={"call": {"$lt": 0}}),
]
#: Only requests of another priority than the usual one have ``priority``. Not among those that are
#: made sure of: where a collection was before priorities were, it is built beside recovery's rounds
#: (requests.mongo.reclaim).
PRIORITIES: Final = _index(
    BY_PRIORITY, "priority", "flag", "ts", "_id", where={"priority": {"$exists": True}}
)
#: Of the same kind, for records: only those of jobs have ``job``.
RECORD_JOBS: Final = _index(BY_JOB, "job", "at", "_id", where={"job": {"$exists": True}})
#: Only requests that are bound for a pool have ``pool``. Built where something is known to be.
_POOLS: Final = _index(BY_POOL, "pool", "flag", "ts", "_id", where={"pool": {"$exists": True}})
#: Documents of a collection in which that takes a few seconds, how long it may take, and after
#: what it is tried again where it has not succeeded. Larger ones have it built by hand.
_SMALL: Final = 1_000_000
_BUILD_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 3_600.0
_RECORD_INDEXES: Final = [_index(BY_STORING, "at", "_id")]
_KEYED_INDEXES: Final = [*_RECORD_INDEXES, _index(BY_REQUEST, "request", "_id")]


class Shards:
    """Open the collections that shards stand for.

    A collection's name begins with its biz: two bizs of a tenant may name the same database and
    collection in the config centre, and still neither counts, expires nor collides with the other.
    Indexes are made sure of now and then by what writes (``made_sure``); a read takes the
    collection as it is. A TTL that was changed in the config centre comes into force by
    :meth:`keep_lives` and by nothing else.
    """

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = Recent()
        self._lives: dict[tuple[str, str, Shard], _Lives] = {}
        self._indexed: dict[tuple[str, str, Shard, str], float] = {}

    @property
    def waits(self) -> Waits:
        """Seconds that the nodes are waited for."""
        return self._nodes.waits

    def client(self, shard: Shard) -> MongoClient[Document]:
        """The client of the shard's node, for transactions."""
        return self._nodes.client(shard.node)

    def is_begun(self, queue_key: QueueKey, biz: Biz, shard: Shard) -> bool:
        """Tell whether anything of the biz was ever written to the shard, or to its database.

        Recovery looks into it only then: of a thousand bizs that nobody uses it would make as many
        collections and indexes.
        """
        requests = self.requests(queue_key, biz, shard)
        if (queue_key.tenant, queue_key.biz, shard, requests.name) in self._sure:
            return True
        others = self.counts(queue_key, biz, shard), self.keyed(queue_key, biz, shard)
        names = {"$in": [one.name for one in (requests, *others)]}
        return bool(requests.database.list_collection_names(filter={"name": names}))

    def requests(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the shard's requests. ``ts`` carries the TTL index (SPEC.md A5, A9)."""
        collection = self._collection(queue_key, biz, shard, f"{shard.number:03d}")
        if made_sure:
            self._make_sure(queue_key, shard, collection, _REQUEST_INDEXES, _requests_ttl, biz)
        return collection

    def records(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the shard's records, which may live longer than their requests, or for ever."""
        collection = self._collection(queue_key, biz, shard, f"{shard.number:03d}_records")
        if made_sure:
            self._make_sure(queue_key, shard, collection, _RECORD_INDEXES, _records_ttl, biz)
        return collection

    def keyed(
        self, queue_key: QueueKey, biz: Biz, home: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the records that have keys of their own, at one of their homes."""
        collection = self._collection(queue_key, biz, home, "keyed")
        if made_sure:
            self._make_sure(queue_key, home, collection, _KEYED_INDEXES, _records_ttl, biz)
        return collection

    def counts(
        self, queue_key: QueueKey, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """Open the counters, which outlive the requests: one collection a biz and database."""
        collection = self._collection(queue_key, biz, shard, "counts")
        if made_sure:
            self._make_sure(queue_key, shard, collection, [], _counts_ttl, biz)
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
        ttl_of: Callable[[Biz], IndexModel | None],
        biz: Biz,
    ) -> None:
        key = (queue_key.tenant, queue_key.biz, shard, collection.name)
        if key in self._sure:
            return
        ttl = ttl_of(biz)
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


#: Opens a collection of a shard.
Opens: TypeAlias = Callable[[Shards, QueueKey, Biz, Shard], Collection[Document]]


def late_indexes(biz: Biz, shard: Shard) -> list[tuple[Opens, IndexModel]]:
    """List a shard's collections with the index that is built beside recovery's rounds."""
    found: list[tuple[Opens, IndexModel]] = [
        (Shards.requests, PRIORITIES),
        (Shards.records, RECORD_JOBS),
    ]
    return [*found, (Shards.keyed, RECORD_JOBS)] if shard in keyed_homes(biz) else found


def job_life(biz: Biz) -> timedelta:
    """Return how long the counters of a job are kept after it was last counted."""
    return timedelta(seconds=biz.ttl_seconds + biz.expiry_grace_seconds) + JOB_LIFE


def _lives(biz: Biz) -> _Lives:
    return biz.ttl_seconds + biz.expiry_grace_seconds, biz.records_ttl_seconds


def _requests_ttl(biz: Biz) -> IndexModel:
    life = biz.ttl_seconds + biz.expiry_grace_seconds
    return _index(BY_TIME, "ts", where=_COUNTED, expireAfterSeconds=life)


def _records_ttl(biz: Biz) -> IndexModel | None:
    if biz.records_ttl_seconds is None:
        return None
    return _index(BY_TIME, "at", expireAfterSeconds=biz.records_ttl_seconds)


def _counts_ttl(biz: Biz) -> IndexModel:
    # Only the counters of jobs have ``at``.
    life = int((job_life(biz) + _JOB_BACKSTOP).total_seconds())
    return _index(BY_TIME, "at", expireAfterSeconds=life)


def _keep_ttl(collection: Collection[Document], ttl: IndexModel | None) -> None:
    """Make the TTL index as ``ttl`` says; None drops it: what is kept from now on stays."""
    found = collection.index_information().get(BY_TIME)
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
        index = {"name": BY_TIME, "expireAfterSeconds": wanted["expireAfterSeconds"]}
        collection.database.command("collMod", collection.name, index=index)


def _drop_ttl(collection: Collection[Document]) -> None:
    try:
        collection.drop_index(BY_TIME)
    except OperationFailure as error:
        if error.code != _INDEX_NOT_FOUND:
            raise
