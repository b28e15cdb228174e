"""Keep on the home node of MongoDB where each source goes on, and who reads it (SPEC.md D8)."""

from collections.abc import Collection as Several
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.reading.status import ReaderStatus
from crawlfleet.streams.sources import Source

#: A source that nobody has read for so long begins anew.
LIFE: Final = timedelta(days=3)
#: What a worker that is gone has said of a channel is known for so long.
STATUS_LIFE: Final = timedelta(days=1)
#: Statuses that are read at once: workers times channels.
_MOST_STATUSES: Final = 10_000


class MongoCursors:
    """The cursors of all sources, each with the fence of the hold that it was kept under."""

    def __init__(self, nodes: MongoNodes, life: timedelta = LIFE) -> None:
        self._nodes, self._life = nodes, life
        self._is_indexed = False

    def get(self, source: Source) -> str:
        """Return where a source goes on; "" is the beginning.

        One that was not read yet goes on where another source of its channel is: it may be the same
        subscribers', who now need a wider one.
        """
        with border():
            documents = self._documents().with_options(read_concern=ReadConcern("majority"))
            found = documents.find_one({"_id": source.name}) or documents.find_one(
                {"channel": source.channel}, sort=[("at", DESCENDING)]
            )
        return "" if found is None else str(found["cursor"])

    def put(self, source: Source, cursor: str, fence: int, now: datetime) -> bool:
        """Keep a cursor; False where somebody else has kept one under a later hold."""
        kept = {
            "channel": source.channel,
            "cursor": cursor,
            "fence": fence,
            "at": now,
            "expires_at": now + self._life,
        }
        with border():
            try:
                self._documents().update_one(
                    {"_id": source.name, "fence": {"$lte": fence}}, {"$set": kept}, upsert=True
                )
            except DuplicateKeyError:
                return False
        return True

    def _documents(self) -> Collection[Document]:
        documents = self._nodes.control("stream_cursors")
        if not self._is_indexed:
            documents.create_indexes(
                [
                    IndexModel([("channel", ASCENDING), ("at", DESCENDING)], name="channel"),
                    IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0),
                ]
            )
            self._is_indexed = True
        return documents


class MongoReaders:
    """Keep the statuses of readers: ``stream_readers``, one of a worker and a channel."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def keep(self, statuses: Sequence[ReaderStatus]) -> None:
        """Renew statuses of a worker."""
        writes = []
        for one in statuses:
            kept = {
                "channel": one.channel,
                "at": one.at,
                "status": msgspec.json.encode(one),
                "expires_at": one.at + STATUS_LIFE,
            }
            key = {"_id": f"{one.worker}/{one.channel}"}
            writes.append(UpdateOne(key, {"$set": kept}, upsert=True))
        if writes:
            with border():
                self._documents().bulk_write(writes, ordered=False)

    def of(self, channels: Several[str]) -> dict[str, list[ReaderStatus]]:
        """Read the statuses of channels, the newest first."""
        found: dict[str, list[ReaderStatus]] = {channel: [] for channel in channels}
        match = {"channel": {"$in": sorted(found)}}
        with border():
            look = self._documents().find(match, limit=_MOST_STATUSES)
            for one in look.sort([("at", DESCENDING)]):
                found[one["channel"]].append(msgspec.json.decode(one["status"], type=ReaderStatus))
        return found

    def _documents(self) -> Collection[Document]:
        documents = self._nodes.control("stream_readers")
        if not self._is_indexed:
            documents.create_indexes(
                [
                    IndexModel([("channel", ASCENDING), ("at", DESCENDING)], name="channel"),
                    IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0),
                ]
            )
            self._is_indexed = True
        return documents
