"""The collections of a biz: their names, and the indexes that each has from its first use on."""

import threading
from typing import Final

from pymongo import ASCENDING, IndexModel
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.adapters.mongo.connection import Document, MongoNodes
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.policy.routing import Shard

_INDEX_OPTIONS_CONFLICT: Final = 85
_INDEX_KEY_SPECS_CONFLICT: Final = 86


class Shards:
    """Opens the collections that shards stand for, with their indexes made sure of once a process."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure: set[tuple[str, Shard, str, int | None]] = set()
        self._lock = threading.Lock()

    def requests(self, lane: Lane, biz: Biz, shard: Shard) -> Collection[Document]:
        """The shard's requests. ``ts`` carries the TTL index (SPEC.md A5, A9)."""
        collection = self._collection(lane, shard, f"{biz.collection}_{shard.number:03d}")
        life = biz.ttl_seconds + biz.expiry_grace_seconds
        self._make_sure(lane, shard, collection, "ts", life, _REQUEST_INDEXES)
        return collection

    def records(self, lane: Lane, biz: Biz, shard: Shard) -> Collection[Document]:
        """The shard's records, which may live longer than their requests, or for ever."""
        collection = self._collection(lane, shard, f"{biz.collection}_{shard.number:03d}_records")
        self._make_sure(lane, shard, collection, "at", biz.records_ttl_seconds, _RECORD_INDEXES)
        return collection

    def counts(self, lane: Lane, biz: Biz, shard: Shard) -> Collection[Document]:
        """What must be counted for ever although the requests go."""
        return self._collection(lane, shard, f"{biz.collection}_counts")

    def _collection(self, lane: Lane, shard: Shard, name: str) -> Collection[Document]:
        database = self._nodes.database(shard.node, lane.tenant, shard.database)
        return database.get_collection(name)

    def _make_sure(
        self,
        lane: Lane,
        shard: Shard,
        collection: Collection[Document],
        field: str,
        life: int | None,
        indexes: list[IndexModel],
    ) -> None:
        key = (lane.tenant, shard, collection.name, life)
        if key in self._sure:
            return
        with self._lock:
            collection.create_indexes(indexes)
            if life is not None:
                _make_ttl(collection, field, life)
            self._sure.add(key)


_REQUEST_INDEXES: Final = [
    IndexModel([("flag", ASCENDING), ("ts", ASCENDING), ("_id", ASCENDING)], name="by_state"),
    # Only leased and waiting requests have ``due``: the index is as small as what is in flight.
    IndexModel(
        [("due", ASCENDING)], name="due", partialFilterExpression={"due": {"$exists": True}}
    ),
]
_RECORD_INDEXES: Final = [IndexModel([("at", ASCENDING), ("_id", ASCENDING)], name="by_storing")]


def _make_ttl(collection: Collection[Document], field: str, life: int) -> None:
    try:
        collection.create_index([(field, ASCENDING)], name="ttl", expireAfterSeconds=life)
    except OperationFailure as error:
        if error.code not in (_INDEX_OPTIONS_CONFLICT, _INDEX_KEY_SPECS_CONFLICT):
            raise
        # The biz's TTL was changed in the config centre.
        collection.database.command(
            "collMod", collection.name, index={"name": "ttl", "expireAfterSeconds": life}
        )
