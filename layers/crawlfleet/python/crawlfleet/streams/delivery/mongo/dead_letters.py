"""Dead letters of delivery in MongoDB: find them, and make them pending again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from bson import Binary
from pymongo import ASCENDING, UpdateOne

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.models import (
    DELIVERY_BYTES,
    ITEM_BYTES,
    DeadLetter,
    Reason,
    State,
    receiver_key,
)
from crawlfleet.streams.delivery.mongo.outbox import Outbox, target_in
from crawlfleet.streams.targets import Target

_DEAD: Final[Document] = {"state": int(State.DEAD)}


class MongoStreamDeadLetters:
    """The dead letters of deliveries; a tenant and biz see their own alone."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._outbox = Outbox(nodes)

    def find(
        self,
        tenant: str,
        biz: str,
        *,
        subscription: str | None = None,
        reason: Reason | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> list[DeadLetter]:
        """List dead letters by when they died, oldest first, after a position."""
        match: Document = {"tenant": tenant, "biz": biz, **_DEAD}
        if subscription is not None:
            match["name"] = subscription
        if reason is not None:
            match["reason"] = reason.value
        if after is not None:
            dead_at, id_ = after
            key = _key(id_)
            match["$or"] = [{"dead_at": {"$gt": dead_at}}]
            if key is not None:
                match["$or"].append({"dead_at": dead_at, "_id": {"$gt": key}})
            match["dead_at"] = {"$gte": dead_at}
        with border():
            look = self._outbox.deliveries.find(match, hint="dead", limit=limit)
            return self._whole(list(look.sort([("dead_at", ASCENDING), ("_id", ASCENDING)])))

    def get(self, tenant: str, biz: str, id_: str) -> DeadLetter | None:
        """Read one dead letter; None where there is none of this id."""
        key = _key(id_)
        if key is None:
            return None
        with border():
            one = self._outbox.deliveries.find_one(
                {"_id": key, "tenant": tenant, "biz": biz, **_DEAD}
            )
            return self._whole([one])[0] if one is not None else None

    def replay(
        self, dead: Sequence[DeadLetter], targets: Mapping[str, Target], now: datetime
    ) -> int:
        """Make dead letters pending, as if never tried; return how many were dead.

        ``targets`` has by name where subscriptions deliver now; one that is not in it delivers
        where it did.
        """
        receivers: dict[bytes, tuple[str, Target]] = {}
        changes = []
        for one in dead:
            target = targets.get(one.subscription, one.target)
            receiver = receiver_key(one.tenant, target)
            receivers[receiver] = one.tenant, target
            pending = {
                "state": int(State.PENDING),
                "due_at": now,
                "replayed_at": now,
                "tries": 0,
                "receiver": Binary(receiver),
            }
            left = dict.fromkeys(("dead_at", "reason", "error"), "")
            match = {"_id": _key(one.id), "tenant": one.tenant, **_DEAD}
            changes.append(UpdateOne(match, {"$set": pending, "$unset": left}))
        if not changes:
            return 0
        with border():
            count = self._outbox.deliveries.bulk_write(changes, ordered=False).modified_count
            # Also of those that another call has made pending, as it may not have come so far.
            self._outbox.wake(receivers, now)
        return count

    def _whole(self, found: Sequence[Document]) -> list[DeadLetter]:
        items = {bytes(one["_id"][:ITEM_BYTES]) for one in found}
        look = self._outbox.items.find(
            {"_id": {"$in": [Binary(key) for key in items]}}, ["channel", "id"]
        )
        known = {bytes(one["_id"]): one for one in look}
        keys = list({one["receiver"] for one in found})
        look = self._outbox.receivers.find({"_id": {"$in": keys}})
        targets = {one["_id"]: target_in(one) for one in look}
        return [
            DeadLetter(
                id=one["_id"].hex(),
                tenant=one["tenant"],
                biz=one["biz"],
                subscription=one["name"],
                channel=known.get(bytes(one["_id"][:ITEM_BYTES]), {}).get("channel", ""),
                item=known.get(bytes(one["_id"][:ITEM_BYTES]), {}).get("id", ""),
                reason=Reason(one["reason"]),
                error=one["error"],
                tries=one["tries"],
                target=targets[one["receiver"]],
                accepted_at=one["at"],
                dead_at=one["dead_at"],
                expires_at=one["expires_at"],
            )
            for one in found
            if one["receiver"] in targets
        ]


def _key(id_: str) -> Binary | None:
    """Return the key that an id stands for."""
    try:
        key = bytes.fromhex(id_)
    except ValueError:
        return None
    return Binary(key) if len(key) == DELIVERY_BYTES else None
