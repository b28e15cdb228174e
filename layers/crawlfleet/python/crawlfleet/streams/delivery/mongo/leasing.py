"""Lease receivers that are due, read their deliveries, settle what came of them.

A receiver belongs to one deliverer until its lease ends: while it is leased it is due at the end of
the lease, so that one who dies is followed by whoever looks then. What a push came to is noted by
delivery, whoever pushed it; what is noted of the receiver counts under the fence of its lease only.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from bson import Binary
from pymongo import ASCENDING, ReturnDocument, UpdateOne

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.messages import read
from crawlfleet.streams.delivery.models import ITEM_BYTES, LIFE, Delivery, Lease, Reason, State
from crawlfleet.streams.delivery.mongo.outbox import AT_ONCE, Outbox, target_in
from crawlfleet.streams.items import Withdrawn

#: A receiver that nothing was delivered to is forgotten after twice the life of deliveries.
_IDLE_LIVES: Final = 2
_LONGEST_ERROR: Final = 300
_PENDING: Final[Document] = {"state": int(State.PENDING)}


class MongoLeasing:
    """The deliverers' side of the outbox."""

    def __init__(self, nodes: MongoNodes, life: timedelta = LIFE) -> None:
        self._outbox = Outbox(nodes)
        self._life = life

    def lease(
        self,
        by: str,
        now: datetime,
        term: timedelta,
        *,
        quick_only: bool = False,
        without: Sequence[str] = (),
    ) -> Lease | None:
        """Lease the receiver that is due for longest; None where none is.

        ``quick_only`` leaves out those that were slow the last time, ``without`` those of tenants.
        """
        match: Document = {"due_at": {"$lte": now}}
        if without:
            match["tenant"] = {"$nin": list(without)}
        if quick_only:
            match["slow"] = {"$ne": True}
        change = {
            "$set": {"by": by, "due_at": now + term},
            "$inc": {"fence": 1},
            "$unset": {"idle": "", "expires_at": ""},
        }
        with border():
            found = self._outbox.receivers.find_one_and_update(
                match, change, sort=[("due_at", ASCENDING)], return_document=ReturnDocument.AFTER
            )
        if found is None:
            return None
        return Lease(
            receiver=bytes(found["_id"]),
            tenant=found["tenant"],
            target=target_in(found),
            fence=found["fence"],
            until=now + term,
            failures=found["failures"],
            failing_since=found.get("failing_since"),
        )

    def is_due(self, now: datetime) -> bool:
        """Tell whether a receiver waits for what is to be pushed to it, and nobody works for it."""
        with border():
            found = self._outbox.receivers.find_one({"due_at": {"$lte": now}}, ["_id"])
        return found is not None

    def due(self, lease: Lease, now: datetime, limit: int) -> list[Delivery]:
        """Read the oldest deliveries of a receiver that are due, with their items."""
        match = {**_pending(lease), "due_at": {"$lte": now}}
        with border():
            look = self._outbox.deliveries.find(match, hint="due", limit=limit)
            found = list(look.sort([("due_at", ASCENDING)]))
            keys = list({bytes(one["_id"][:ITEM_BYTES]) for one in found})
            look = self._outbox.items.find({"_id": {"$in": [Binary(key) for key in keys]}})
            items = {bytes(one["_id"]): one for one in look}
        return [_delivery(one, items.get(bytes(one["_id"][:ITEM_BYTES]))) for one in found]

    def settle(self, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Note that receivers have these, or that there is nothing left to deliver.

        A delivery whose item was withdrawn meanwhile stays pending: its receiver is to be told.
        """
        settled = {
            "$set": {"state": int(State.DELIVERED), "settled_at": now},
            "$unset": {"due_at": ""},
        }
        with border():
            for told in (False, True):
                keys = [Binary(one.key) for one in deliveries if one.is_withdrawal is told]
                if keys:
                    match = {"_id": {"$in": keys}, **_PENDING, "gone": {"$exists": told}}
                    self._outbox.deliveries.update_many(match, settled)

    def retry(self, later: Mapping[Delivery, datetime]) -> None:
        """Have deliveries tried again, each at its time."""
        self._change(
            {
                one: {"$set": {"due_at": due_at, "tries": one.tries + 1}}
                for one, due_at in later.items()
            }
        )

    def bury(self, dead: Mapping[Delivery, tuple[Reason, str]], now: datetime) -> None:
        """Make dead letters of deliveries, which can be replayed as long as items are kept."""
        self._change({one: self._death(*why, now) for one, why in dead.items()})

    def bury_old(self, lease: Lease, before: datetime, error: str, now: datetime) -> int:
        """Make dead letters of what waits since before a time, some at once; return how many."""
        match = {
            **_pending(lease),
            "due_at": {"$lt": before},
            "at": {"$lt": before},
            "replayed_at": {"$not": {"$gte": before}},
        }
        with border():
            look = self._outbox.deliveries.find(match, ["_id"], hint="due", limit=AT_ONCE)
            keys = [one["_id"] for one in look]
            if keys:
                self._outbox.deliveries.update_many(
                    {"_id": {"$in": keys}, **_PENDING}, self._death(Reason.AWAY, error, now)
                )
        return len(keys)

    def rest(self, lease: Lease, now: datetime, *, slow: bool) -> None:
        """End a lease: the receiver is due when its next delivery is, or idle without any.

        Idle first, then the look: who adds one meanwhile wakes it, or was before the look.
        """
        mine: Document = {"_id": Binary(lease.receiver), "fence": lease.fence}
        well = {"idle": True, "slow": slow, "failures": 0}
        with border():
            receivers = self._outbox.receivers
            receivers.update_one(
                mine, {"$set": well, "$unset": {"failing_since": "", "error": "", "by": ""}}
            )
            look = self._outbox.deliveries.find(_pending(lease), ["due_at"], hint="due", limit=1)
            following = next(look.sort([("due_at", ASCENDING)]), None)
            if following is not None:
                change: Document = {"$set": {"due_at": max(following["due_at"], now)}}
            else:
                change = {
                    "$unset": {"due_at": ""},
                    "$set": {"expires_at": now + _IDLE_LIVES * self._life},
                }
            receivers.update_one({**mine, "idle": True}, change)

    def back_off(
        self, lease: Lease, due_at: datetime, failing_since: datetime, error: str, *, slow: bool
    ) -> None:
        """End a lease of a receiver that did not answer: nobody asks it before a time."""
        failing = {
            "due_at": due_at,
            "failures": lease.failures + 1,
            "failing_since": failing_since,
            "error": error[:_LONGEST_ERROR],
            "slow": slow,
        }
        with border():
            self._outbox.receivers.update_one(
                {"_id": Binary(lease.receiver), "fence": lease.fence},
                {"$set": failing, "$unset": {"by": ""}},
            )

    @staticmethod
    def _death(reason: Reason, error: str, now: datetime) -> Document:
        died = {
            "state": int(State.DEAD),
            "dead_at": now,
            "reason": reason.value,
            "error": error[:_LONGEST_ERROR],
        }
        return {"$set": died, "$unset": {"due_at": ""}}

    def _change(self, changes: Mapping[Delivery, Document]) -> None:
        writes = []
        for one, change in changes.items():
            told = {"gone": {"$exists": one.is_withdrawal}}
            writes.append(UpdateOne({"_id": Binary(one.key), **_PENDING, **told}, change))
        if writes:
            with border():
                self._outbox.deliveries.bulk_write(writes, ordered=False)


def _pending(lease: Lease) -> Document:
    return {"receiver": Binary(lease.receiver), **_PENDING}


def _delivery(document: Document, item: Document | None) -> Delivery:
    """Build a delivery; one whose item is gone, and that tells of no withdrawal, has neither."""
    body = withdrawn = None
    if document.get("gone") and item is not None and "withdrawn_at" in item:
        withdrawn = Withdrawn(id=item["id"], channel=item["channel"], at=item["withdrawn_at"])
    elif item is not None and "body" in item and not document.get("gone"):
        body = read(item["body"])
    return Delivery(
        key=bytes(document["_id"]),
        tenant=document["tenant"],
        biz=document["biz"],
        subscription=document["name"],
        accepted_at=document["at"],
        tries=document["tries"],
        item=body,
        withdrawn=withdrawn,
        is_withdrawal=bool(document.get("gone")),
    )
