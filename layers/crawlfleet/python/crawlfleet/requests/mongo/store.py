"""The request store on MongoDB, put together of its parts; jobs cancelled in bounded transactions.

The index of jobs finds what is open of a job, pending and waiting requests before leased ones. A
transaction that meets a settlement or a claim of the same request is undone by the server and done
again: one of the two has it, and the ledger counts it once (SPEC.md C2, H1).
"""

from datetime import datetime
from functools import partial
from typing import Final

from pymongo.client_session import ClientSession

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.mongo import connection
from crawlfleet.kernel.mongo.connection import Document, border
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.mongo.claim import MongoClaims
from crawlfleet.requests.mongo.documents import OWN_OPEN, book, event, pushed, tally_of
from crawlfleet.requests.mongo.insert import MongoInsertion
from crawlfleet.requests.mongo.read import MongoTracking
from crawlfleet.requests.mongo.reclaim import BUILD_SECONDS, SMALL, MongoIndexing
from crawlfleet.requests.mongo.record_search import MongoRecordSearch
from crawlfleet.requests.mongo.records import delete_parts
from crawlfleet.requests.mongo.recovery import SCAN, MongoRecovery
from crawlfleet.requests.mongo.settle import MongoSettlement, MongoStreaming
from crawlfleet.requests.mongo.sharding import BY_ID, BY_JOB, Shards, all_of, on_shards
from crawlfleet.requests.mongo.transitions import MongoTransitions
from crawlfleet.requests.mongo.unqueued import MongoUnqueued
from crawlfleet.requests.routing import Shard, all_shards

#: Requests cancelled in one transaction.
BATCH: Final = 500
#: In this order: what is pending is the most, and would be begun next.
_OPEN: Final = (int(State.PENDING), int(State.WAITING), OWN_OPEN, int(State.LEASED))


class MongoJobCancelling:
    """Cancel what is open of a job."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def cancel_job(
        self, queue_key: QueueKey, biz: Biz, job: str, limit: int, by: str, now: datetime
    ) -> int:
        """Cancel about ``limit`` open requests of a job, leased ones too; return how many.

        A worker settles such a request before or not at all: its token owns nothing any more. Less
        than ``limit`` says nothing of what is left; 0 says that nothing was, a moment ago. The
        shards work at once, each its share of the limit.
        """
        shards = all_shards(biz)
        share = -(-limit // len(shards))

        def cancel_in(shard: Shard, _: list[None]) -> int:
            with border(TRANSACTION_SECONDS):
                return _Cancelling(self._shards, queue_key, biz, shard, job, by, now).cancel(share)

        return sum(all_of(on_shards({shard: [] for shard in shards}, cancel_in)))


class _Cancelling:
    """Cancel a job's requests of one shard."""

    def __init__(
        self,
        shards: Shards,
        queue_key: QueueKey,
        biz: Biz,
        shard: Shard,
        job: str,
        by: str,
        now: datetime,
    ) -> None:
        self._requests = shards.requests(queue_key, biz, shard)
        self._records = shards.records(queue_key, biz, shard)
        self._counts = shards.counts(queue_key, biz, shard, made_sure=True)
        self._client = shards.client(shard)
        self._job, self._now = job, now
        self._mine: Document = {"job": job, "tenant": queue_key.tenant, "biz": queue_key.biz}
        self._change: Document = {
            "$set": {"flag": int(State.CANCELLED)},
            "$unset": {"token": "", "due": "", "parts": ""},
            "$push": pushed(event(now, State.CANCELLED, by, "its job was cancelled")),
        }

    def cancel(self, limit: int) -> int:
        """Cancel up to so many; return how many were."""
        total = 0
        for flag in _OPEN:
            match = {**self._mine, "flag": flag}
            while total < limit:
                size = min(BATCH, limit - total)
                # Nearly always, and at the end always, there is nothing: no transaction for that.
                if self._requests.find_one(match, projection=["_id"], hint=BY_JOB) is None:
                    break
                cancelled = in_transaction(self._client, partial(self._write, match, size))
                total += cancelled
                if cancelled < size:
                    break
        return total

    def _write(self, match: Document, size: int, session: ClientSession) -> int:
        cursor = self._requests.find(match, projection=["parts"], hint=BY_JOB, session=session)
        found = list(cursor.sort(["ts", "_id"]).limit(size))
        if not found:
            return 0
        chosen = {"_id": {"$in": [document["_id"] for document in found]}}
        self._requests.update_many(chosen, self._change, hint=BY_ID, session=session)
        delete_parts(self._records, found, session)
        book(self._counts, tally_of([self._job] * len(found), "cancelled"), self._now, session)
        return len(found)


class MongoRequestStore:
    """Keep requests and records in the shards of their biz, by parts that each know a few verbs.

    ``scan`` requests of a shard are read by recovery where no index tells their priority. An index
    of ``small`` documents at most is built in passing, in ``build_seconds``.
    """

    def __init__(
        self,
        nodes: connection.MongoNodes,
        *,
        scan: int = SCAN,
        small: int = SMALL,
        build_seconds: float = BUILD_SECONDS,
    ) -> None:
        self.nodes = nodes
        self.shards = shards = Shards(nodes)
        self.insert = MongoInsertion(shards).insert
        claims = MongoClaims(shards)
        self.claim, self.due = claims.claim, claims.due
        self.renew, self.release = claims.renew, claims.release
        self.settle = MongoSettlement(nodes, shards).settle
        streaming = MongoStreaming(shards)
        self.store_part, self.store_keyed = streaming.store_part, streaming.store_keyed
        tracking = MongoTracking(shards)
        self.get, self.find, self.cancel = tracking.get, tracking.find, tracking.cancel
        self.search = tracking.search
        self.records, self.record_count = tracking.records, tracking.record_count
        self.find_records = MongoRecordSearch(shards).find
        recovery = MongoRecovery(shards, scan)
        self.unqueued, self.expire = recovery.unqueued, recovery.expire
        self.index = MongoIndexing(shards, small, build_seconds).index
        notes = MongoUnqueued(nodes)
        self.note_unqueued, self.noted_unqueued = notes.note, notes.noted
        self.forget_unqueued = notes.forget
        self.cancel_job = MongoJobCancelling(shards).cancel_job
        self.transition = MongoTransitions(shards).transition
