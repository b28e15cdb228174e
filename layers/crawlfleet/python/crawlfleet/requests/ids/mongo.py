"""Numbers in MongoDB: worker numbers for when Redis is down, and the counter id kind."""

from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from pymongo import ASCENDING, ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from crawlfleet.kernel.errors import WorkerNumbersExhaustedError
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.time import from_ms
from crawlfleet.requests.ids.issuer import LeasedNumber, first_mark

#: The worker numbers leased here; Redis leases those below. Submissions must go on without Redis.
FIRST_NUMBER: Final = 960
LAST_NUMBER: Final = 1023

#: The end of the lease of a number that nobody has had.
_NEVER: Final = from_ms(0) - timedelta(days=1)
_DUPLICATE_KEY: Final = 11000


class MongoWorkerNumbers:
    """Lease the worker numbers from ``first`` to ``last``, both included."""

    def __init__(
        self, nodes: MongoNodes, first: int = FIRST_NUMBER, last: int = LAST_NUMBER
    ) -> None:
        self._nodes, self._first, self._last = nodes, first, last

    def lease(self, holder: str, now_ms: int, term_ms: int) -> LeasedNumber:
        """Lease the number that has been free for longest, for ``term_ms``."""
        fence = f"{holder}-{uuid4().hex}"
        with border():
            found = self._take(fence, now_ms, term_ms)
            if found is None:
                self._add_numbers()
                found = self._take(fence, now_ms, term_ms)
        if found is None:
            message = f"all worker numbers from {self._first} to {self._last} are leased"
            raise WorkerNumbersExhaustedError(message)
        mark = first_mark(now_ms) if found["mark"] is None else int(found["mark"])
        leased = LeasedNumber(number=int(found["_id"]), fence=fence, mark=mark)
        if found["mark"] is None:
            with border():
                mine = {"_id": leased.number, "fence": fence}
                self._numbers().update_one(mine, {"$set": {"mark": mark}})
        return leased

    def advance(self, leased: LeasedNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """Spend the positions below ``mark`` and renew the lease, in one step."""
        with border():
            result = self._numbers().update_one(
                {
                    "_id": leased.number,
                    "fence": leased.fence,
                    "mark": leased.mark,
                    "until": {"$gt": from_ms(now_ms)},
                },
                {"$set": {"mark": mark, "until": from_ms(now_ms + term_ms)}},
            )
        return bool(result.matched_count)

    def _take(self, fence: str, now_ms: int, term_ms: int) -> Document | None:
        taken: Document | None = self._numbers().find_one_and_update(
            {"_id": {"$gte": self._first, "$lte": self._last}, "until": {"$lte": from_ms(now_ms)}},
            {"$set": {"fence": fence, "until": from_ms(now_ms + term_ms)}},
            sort=[("until", ASCENDING), ("_id", ASCENDING)],
            return_document=ReturnDocument.AFTER,
        )
        return taken

    def _add_numbers(self) -> None:
        """Add the numbers that are missing: all of them, at the very first lease."""
        numbers = [
            {"_id": number, "until": _NEVER, "fence": "", "mark": None}
            for number in range(self._first, self._last + 1)
        ]
        try:
            self._numbers().insert_many(numbers, ordered=False)
        except BulkWriteError as error:
            if any(fault["code"] != _DUPLICATE_KEY for fault in error.details["writeErrors"]):
                raise

    def _numbers(self) -> Collection[Document]:
        return self._nodes.control("worker_numbers")


class MongoCounter:
    """Count ids of the counter kind: numbers from 1 on, one counter a biz."""

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
