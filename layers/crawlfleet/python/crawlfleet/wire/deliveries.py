"""Deliveries to subscriptions' targets that were given up, and conversations of items."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.wire import Page


class UndeliveredItem(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter of a subscription: an item that was not delivered, and why.

    ``id`` is that of its message, ``item`` the item's in its ``channel``. ``reason`` is
    ``refused``, ``too_large``, ``tried_out`` or ``away``. It can be replayed until ``expires_at``.
    """

    id: str
    subscription: str
    channel: str = ""
    item: str = ""
    reason: str
    error: str = ""
    tries: int = 0
    target: dict[str, str] = {}
    accepted_at: datetime
    dead_at: datetime
    expires_at: datetime


class UndeliveredPage(Page, frozen=True):
    """A page of dead letters of subscriptions, oldest first."""

    undelivered: tuple[UndeliveredItem, ...]


class Redelivered(msgspec.Struct, frozen=True, kw_only=True):
    """The count of a replay. ``more``: there may be others; ask again with this ``cursor``."""

    replayed: int
    cursor: str | None = None
    more: bool = False


class ItemDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery of an item: its ``state`` is ``pending``, ``delivered``, ``dead`` or ``kept``.

    ``id`` is that of its message. ``kept`` is what no target is named for. ``due_at`` is when it is
    pushed next, ``error`` what the receiver said last. ``withdrawal``: the receiver is told, or was
    told, that the item is to be forgotten.
    """

    id: str
    state: str
    accepted_at: datetime
    delivered_at: datetime | None = None
    due_at: datetime | None = None
    dead_at: datetime | None = None
    tries: int = 0
    reason: str | None = None
    error: str = ""
    target: dict[str, str] = {}
    withdrawal: bool = False


class ItemVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription's part in the fate of an item.

    ``taken`` says whether it took it, ``matches`` whether its filter as it is now takes it; null
    where that cannot be told. ``found``, ``missing`` and ``excluded_by`` are terms, as in a trial.
    ``why`` says what the terms do not. ``delivery`` is null where it was not taken.
    """

    subscription: str
    filter: str = ""
    taken: bool = False
    matches: bool | None = None
    found: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    excluded_by: tuple[str, ...] = ()
    why: str = ""
    delivery: ItemDelivery | None = None


class TakenItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a subscription has taken; ``id`` is that of its message, ``item`` as there."""

    id: str
    subscription: str
    channel: str
    accepted_at: datetime
    item: dict[str, Any] = {}


class TakenItemsPage(Page, frozen=True):
    """A page of items that subscriptions have taken, oldest first."""

    items: tuple[TakenItem, ...]


class ExplainedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a channel, and what the biz's subscriptions to it made of it.

    ``verdicts`` are 100 at most, those that took it first; ``more`` says that there are others.
    """

    channel: str
    item: str
    url: str = ""
    title: str = ""
    text: str = ""
    author: str = ""
    published_at: datetime | None = None
    received_at: datetime | None = None
    withdrawn_at: datetime | None = None
    verdicts: tuple[ItemVerdict, ...] = ()
    more: bool = False


class ConversationTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a conversation, at a ``depth`` below its root; ``parent`` is what it stands under.

    A ``placeholder`` is an item that is not there, or that no subscription of the biz has.
    ``cut_off`` says that it stands elsewhere than its channel says: its link would close a circle,
    or it is too deep.
    """

    id: str
    depth: int
    parent: str | None = None
    placeholder: bool = False
    cut_off: bool = False
    text: str = ""
    title: str = ""
    author: str = ""
    url: str = ""
    published_at: datetime | None = None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: its turns, each behind what it replies to."""

    channel: str
    root: str
    turns: tuple[ConversationTurn, ...] = ()
