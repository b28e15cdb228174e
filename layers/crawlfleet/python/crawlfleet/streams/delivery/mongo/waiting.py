"""Count what waits for receivers and what is dead, and find receivers that take nothing."""

from datetime import datetime
from typing import Final

import msgspec
from bson import Binary
from pymongo import ASCENDING

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.models import State, receiver_key
from crawlfleet.streams.delivery.mongo.outbox import Outbox
from crawlfleet.streams.targets import Target

#: Deliveries of one kind that are counted, and of the receiver's among which they are looked for.
MOST: Final = 1_000
_LOOKED_AT: Final = 10_000


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries of a subscription that wait, those that are dead, and its receiver's failure."""

    pending: int = 0
    dead: int = 0
    error: str = ""
    failing_since: datetime | None = None


class FailingReceiver(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver that takes nothing, since when and why."""

    tenant: str
    target: str
    since: datetime
    error: str = ""


class MongoWaiting:
    """Deliveries that wait, or are dead, by their subscriptions."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._outbox = Outbox(nodes)

    def of(self, tenant: str, biz: str, name: str, target: Target | None) -> Waiting:
        """Count what waits for a subscription's receiver, and its dead letters.

        Many of others that go to the same receiver hide some: what is counted is bounded.
        """
        dead = {"tenant": tenant, "biz": biz, "state": int(State.DEAD)}
        with border():
            buried = self._count(dead, name, "dead")
            if target is None:
                return Waiting(dead=buried)
            receiver = Binary(receiver_key(tenant, target))
            found = self._outbox.receivers.find_one({"_id": receiver}) or {}
            pending = {"receiver": receiver, "state": int(State.PENDING)}
            waits = self._count(pending, name, "due", biz=biz)
        return Waiting(
            pending=waits,
            dead=buried,
            error=str(found.get("error", "")),
            failing_since=found.get("failing_since"),
        )

    def failing(self, limit: int) -> list[FailingReceiver]:
        """List receivers that take nothing, those first that do so for longest."""
        with border():
            look = self._outbox.receivers.find(
                {"failing_since": {"$exists": True}}, limit=limit, hint="failing"
            )
            return [
                FailingReceiver(
                    tenant=one["tenant"],
                    target=f"{one['kind']} {one['address']}",
                    since=one["failing_since"],
                    error=str(one.get("error", "")),
                )
                for one in look.sort([("failing_since", ASCENDING)])
            ]

    def _count(self, match: Document, name: str, index: str, biz: str | None = None) -> int:
        stages: list[Document] = [
            {"$match": match},
            {"$limit": _LOOKED_AT},
            {"$match": {"name": name, **({} if biz is None else {"biz": biz})}},
            {"$limit": MOST},
            {"$count": "count"},
        ]
        found = next(iter(self._outbox.deliveries.aggregate(stages, hint=index)), None)
        return 0 if found is None else int(found["count"])
