"""Find what became of an item for the subscriptions of a biz: deliveries, and their receivers."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec
from bson import Binary
from pymongo import ASCENDING

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.messages import read
from crawlfleet.streams.delivery.models import (
    DELIVERY_BYTES,
    ITEM_BYTES,
    Delivery,
    Reason,
    State,
    owner_key,
)
from crawlfleet.streams.delivery.mongo.outbox import Outbox, chunks, target_in
from crawlfleet.streams.items import StreamItem
from crawlfleet.streams.targets import Target

#: Keys of one read, and deliveries of one item that are told.
_AT_ONCE: Final = 100
MOST: Final = 1_000


class TracedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as it stands: to whom, since when, and what the receiver said.

    Without a ``target`` the item is kept and pushed nowhere. ``due_at`` is when it is pushed next;
    ``error`` is what was said of it, or of its receiver while that takes nothing.
    """

    id: str
    subscription: str
    state: State
    accepted_at: datetime
    settled_at: datetime | None = None
    due_at: datetime | None = None
    dead_at: datetime | None = None
    tries: int = 0
    reason: Reason | None = None
    error: str = ""
    target: Target | None = None
    is_withdrawal: bool = False


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a channel, and its deliveries of one biz; a withdrawn one has no text."""

    channel: str
    id: str
    item: StreamItem | None
    withdrawn_at: datetime | None
    deliveries: tuple[TracedDelivery, ...]


class MongoTraces:
    """Trace items; those that no subscription of the biz has had are not found."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._outbox = Outbox(nodes)

    def find(self, tenant: str, biz: str, keys: Iterable[bytes]) -> list[Trace]:
        """Find those items by their keys that a subscription of the biz has, or has had."""
        owner = owner_key(tenant, biz)
        found: list[Document] = []
        with border():
            for part in chunks(keys, _AT_ONCE):
                ranges = [_range(key + owner) for key in part]
                look = self._outbox.deliveries.find({"$or": ranges}, limit=MOST)
                found += look.hint("_id_")
            theirs = sorted({bytes(one["_id"][:ITEM_BYTES]) for one in found})
            items = self._by_id(self._outbox.items.find(_of(theirs)))
            receivers = sorted({bytes(one["receiver"]) for one in found if "receiver" in one})
            known = self._by_id(self._outbox.receivers.find(_of(receivers)))
        return [
            _trace(items[key], [one for one in found if one["_id"][:ITEM_BYTES] == key], known)
            for key in theirs
            if key in items
        ]

    def taken(
        self,
        tenant: str,
        biz: str,
        *,
        since: datetime,
        before: datetime,
        after: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Delivery]:
        """List what subscriptions of a biz have taken by when that was, with the items.

        An item that was withdrawn is not there; its delivery is.
        """
        at: Document = {"$gte": since, "$lt": before}
        match: Document = {"tenant": tenant, "biz": biz, "at": at}
        if after is not None:
            moment, id_ = after
            at["$gte"] = max(since, moment)
            match["$or"] = [{"at": {"$gt": moment}}, {"at": moment, "_id": {"$gt": _key(id_)}}]
        with border():
            look = self._outbox.deliveries.find(match, hint="taken", limit=limit)
            found = list(look.sort([("at", ASCENDING), ("_id", ASCENDING)]))
            keys = sorted({bytes(one["_id"][:ITEM_BYTES]) for one in found})
            items = {
                bytes(one["_id"]): read(one["body"])
                for part in chunks(keys, _AT_ONCE)
                for one in self._outbox.items.find({**_of(part), "body": {"$exists": True}})
            }
        return [
            Delivery(
                key=bytes(one["_id"]),
                tenant=tenant,
                biz=biz,
                subscription=one["name"],
                accepted_at=one["at"],
                item=items.get(bytes(one["_id"][:ITEM_BYTES])),
            )
            for one in found
        ]

    @staticmethod
    def _by_id(documents: Iterable[Document]) -> dict[bytes, Document]:
        return {bytes(one["_id"]): one for one in documents}


def _of(keys: Iterable[bytes]) -> Document:
    return {"_id": {"$in": [Binary(key) for key in keys]}}


def _key(id_: str) -> Binary:
    """Return the key that an id of a cursor stands for; what is none comes before all."""
    try:
        return Binary(bytes.fromhex(id_))
    except ValueError:
        return Binary(b"")


def _range(prefix: bytes) -> Document:
    rest = DELIVERY_BYTES - len(prefix)
    return {"_id": {"$gte": Binary(prefix + bytes(rest)), "$lte": Binary(prefix + b"\xff" * rest)}}


def _trace(item: Document, deliveries: list[Document], receivers: dict[bytes, Document]) -> Trace:
    return Trace(
        channel=item["channel"],
        id=item["id"],
        item=read(item["body"]) if "body" in item else None,
        withdrawn_at=item.get("withdrawn_at"),
        deliveries=tuple(_traced(one, receivers) for one in deliveries),
    )


def _traced(one: Document, receivers: dict[bytes, Document]) -> TracedDelivery:
    receiver = receivers.get(bytes(one.get("receiver", b"")))
    is_withdrawal, state = bool(one.get("gone")), State(one["state"])
    error, due_at = str(one.get("error", "")), one.get("due_at")
    if receiver is not None and state is State.PENDING and receiver.get("error"):
        error = str(receiver["error"])
        due_at = max(filter(None, (due_at, receiver.get("due_at"))), default=None)
    reason = one.get("reason")
    return TracedDelivery(
        id=bytes(one["_id"]).hex() + ("-withdrawn" if is_withdrawal else ""),
        subscription=one["name"],
        state=state,
        accepted_at=one["at"],
        settled_at=one.get("settled_at"),
        due_at=due_at,
        dead_at=one.get("dead_at"),
        tries=one["tries"],
        reason=None if reason is None else Reason(reason),
        error=error,
        target=None if receiver is None else target_in(receiver),
        is_withdrawal=is_withdrawal,
    )
