"""Pending requests of a shard by priority, and those that the queue cannot have (SPEC.md A5, C4).

The index of priorities has those of other priorities than the usual one. Recovery builds it, and
until then what is asked here does without it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from crawlfleet.adapters.mongo.bound import nothing_unbound, pools_in
from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.adapters.mongo.documents import ENTRY_FIELDS
from crawlfleet.adapters.mongo.shards import BY_ID, BY_POOL, BY_PRIORITY, BY_STATE
from crawlfleet.model.priority import DEFAULT_PRIORITY
from crawlfleet.model.request import State
from crawlfleet.policy.ageing import LEVELS

#: Requests that are looked at where no index tells their priority.
SCAN: Final = 10_000

_BAD_VALUE: Final = 2
_OTHERS: Final = [level for level in range(LEVELS) if level != DEFAULT_PRIORITY]


def with_priorities(
    requests: Collection[Document], pending: Document, found: Sequence[Document]
) -> Sequence[Document]:
    """These pending documents, sorted by ``ts``, with their priorities; no document is read."""
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
    """What of a shard's requests is pending although the queue does not have it.

    Args:
        requests: The shard's.
        mine: What tells them from those of others, and the pool of the lane.
        alive: What was submitted up to then has passed its time to live.
        scan: Requests that are looked at where no index tells their priority.
    """

    def __init__(
        self, requests: Collection[Document], mine: Document, alive: datetime, scan: int = SCAN
    ) -> None:
        self._requests = requests
        self._scan = scan
        self._pending = {**mine, "flag": int(State.PENDING)}
        self._pool: str | None = mine.get("pool")
        self._alive = alive

    def below(self, before: Sequence[datetime], limit: int) -> Iterator[Document]:
        """Those older than what ``before`` has for their priority, some of each kind.

        What is below the least bound is missing whatever its priority. Beyond that the index of
        priorities finds those of all but the usual one, which has none: those of it are looked for
        among the latest that may be missing, where most losses are, as many others may wait there.
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
        """Those of the lane of a pool: whatever the priority, its index has them by ``ts``.

        Which are missing is seen when they are read, so as many are looked at as anywhere.
        """
        match = {**self._pending, "ts": {"$gt": self._alive, "$lt": min(before)}}
        late = {**self._pending, "ts": {"$gte": min(before), "$lt": max(before)}}
        for hint in (BY_POOL, BY_STATE):
            try:
                found = self._requests.find(match, projection=ENTRY_FIELDS, hint=hint)
                first = list(found.sort("ts", ASCENDING).limit(limit))
                latest = self._requests.find(late, projection=ENTRY_FIELDS, hint=hint)
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
        cursor = self._requests.find(match, projection=ENTRY_FIELDS, hint=BY_STATE)
        yield from cursor.sort("ts", ASCENDING).limit(limit)

    def _indexed(
        self, priorities: Sequence[int], since: datetime, bound: datetime, limit: int
    ) -> Iterator[Document]:
        others = [priority for priority in priorities if priority != DEFAULT_PRIORITY]
        if not others:
            return
        match = {
            **self._pending,
            "priority": {"$in": others},
            "ts": {"$gte": since, "$lt": bound},
        }
        cursor = self._requests.find(match, projection=ENTRY_FIELDS, hint=BY_PRIORITY)
        yield from cursor.sort("ts", ASCENDING).limit(limit)

    def _latest(
        self, before: Sequence[datetime], since: datetime, wanted: set[int]
    ) -> Iterator[Document]:
        bound = max(before[priority] for priority in wanted)
        match = {**self._pending, "ts": {"$gte": since, "$lt": bound}}
        cursor = self._requests.find(match, projection=ENTRY_FIELDS, hint=BY_STATE)
        for document in cursor.sort("ts", DESCENDING).limit(self._scan):
            priority = document.get("priority", DEFAULT_PRIORITY)
            if priority in wanted and document["ts"] < before[priority]:
                yield document
