"""Deliveries to subscriptions' targets that were given up, and conversations of items."""

from datetime import datetime

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
