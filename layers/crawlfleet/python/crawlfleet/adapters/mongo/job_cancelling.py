"""Cancelling what is open of a job, in bounded transactions (SPEC.md C2, H1).

The index of jobs finds it, pending and waiting requests before leased ones. A transaction that
meets a settlement or a claim of the same request is undone by the server and done again: one of the
two has it, and the ledger counts it once.
"""

from datetime import datetime
from functools import partial
from typing import Final

from pymongo import ASCENDING
from pymongo.client_session import ClientSession

from crawlfleet.adapters.mongo.connection import Document, border
from crawlfleet.adapters.mongo.counting import book, tally_of
from crawlfleet.adapters.mongo.documents import event, pushed
from crawlfleet.adapters.mongo.parts import on_shards
from crawlfleet.adapters.mongo.record_documents import keys_of
from crawlfleet.adapters.mongo.shards import BY_ID, BY_JOB, Shards
from crawlfleet.adapters.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import State
from crawlfleet.policy.routing import Shard, all_shards

#: Requests cancelled in one transaction.
BATCH: Final = 500
#: In this order: what is pending is the most, and would be begun next.
_OPEN: Final = (State.PENDING, State.WAITING, State.LEASED)


class MongoJobCancelling:
    """The part of ports.RequestStore that cancels jobs."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def cancel_job(self, lane: Lane, biz: Biz, job: str, limit: int, by: str, now: datetime) -> int:
        """See ports.RequestStore.cancel_job: the shards at once, each its share of the limit."""
        shards = all_shards(biz)
        share = -(-limit // len(shards))

        def cancel_in(shard: Shard, _: list[None]) -> int:
            with border(TRANSACTION_SECONDS):
                return _Cancelling(self._shards, lane, biz, shard, job, by, now).cancel(share)

        done, failed = on_shards({shard: [] for shard in shards}, cancel_in)
        if failed:
            raise failed[0][1]
        return sum(done)


class _Cancelling:
    """One round over one shard."""

    def __init__(
        self,
        shards: Shards,
        lane: Lane,
        biz: Biz,
        shard: Shard,
        job: str,
        by: str,
        now: datetime,
    ) -> None:
        self._requests = shards.requests(lane, biz, shard)
        self._records = shards.records(lane, biz, shard)
        self._counts = shards.counts(lane, biz, shard, made_sure=True)
        self._client = shards.client(shard)
        self._job = job
        self._mine: Document = {"job": job, "tenant": lane.tenant, "biz": lane.biz}
        self._now = now
        self._change: Document = {
            "$set": {"flag": int(State.CANCELLED)},
            "$unset": {"token": "", "due": "", "parts": ""},
            "$push": pushed(event(now, State.CANCELLED, by, "its job was cancelled")),
        }

    def cancel(self, limit: int) -> int:
        """Cancel up to so many; returns how many were."""
        total = 0
        for state in _OPEN:
            match = {**self._mine, "flag": int(state)}
            while total < limit:
                size = min(BATCH, limit - total)
                # Nearly always, and at the end always, there is nothing: no transaction for that.
                if self._requests.find_one(match, projection=["_id"], hint=BY_JOB) is None:
                    break
                write = partial(self._write, match, size)
                cancelled = in_transaction(self._client, write)
                total += cancelled
                if cancelled < size:
                    break
        return total

    def _write(self, match: Document, size: int, session: ClientSession) -> int:
        found = list(
            self._requests.find(match, projection=["parts"], hint=BY_JOB, session=session)
            .sort([("ts", ASCENDING), ("_id", ASCENDING)])
            .limit(size)
        )
        if not found:
            return 0
        chosen = {"_id": {"$in": [document["_id"] for document in found]}}
        self._requests.update_many(chosen, self._change, hint=BY_ID, session=session)
        for document in found:
            if "parts" in document:  # a page that was read in part leaves nothing
                remains = {"_id": keys_of(document["_id"])}
                self._records.delete_many(remains, hint=BY_ID, session=session)
        tally = tally_of([self._job] * len(found), "cancelled")
        book(self._counts, tally, self._now, session)
        return len(found)
