"""Numbers kept in MongoDB: worker numbers for when Redis is down, and the counter id kind."""

from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from pymongo import ASCENDING, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.errors import WorkerNumbersExhaustedError
from crawlfleet.model.times import from_ms
from crawlfleet.model.worker import HeldNumber
from crawlfleet.policy.snowflake import first_mark

#: The worker numbers leased here; Redis leases those below. Submissions must go on without Redis.
FIRST_NUMBER: Final = 960
LAST_NUMBER: Final = 1023


class MongoWorkerNumbers:
    """ports.WorkerNumbers for ``first`` to ``last``, both included."""

    def __init__(
        self, nodes: MongoNodes, first: int = FIRST_NUMBER, last: int = LAST_NUMBER
    ) -> None:
        self._nodes = nodes
        self._first = first
        self._last = last
        self._sure = False

    def lease(self, holder: str, now_ms: int, term_ms: int) -> HeldNumber:
        """See ports.WorkerNumbers.lease."""
        fence = f"{holder}-{uuid4().hex}"
        with border():
            found = self._numbers().find_one_and_update(
                {
                    "_id": {"$gte": self._first, "$lte": self._last},
                    "until": {"$lte": from_ms(now_ms)},
                },
                {"$set": {"fence": fence, "until": from_ms(now_ms + term_ms)}},
                sort=[("until", ASCENDING), ("_id", ASCENDING)],
                return_document=ReturnDocument.AFTER,
            )
        if found is None:
            message = f"all worker numbers from {self._first} to {self._last} are leased"
            raise WorkerNumbersExhaustedError(message)
        mark = first_mark(now_ms) if found["mark"] is None else int(found["mark"])
        held = HeldNumber(number=found["_id"], fence=fence, mark=mark)
        if found["mark"] is None:
            with border():
                self._numbers().update_one(
                    {"_id": held.number, "fence": fence}, {"$set": {"mark": mark}}
                )
        return held

    def advance(self, held: HeldNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """See ports.WorkerNumbers.advance."""
        with border():
            result = self._numbers().update_one(
                {
                    "_id": held.number,
                    "fence": held.fence,
                    "mark": held.mark,
                    "until": {"$gt": from_ms(now_ms)},
                },
                {"$set": {"mark": mark, "until": from_ms(now_ms + term_ms)}},
            )
        return bool(result.matched_count)

    def _numbers(self) -> Collection[Document]:
        collection = self._nodes.control("worker_numbers")
        if not self._sure:
            never = from_ms(0) - timedelta(days=1)
            try:
                collection.insert_many(
                    [
                        {"_id": number, "until": never, "fence": "", "mark": None}
                        for number in range(self._first, self._last + 1)
                    ],
                    ordered=False,
                )
            except BulkWriteError as error:
                if any(fault["code"] != 11000 for fault in error.details["writeErrors"]):
                    raise
            self._sure = True
        return collection


class MongoCounter:
    """The counter id kind: numbers from 1 on, one counter a biz."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def reserve(self, tenant: str, biz: str, count: int) -> int:
        """Reserve ``count`` numbers, never given before; returns the first."""
        with border():
            found: Any = self._nodes.control("counters").find_one_and_update(
                {"_id": f"{tenant}/{biz}"},
                {"$inc": {"last": count}, "$setOnInsert": {"tenant": tenant, "biz": biz}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        return int(found["last"]) - count + 1
