"""The collections of a biz: their names, and the indexes that each has from its first use on."""

import time
from datetime import timedelta
from math import inf
from typing import Final, TypeAlias

from pymongo import ASCENDING, IndexModel, MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, Waits, border
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import JOB_LIFE
from crawlfleet.policy.routing import Shard, keyed_homes

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
#: have been there. See ``call`` in :mod:`crawlfleet.adapters.mongo.documents`.
_COUNTED: Final[Document] = {"call": {"$gte": 0}}
#: Recovery removes the counters of old jobs, all of a job's at once (counting.forget_jobs). MongoDB
#: removes them one by one, so it comes so much later: where a biz has gone, and no recovery looks.
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
#: (adapters.mongo.indexing).
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
    """Opens the collections that shards stand for.

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
        self, lane: Lane, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """The shard's requests. ``ts`` carries the TTL index (SPEC.md A5, A9)."""
        collection = self._collection(lane, biz, shard, f"{shard.number:03d}")
        if made_sure:
            self._make_sure(lane, shard, collection, _REQUEST_INDEXES, _requests_ttl(biz))
        return collection

    def records(
        self, lane: Lane, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """The shard's records, which may live longer than their requests, or for ever."""
        collection = self._collection(lane, biz, shard, f"{shard.number:03d}_records")
        if made_sure:
            self._make_sure(lane, shard, collection, _RECORD_INDEXES, _records_ttl(biz))
        return collection

    def keyed(
        self, lane: Lane, biz: Biz, home: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """The records that have keys of their own, at one of their homes (policy.routing)."""
        collection = self._collection(lane, biz, home, "keyed")
        if made_sure:
            self._make_sure(lane, home, collection, _KEYED_INDEXES, _records_ttl(biz))
        return collection

    def counts(
        self, lane: Lane, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """What is counted for ever although the requests go: one collection a biz and database."""
        collection = self._collection(lane, biz, shard, "counts")
        if made_sure:
            self._make_sure(lane, shard, collection, [], _counts_ttl(biz))
        return collection

    def keep_lives(self, lane: Lane, biz: Biz, shard: Shard) -> None:
        """Bring the biz's times to live into force, also where nothing is written any more.

        Only recovery may, once it has marked what has passed the new time unprocessed: a shorter
        TTL lets MongoDB remove at once what nobody has counted as expired.
        """
        if self._lives.get((lane.tenant, lane.biz, shard)) == _lives(biz):
            return
        _keep_ttl(self.requests(lane, biz, shard, made_sure=True), _requests_ttl(biz))
        _keep_ttl(self.counts(lane, biz, shard, made_sure=True), _counts_ttl(biz))
        _keep_ttl(self.records(lane, biz, shard, made_sure=True), _records_ttl(biz))
        if shard in keyed_homes(biz):
            _keep_ttl(self.keyed(lane, biz, shard, made_sure=True), _records_ttl(biz))
        self._lives[(lane.tenant, lane.biz, shard)] = _lives(biz)

    def attempts(self, lane: Lane, biz: Biz, shard: Shard) -> Collection[Document]:
        """When somebody has last tried to build what of the biz's indexes: one document each."""
        return self._collection(lane, biz, shard, "indexing")

    def index_pools(self, lane: Lane, biz: Biz, shard: Shard) -> None:
        """Build what finds requests by pool, where that is cheap.

        For recovery where there are pools, and for the first task that is bound for one: tasks are
        made of jobs, and nobody waits for them. Those who read do without until it is there
        (adapters.mongo.missing); whoever has a large collection builds it by hand.
        """
        key = (lane.tenant, lane.biz, shard, BY_POOL)
        if self._indexed.get(key, -inf) > time.monotonic():
            return
        self._indexed[key] = time.monotonic() + _AGAIN_SECONDS
        with border(_BUILD_SECONDS):
            requests = self.requests(lane, biz, shard)
            if requests.estimated_document_count() > _SMALL:
                return
            requests.create_indexes([_POOLS])
        self._indexed[key] = inf

    def _collection(self, lane: Lane, biz: Biz, shard: Shard, part: str) -> Collection[Document]:
        name = f"{lane.biz}.{biz.collection}_{part}"
        return self._nodes.collection(shard.node, lane.tenant, shard.database, name)

    def _make_sure(
        self,
        lane: Lane,
        shard: Shard,
        collection: Collection[Document],
        indexes: list[IndexModel],
        ttl: IndexModel | None,
    ) -> None:
        key = (lane.tenant, lane.biz, shard, collection.name)
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
    """How long the counters of a job are kept after it was last counted."""
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
    """Have the TTL index as it is to be; ``ttl`` None drops it: what is kept from now on stays."""
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
