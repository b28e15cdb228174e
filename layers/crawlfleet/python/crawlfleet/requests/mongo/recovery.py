"""Queries of recovery to MongoDB: what is not queued, and what has expired (SPEC.md A5, A9, C4).

The index of priorities has requests of other priorities than the usual one, the index of pools
those that are bound for one. Recovery builds them, and until then what is asked here does without.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from pymongo import ASCENDING, DESCENDING
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document, border
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, LEVELS, QueueKey
from crawlfleet.requests.models import Entry
from crawlfleet.requests.mongo import documents, sharding
from crawlfleet.requests.mongo.records import delete_parts
from crawlfleet.requests.mongo.sharding import BY_ID, BY_POOL, BY_PRIORITY, BY_STATE
from crawlfleet.requests.routing import Shard, all_shards, live_shards

#: Requests that are looked at where no index tells their priority.
SCAN: Final = 10_000

#: Pools of a shard that are named: there never are as many at once.
_MOST_POOLS: Final = 64
_BAD_VALUE: Final = 2
_OTHERS: Final = [level for level in range(LEVELS) if level != DEFAULT_PRIORITY]


def with_priorities(
    requests: Collection[Document], pending: Document, found: Sequence[Document]
) -> Sequence[Document]:
    """Add their priorities to pending documents, sorted by ``ts``, without reading a document."""
    if not found:
        return found
    span = {"$gte": found[0]["ts"], "$lte": found[-1]["ts"]}
    match = {**pending, "priority": {"$in": _OTHERS}, "ts": span}
    fields = ("_id", "priority")
    try:
        others = list(requests.find(match, projection=fields, hint=BY_PRIORITY))
    except OperationFailure as error:
        if error.code != _BAD_VALUE:
            raise
        match = {"_id": {"$in": [one["_id"] for one in found]}, "priority": {"$in": _OTHERS}}
        others = list(requests.find(match, projection=fields, hint=BY_ID))
    if not others:
        return found
    priorities = {one["_id"]: one["priority"] for one in others}
    return [{**one, "priority": priorities.get(one["_id"], DEFAULT_PRIORITY)} for one in found]


class Missing:
    """Find a shard's pending requests that the queue does not have.

    ``mine`` matches those of the biz and of the queue's pool. What was submitted up to ``alive``
    has passed its time to live. ``scan`` are looked at where no index tells their priority.
    """

    def __init__(
        self, requests: Collection[Document], mine: Document, alive: datetime, scan: int = SCAN
    ) -> None:
        self._requests, self._scan, self._alive = requests, scan, alive
        self._pending = {**mine, "flag": int(State.PENDING)}
        self._pool: str | None = mine.get("pool")

    def below(self, before: Sequence[datetime], limit: int) -> Iterator[Document]:
        """Yield those older than what ``before`` has for their priority, some of each kind.

        What is below the least bound is missing whatever its priority. Beyond that the index of
        priorities finds all but those of the usual one, which are looked for among the latest that
        may be missing, where most losses are: many others may wait there.
        """
        lowest = min(before)
        if self._pool is not None:
            yield from self._of_pool(before, limit)
            return
        if nothing_unbound(self._requests, pools_in(self._requests), self._alive, max(before)):
            return
        yield from self._look({"$gt": self._alive, "$lt": lowest}, limit)
        # The same bound for several is one look; the usual case is one for all that are not queued.
        alike: dict[datetime, list[int]] = defaultdict(list)
        for priority, bound in enumerate(before):
            if bound > lowest:
                alike[bound].append(priority)
        since = max(lowest, self._alive)
        try:
            found = [
                document
                for bound, priorities in alike.items()
                for document in self._indexed(priorities, since, bound, limit)
            ]
        except OperationFailure as error:
            if error.code != _BAD_VALUE:
                raise
            # The index is not there yet.
            yield from self._latest(before, since, set(range(len(before))))
            return
        yield from found
        if before[DEFAULT_PRIORITY] > lowest:
            yield from self._latest(before, since, {DEFAULT_PRIORITY})

    def _of_pool(self, before: Sequence[datetime], limit: int) -> Iterator[Document]:
        """Yield those of the queue of a pool: its index has them by ``ts`` whatever the priority.

        Which are missing is seen when they are read, so as many are read as anywhere.
        """
        match = {**self._pending, "ts": {"$gt": self._alive, "$lt": min(before)}}
        late = {**self._pending, "ts": {"$gte": min(before), "$lt": max(before)}}
        for hint in (BY_POOL, BY_STATE):
            try:
                found = self._requests.find(match, projection=documents.ENTRY_FIELDS, hint=hint)
                first = list(found.sort("ts", ASCENDING).limit(limit))
                latest = self._requests.find(late, projection=documents.ENTRY_FIELDS, hint=hint)
                last = list(latest.sort("ts", DESCENDING).limit(self._scan))
            except OperationFailure as error:
                if error.code != _BAD_VALUE or hint == BY_STATE:
                    raise
                continue
            yield from first
            for document in last:
                if document["ts"] < before[document.get("priority", DEFAULT_PRIORITY)]:
                    yield document
            return

    def _look(self, span: Document, limit: int) -> Iterator[Document]:
        match = {**self._pending, "ts": span}
        cursor = self._requests.find(match, projection=documents.ENTRY_FIELDS, hint=BY_STATE)
        yield from cursor.sort("ts", ASCENDING).limit(limit)

    def _indexed(
        self, priorities: Sequence[int], since: datetime, bound: datetime, limit: int
    ) -> Iterator[Document]:
        others = [priority for priority in priorities if priority != DEFAULT_PRIORITY]
        if not others:
            return
        match = {**self._pending, "priority": {"$in": others}, "ts": {"$gte": since, "$lt": bound}}
        cursor = self._requests.find(match, projection=documents.ENTRY_FIELDS, hint=BY_PRIORITY)
        yield from cursor.sort("ts", ASCENDING).limit(limit)

    def _latest(
        self, before: Sequence[datetime], since: datetime, wanted: set[int]
    ) -> Iterator[Document]:
        bound = max(before[priority] for priority in wanted)
        match = {**self._pending, "ts": {"$gte": since, "$lt": bound}}
        cursor = self._requests.find(match, projection=documents.ENTRY_FIELDS, hint=BY_STATE)
        for document in cursor.sort("ts", DESCENDING).limit(self._scan):
            priority = document.get("priority", DEFAULT_PRIORITY)
            if priority in wanted and document["ts"] < before[priority]:
                yield document


#: Requests marked as expired in one transaction.
BATCH: Final = 1_000
T = TypeVar("T")


class MongoRecovery:
    """Find what is not queued; expire what is too old."""

    def __init__(self, shards: sharding.Shards, scan: int = SCAN) -> None:
        self._shards, self._scan = shards, scan

    def unqueued(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        before: Sequence[datetime],
        now: datetime,
        limit: int,
    ) -> list[Entry]:
        """List the queue's entries that recovery shall queue again, oldest first.

        Pending ones with ``ts`` below what ``before`` has for their priority, 0 to 10; waiting and
        leased ones overdue at ``now``. Where many stand before them some may be left out: whatever
        is below the least of all bounds is found, and the latest ones are. A few indexed queries a
        shard.
        """
        alive = now - timedelta(seconds=biz.ttl_seconds)
        # Without a pool are those of the usual queue: what null matches.
        mine = {"tenant": queue_key.tenant, "biz": queue_key.biz, "pool": queue_key.pool}
        overdue = {
            **mine,
            "due": {"$exists": True, "$lte": now},
            "flag": {"$in": [int(State.LEASED), int(State.WAITING)]},
            "ts": {"$gt": alive},
        }

        def look(shard: Shard) -> list[Entry]:
            with border():
                if not self._shards.is_begun(queue_key, biz, shard):
                    return []
                collection = self._shards.requests(queue_key, biz, shard, made_sure=True)
                fields = documents.ENTRY_FIELDS
                late = collection.find(overdue, projection=fields, hint=sharding.BY_DUE)
                late = late.sort("due", ASCENDING).limit(limit)
                found = [*Missing(collection, mine, alive, self._scan).below(before, limit), *late]
            return [documents.entry_of(queue_key, document) for document in found]

        parts = _answers(live_shards(biz, now), look)
        return sorted(chain.from_iterable(parts), key=lambda entry: entry.ts)[:limit]

    def expire(self, queue_key: QueueKey, biz: Biz, now: datetime) -> int:
        """Expire and count what passed its TTL unprocessed; return how many.

        The TTL index removes a request only after the grace time, so that it can be counted first;
        change and count are one transaction. What was submitted singly is counted here too, and
        only then a changed TTL comes into force. Old generations are included: after an outage they
        may hold what was not counted, which MongoDB leaves alone for ever.
        """

        def expire_in(shard: Shard) -> int:
            with border():
                if not self._shards.is_begun(queue_key, biz, shard):
                    return 0
                expiring = _Expiring(self._shards, queue_key, biz, shard, now)
            expiring.count_submitted()
            marked = expiring.mark()
            with border():
                self._shards.keep_lives(queue_key, biz, shard)
            return marked

        return sum(_answers(all_shards(biz), expire_in))


class _Expiring:
    """Expire the requests of one shard, once."""

    def __init__(
        self, shards: sharding.Shards, queue_key: QueueKey, biz: Biz, shard: Shard, now: datetime
    ) -> None:
        self._queue_key, self._biz, self._now = queue_key, biz, now
        self._requests = shards.requests(queue_key, biz, shard, made_sure=True)
        self._records = shards.records(queue_key, biz, shard)
        self._counts = shards.counts(queue_key, biz, shard, made_sure=True)
        self._client = shards.client(shard)

    def count_submitted(self) -> None:
        """Count what was submitted singly since the last round."""
        match = {"call": {"$lt": 0}}
        while True:
            with border(TRANSACTION_SECONDS):
                found = self._requests.find(match, projection=["_id"], hint=sharding.BY_COUNTING)
                ids = [document["_id"] for document in found.limit(BATCH)]
                if ids:
                    in_transaction(self._client, partial(self._count, ids))
            if len(ids) < BATCH:
                return

    def _count(self, ids: list[RequestId], session: ClientSession) -> int:
        return documents.count_submitted(self._requests, self._counts, ids, self._now, session)

    def mark(self) -> int:
        """Expire and count; return how many."""
        total = 0
        while True:
            with border(TRANSACTION_SECONDS):
                # Nearly always there is none, and no transaction is needed to know it.
                one = self._requests.find_one(self._overage(), projection=["_id"], hint=BY_STATE)
                marked = 0 if one is None else in_transaction(self._client, self._mark)
            total += marked
            if marked < BATCH:
                return total

    def _mark(self, session: ClientSession) -> int:
        overage, fields = self._overage(), ["job", "parts"]
        cursor = self._requests.find(overage, projection=fields, hint=BY_STATE, session=session)
        if found := list(cursor.limit(BATCH)):
            error = "not processed within its time to live"
            line = documents.event(self._now, State.EXPIRED, "recovery", "time to live passed")
            change = {
                "$set": {"flag": int(State.EXPIRED), "error": error},
                "$unset": {"token": "", "due": ""},
                "$push": documents.pushed(line),
            }
            chosen = {"_id": {"$in": [document["_id"] for document in found]}}
            self._requests.update_many(chosen, change, hint=BY_ID, session=session)
            delete_parts(self._records, found, session)
            tally = documents.tally_of((document.get("job") for document in found), "expired")
            documents.book(self._counts, tally, self._now, session)
        return len(found)

    def _overage(self) -> Document:
        return {
            "tenant": self._queue_key.tenant,
            "biz": self._queue_key.biz,
            "ts": {"$lte": self._now - timedelta(seconds=self._biz.ttl_seconds)},
            **_expirable(self._biz, self._now),
        }


def _answers(shards: Sequence[Shard], ask: Callable[[Shard], T]) -> list[T]:
    """Ask each shard; those of a node that is away wait for the next round of recovery.

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
    """Match what is pending, waiting, in an open state of the biz's own, or no more leased.

    Half-way through the grace also what is still worked on: MongoDB would remove it uncounted.
    """
    last_chance = now - timedelta(seconds=biz.ttl_seconds + biz.expiry_grace_seconds / 2)
    return {
        "flag": documents.UNENDED,
        "$or": [
            {"flag": {"$ne": int(State.LEASED)}},
            {"due": {"$lte": now}},
            {"ts": {"$lte": last_chance}},
        ],
    }


def pools_in(requests: Collection[Document]) -> list[str] | None:
    """Return the pools that requests of the shard are bound for, in order; None without the index.

    One step over the index for each of them, however many are bound for it.
    """
    found: list[str] = []
    try:
        while len(found) < _MOST_POOLS:
            after = found[-1] if found else ""
            cursor = requests.find({"pool": {"$gt": after}}, projection=("pool",), hint=BY_POOL)
            one = next(iter(cursor.sort("pool", ASCENDING).limit(1)), None)
            if one is None:
                break
            found.append(one["pool"])
    except OperationFailure as error:
        if error.code != _BAD_VALUE:
            raise
        return None
    return found


def unbound(
    requests: Collection[Document], pools: Sequence[str] | None, found: list[Document]
) -> list[Document]:
    """Return those of these pending documents, sorted by ``ts``, that any usual worker may have.

    They were read from the index of states, which does not tell; no document is read here.
    """
    if not pools or not found:
        return found
    match = {
        "pool": {"$in": list(pools)},
        "flag": int(State.PENDING),
        "ts": {"$gte": found[0]["ts"], "$lte": found[-1]["ts"]},
    }
    bound = {one["_id"] for one in requests.find(match, projection=("_id",), hint=BY_POOL)}
    return [one for one in found if one["_id"] not in bound]


def nothing_unbound(
    requests: Collection[Document], pools: Sequence[str] | None, after: datetime, before: datetime
) -> bool:
    """Tell whether all that is pending between two moments is bound for some pool, as keys tell.

    A million may wait for a pool, none of it missing from the usual queue: going through the keys
    is a fraction of the cost of reading it.
    """
    if not pools:
        return False
    span = {"flag": int(State.PENDING), "ts": {"$gt": after, "$lt": before}}
    bound = _count(requests, {"pool": {"$in": list(pools)}, **span}, BY_POOL)
    return bound > 0 and bound >= _count(requests, span, BY_STATE)


def _count(requests: Collection[Document], match: Document, hint: str) -> int:
    answer = requests.database.command("count", requests.name, query=match, hint=hint)
    return int(answer["n"])
