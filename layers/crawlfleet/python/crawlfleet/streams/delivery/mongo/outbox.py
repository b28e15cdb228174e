"""The collections of the outbox in the control database, their indexes, and how receivers wake.

``stream_items``       ``_id`` item key: its content once for all subscribers, or that it was
                       withdrawn; ``parent`` and ``thread`` are keys of the items it replies to.
``stream_deliveries``  ``_id`` delivery key: an item for a subscription, its state, its receiver.
``stream_receivers``   ``_id`` receiver key: a target of a tenant, and when it is due next.

A receiver without deliveries is idle. Whoever adds deliveries writes them first, then wakes their
receivers, if they are idle; a deliverer that finds none makes its receiver idle first, then looks
again. So one of both sees the other, and a receiver with enough to do costs who accepts no write.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Final, TypeVar

from bson import Binary
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from crawlfleet.kernel.mongo.connection import Document, MongoNodes
from crawlfleet.streams.delivery.models import State
from crawlfleet.streams.targets import Target, TargetKind

ITEMS: Final = "stream_items"
DELIVERIES: Final = "stream_deliveries"
RECEIVERS: Final = "stream_receivers"

#: Documents of one write, and keys of one read.
AT_ONCE: Final = 1_000
_DUPLICATE: Final = 11000
#: For how long a process takes a receiver for known; they are kept for days.
_KNOWN_SECONDS: Final = 3_600.0
#: And how many of them.
_MOST_KNOWN: Final = 100_000

T = TypeVar("T")
_PENDING: Final[Document] = {"state": int(State.PENDING)}
_INDEXES: Final[Mapping[str, Sequence[IndexModel]]] = {
    ITEMS: (
        IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0),
        IndexModel(["parent"], name="parent", sparse=True),
        IndexModel(["thread"], name="thread", sparse=True),
    ),
    DELIVERIES: (
        IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0),
        # An item that several channels have is delivered once to a subscription.
        IndexModel(["twin"], name="twin", unique=True, sparse=True),
        IndexModel(
            [("receiver", ASCENDING), ("due_at", ASCENDING)],
            name="due",
            partialFilterExpression=_PENDING,
        ),
        IndexModel([(name, ASCENDING) for name in ("tenant", "biz", "at", "_id")], name="taken"),
        IndexModel(
            [(name, ASCENDING) for name in ("tenant", "biz", "dead_at", "_id")],
            name="dead",
            partialFilterExpression={"state": int(State.DEAD)},
        ),
    ),
    RECEIVERS: (
        IndexModel(["due_at"], name="due", sparse=True),
        IndexModel(["failing_since"], name="failing", sparse=True),
        IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0),
    ),
}


class Outbox:
    """The collections, with their indexes; calls are to be inside the border."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._indexed: set[str] = set()
        self._known: dict[bytes, float] = {}

    @property
    def items(self) -> Collection[Document]:
        """The items."""
        return self._at(ITEMS)

    @property
    def deliveries(self) -> Collection[Document]:
        """The deliveries."""
        return self._at(DELIVERIES)

    @property
    def receivers(self) -> Collection[Document]:
        """The receivers."""
        return self._at(RECEIVERS)

    def wake(self, receivers: Mapping[bytes, tuple[str, Target]], now: datetime) -> None:
        """Make receivers due, where they are idle; after their deliveries were written."""
        for part in chunks(receivers):
            fresh = [key for key in part if not self._is_known(key)]
            if fresh:
                self._make(fresh, receivers)
            # Written though it may find none: a primary that is none any more cannot answer it.
            self.receivers.update_many(
                {"_id": {"$in": [Binary(key) for key in part]}, "idle": True},
                {"$set": {"due_at": now}, "$unset": {"idle": "", "expires_at": ""}},
            )
            self._note(fresh)

    def _make(self, fresh: Sequence[bytes], receivers: Mapping[bytes, tuple[str, Target]]) -> None:
        changes = []
        for key in fresh:
            tenant, target = receivers[key]
            first = {
                "tenant": tenant,
                "kind": target.kind.value,
                "address": target.address,
                "idle": True,
                "fence": 0,
                "failures": 0,
            }
            changes.append(UpdateOne({"_id": Binary(key)}, {"$setOnInsert": first}, upsert=True))
        with tolerating_duplicates():
            self.receivers.bulk_write(changes, ordered=False)

    def _is_known(self, key: bytes) -> bool:
        return self._known.get(key, 0.0) > time.monotonic()

    def _note(self, keys: Iterable[bytes]) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        until = time.monotonic() + _KNOWN_SECONDS
        self._known.update((key, until) for key in keys)

    def _at(self, name: str) -> Collection[Document]:
        collection = self._nodes.control(name)
        if name not in self._indexed:
            collection.create_indexes(list(_INDEXES[name]))
            self._indexed.add(name)
        return collection


class Duplicates:
    """Counts documents of a write that were there already; ``twins`` have the places of some."""

    count = 0
    twins: Sequence[int] = ()


@contextmanager
def tolerating_duplicates() -> Iterator[Duplicates]:
    """Let pass that documents are there already; whatever else is wrong is raised."""
    found = Duplicates()
    try:
        yield found
    except BulkWriteError as error:
        if {fault["code"] for fault in error.details["writeErrors"]} != {_DUPLICATE}:
            raise
        if error.details.get("writeConcernErrors"):
            raise
        faults = error.details["writeErrors"]
        found.count = len(faults)
        by_key = {"_id": 1}
        found.twins = [one["index"] for one in faults if one.get("keyPattern", by_key) != by_key]


def chunks(values: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Cut values into lists of one write.

    >>> list(chunks("abc", 2))
    [['a', 'b'], ['c']]
    """
    left = iter(values)
    while part := list(islice(left, size)):
        yield part


def target_in(document: Document) -> Target:
    """Return a receiver's target."""
    return Target(TargetKind(document["kind"]), document["address"])
