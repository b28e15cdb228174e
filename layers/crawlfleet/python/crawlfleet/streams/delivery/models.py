"""Values of delivery: subscribers, receivers, deliveries, and the keys that make repeats known.

A delivery is one item for one subscription. Its key is made of both, so whoever accepts the item
again means the same delivery, and its id in a message is the same however often it is pushed. Keys
begin with the item, then the biz: deliveries of an item, and of an item in a biz, lie side by side
in the index that MongoDB has anyway.
"""

from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from crawlfleet.streams.items import StreamItem, Withdrawn
from crawlfleet.streams.targets import Target

#: What is delivered, or dead, is kept so long, and with it the knowledge of repeats.
LIFE: Final = timedelta(days=14)

#: Bytes of keys.
ITEM_BYTES: Final = 16
_OWNER_BYTES: Final = 8
_SUBSCRIPTION_BYTES: Final = 8
DELIVERY_BYTES: Final = ITEM_BYTES + _OWNER_BYTES + _SUBSCRIPTION_BYTES


class Subscriber(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as delivery sees it: whose it is, its name, where its items go.

    Without a target they are kept, and pushed nowhere.
    """

    tenant: str
    biz: str
    name: str
    target: Target | None = None


class State(IntEnum):
    """The states of a delivery; the numbers are stored."""

    PENDING = 0
    DELIVERED = 1
    DEAD = 2


class Reason(StrEnum):
    """Reasons of dead letters; the words are stored and spoken."""

    #: The receiver has found fault with this message.
    REFUSED = "refused"
    #: It is longer than a message of the receiver's kind may be.
    TOO_LARGE = "too_large"
    #: It was tried so often, while the receiver took others.
    TRIED_OUT = "tried_out"
    #: The receiver has taken nothing for longer than deliveries wait.
    AWAY = "away"


def _digest(size: int, *parts: str) -> bytes:
    # No part holds a line's end but the ids of strangers, which stand last.
    return blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=size).digest()


def item_key(channel: str, id_: str) -> bytes:
    """Return the key of an item: 16 bytes."""
    return _digest(ITEM_BYTES, channel, id_)


def owner_key(tenant: str, biz: str) -> bytes:
    """Return the key of a biz: 8 bytes."""
    return _digest(_OWNER_BYTES, tenant, biz)


def delivery_key(item: bytes, subscriber: Subscriber) -> bytes:
    """Return the key of a delivery: the item's, the biz's, the subscription's."""
    owner = owner_key(subscriber.tenant, subscriber.biz)
    return item + owner + _digest(_SUBSCRIPTION_BYTES, subscriber.name)


def twin_key(same: str, subscriber: Subscriber) -> bytes:
    """Return the key that deliveries of an item share, whichever channel it is read of."""
    return _digest(16, subscriber.tenant, subscriber.biz, subscriber.name, same)


def receiver_key(tenant: str, target: Target) -> bytes:
    """Return the key of a receiver: a target, as one tenant has it."""
    return _digest(16, tenant, target.kind.value, target.address)


class Addressed(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and the subscribers that want it."""

    item: StreamItem
    subscribers: tuple[Subscriber, ...]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a subscription is to have, or is to hear of that it was withdrawn.

    ``item`` is None where it is not there any more, and in a withdrawal. ``tries`` counts pushes
    that the receiver answered with no for this delivery alone.
    """

    key: bytes
    tenant: str
    biz: str
    subscription: str
    accepted_at: datetime
    item: StreamItem | None = None
    withdrawn: Withdrawn | None = None
    is_withdrawal: bool = False
    tries: int = 0

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def id(self) -> str:
        """The id by which receivers drop repeats; a withdrawal has one of its own."""
        return self.key.hex() + ("-withdrawn" if self.is_withdrawal else "")


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver that a deliverer has leased, under a fence that rises.

    ``failures`` are calls in a row that it did not answer, the first of them at ``failing_since``.
    """

    receiver: bytes
    tenant: str
    target: Target
    fence: int
    until: datetime
    failures: int = 0
    failing_since: datetime | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was given up: why, when, and where it was to go."""

    id: str
    tenant: str
    biz: str
    subscription: str
    channel: str
    item: str
    reason: Reason
    error: str
    tries: int
    target: Target
    accepted_at: datetime
    dead_at: datetime
    expires_at: datetime


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver's no to one message; ``is_final``: another try would be answered alike."""

    text: str
    is_final: bool = False
