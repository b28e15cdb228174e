"""What recovery asks of MongoDB: what is not queued, and what has passed its time (SPEC.md A9)."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from pymongo import ASCENDING
from pymongo.client_session import ClientSession

from crawlfleet.adapters.mongo.connection import Document, border
from crawlfleet.adapters.mongo.counting import book, count_submitted, tally_of
from crawlfleet.adapters.mongo.documents import ENTRY_FIELDS, entry_of, event, pushed
from crawlfleet.adapters.mongo.missing import SCAN, Missing
from crawlfleet.adapters.mongo.record_documents import keys_of
from crawlfleet.adapters.mongo.shards import BY_COUNTING, BY_DUE, BY_ID, BY_STATE, Shards
from crawlfleet.adapters.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry, State
from crawlfleet.policy.routing import Shard, all_shards, live_shards

#: Requests marked as expired in one transaction.
BATCH: Final = 1_000
T = TypeVar("T")


class MongoRecovery:
    """The recovering part of ports.RequestStore."""

    def __init__(self, shards: Shards, scan: int = SCAN) -> None:
        self._shards = shards
        self._scan = scan

    def unqueued(
        self, lane: Lane, biz: Biz, *, before: Sequence[datetime], now: datetime, limit: int
    ) -> list[Entry]:
        """See ports.RequestStore.unqueued: a few indexed queries a shard."""
        alive = now - timedelta(seconds=biz.ttl_seconds)
        # Of the usual lane are those that have no pool: what null matches.
        mine = {"tenant": lane.tenant, "biz": lane.biz, "pool": lane.pool}
        overdue = {
            **mine,
            "due": {"$exists": True, "$lte": now},
            "flag": {"$in": [int(State.LEASED), int(State.WAITING)]},
            "ts": {"$gt": alive},
        }

        def look(shard: Shard) -> list[Entry]:
            with border():
                collection = self._shards.requests(lane, biz, shard, made_sure=True)
                late = collection.find(overdue, projection=ENTRY_FIELDS, hint=BY_DUE)
                late = late.sort("due", ASCENDING).limit(limit)
                found = [
                    *Missing(collection, mine, alive, self._scan).below(before, limit),
                    *late,
                ]
            return [entry_of(lane, document) for document in found]

        parts = _answers(live_shards(biz, now), look)
        return sorted(chain.from_iterable(parts), key=lambda entry: entry.ts)[:limit]

    def expire(self, lane: Lane, biz: Biz, now: datetime) -> int:
        """See ports.RequestStore.expire.

        The TTL index removes a request only after the grace time, so that it can be counted first;
        marking and counting are one transaction. What was submitted singly is counted here too, and
        only then a changed TTL comes into force. Old generations are looked at too: after an outage
        they may hold what nobody has counted, which MongoDB leaves alone for ever.
        """
        return sum(
            _answers(all_shards(biz), lambda shard: self._expire_shard(lane, biz, shard, now))
        )

    def _expire_shard(self, lane: Lane, biz: Biz, shard: Shard, now: datetime) -> int:
        with border():
            expiring = _Expiring(self._shards, lane, biz, shard, now)
        expiring.count_submitted()
        marked = expiring.mark()
        with border():
            self._shards.keep_lives(lane, biz, shard)
        return marked


class _Expiring:
    """One round over one shard."""

    def __init__(self, shards: Shards, lane: Lane, biz: Biz, shard: Shard, now: datetime) -> None:
        self._lane = lane
        self._biz = biz
        self._now = now
        self._requests = shards.requests(lane, biz, shard, made_sure=True)
        self._records = shards.records(lane, biz, shard)
        self._counts = shards.counts(lane, biz, shard, made_sure=True)
        self._client = shards.client(shard)

    def count_submitted(self) -> None:
        """Count what was submitted singly since the last round."""
        match = {"call": {"$lt": 0}}
        while True:
            with border(TRANSACTION_SECONDS):
                found = self._requests.find(match, projection=["_id"], hint=BY_COUNTING)
                ids = [document["_id"] for document in found.limit(BATCH)]
                if ids:
                    in_transaction(self._client, partial(self._count, ids))
            if len(ids) < BATCH:
                return

    def _count(self, ids: list[RequestId], session: ClientSession) -> int:
        return count_submitted(self._requests, self._counts, ids, self._now, session)

    def mark(self) -> int:
        """Mark and count as expired; returns how many."""
        total = 0
        while True:
            with border(TRANSACTION_SECONDS):
                marked = in_transaction(self._client, self._mark) if self._any_overage() else 0
            total += marked
            if marked < BATCH:
                return total

    def _any_overage(self) -> bool:
        # Nearly always there is none, and no transaction is needed to know it.
        return (
            self._requests.find_one(self._overage(), projection=["_id"], hint=BY_STATE) is not None
        )

    def _mark(self, session: ClientSession) -> int:
        found = list(
            self._requests.find(
                self._overage(), projection=["job", "parts"], hint=BY_STATE, session=session
            ).limit(BATCH)
        )
        if found:
            change = {
                "$set": {
                    "flag": int(State.EXPIRED),
                    "error": "not processed within its time to live",
                },
                "$unset": {"token": "", "due": ""},
                "$push": pushed(event(self._now, State.EXPIRED, "recovery", "time to live passed")),
            }
            chosen = {"_id": {"$in": [document["_id"] for document in found]}}
            self._requests.update_many(chosen, change, hint=BY_ID, session=session)
            for document in found:
                if "parts" in document:  # a page that was read in part leaves nothing
                    remains = {"_id": keys_of(document["_id"])}
                    self._records.delete_many(remains, hint=BY_ID, session=session)
            tally = tally_of((document.get("job") for document in found), "expired")
            book(self._counts, tally, self._now, session)
        return len(found)

    def _overage(self) -> Document:
        return {
            "tenant": self._lane.tenant,
            "biz": self._lane.biz,
            "ts": {"$lte": self._now - timedelta(seconds=self._biz.ttl_seconds)},
            **_expirable(self._biz, self._now),
        }


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


def _expirable(biz: Biz, now: datetime) -> Document:
    """Pending, waiting, or leased by somebody whose lease has ended.

    Half-way through the grace also what is still worked on: MongoDB would remove it uncounted.
    """
    last_chance = now - timedelta(seconds=biz.ttl_seconds + biz.expiry_grace_seconds / 2)
    return {
        "flag": {"$in": [int(State.PENDING), int(State.WAITING), int(State.LEASED)]},
        "$or": [
            {"flag": {"$ne": int(State.LEASED)}},
            {"due": {"$lte": now}},
            {"ts": {"$lte": last_chance}},
        ],
    }
