"""The collections of a biz: their names, and the indexes that each has from its first use on."""

from typing import Final

from pymongo import ASCENDING, IndexModel
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.adapters.mongo.connection import Document, MongoNodes
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.policy.routing import Shard

#: The indexes that statements name, so that the planner has nothing to guess.
BY_ID: Final = "_id_"
BY_STATE: Final = "by_state"
BY_DUE: Final = "due"
BY_STORING: Final = "by_storing"

_TTL: Final = "ttl"
_INDEX_OPTIONS_CONFLICT: Final = 85
_INDEX_KEY_SPECS_CONFLICT: Final = 86
_INDEX_NOT_FOUND: Final = 27

_REQUEST_INDEXES: Final = [
    IndexModel([("flag", ASCENDING), ("ts", ASCENDING), ("_id", ASCENDING)], name=BY_STATE),
    # Only leased and waiting requests have ``due``: the index is as small as what is in flight.
    IndexModel(
        [("due", ASCENDING)], name=BY_DUE, partialFilterExpression={"due": {"$exists": True}}
    ),
]
_RECORD_INDEXES: Final = [IndexModel([("at", ASCENDING), ("_id", ASCENDING)], name=BY_STORING)]


class Shards:
    """Opens the collections that shards stand for.

    A collection's name begins with its biz: two bizs of a tenant may name the same database and
    collection in the config centre, and still neither counts, expires nor collides with the other.
    Indexes are made sure of once a process, and again when the biz's TTL changes, by what writes
    (``made_sure``); a read takes the collection as it is.
    """

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._life: dict[tuple[str, str, Shard, str], int | None] = {}

    def requests(
        self, lane: Lane, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """The shard's requests. ``ts`` carries the TTL index (SPEC.md A5, A9)."""
        collection = self._collection(lane, biz, shard, f"{shard.number:03d}")
        if made_sure:
            life = biz.ttl_seconds + biz.expiry_grace_seconds
            self._make_sure(lane, shard, collection, "ts", life, _REQUEST_INDEXES)
        return collection

    def records(
        self, lane: Lane, biz: Biz, shard: Shard, *, made_sure: bool = False
    ) -> Collection[Document]:
        """The shard's records, which may live longer than their requests, or for ever."""
        collection = self._collection(lane, biz, shard, f"{shard.number:03d}_records")
        if made_sure:
            self._make_sure(lane, shard, collection, "at", biz.records_ttl_seconds, _RECORD_INDEXES)
        return collection

    def counts(self, lane: Lane, biz: Biz, shard: Shard) -> Collection[Document]:
        """What must be counted for ever although the requests go: one document a shard."""
        return self._collection(lane, biz, shard, "counts")

    def _collection(self, lane: Lane, biz: Biz, shard: Shard, part: str) -> Collection[Document]:
        name = f"{lane.biz}.{biz.collection}_{part}"
        return self._nodes.collection(shard.node, lane.tenant, shard.database, name)

    def _make_sure(
        self,
        lane: Lane,
        shard: Shard,
        collection: Collection[Document],
        field: str,
        life: int | None,
        indexes: list[IndexModel],
    ) -> None:
        key = (lane.tenant, lane.biz, shard, field)
        if key in self._life and self._life[key] == life:
            return
        # Two threads may do this at once; either of them alone would do, and both do no harm.
        if life is None:
            collection.create_indexes(indexes)
            _drop_ttl(collection)
        else:
            _make_with_ttl(collection, field, life, indexes)
        self._life[key] = life


def _make_with_ttl(
    collection: Collection[Document], field: str, life: int, indexes: list[IndexModel]
) -> None:
    ttl = IndexModel([(field, ASCENDING)], name=_TTL, expireAfterSeconds=life)
    try:
        collection.create_indexes([*indexes, ttl])
    except OperationFailure as error:
        if error.code not in (_INDEX_OPTIONS_CONFLICT, _INDEX_KEY_SPECS_CONFLICT):
            raise
        # The biz's TTL was changed in the config centre.
        collection.create_indexes(indexes)
        collection.database.command(
            "collMod", collection.name, index={"name": _TTL, "expireAfterSeconds": life}
        )


def _drop_ttl(collection: Collection[Document]) -> None:
    """What is kept for ever from now on must not go by an older configuration."""
    try:
        collection.drop_index(_TTL)
    except OperationFailure as error:
        if error.code != _INDEX_NOT_FOUND:
            raise
