"""Keep feeds on the home node of MongoDB: when each is due, its state, and who is asking for it.

``stream_feeds`` has one document a feed: ``{_id: URL, next, until, by, state, forget}``. Whoever
takes a due one has it until ``until`` under its token ``by``, and keeps its state only while it has
it. So a feed is asked for once a round, however many subscribe to it and however many workers read.
What nobody asks for is forgotten after a month.
"""

from collections.abc import Collection as Several
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from pymongo import ASCENDING, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.streams.feeds.models import Feed
from crawlfleet.streams.silence import silent_at

#: A feed that nobody has asked for is known for so long after it was due.
KEPT: Final = timedelta(days=30)
#: A feed that is due for longer than this is asked for by nobody.
ASKED: Final = timedelta(hours=1)
#: Feeds of one call.
MOST: Final = 1_000
_DUPLICATE_KEY: Final = 11000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Feed).decode


class Taken(NamedTuple):
    """The feeds that are the taker's; of the others, when it is worth to ask again."""

    feeds: tuple[Feed, ...]
    others: dict[str, datetime]


class MongoFeeds:
    """Feeds by their URLs."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def take(self, urls: Several[str], token: str, now: datetime, until: datetime) -> Taken:
        """Take those feeds that are due and nobody's until then; unknown ones are due at once.

        Of :data:`MOST` feeds at most. A token is used once.
        """
        now, until = _exact(now), _exact(until)
        wanted = sorted(set(urls))
        if len(wanted) > MOST:
            raise ValueError(f"more than {MOST} feeds")
        these: Document = {"_id": {"$in": wanted}}
        free = {"next": {"$lte": now}, "until": {"$lte": now}}
        others: dict[str, datetime] = {}
        with border():
            kept = self._feeds()
            kept.update_many(these | free, {"$set": {"by": token, "until": until}})
            for one in kept.find(these, {"next": 1, "until": 1, "by": 1}):
                others[one["_id"]] = max(one["next"], one["until"])
                if one.get("by") == token:
                    del others[one["_id"]]
            known = {one["_id"]: one for one in kept.find(these | {"by": token})}
            unknown = [url for url in wanted if url not in known and url not in others]
            fresh = self._inserted(kept, unknown, token, now, until)
        others.update((url, until) for url in set(unknown).difference(fresh))
        # One that was taken and never read has no state.
        fresh += [url for url, one in known.items() if "state" not in one]
        mine = [_decode(one["state"]) for one in known.values() if "state" in one]
        mine += [Feed(url=url, next_at=now) for url in fresh]
        return Taken(tuple(mine), others)

    def _inserted(
        self,
        kept: Collection[Document],
        urls: Sequence[str],
        token: str,
        now: datetime,
        until: datetime,
    ) -> list[str]:
        """Insert feeds that nobody knows; return those that nobody else has inserted."""
        if not urls:
            return []
        fresh = [
            {"_id": url, "next": now, "until": until, "by": token, "forget": until + KEPT}
            for url in urls
        ]
        try:
            kept.insert_many(fresh, ordered=False)
        except BulkWriteError as error:
            faults = error.details["writeErrors"]
            if any(fault["code"] != _DUPLICATE_KEY for fault in faults):
                raise
            lost = {urls[fault["index"]] for fault in faults}
            return [url for url in urls if url not in lost]
        return list(urls)

    def keep(self, feeds: Iterable[Feed], token: str) -> None:
        """Keep the state of feeds that were taken, and let others take them when they are due.

        One whose lease was lost is left as who has it will keep it.
        """
        writes = []
        for feed in feeds:
            due_at = _exact(feed.next_at)
            change: Document = {"next": due_at, "until": due_at, "by": "", "forget": due_at + KEPT}
            change["state"] = _encode(feed)
            update: Document = {"$set": change}
            if (silent := silent_at(feed.gaps)) is not None:
                change["silent_at"] = silent
            else:
                update["$unset"] = {"silent_at": ""}
            writes.append(UpdateOne({"_id": feed.url, "by": token}, update))
        if writes:
            with border():
                self._feeds().bulk_write(writes, ordered=False)

    def release(self, urls: Several[str], token: str) -> None:
        """Let others take feeds that were taken and not asked for."""
        if urls:
            match = {"_id": {"$in": sorted(urls)}, "by": token}
            with border():
                self._feeds().update_many(match, [{"$set": {"by": "", "until": "$next"}}])

    def known(self, urls: Several[str]) -> dict[str, Feed]:
        """Return the state of feeds that were read, by their URLs."""
        with border():
            found = self._feeds().find({"_id": {"$in": sorted(urls)}, "state": {"$exists": True}})
            return {one["_id"]: _decode(one["state"]) for one in found}

    def silent(self, now: datetime, limit: int) -> tuple[str, ...]:
        """List feeds that are asked for and silent, those first that are so for longest."""
        match = {"silent_at": {"$lte": now}, "next": {"$gte": now - ASKED}}
        with border():
            look = self._feeds().find(match, ["_id"], limit=limit, hint="silent")
            return tuple(one["_id"] for one in look.sort([("silent_at", ASCENDING)]))

    def _feeds(self) -> Collection[Document]:
        feeds = self._nodes.control("stream_feeds")
        if not self._is_indexed:
            feeds.create_index([("forget", ASCENDING)], name="ttl", expireAfterSeconds=0)
            feeds.create_index([("silent_at", ASCENDING)], name="silent", sparse=True)
            self._is_indexed = True
        return feeds


def _exact(moment: datetime) -> datetime:
    """Return a moment as BSON keeps it."""
    return from_ms(to_ms(moment))
