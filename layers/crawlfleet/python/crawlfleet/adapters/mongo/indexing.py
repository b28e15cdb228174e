"""Building the index of priorities where a collection of requests was before it (SPEC.md C4).

Those who read do without until it is there (adapters.mongo.missing). Building reads the whole
collection, so only a small one is built here, and what others try in the same hour is left to them,
whichever process they are: when somebody tried stands beside the collection. What is too large, or
did not succeed, is for people; they are told how.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.adapters.mongo.connection import Document, border
from crawlfleet.adapters.mongo.shards import BY_PRIORITY, PRIORITIES, Shards
from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.policy.routing import Shard, all_shards

#: Documents of a collection that are read within a few seconds.
SMALL: Final = 1_000_000
#: How long building one may take.
BUILD_SECONDS: Final = 15.0
#: How long nobody tries again.
AGAIN: Final = timedelta(hours=1)

_BY_HAND: Final = (
    'createIndex({priority: 1, flag: 1, ts: 1, _id: 1}, {name: "by_priority", '
    "partialFilterExpression: {priority: {$exists: true}}})"
)


class MongoIndexing:
    """The index-building part of ports.RequestStore."""

    def __init__(
        self, shards: Shards, small: int = SMALL, build_seconds: float = BUILD_SECONDS
    ) -> None:
        self._shards = shards
        self._small, self._build_seconds = small, build_seconds
        #: Collections that have the index, or are left alone until then.
        self._settled: dict[tuple[str, str, Shard], datetime | None] = {}

    def index(
        self, lane: Lane, biz: Biz, now: datetime, time_left: Callable[[], float]
    ) -> list[str]:
        """See ports.RequestStore.index."""
        told: list[str] = []
        away: set[str] = set()
        for shard in all_shards(biz):
            key = (lane.tenant, lane.biz, shard)
            until = self._settled.get(key, now)
            if until is None or until > now or shard.node in away:
                continue
            if time_left() < self._shards.waits.glance + self._build_seconds:
                break
            try:
                with border(self._shards.waits.glance):
                    attempts = self._shards.attempts(lane, biz, shard)
                    collection = self._shards.requests(lane, biz, shard)
                    is_there = BY_PRIORITY in collection.index_information()
                    mine = not is_there and _claimed(attempts, collection.name, now)
                    many = collection.estimated_document_count() if mine else 0
            except StoreError:
                away.add(shard.node)  # whoever needs it says so
                continue
            self._settled[key] = None if is_there else now + AGAIN
            if not mine:
                continue
            name = f"{collection.database.name}.{collection.name}"
            by_hand = f'db.getCollection("{collection.name}").{_BY_HAND}'
            if many > self._small:
                told.append(f"{name} has about {many} documents; build it by hand: {by_hand}")
                continue
            try:
                with border(self._build_seconds):
                    collection.create_indexes([PRIORITIES])
                    attempts.delete_one({"_id": collection.name})
            except StoreError as error:
                # The others' turn comes in the next round: one failure is enough to wait for.
                told.append(f"{name}: {error}; if that goes on, build it by hand: {by_hand}")
                break
            self._settled[key] = None
        return told


def _claimed(attempts: Collection[Document], name: str, now: datetime) -> bool:
    """Whether nobody has tried within the hour; from now on somebody has."""
    stale = {"_id": name, "at": {"$lte": now - AGAIN}}
    try:
        attempts.update_one(stale, {"$set": {"at": now}}, upsert=True)
    except DuplicateKeyError:
        return False
    return True
