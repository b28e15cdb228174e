"""Subscriptions to streams, and trials of their filters."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.wire import Page
from crawlfleet.wire.quotas import QuotaState


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription to a stream: what it takes of which feeds or channel, and when.

    ``kind`` is ``rss``, ``x_stream`` or ``ndjson_stream``. ``filter`` is as it was written,
    ``canonical`` the form that equal filters share. ``revision`` names its content: a change that
    is made for it is refused once there is another one. ``state`` is ``active``, ``resting``
    outside of its hours, ``over-quota`` while a quota is used up, ``no-channel`` where the stage
    has none of its name any more, or ``suspended`` with its tenant. ``quotas`` are its own;
    ``over`` says which one of it, its user, biz or tenant is used up, and ``back_at`` when that
    begins anew, null where it does not.
    """

    name: str = ""
    kind: str
    filter: str
    canonical: str = ""
    feeds: tuple[str, ...] = ()
    channel: str | None = None
    user: str | None = None
    deliver: dict[str, str] | None = None
    active: dict[str, Any] | None = None
    revision: str = ""
    state: str = ""
    quotas: tuple[QuotaState, ...] = ()
    over: str = ""
    back_at: datetime | None = None
    created_at: datetime | None = None
    changed_at: datetime | None = None


class SubscriptionsPage(Page, frozen=True):
    """A page of subscriptions, by name."""

    subscriptions: tuple[Subscription, ...]


class TriedItem(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of an item that a filter was tried on; ``id`` is its own.

    ``found`` are the terms by which it is taken. Of one that is not taken they are what it has of
    the alternative that came closest, ``missing`` is what that lacks, and ``excluded_by`` what
    excludes it there.
    """

    id: str = ""
    taken: bool = False
    found: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    excluded_by: tuple[str, ...] = ()


class TriedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter that was tried, in its canonical form, and the fate of each item, in their order."""

    filter: str
    taken: int = 0
    items: tuple[TriedItem, ...] = ()
