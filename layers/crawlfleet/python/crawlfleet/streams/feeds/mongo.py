"""Keep feeds on the home node of MongoDB: when each is due, its state, and who is asking for it.

``stream_feeds`` has one document a feed: ``{_id: URL, next, until, by, state, forget}``, with
``wake`` from a push of its hub until it is taken, and ``woken``, when that was last. Whoever
takes a due one has it until ``until`` under its token ``by``, and keeps its state only while it has
it. So a feed is asked for once a round, however many subscribe to it and however many workers read.
What nobody asks for is forgotten after a month.

``stream_hubs`` has one document a feed with a hub: ``{_id: callback, feed, hub, topic, secret,
asked, until, trusted, forget}``. ``callback`` is the end of the URL that the hub calls, which only
the hub is told.
"""

from collections.abc import Collection as Several
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING, DESCENDING, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.streams.feeds import websub
from crawlfleet.streams.feeds.models import Feed, Hub, Lease
from crawlfleet.streams.silence import silent_at

#: A feed that nobody has asked for is known for so long after it was due.
KEPT: Final = timedelta(days=30)
#: A feed that is due for longer than this is asked for by nobody.
ASKED: Final = timedelta(hours=1)
#: Feeds of one call.
MOST: Final = 1_000
#: Between two askings for a feed that pushes cause, however many there are.
WOKEN: Final = timedelta(seconds=30)
_DUPLICATE_KEY: Final = 11000
_MS: Final = timedelta(milliseconds=1)

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
        free = {
            "$or": [
                {"next": {"$lte": now}, "until": {"$lte": now}},
                {"wake": {"$lte": now}, "by": ""},
            ]
        }
        taking: list[Document] = [
            {
                "$set": {
                    "by": {"$literal": token},
                    "until": until,
                    "is_woken": {"$gt": ["$wake", None]},
                    "woken": {"$ifNull": ["$wake", "$woken"]},
                }
            },
            {"$unset": "wake"},
        ]
        others: dict[str, datetime] = {}
        with border():
            kept = self._feeds()
            kept.update_many(these | free, taking)
            for one in kept.find(these, {"next": 1, "until": 1, "by": 1}):
                others[one["_id"]] = max(one["next"], one["until"])
                if one.get("by") == token:
                    del others[one["_id"]]
            known = {one["_id"]: one for one in kept.find(these | {"by": token})}
            unknown = [url for url in wanted if url not in known and url not in others]
            fresh = self._inserted(kept, unknown, token, now, until)
            leases = self._leases(known)
        others.update((url, until) for url in set(unknown).difference(fresh))
        # One that was taken and never read has no state.
        fresh += [url for url, one in known.items() if "state" not in one]
        mine = [
            replace(_decode(one["state"]), hub=leases.get(url), woken=bool(one.get("is_woken")))
            for url, one in known.items()
            if "state" in one
        ]
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
            change["state"] = _encode(replace(feed, hub=None, woken=False))
            if feed.woken:  # it was put off: the push still counts
                change["wake"] = due_at
            update: Document = {"$set": change}
            if (silent := silent_at(feed.gaps)) is not None:
                change["silent_at"] = silent
            else:
                update["$unset"] = {"silent_at": ""}
            writes.append(UpdateOne({"_id": feed.url, "by": token}, update))
        if writes:
            with border():
                self._feeds().bulk_write(writes, ordered=False)

    def wake(self, url: str, now: datetime) -> bool:
        """Have a feed be asked now, as its hub has pushed; False where nobody asks for it."""
        now = _exact(now)
        after = {"$add": [{"$ifNull": ["$woken", now - WOKEN]}, WOKEN // _MS]}
        at = {"$ifNull": ["$wake", {"$max": [now, after]}]}
        match = {"_id": url, "next": {"$gte": now - ASKED}}
        with border():
            found = self._feeds().update_one(match, [{"$set": {"wake": at}}])
        return bool(found.matched_count)

    def waking(self, now: datetime) -> tuple[str, ...]:
        """List feeds that pushes have be asked now, of the last hour."""
        match = {"wake": {"$lte": now, "$gte": now - ASKED}}
        with border():
            found = self._feeds().find(match, ["_id"], limit=MOST, hint="wake")
            return tuple(one["_id"] for one in found.sort([("wake", DESCENDING)]))

    def release(self, urls: Several[str], token: str) -> None:
        """Let others take feeds that were taken and not asked for; a push of one still counts."""
        if urls:
            match = {"_id": {"$in": sorted(urls)}, "by": token}
            wake = {"$cond": ["$is_woken", {"$ifNull": ["$wake", "$woken"]}, "$wake"]}
            free = {"by": "", "until": "$next", "wake": wake, "is_woken": False}
            with border():
                self._feeds().update_many(match, [{"$set": free}])

    def known(self, urls: Several[str]) -> dict[str, Feed]:
        """Return the state of feeds that were read, by their URLs."""
        with border():
            found = self._feeds().find({"_id": {"$in": sorted(urls)}, "state": {"$exists": True}})
            states = {one["_id"]: _decode(one["state"]) for one in found}
            leases = self._leases(states)
        return {url: replace(one, hub=leases.get(url)) for url, one in states.items()}

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
            feeds.create_index([("wake", ASCENDING)], name="wake", sparse=True)
            self._is_indexed = True
        return feeds

    def _leases(self, urls: Iterable[str]) -> dict[str, Lease]:
        match = {"feed": {"$in": list(urls)}}
        return {one["feed"]: _lease(one) for one in self._nodes.control("stream_hubs").find(match)}


class MongoHubs:
    """Subscriptions of feeds at their hubs, by the callbacks that hubs know them by."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def ask(self, feed: str, hub: Hub, now: datetime) -> tuple[str, Lease] | None:
        """Note that a hub is asked; return its callback and lease. None: another one has asked."""
        now = _exact(now)
        with border():
            hubs = self._hubs()
            known = hubs.find_one({"feed": feed})
            old = None if known is None else _lease(known)
            if not websub.wants_asking(old, hub, now):
                return None
            lease = websub.asked(old, hub, token_hex(32), now)
            if known is not None:
                match = {"_id": known["_id"], "asked": known["asked"]}
                done = hubs.update_one(match, {"$set": _written(lease)})
                return (known["_id"], lease) if done.matched_count else None
            callback = token_hex(20)
            try:
                hubs.insert_one({"_id": callback, "feed": feed, **_written(lease)})
            except DuplicateKeyError:
                return None
            return callback, lease

    def of(self, callback: str) -> tuple[str, Lease] | None:
        """Return the feed and the lease of a callback."""
        with border():
            found = self._hubs().find_one({"_id": callback})
        return None if found is None else (found["feed"], _lease(found))

    def keep(self, callback: str, lease: Lease) -> None:
        """Keep what a hub has said of a lease, unless it is another one now."""
        match = {"_id": callback, "secret": lease.secret}
        with border():
            self._hubs().update_one(match, {"$set": _written(lease)})

    def distrust(self, feeds: Several[str]) -> None:
        """Trust the hubs of feeds no longer, until they push."""
        if feeds:
            match = {"feed": {"$in": sorted(feeds)}, "trusted": True}
            with border():
                self._hubs().update_many(match, {"$set": {"trusted": False}})

    def end(self, callback: str) -> None:
        """Forget a subscription at a hub."""
        with border():
            self._hubs().delete_one({"_id": callback})

    def _hubs(self) -> Collection[Document]:
        hubs = self._nodes.control("stream_hubs")
        if not self._is_indexed:
            hubs.create_index([("feed", ASCENDING)], name="feed", unique=True)
            hubs.create_index([("forget", ASCENDING)], name="ttl", expireAfterSeconds=0)
            self._is_indexed = True
        return hubs


def _lease(one: Document) -> Lease:
    return Lease(
        hub=Hub(url=one["hub"], topic=one["topic"]),
        secret=one["secret"],
        asked_at=one["asked"],
        until=one["until"],
        trusted=one["trusted"],
    )


def _written(lease: Lease) -> dict[str, Any]:
    until = None if lease.until is None else _exact(lease.until)
    return {
        "hub": lease.hub.url,
        "topic": lease.hub.topic,
        "secret": lease.secret,
        "asked": _exact(lease.asked_at),
        "until": until,
        "trusted": lease.trusted,
        "forget": max(lease.asked_at, until or lease.asked_at) + KEPT,
    }


def _exact(moment: datetime) -> datetime:
    """Return a moment as BSON keeps it."""
    return from_ms(to_ms(moment))
