"""Reclaiming of requests from reaped workers and removed pools, and what queues are rebuilt from.

Also builds the indexes of priorities (SPEC.md C4) and of records by job, where a collection is
older than they are.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec
from pymongo import ASCENDING, IndexModel
from pymongo.collection import Collection as MongoCollection
from pymongo.errors import DuplicateKeyError, OperationFailure

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border, end_abandoned
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Entry, QueueEpoch
from crawlfleet.requests.mongo import sharding
from crawlfleet.requests.mongo.documents import ENTRY_FIELDS, entry_of, event, pushed
from crawlfleet.requests.mongo.recovery import pools_in, unbound, with_priorities
from crawlfleet.requests.mongo.sharding import (
    BY_DUE,
    BY_ID,
    BY_POOL,
    BY_STATE,
    Shards,
    any_of,
    late_indexes,
)
from crawlfleet.requests.routing import Shard, all_shards, live_shards

T = TypeVar("T")

_BAD_VALUE: Final = 2
_MS: Final = timedelta(milliseconds=1)


class MongoLeaseRevocation:
    """Revoke leases, reassign pools, and list what a queue is rebuilt from.

    A biz has a queue for each pool: what is pending, waits or is leased is listed of that queue
    alone. A node that does not answer leaves its own requests out, for the next round of recovery;
    it is an error only where no node answered.

    Epochs are kept in the control database, one document a queue. In the shards they would have to
    be looked for in every generation, and a new one would have each queue rebuilt.
    """

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes, self._shards = nodes, Shards(nodes)

    def revoke(
        self,
        queue_key: QueueKey,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        by: str,
        why: str,
        now: datetime,
    ) -> int:
        """Make pending what ``worker`` owns of these; its tokens are worth nothing from then on.

        One update a shard. Attempts stay counted: a request that ends its workers must not do so
        for ever.
        """
        change: Document = {
            "$set": {"flag": int(State.PENDING)},
            "$unset": {"token": "", "due": ""},
            "$push": pushed(event(now, State.PENDING, by, why)),
        }

        def revoke_in(shard: Shard, part: list[Entry]) -> int:
            match = {
                "_id": {"$in": [entry.id for entry in part]},
                "flag": int(State.LEASED),
                "worker": worker,
            }
            with border():
                requests = self._shards.requests(queue_key, biz, shard)
                return requests.update_many(match, change, hint=BY_ID).modified_count

        mine = [entry for entry in entries if entry.biz == queue_key.biz]
        nodes = sharding.by_node(biz, mine, lambda entry: (entry.id, from_ms(entry.ts)))
        # The worker may have died in the middle of a transaction: it would keep us waiting.
        sharding.on_nodes(nodes, lambda node, _: end_abandoned(self._nodes.client(node)))
        parts = {shard: part for node in nodes.values() for shard, part in node.items()}
        return sum(any_of(sharding.on_shards(parts, revoke_in)))

    def pools(
        self, queue_key: QueueKey, biz: Biz, among: Collection[str], now: datetime
    ) -> set[str]:
        """Return the pools that requests of the biz are bound for, in whatever state.

        All of ``among`` where that cannot be told quickly; others may be found too. One step over
        the index of pools for each; the index is built here.
        """

        def look(shard: Shard) -> list[str]:
            requests = self._shards.requests(queue_key, biz, shard, made_sure=True)
            found = pools_in(requests)
            if found is None:
                self._shards.index_pools(queue_key, biz, shard)
                found = pools_in(requests)
            return list(among) if found is None else found

        return set(self._everywhere(queue_key, biz, now, look))

    def give_over(
        self, queue_key: QueueKey, biz: Biz, limit: int, by: str, why: str, now: datetime
    ) -> tuple[int, list[Entry]]:
        """Unbind up to ``limit`` a shard of the open requests of the queue's pool.

        Returns how many were, 0 where there was none, and those that are to be queued for all now:
        pending ones, and those whose lease is over. What waits for an attempt is found there when
        it is due. A lease that is not over stays. A few updates a shard, each of one state.
        """
        open_now: tuple[tuple[State, Document], ...] = (
            (State.PENDING, {}),
            (State.WAITING, {}),
            (State.LEASED, {"due": {"$lte": now}}),
        )

        def look(shard: Shard) -> list[tuple[int, list[Entry]]]:
            requests = self._shards.requests(queue_key, biz, shard)
            if queue_key.pool not in (pools_in(requests) or ()):
                return []
            count, entries = 0, []
            for state, more in open_now:
                match = {"pool": queue_key.pool, "flag": int(state), **more}
                cursor = requests.find(match, projection=ENTRY_FIELDS, hint=BY_POOL)
                found = list(cursor.sort("ts", ASCENDING).limit(max(1, limit - count)))
                if not found:
                    continue
                mine = {**match, "_id": {"$in": [one["_id"] for one in found]}}
                line = pushed(event(now, state, by, why))
                change: Document = {"$unset": {"pool": ""}, "$push": line}
                count += requests.update_many(mine, change, hint=BY_ID).modified_count
                if state != State.WAITING:
                    entries += [entry_of(queue_key, one) for one in found]
            return [(count, entries)]

        parts = self._everywhere(queue_key, biz, now, look)
        entries = sorted((one for _, part in parts for one in part), key=_place)
        return sum(count for count, _ in parts), entries

    def pending(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        since: int,
        before: datetime,
        now: datetime,
        limit: int,
    ) -> list[Entry]:
        """List pending entries with ``ts`` from ``since`` (epoch ms) on, oldest first.

        A page has about ``limit`` entries and all of the last one's millisecond, so the next begins
        one after it. Only an empty page is the last one. The index of states alone answers: a
        collection belongs to one biz of one tenant.
        """
        alive = now - timedelta(seconds=biz.ttl_seconds)
        span = {"$gte": from_ms(since), "$lt": before, "$gt": alive}
        # Shards are filled evenly, so each gives its share of the page, and a little more. Where it
        # has still more, the page ends with the last millisecond that it gave whole.
        share = -(-limit * 5 // (4 * len(live_shards(biz, now)))) + 1

        def look(shard: Shard) -> list[tuple[list[Entry], int | None]]:
            requests = self._shards.requests(queue_key, biz, shard, made_sure=True)
            others = pools_in(requests) if queue_key.pool is None else None
            page = span
            while True:
                found = _pending(requests, queue_key, page, share)
                if len(found) < share:
                    return [(_entries(requests, queue_key, unbound(requests, others, found)), None)]
                last = found[-1]["ts"]
                # No limit here: a millisecond that is cut in two could not be gone on from.
                rest = _pending(requests, queue_key, {**page, "$eq": last})
                found = [*(one for one in found if one["ts"] < last), *rest]
                mine = _entries(requests, queue_key, unbound(requests, others, found))
                if mine:
                    return [(mine, to_ms(last))]
                # All of it is bound for pools: it is not this queue's, and the rest may be.
                page = {**page, "$gte": last + _MS}

        parts = self._everywhere(queue_key, biz, now, look)
        end = min((last for _, last in parts if last is not None), default=None)
        found = sorted((entry for part, _ in parts for entry in part), key=_place)
        if end is not None:
            found = [entry for entry in found if entry.ts <= end]
        if len(found) > limit:
            last = found[limit - 1].ts
            found = [entry for entry in found if entry.ts <= last]
        return found

    def waiting(
        self, queue_key: QueueKey, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[Entry, datetime]]:
        """List entries that wait for an attempt, with when it is due, soonest first."""
        match = {
            "due": {"$exists": True},
            "flag": int(State.WAITING),
            "pool": queue_key.pool,
            "ts": {"$gt": now - timedelta(seconds=biz.ttl_seconds)},
        }

        def look(shard: Shard) -> list[tuple[Entry, datetime]]:
            requests = self._shards.requests(queue_key, biz, shard, made_sure=True)
            cursor = requests.find(match, projection=[*ENTRY_FIELDS, "due"], hint=BY_DUE)
            ordered = cursor.sort("due", ASCENDING).limit(limit)
            return [(entry_of(queue_key, document), document["due"]) for document in ordered]

        found = self._everywhere(queue_key, biz, now, look)
        return sorted(found, key=lambda one: (one[1], _place(one[0])))[:limit]

    def held(
        self, queue_key: QueueKey, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[str, Entry]]:
        """List leased entries whose lease is not over, each with its worker."""
        due = {"$exists": True, "$gt": now}
        match = {"due": due, "flag": int(State.LEASED), "pool": queue_key.pool}

        def look(shard: Shard) -> list[tuple[str, Entry]]:
            requests = self._shards.requests(queue_key, biz, shard)
            cursor = requests.find(match, projection=[*ENTRY_FIELDS, "worker"], hint=BY_DUE)
            return [(one["worker"], entry_of(queue_key, one)) for one in cursor.limit(limit)]

        return self._everywhere(queue_key, biz, now, look)[:limit]

    def remembered_epoch(self, queue_key: QueueKey) -> QueueEpoch | None:
        """Return the epoch of the queue when it was last whole."""
        with border():
            found = self._nodes.control("marks").find_one({"_id": _key(queue_key)})
        return None if found is None else _epoch(found)

    def remembered_epochs(self, queues: Sequence[QueueKey]) -> dict[QueueKey, QueueEpoch]:
        """Return those of many queues, in one read; what is not remembered is missing."""
        by_key = {_key(queue_key): queue_key for queue_key in queues}
        with border():
            found = list(self._nodes.control("marks").find({"_id": {"$in": list(by_key)}}))
        return {by_key[one["_id"]]: _epoch(one) for one in found}

    def remember_epoch(self, queue_key: QueueKey, epoch: QueueEpoch) -> None:
        """Keep the epoch of a whole queue."""
        kept = {"server": epoch.server, "nonce": epoch.nonce, "reached": epoch.reached}
        with border():
            self._nodes.control("marks").replace_one({"_id": _key(queue_key)}, kept, upsert=True)

    def _everywhere(
        self, queue_key: QueueKey, biz: Biz, now: datetime, look: Callable[[Shard], list[T]]
    ) -> list[T]:
        """Ask every live shard that has anything; join the answers of those that do answer."""

        def ask(shard: Shard, _: list[None]) -> list[T]:
            with border():
                return look(shard) if self._shards.is_begun(queue_key, biz, shard) else []

        done = any_of(sharding.on_shards({shard: [] for shard in live_shards(biz, now)}, ask))
        return [one for part in done for one in part]


def _pending(
    requests: MongoCollection[Document], queue_key: QueueKey, span: Document, limit: int = 0
) -> list[Document]:
    """List what is pending in a span: of the queue's pool; of no pool it is that of all pools."""
    pending: Document = {"flag": int(State.PENDING), "ts": span}
    hints = [BY_STATE]
    if queue_key.pool is not None:
        pending["pool"], hints = queue_key.pool, [BY_POOL, BY_STATE]
    order = [("ts", ASCENDING), ("_id", ASCENDING)]
    for hint in hints:
        try:
            cursor = requests.find(pending, projection=("_id", "ts"), hint=hint)
            return list(cursor.sort(order).limit(limit))
        except OperationFailure as error:
            # Until the index of pools is there it goes without.
            if error.code != _BAD_VALUE or hint == BY_STATE:
                raise
    return []


def _entries(
    requests: MongoCollection[Document], queue_key: QueueKey, found: Sequence[Document]
) -> list[Entry]:
    pending = {"flag": int(State.PENDING)}
    return [entry_of(queue_key, one) for one in with_priorities(requests, pending, found)]


def _place(entry: Entry) -> tuple[int, int, RequestId]:
    """Order entries: integer ids before hex ones, as in MongoDB; the two are never compared."""
    return entry.ts, int(isinstance(entry.id, str)), entry.id


def _key(queue_key: QueueKey) -> str:
    # None of the three may contain a slash.
    return f"{queue_key.tenant}/{queue_key.biz}/{queue_key.queue}"


def _epoch(found: Document) -> QueueEpoch:
    return QueueEpoch(server=found["server"], nonce=found["nonce"], reached=found["reached"])


#: Documents of a collection that are read within a few seconds.
SMALL: Final = 1_000_000
#: How long building one may take.
BUILD_SECONDS: Final = 15.0
#: How long it is not tried again.
AGAIN: Final = timedelta(hours=1)


class MongoIndexing:
    """Build the indexes of priorities, and of records by job, where they are missing."""

    def __init__(
        self, shards: Shards, small: int = SMALL, build_seconds: float = BUILD_SECONDS
    ) -> None:
        self._shards = shards
        self._small, self._build_seconds = small, build_seconds
        #: Collections that have the index, or are left alone until then.
        self._settled: dict[tuple[str, str, Shard, str], datetime | None] = {}

    def index(
        self, queue_key: QueueKey, biz: Biz, now: datetime, time_left: Callable[[], float]
    ) -> list[str]:
        """Build indexes for recovery where that is cheap, untried lately and time is left.

        ``time_left`` is in seconds. Returns what people have to build by hand. Nothing depends on
        it, so a node that does not answer is passed by.
        """
        reported: list[str] = []
        away: set[str] = set()
        each = [(shard, *one) for shard in all_shards(biz) for one in late_indexes(biz, shard)]
        for shard, opened, index in each:
            key = (queue_key.tenant, queue_key.biz, shard, opened.__name__)
            until = self._settled.get(key, now)
            if until is None or until > now or shard.node in away:
                continue
            if time_left() < self._shards.waits.glance + self._build_seconds:
                break
            try:
                with border(self._shards.waits.glance):
                    attempts = self._shards.attempts(queue_key, biz, shard)
                    collection = opened(self._shards, queue_key, biz, shard)
                    indexes = collection.index_information()
                    if not indexes:
                        continue  # nothing was written there yet
                    is_there = index.document["name"] in indexes
                    mine = not is_there and _claimed(attempts, collection.name, now)
                    many = collection.estimated_document_count() if mine else 0
            except StoreError:
                away.add(shard.node)  # what needs it says so
                continue
            self._settled[key] = None if is_there else now + AGAIN
            if not mine:
                continue
            name = f"{collection.database.name}.{collection.name}"
            by_hand = f'db.getCollection("{collection.name}").{_by_hand(index)}'
            if many > self._small:
                reported.append(f"{name} has about {many} documents; build it by hand: {by_hand}")
                continue
            try:
                with border(self._build_seconds):
                    collection.create_indexes([index])
                    attempts.delete_one({"_id": collection.name})
            except StoreError as error:
                # The others come in the next round: one failure is enough to wait for.
                reported.append(f"{name}: {error}; if that goes on, build it by hand: {by_hand}")
                break
            self._settled[key] = None
        return reported


def _by_hand(index: IndexModel) -> str:
    """Write what builds an index in MongoDB's shell."""
    keys = ", ".join(f"{field}: 1" for field in index.document["key"])
    where = msgspec.json.encode(index.document["partialFilterExpression"]).decode()
    options = f'{{name: "{index.document["name"]}", partialFilterExpression: {where}}}'
    return f"createIndex({{{keys}}}, {options})"


def _claimed(attempts: MongoCollection[Document], name: str, now: datetime) -> bool:
    """Claim the attempt; False where another was made within the hour."""
    stale = {"_id": name, "at": {"$lte": now - AGAIN}}
    try:
        attempts.update_one(stale, {"$set": {"at": now}}, upsert=True)
    except DuplicateKeyError:
        return False
    return True
