"""Requests in MongoDB: insertion, claim, renewal, outcome. Reading is in ``tracking``.

One document is changed by one atomic update whose filter names what must hold: id, tenant, biz, ts
and state for the claim, the token for everything after it. An outcome and the records that come with
it are one transaction of the shard's replica set, so a worker whose lease has ended writes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import bson
import pymongo
from bson.errors import BSONError
from pymongo.client_session import ClientSession
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import (
    event,
    new_document,
    pushed,
    record_document,
    request_of,
)
from crawlfleet.adapters.mongo.shards import Shards
from crawlfleet.errors import StoreConflictError, StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Dead, Done, Outcome
from crawlfleet.model.record import Record
from crawlfleet.model.request import Claim, Entry, Inserted, Request, State
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.routing import Shard, route

T = TypeVar("T")


class _SomeLostError(Exception):
    """Fewer requests were owned than the outcome names: undo, and look which."""


_DUPLICATE_KEY: Final = 11000
#: A transaction that keeps meeting other writers is given up, and tried again by its caller.
_TRANSACTION_SECONDS: Final = 15.0


class MongoRequestWrites:
    """The writing half of ports.RequestStore."""

    def __init__(self, nodes: MongoNodes, shards: Shards) -> None:
        self._nodes = nodes
        self._shards = shards

    def insert(self, lane: Lane, biz: Biz, requests: Sequence[Request]) -> Inserted:
        """See ports.RequestStore.insert."""
        existing: set[RequestId] = set()
        refused: dict[RequestId, StoreError] = {}
        for shard, part in _by_shard(biz, requests, lambda r: (r.id, r.queued_at)).items():
            try:
                with border():
                    existing |= self._insert_into(self._shards.requests(lane, biz, shard), part)
            except StoreError as error:
                refused.update(dict.fromkeys((request.id for request in part), error))
                self._discard(lane, biz, shard, part)
        return Inserted(existing=frozenset(existing), refused=refused)

    @staticmethod
    def _insert_into(
        collection: Collection[Document], requests: Sequence[Request]
    ) -> set[RequestId]:
        documents = [new_document(request) for request in requests]
        try:
            if len(documents) == 1:
                collection.insert_one(documents[0])
            else:
                collection.insert_many(documents, ordered=False)
        except DuplicateKeyError:
            return {requests[0].id}
        except BulkWriteError as error:
            faults = error.details["writeErrors"]
            if error.details.get("writeConcernErrors") or any(
                fault["code"] != _DUPLICATE_KEY for fault in faults
            ):
                raise
            return {fault["op"]["_id"] for fault in faults}
        return set()

    def _discard(self, lane: Lane, biz: Biz, shard: Shard, requests: Sequence[Request]) -> None:
        # The caller hears "not stored", so what a half-failed insertion left behind must go. When the
        # node stays away this fails too; then the time-out has told nothing, and recovery may run a
        # request whose submitter tries again: twice is the safe side of not knowing.
        try:
            self._shards.requests(lane, biz, shard).delete_many(
                {
                    "_id": {"$in": [request.id for request in requests]},
                    "tenant": lane.tenant,
                    "ts": {"$in": list({request.queued_at for request in requests})},
                    "flag": int(State.PENDING),
                    "attempts": {"$exists": False},
                }
            )
        except (PyMongoError, StoreError):
            return

    def claim(
        self,
        lane: Lane,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        now: datetime,
        until: datetime,
        token: str,
    ) -> list[Claim]:
        """See ports.RequestStore.claim.

        One update claims a shard's whole batch: each document is taken atomically, on id, tenant, biz,
        ts and state, under the token; the token then tells which were won.
        """
        oldest = to_ms(now - timedelta(seconds=biz.ttl_seconds))
        alive = {
            entry.id: entry for entry in entries if entry.ts > oldest and entry.biz == lane.biz
        }
        won: list[Claim] = []
        change: Document = {
            "$set": {"flag": int(State.LEASED), "worker": worker, "token": token, "due": until},
            "$inc": {"attempts": 1},
            "$push": pushed(event(now, State.LEASED, worker, "claimed")),
        }
        with border():
            for shard, part in _by_shard(biz, alive.values(), _entry_key).items():
                collection = self._shards.requests(lane, biz, shard)
                match: Document = {
                    "_id": {"$in": [entry.id for entry in part]},
                    "tenant": lane.tenant,
                    "biz": lane.biz,
                    "ts": {"$in": list({from_ms(entry.ts) for entry in part})},
                }
                claimable = {"$in": [int(State.PENDING), int(State.WAITING)]}
                taken = collection.update_many({**match, "flag": claimable}, change).modified_count
                if taken < len(part):
                    ended = {"flag": int(State.LEASED), "due": {"$lte": now}}
                    collection.update_many({**match, **ended, "token": {"$ne": token}}, change)
                owned = collection.find({"_id": match["_id"], "token": token})
                won.extend(self._confirmed(collection, owned, alive, token))
        return won

    @staticmethod
    def _confirmed(
        collection: Collection[Document],
        documents: Iterable[Document],
        entries: dict[RequestId, Entry],
        token: str,
    ) -> Iterator[Claim]:
        for document in documents:
            entry = entries[document["_id"]]
            if to_ms(document["ts"]) != entry.ts:
                # Its ts was another entry's of the same batch: this entry is not of this request.
                collection.update_one(
                    {"_id": entry.id, "token": token},
                    {
                        "$set": {"flag": int(State.PENDING)},
                        "$inc": {"attempts": -1},
                        "$unset": {"token": "", "due": ""},
                        "$pop": {"log": 1},
                    },
                )
                continue
            yield Claim(
                request=request_of(document),
                entry=entry,
                token=token,
                attempt=document["attempts"],
            )

    def renew(
        self, lane: Lane, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        """See ports.RequestStore.renew."""
        lost: set[RequestId] = set()
        with border():
            for shard, part in _by_shard(biz, claims, _claim_key).items():
                collection = self._shards.requests(lane, biz, shard)
                match = _owned(part)
                result = collection.update_many(match, {"$set": {"due": until}})
                if result.matched_count < len(part):
                    lost |= _missing(collection, match, part)
        return lost

    def settle(
        self,
        lane: Lane,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        worker: str,
        now: datetime,
    ) -> set[RequestId]:
        """See ports.RequestStore.settle."""
        lost: set[RequestId] = set()
        parts = _by_shard(biz, outcomes, lambda pair: _claim_key(pair[0]))
        for shard, part in parts.items():
            try:
                lost |= self._settle_shard(lane, biz, shard, part, worker, now)
            except (BSONError, OverflowError, RecursionError):
                # A record that BSON cannot hold must not take the batch with it.
                storable = [(claim, _storable(lane.tenant, outcome)) for claim, outcome in part]
                lost |= self._settle_shard(lane, biz, shard, storable, worker, now)
        return lost

    def _settle_shard(
        self,
        lane: Lane,
        biz: Biz,
        shard: Shard,
        outcomes: Sequence[tuple[Claim, Outcome]],
        worker: str,
        now: datetime,
    ) -> set[RequestId]:
        with border():
            requests = self._shards.requests(lane, biz, shard)
            records = self._shards.records(lane, biz, shard)
            client = self._nodes.client(shard.node)

            def write(session: ClientSession, *, look_first: bool) -> set[RequestId]:
                lost: set[RequestId] = set()
                for change, group in _changes(outcomes, worker, now):
                    match = _owned(group)
                    if look_first:
                        missing = _missing(requests, match, group, session)
                        lost |= missing
                        match["_id"] = {
                            "$in": [c.entry.id for c in group if c.entry.id not in missing]
                        }
                    changed = requests.update_many(match, change, session=session).matched_count
                    if not look_first and changed < len(group):
                        raise _SomeLostError
                kept = [record_document(lane.tenant, record) for record in _records(outcomes, lost)]
                if kept:
                    records.insert_many(kept, session=session)
                return lost

            try:
                return _in_transaction(client, partial(write, look_first=False))
            except _SomeLostError:
                return _in_transaction(client, partial(write, look_first=True))

    def release(
        self,
        lane: Lane,
        biz: Biz,
        claims: Sequence[Claim],
        worker: str,
        why: str,
        now: datetime,
    ) -> None:
        """See ports.RequestStore.release."""
        change = {
            "$set": {"flag": int(State.PENDING)},
            "$inc": {"attempts": -1},
            "$unset": {"token": "", "due": ""},
            "$push": pushed(event(now, State.PENDING, worker, why)),
        }
        with border():
            for shard, part in _by_shard(biz, claims, _claim_key).items():
                self._shards.requests(lane, biz, shard).update_many(_owned(part), change)


def _entry_key(entry: Entry) -> tuple[RequestId, datetime]:
    return entry.id, from_ms(entry.ts)


def _claim_key(claim: Claim) -> tuple[RequestId, datetime]:
    return claim.request.id, claim.request.queued_at


def _by_shard(
    biz: Biz, things: Iterable[T], key: Callable[[T], tuple[RequestId, datetime]]
) -> dict[Shard, list[T]]:
    parts: dict[Shard, list[T]] = defaultdict(list)
    for thing in things:
        request_id, queued_at = key(thing)
        parts[route(biz, request_id, queued_at)].append(thing)
    return parts


def _owned(claims: Sequence[Claim]) -> Document:
    tokens = {claim.token for claim in claims}
    return {
        "_id": {"$in": [claim.request.id for claim in claims]},
        "token": tokens.pop() if len(tokens) == 1 else {"$in": sorted(tokens)},
        "flag": int(State.LEASED),
    }


def _missing(
    collection: Collection[Document],
    match: Document,
    claims: Sequence[Claim],
    session: ClientSession | None = None,
) -> set[RequestId]:
    found = {d["_id"] for d in collection.find(match, projection=["_id"], session=session)}
    return {claim.request.id for claim in claims} - found


def _changes(
    outcomes: Sequence[tuple[Claim, Outcome]], worker: str, now: datetime
) -> Iterator[tuple[Document, list[Claim]]]:
    """Updates and whom they concern: claims that end alike, under one token, share an update."""
    groups: dict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for claim, outcome in outcomes:
        if isinstance(outcome, Done):
            groups[claim.token, State.DONE, len(outcome.records), outcome.status].append(claim)
        elif isinstance(outcome, Dead):
            groups[claim.token, State.DEAD, outcome.error, outcome.status, outcome.sample].append(
                claim
            )
        else:
            groups[claim.token, State.WAITING, outcome.error, outcome.due_at].append(claim)
    for (_, state, *facts), claims in groups.items():
        if state is State.DONE:
            count, status = facts
            line = event(now, State.DONE, worker, f"HTTP {status}, {count} records")
            change: Document = {
                "$set": {"flag": int(State.DONE), "records": count, "status": status},
                "$unset": {"due": "", "error": "", "token": ""},
            }
        elif state is State.DEAD:
            error, status, sample = facts
            line = event(now, State.DEAD, worker, str(error))
            change = {
                "$set": {
                    "flag": int(State.DEAD),
                    "error": error,
                    "status": status,
                    "sample": sample,
                },
                "$unset": {"due": "", "token": ""},
            }
        else:
            error, due_at = facts
            line = event(now, State.WAITING, worker, str(error))
            change = {
                "$set": {"flag": int(State.WAITING), "error": error, "due": due_at},
                "$unset": {"token": ""},
            }
        yield {**change, "$push": pushed(line)}, claims


def _records(outcomes: Sequence[tuple[Claim, Outcome]], lost: set[RequestId]) -> Iterator[Record]:
    for claim, outcome in outcomes:
        if isinstance(outcome, Done) and claim.request.id not in lost:
            yield from outcome.records


def _storable(tenant: str, outcome: Outcome) -> Outcome:
    if not isinstance(outcome, Done):
        return outcome
    try:
        for record in outcome.records:
            if len(bson.encode(record_document(tenant, record))) > _LARGEST_RECORD:
                return Dead(f"record {record.index} is larger than {_LARGEST_RECORD} bytes")
    except (BSONError, OverflowError, RecursionError) as error:
        return Dead(f"a record cannot be stored: {error}")
    return outcome


#: MongoDB's limit is 16 MiB; a record has company in its message.
_LARGEST_RECORD: Final = 15_000_000


def _in_transaction(client: MongoClient[Document], write: Callable[[ClientSession], T]) -> T:
    with pymongo.timeout(_TRANSACTION_SECONDS), client.start_session() as session:
        try:
            result: T = session.with_transaction(write)
        except BulkWriteError as error:
            # Records of a request exist although its lease was never settled: somebody wrote them
            # past the store. Naming it beats writing a second copy.
            raise StoreConflictError(f"records exist already: {error.details}") from error
        return result
