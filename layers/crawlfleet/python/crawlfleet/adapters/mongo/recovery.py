"""What recovery asks of MongoDB: what is not queued, and what has passed its time (SPEC.md A9)."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, TypeVar

from pymongo import ASCENDING
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import event, pushed, read_id
from crawlfleet.adapters.mongo.settlement import TRANSACTION_SECONDS, in_transaction
from crawlfleet.adapters.mongo.shards import BY_DUE, BY_ID, BY_STATE, Shards
from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, State
from crawlfleet.model.times import to_ms
from crawlfleet.policy.routing import Shard, live_shards

#: Requests marked as expired in one transaction.
BATCH: Final = 1_000
T = TypeVar("T")
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
            "due": {"$exists": True, "$lte": now},
            "flag": {"$in": [int(State.LEASED), int(State.WAITING)]},
            "ts": {"$gt": alive},
        }

        def look(shard: Shard) -> list[Entry]:
            found: list[Entry] = []
            with border():
                collection = self._shards.requests(lane, biz, shard, made_sure=True)
                for match, order, index in (
                    (pending, "ts", BY_STATE),
                    (overdue, "due", BY_DUE),
                ):
                    cursor = (
                        collection.find(match, projection=_ENTRY_FIELDS, hint=index)
                        .sort(order, ASCENDING)
                        .limit(limit)
                    )
                    found.extend(Entry(read_id(d["_id"]), lane.biz, to_ms(d["ts"])) for d in cursor)
            return found

        parts = _answers(live_shards(biz, now), look)
        return sorted(chain.from_iterable(parts), key=lambda entry: entry.ts)[:limit]

    def expire(self, lane: Lane, biz: Biz, now: datetime) -> int:
        """See ports.RequestStore.expire.

        The TTL index removes a request only after the grace time, so that it can be counted first;
        marking and counting are one transaction.
        """
        return sum(
            _answers(live_shards(biz, now), lambda shard: self._expire_shard(lane, biz, shard, now))
        )

    def _expire_shard(self, lane: Lane, biz: Biz, shard: Shard, now: datetime) -> int:
        change = {
            "$set": {"flag": int(State.EXPIRED), "error": "not processed within its time to live"},
            "$unset": {"token": "", "due": ""},
            "$push": pushed(event(now, State.EXPIRED, "recovery", "time to live passed")),
        }
        total = 0
        with border():
            # Here also a changed TTL reaches the shards into which nothing is written any more.
            self._shards.records(lane, biz, shard, made_sure=True)
            requests = self._shards.requests(lane, biz, shard, made_sure=True)
            counts = self._shards.counts(lane, biz, shard)
        while True:
            with border(TRANSACTION_SECONDS):
                ids = _overage(requests, lane, biz, now)

                def write(session: ClientSession, batch: list[RequestId] = ids) -> int:
                    match = {"_id": {"$in": batch}, **_expirable(now)}
                    marked = requests.update_many(
                        match, change, hint=BY_ID, session=session
                    ).modified_count
                    if marked:
                        counts.update_one(
                            {"_id": shard.number},
                            {"$inc": {"expired": marked}},
                            upsert=True,
                            session=session,
                        )
                    return marked

                if ids:
                    total += in_transaction(self._nodes.client(shard.node), write)
            if len(ids) < BATCH:
                return total


def _overage(
    requests: Collection[Document], lane: Lane, biz: Biz, now: datetime
) -> list[RequestId]:
    match = {
        "tenant": lane.tenant,
        "biz": lane.biz,
        "ts": {"$lte": now - timedelta(seconds=biz.ttl_seconds)},
        **_expirable(now),
    }
    cursor = requests.find(match, projection=["_id"], hint=BY_STATE).limit(BATCH)
    return [document["_id"] for document in cursor]


def _answers(shards: Sequence[Shard], ask: Callable[[Shard], T]) -> list[T]:
    """What each shard answers; those of a node that is away wait for the next round of recovery.

    Raises:
        StoreUnavailableError: no node answered.
    """
    found: list[T] = []
    down: dict[str, StoreError] = {}
    for shard in shards:
        if shard.node in down:
            continue
        try:
            found.append(ask(shard))
        except StoreError as error:
            down[shard.node] = error
    if down and not found:
        raise next(iter(down.values()))
    return found


def _expirable(now: datetime) -> Document:
    """Pending, waiting, or leased by somebody whose lease has ended."""
    return {
        "flag": {"$in": [int(State.PENDING), int(State.WAITING), int(State.LEASED)]},
        "$or": [{"flag": {"$ne": int(State.LEASED)}}, {"due": {"$lte": now}}],
    }
