"""What recovery asks of MongoDB: what is not queued, and what has passed its time (SPEC.md A9)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pymongo
from pymongo import ASCENDING
from pymongo.client_session import ClientSession

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import event, pushed
from crawlfleet.adapters.mongo.shards import Shards
from crawlfleet.adapters.mongo.tracking import READ_MS
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, State
from crawlfleet.model.times import to_ms
from crawlfleet.policy.routing import Shard, live_shards

#: Requests marked as expired in one transaction.
BATCH: Final = 1_000
_ENTRY_FIELDS: Final = ("_id", "ts")


class MongoRecovery:
    """The recovering part of ports.RequestStore."""

    def __init__(self, nodes: MongoNodes, shards: Shards) -> None:
        self._nodes = nodes
        self._shards = shards

    def unqueued(
        self, lane: Lane, biz: Biz, *, before: datetime, now: datetime, limit: int
    ) -> list[Entry]:
        """See ports.RequestStore.unqueued: two indexed queries a shard."""
        alive = now - timedelta(seconds=biz.ttl_seconds)
        mine = {"tenant": lane.tenant, "biz": lane.biz}
        pending = {**mine, "flag": int(State.PENDING), "ts": {"$lt": before, "$gt": alive}}
        overdue = {
            **mine,
            "due": {"$exists": True, "$lt": now},
            "flag": {"$in": [int(State.LEASED), int(State.WAITING)]},
        }
        found: list[Entry] = []
        with border():
            for shard in live_shards(biz, now):
                collection = self._shards.requests(lane, biz, shard)
                for match, order in ((pending, "ts"), (overdue, "due")):
                    cursor = (
                        collection.find(match, projection=_ENTRY_FIELDS, max_time_ms=READ_MS)
                        .sort(order, ASCENDING)
                        .limit(limit)
                    )
                    found.extend(Entry(d["_id"], lane.biz, to_ms(d["ts"])) for d in cursor)
        return sorted(found, key=lambda entry: entry.ts)[:limit]

    def expire(self, lane: Lane, biz: Biz, now: datetime) -> int:
        """See ports.RequestStore.expire.

        The TTL index removes a request only after the grace time, so that it can be counted first;
        marking and counting are one transaction.
        """
        with border():
            return sum(self._expire_shard(lane, biz, shard, now) for shard in live_shards(biz, now))

    def _expire_shard(self, lane: Lane, biz: Biz, shard: Shard, now: datetime) -> int:
        requests = self._shards.requests(lane, biz, shard)
        counts = self._shards.counts(lane, biz, shard)
        change = {
            "$set": {"flag": int(State.EXPIRED), "error": "not processed within its time to live"},
            "$unset": {"token": "", "due": ""},
            "$push": pushed(event(now, State.EXPIRED, "recovery", "time to live passed")),
        }
        total = 0
        for ids in self._overage(requests, lane, biz, now):

            def write(session: ClientSession, batch: list[Any] = ids) -> int:
                match = {"_id": {"$in": batch}, **_expirable(now)}
                marked = requests.update_many(match, change, session=session).modified_count
                if marked:
                    counts.update_one(
                        {"_id": shard.number},
                        {"$inc": {"expired": marked}},
                        upsert=True,
                        session=session,
                    )
                return marked

            with (
                pymongo.timeout(READ_MS / 1000),
                self._nodes.client(shard.node).start_session() as session,
            ):
                total += session.with_transaction(write)
        return total

    @staticmethod
    def _overage(
        requests: pymongo.collection.Collection[Document], lane: Lane, biz: Biz, now: datetime
    ) -> Iterator[list[Any]]:
        oldest = now - timedelta(seconds=biz.ttl_seconds)
        match = {
            "tenant": lane.tenant,
            "biz": lane.biz,
            "ts": {"$lte": oldest},
            **_expirable(now),
        }
        while True:
            cursor = requests.find(match, projection=["_id"], max_time_ms=READ_MS).limit(BATCH)
            ids = [document["_id"] for document in cursor]
            if ids:
                yield ids
            if len(ids) < BATCH:
                return


def _expirable(now: datetime) -> Document:
    """Pending, waiting, or leased by somebody whose lease has ended."""
    return {
        "flag": {"$in": [int(State.PENDING), int(State.WAITING), int(State.LEASED)]},
        "$or": [{"flag": {"$ne": int(State.LEASED)}}, {"due": {"$lte": now}}],
    }
