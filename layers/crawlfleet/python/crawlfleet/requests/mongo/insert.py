"""Insertion of requests into MongoDB, by a majority of each node (SPEC.md A4, A5).

A shard's part of a batch and its count are one transaction (SPEC.md H1). A single submission takes
less than a millisecond, and a transaction would more than double that: it, and a few for one shard,
go in by one statement, marked as not counted yet, and recovery counts them within the minute. Until
then ledgers add them to what they have counted, and MongoDB's TTL leaves them alone.
"""

import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Final

from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError, ServerSelectionTimeoutError

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.kernel.mongo.connection import Document, UnstorableError, border
from crawlfleet.kernel.mongo.transactions import in_session
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Inserted, Request
from crawlfleet.requests.mongo.documents import book, new_document, read_id, tally_of
from crawlfleet.requests.mongo.sharding import BY_ID, Shards, by_shard, on_shards
from crawlfleet.requests.routing import Shard

#: Requests of a shard that go in without a transaction; for more than these it is cheaper to count
#: them at once than to write each a second time.
FEW: Final = 16

_DUPLICATE_KEY: Final = 11000
#: Taking back what a failed insertion left behind: the caller has waited long enough already.
_DISCARD_SECONDS: Final = 2.0


class _SomeExistError(Exception):
    """An id is taken: undo, and find out which."""


class ShardInsertion:
    """Insert into one shard; the random ``call`` names the insertion in what it writes."""

    def __init__(self, shards: Shards, queue_key: QueueKey, biz: Biz, shard: Shard) -> None:
        self._requests = shards.requests(queue_key, biz, shard, made_sure=True)
        self._counts = partial(shards.counts, queue_key, biz, shard, made_sure=True)
        self._client = partial(shards.client, shard)
        self._call = secrets.randbits(62) + 1
        self._session: ClientSession | None = None

    def close(self) -> None:
        """Give the session back."""
        if self._session is not None:
            self._session.end_session()

    def insert(self, requests: Sequence[Request]) -> set[RequestId]:
        """Insert; return the ids that were there already."""
        if len(requests) <= FEW and all(request.job is None for request in requests):
            return self._insert_uncounted(requests)
        self._counts()  # made sure of before the transaction, which cannot
        look_first = False
        while True:
            try:
                return in_session(self._open(), partial(self._write, requests, look_first))
            except _SomeExistError:
                look_first = True

    def _insert_uncounted(self, requests: Sequence[Request]) -> set[RequestId]:
        documents = [new_document(request, -self._call) for request in requests]
        try:
            if len(documents) == 1:
                self._requests.insert_one(documents[0])
            else:
                self._requests.insert_many(documents, ordered=False)
        except DuplicateKeyError:
            return {requests[0].id}
        except BulkWriteError as error:
            if error.details.get("writeConcernErrors") or not _only_duplicates(error):
                raise
            return {fault["op"]["_id"] for fault in error.details["writeErrors"]}
        return set()

    def _write(
        self, requests: Sequence[Request], look_first: bool, session: ClientSession
    ) -> set[RequestId]:
        existing: set[RequestId] = set()
        new = list(requests)
        if look_first:
            existing = _taken(self._requests, requests, session)
            new = list({r.id: r for r in reversed(requests) if r.id not in existing}.values())
            # Of an id that comes twice the first is stored, and the other one finds it there.
            times = Counter(request.id for request in requests)
            existing |= {request_id for request_id, count in times.items() if count > 1}
        if not new:
            return existing
        documents = [new_document(request, self._call) for request in new]
        try:
            self._requests.insert_many(documents, ordered=False, session=session)
        except BulkWriteError as error:
            if not _only_duplicates(error):
                raise
            raise _SomeExistError from error
        last = max(request.queued_at for request in new)
        book(self._counts(), tally_of((r.job for r in new), "submitted"), last, session)
        return existing

    def _open(self) -> ClientSession:
        if self._session is None:
            self._session = self._client().start_session()
        return self._session

    def discard(self, requests: Sequence[Request]) -> None:
        """Take back what this call left behind; never what an earlier one wrote.

        The caller hears "not stored". The insertion's own session does it, so that a transaction
        whose commit was never answered is either seen here or undone by the server. When the node
        stays away this fails too: a request may then run whose submitter tries again: twice is the
        safe side, and the ledger counts both.
        """
        if not requests:
            return
        match = {
            "_id": {"$in": [request.id for request in requests]},
            "call": {"$in": [self._call, -self._call]},
            "flag": int(State.PENDING),
            "attempts": {"$exists": False},
        }
        fields = ["job", "call", "ts"]

        def take_back(session: ClientSession) -> None:
            mine = self._requests.find(match, projection=fields, hint=BY_ID, session=session)
            if found := list(mine):
                chosen = {"_id": {"$in": [document["_id"] for document in found]}}
                self._requests.delete_many(chosen, hint=BY_ID, session=session)
            tally = tally_of((d.get("job") for d in found if d["call"] > 0), "submitted")
            if tally:
                back = Counter({key: -number for key, number in tally.items()})
                book(self._counts(), back, max(d["ts"] for d in found), session)

        try:
            with border(_DISCARD_SECONDS):
                in_session(self._open(), take_back)
        except StoreError:
            return


class MongoInsertion:
    """Insert batches; ``into`` makes the insertion into one shard."""

    def __init__(self, shards: Shards, into: type[ShardInsertion] = ShardInsertion) -> None:
        self._shards, self._into = shards, into

    def insert(
        self,
        queue_key: QueueKey,
        biz: Biz,
        requests: Sequence[Request],
        kept: frozenset[RequestId] = frozenset(),
    ) -> Inserted:
        """Persist with majority write concern.

        A node that does not answer refuses its own requests only: they are taken back as far as
        that can be had, and the others stand. ``kept`` ids are never taken back: a caller that
        repeats them finds what is left.
        """

        def insert_into(shard: Shard, part: list[Request]) -> Inserted:
            if any(request.pool is not None for request in part):
                self._shards.index_pools(queue_key, biz, shard)
            return self._insert_shard(queue_key, biz, shard, part, kept)

        parts = by_shard(biz, requests, lambda request: (request.id, request.queued_at))
        done, failed = on_shards(parts, insert_into)
        refused = {request.id: error for part, error in failed for request in part}
        return _together([*done, Inserted(refused=refused)])

    def _insert_shard(
        self,
        queue_key: QueueKey,
        biz: Biz,
        shard: Shard,
        requests: Sequence[Request],
        kept: frozenset[RequestId],
    ) -> Inserted:
        """Insert one shard's requests: all or none, but for those that cannot be stored."""
        # Another call may have found a kept one, and answered for it.
        unkept = [request for request in requests if request.id not in kept]
        with border():
            # A node that is away is one no session is opened on, and leaves nothing to take back.
            into = self._into(self._shards, queue_key, biz, shard)
        with closing(into):
            try:
                with border():
                    return Inserted(existing=frozenset(into.insert(requests)))
            except UnstorableError as error:
                into.discard(unkept)
                if len(requests) == 1:
                    return Inserted(refused={requests[0].id: error})
            except StoreError as error:
                if not isinstance(error.__cause__, ServerSelectionTimeoutError):
                    into.discard(unkept)
                raise
        return self._insert_apart(queue_key, biz, shard, requests, kept)

    def _insert_apart(
        self,
        queue_key: QueueKey,
        biz: Biz,
        shard: Shard,
        requests: Sequence[Request],
        kept: frozenset[RequestId],
    ) -> Inserted:
        """Insert one by one: the one that cannot be stored must not take the others with it."""
        alone: list[Inserted] = []
        for request in requests:
            try:
                alone.append(self._insert_shard(queue_key, biz, shard, [request], kept))
            except StoreError as error:
                # What is stored by now stands, so only the rest is refused.
                rest = {left.id: error for left in requests[len(alone) :]}
                alone.append(Inserted(refused=rest))
                break
        return _together(alone)


def _only_duplicates(error: BulkWriteError) -> bool:
    return {fault["code"] for fault in error.details["writeErrors"]} == {_DUPLICATE_KEY}


def _taken(
    collection: Collection[Document], requests: Sequence[Request], session: ClientSession
) -> set[RequestId]:
    match = {"_id": {"$in": [request.id for request in requests]}}
    found = collection.find(match, projection=["_id"], hint=BY_ID, session=session)
    return {read_id(document["_id"]) for document in found}


def _together(parts: Sequence[Inserted]) -> Inserted:
    return Inserted(
        existing=frozenset().union(*(part.existing for part in parts)),
        refused={i: error for part in parts for i, error in part.refused.items()},
    )
