"""Requests into MongoDB (SPEC.md A4, A5): persisted by a majority, each node for itself."""

import secrets
from collections.abc import Sequence
from typing import Final

from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    DuplicateKeyError,
    ServerSelectionTimeoutError,
)

from crawlfleet.adapters.mongo.connection import Document, UnstorableError, border
from crawlfleet.adapters.mongo.documents import new_document
from crawlfleet.adapters.mongo.parts import by_shard, on_shards
from crawlfleet.adapters.mongo.shards import BY_ID, Shards
from crawlfleet.errors import StoreError
from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Inserted, Request, State
from crawlfleet.policy.routing import Shard

_DUPLICATE_KEY: Final = 11000
#: Taking back what a failed insertion left behind: the caller has waited long enough already.
_DISCARD_SECONDS: Final = 2.0


class MongoInsertion:
    """The insertion of ports.RequestStore."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def insert(self, lane: Lane, biz: Biz, requests: Sequence[Request]) -> Inserted:
        """See ports.RequestStore.insert."""

        def insert_into(shard: Shard, part: list[Request]) -> Inserted:
            return self._insert_shard(lane, biz, shard, part)

        parts = by_shard(biz, requests, lambda request: (request.id, request.queued_at))
        done, failed = on_shards(parts, insert_into)
        refused = {request.id: error for part, error in failed for request in part}
        return _together([*done, Inserted(refused=refused)])

    def _insert_shard(
        self, lane: Lane, biz: Biz, shard: Shard, requests: Sequence[Request]
    ) -> Inserted:
        """Insert one shard's requests, all or none of them but for those that cannot be stored."""
        call = secrets.randbits(63)
        try:
            with border():
                collection = self._shards.requests(lane, biz, shard, made_sure=True)
                return Inserted(existing=frozenset(_insert_into(collection, requests, call)))
        except UnstorableError as error:
            self._discard(lane, biz, shard, requests, call)
            if len(requests) == 1:
                return Inserted(refused={requests[0].id: error})
        except StoreError as error:
            if not isinstance(error.__cause__, ServerSelectionTimeoutError):
                self._discard(lane, biz, shard, requests, call)
            raise
        # One of them must not take the others with it.
        return _together([self._insert_shard(lane, biz, shard, [one]) for one in requests])

    def _discard(
        self, lane: Lane, biz: Biz, shard: Shard, requests: Sequence[Request], call: int
    ) -> None:
        # The caller hears "not stored", so what this call left behind must go; never what an
        # earlier one wrote. When the node stays away this fails too: then the time-out has told
        # nothing, and a request may run whose submitter tries again: twice is the safe side.
        try:
            with border(_DISCARD_SECONDS):
                self._shards.requests(lane, biz, shard).delete_many(
                    {
                        "_id": {"$in": [request.id for request in requests]},
                        "call": call,
                        "flag": int(State.PENDING),
                        "attempts": {"$exists": False},
                    },
                    hint=BY_ID,
                )
        except StoreError:
            return


def _insert_into(
    collection: Collection[Document], requests: Sequence[Request], call: int
) -> set[RequestId]:
    """Insert; returns the ids that were there already."""
    documents = [new_document(request, call) for request in requests]
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


def _together(parts: Sequence[Inserted]) -> Inserted:
    return Inserted(
        existing=frozenset().union(*(part.existing for part in parts)),
        refused={i: error for part in parts for i, error in part.refused.items()},
    )
