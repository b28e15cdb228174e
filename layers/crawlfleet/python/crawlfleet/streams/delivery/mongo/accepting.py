"""Accept items and withdrawals into the outbox; each call may be repeated without a second effect.

An item is written first, then its deliveries, a thousand a write, then its receivers wake. Who does
not hear that all of it was done does it again. A delivery is a document of its own, so an item that
ten thousand want is ten thousand small documents and never a large one: each costs an insert with
three index keys, and an update when it was delivered. What is known already costs reads alone.

A withdrawn item leaves a tombstone, for one that comes again, or comes after it.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from bson import Binary
from pymongo.cursor import Cursor

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.messages import stored
from crawlfleet.streams.delivery.models import (
    DELIVERY_BYTES,
    ITEM_BYTES,
    LIFE,
    Addressed,
    State,
    Subscriber,
    delivery_key,
    item_key,
    receiver_key,
    twin_key,
)
from crawlfleet.streams.delivery.mongo.outbox import (
    AT_ONCE,
    Outbox,
    chunks,
    target_in,
    tolerating_duplicates,
)
from crawlfleet.streams.items import StreamItem, Withdrawn
from crawlfleet.streams.targets import Target

#: Items of one write: each may have a quarter of a megabyte.
_ITEMS_AT_ONCE: Final = 100
#: For the writes of one such part.
_SECONDS: Final = 30.0
_FIRST: Final = bytes(DELIVERY_BYTES - ITEM_BYTES)
_LAST: Final = b"\xff" * len(_FIRST)
_PENDING: Final[Document] = {"state": int(State.PENDING)}


class MongoAccepting:
    """Accept what readers bring. ``life`` is how long it is kept, and repeats are known."""

    def __init__(self, nodes: MongoNodes, life: timedelta = LIFE) -> None:
        self._outbox = Outbox(nodes)
        self._life = life

    def accept(
        self, batch: Sequence[Addressed], now: datetime, fresh: set[bytes] | None = None
    ) -> int:
        """Store items and their deliveries; return how many deliveries are new.

        Items without subscribers are not stored. To ``fresh`` the keys of deliveries are added that
        are new, those of a call that fails included: whoever repeats it knows all of them.

        Raises:
            StoreUnavailableError: not all of it is sure to be stored; repeat the call.
        """
        wanted = [one for one in batch if one.subscribers]
        noted = set[bytes]() if fresh is None else fresh
        return sum(self._accept(part, now, noted) for part in chunks(wanted, _ITEMS_AT_ONCE))

    def withdraw(self, withdrawn: Sequence[Withdrawn], now: datetime) -> int:
        """Delete items and have their receivers told; return how many deliveries that concerns.

        Raises:
            StoreUnavailableError: as :meth:`accept`.
        """
        return sum(self._withdraw(one, now) for one in withdrawn)

    def _accept(self, part: Sequence[Addressed], now: datetime, fresh: set[bytes]) -> int:
        outbox, expires_at = self._outbox, now + self._life
        items = {item_key(one.item.channel, one.item.id): one.item for one in part}
        with border(_SECONDS):
            keys = [Binary(key) for key in items]
            look = outbox.items.find({"_id": {"$in": keys}}, ["withdrawn_at", "expires_at"])
            known = {bytes(one["_id"]): one for one in look}
            added_items = [
                _document(key, item, now, expires_at)
                for key, item in items.items()
                if key not in known
            ]
            if added_items:
                with tolerating_duplicates():
                    outbox.items.insert_many(added_items, ordered=False)
            gone = {key for key, one in known.items() if "withdrawn_at" in one}
            receivers: dict[bytes, tuple[str, Target]] = {}
            deliveries = _deliveries(part, gone, receivers, now, expires_at)
            added, woken = 0, set[bytes]()
            for some in chunks(deliveries):
                count, waiting = self._add(some, known, fresh)
                added += count
                woken.update(waiting)
            self._keep_longer(
                [key for key, one in known.items() if one["expires_at"] < now + self._life / 2],
                expires_at,
            )
            outbox.wake({key: receivers[key] for key in woken & receivers.keys()}, now)
        return added

    def _add(
        self, some: list[Document], known: dict[bytes, Document], fresh: set[bytes]
    ) -> tuple[int, set[bytes]]:
        """Insert those deliveries that are not there; return how many, and receivers to wake.

        Repeats are looked for, and not tried. The receivers of those that wait are to be woken,
        too, as who wrote them may not have come so far. An item that the subscription has of
        another channel is refused by the index of twins.
        """
        waiting: set[bytes] = set()
        repeated = [one["_id"] for one in some if one["_id"][:ITEM_BYTES] in known]
        if repeated:
            look = self._outbox.deliveries.find({"_id": {"$in": repeated}}, ["state", "receiver"])
            there = {bytes(one["_id"]): one for one in look}
            waiting = {bytes(one["receiver"]) for one in there.values() if not one["state"]}
            some = [one for one in some if bytes(one["_id"]) not in there]
        if not some:
            return 0, waiting
        keys = [bytes(one["_id"]) for one in some]
        fresh.update(keys)
        with tolerating_duplicates() as there_already:
            self._outbox.deliveries.insert_many(some, ordered=False)
        fresh.difference_update(keys[place] for place in there_already.twins)
        waiting.update(bytes(one["receiver"]) for one in some if "receiver" in one)
        return len(some) - there_already.count, waiting

    def _keep_longer(self, keys: Iterable[bytes], expires_at: datetime) -> None:
        """Keep what a channel goes on repeating, half of its life before it would be forgotten."""
        for key in keys:
            change = {"$max": {"expires_at": expires_at}}
            self._outbox.deliveries.update_many({"_id": _range(key)}, change)
            self._outbox.items.update_one({"_id": Binary(key)}, change)

    def _withdraw(self, withdrawn: Withdrawn, now: datetime) -> int:
        outbox, key = self._outbox, item_key(withdrawn.channel, withdrawn.id)
        stone = {
            "channel": withdrawn.channel,
            "id": withdrawn.id,
            "withdrawn_at": withdrawn.at,
            "expires_at": now + self._life,
        }
        left_over = {"body": "", "at": ""}
        untold: Document = {"gone": {"$exists": False}, "receiver": {"$exists": True}}
        count = 0
        with border(_SECONDS):
            outbox.items.update_one(
                {"_id": Binary(key)}, {"$set": stone, "$unset": left_over}, upsert=True
            )
            while ids := [one["_id"] for one in self._of(key, untold)]:
                told = {"_id": {"$in": ids}, **untold}
                count += outbox.deliveries.update_many(told, _told(now)).modified_count
            # All of them, for a call that repeats one which has not come this far.
            keys = {bytes(one["receiver"]) for one in self._of(key, _PENDING, 0)}
            for some in chunks(keys):
                outbox.wake(self._receivers(some), now)
        return count

    def _of(self, key: bytes, match: Document, limit: int = AT_ONCE) -> Cursor[Document]:
        """Read deliveries of an item; by their keys, as by its state it would be all there are."""
        match = {"_id": _range(key), **match}
        return self._outbox.deliveries.find(match, ["receiver"], limit=limit, hint="_id_")

    def _receivers(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, Target]]:
        found = self._outbox.receivers.find({"_id": {"$in": [Binary(key) for key in keys]}})
        return {bytes(one["_id"]): (one["tenant"], target_in(one)) for one in found}


def _told(now: datetime) -> Document:
    """Build the update that has a receiver told that an item is withdrawn."""
    left = ("dead_at", "reason", "error", "replayed_at")
    return {
        "$set": {"gone": True, "state": int(State.PENDING), "due_at": now, "at": now, "tries": 0},
        "$unset": dict.fromkeys(left, ""),
    }


def _range(key: bytes) -> Document:
    """Match the deliveries of an item: MongoDB orders binary values by their length first."""
    return {"$gte": Binary(key + _FIRST), "$lte": Binary(key + _LAST)}


def _document(key: bytes, item: StreamItem, now: datetime, expires_at: datetime) -> Document:
    document: Document = {
        "_id": Binary(key),
        "channel": item.channel,
        "id": item.id,
        "at": now,
        "body": Binary(stored(item)),
        "expires_at": expires_at,
    }
    if item.replies_to:
        document["parent"] = Binary(item_key(item.channel, item.replies_to))
    if item.conversation:
        document["thread"] = Binary(item_key(item.channel, item.conversation))
    return document


def _deliveries(
    part: Sequence[Addressed],
    gone: set[bytes],
    receivers: dict[bytes, tuple[str, Target]],
    now: datetime,
    expires_at: datetime,
) -> Iterator[Document]:
    """Build the deliveries of items that were not withdrawn; note their receivers."""
    for one in part:
        item = item_key(one.item.channel, one.item.id)
        if item in gone:
            continue
        for subscriber in one.subscribers:
            delivery = _delivery(item, subscriber, receivers, now, expires_at)
            if one.item.same:
                delivery["twin"] = Binary(twin_key(one.item.same, subscriber))
            yield delivery


def _delivery(
    item: bytes,
    subscriber: Subscriber,
    receivers: dict[bytes, tuple[str, Target]],
    now: datetime,
    expires_at: datetime,
) -> Document:
    document: Document = {
        "_id": Binary(delivery_key(item, subscriber)),
        "tenant": subscriber.tenant,
        "biz": subscriber.biz,
        "name": subscriber.name,
        "at": now,
        "tries": 0,
        "expires_at": expires_at,
    }
    if subscriber.target is None:
        return {**document, "state": int(State.DELIVERED)}
    receiver = receiver_key(subscriber.tenant, subscriber.target)
    receivers[receiver] = subscriber.tenant, subscriber.target
    pending = {"receiver": Binary(receiver), "state": int(State.PENDING), "due_at": now}
    return {**document, **pending}
