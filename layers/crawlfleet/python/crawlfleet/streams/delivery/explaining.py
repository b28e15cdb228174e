"""Explain an item: which subscriptions of a biz took it and why, why others did not, where it is.

An item is stored for those who took it. So an item that no subscription of the biz has is not
found, whoever else may have it; what a filter makes of any text ``subscriptions.trial`` tells.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.kernel import paging
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.paging import Listing
from crawlfleet.streams.delivery.models import ITEM_BYTES, LIFE, Delivery, item_key
from crawlfleet.streams.delivery.mongo.traces import MongoTraces, Trace, TracedDelivery
from crawlfleet.streams.items import StreamItem
from crawlfleet.streams.subscriptions.models import Subscription, is_active
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.streams.subscriptions.trial import SavedItem, TriedItem, tried

#: Subscriptions of one answer, and channels that an item is looked for in.
MOST: Final = 100
MOST_CHANNELS: Final = 2_000
_PAGE: Final = 500
#: Readers need less to write what they have stamped, unless MongoDB is away.
SETTLED: Final = timedelta(seconds=5)
_MESSAGE: Final = re.compile(r"([0-9a-f]{64})(?:-withdrawn)?\Z")

WITHDRAWN: Final = "its channel has withdrawn it, and its text is deleted"
CHANGED_SINCE: Final = "the subscription was changed after it took the item"
LATER: Final = "the subscription was made or changed after the item was read"
RESTING: Final = "the item was read outside of the subscription's hours"
ENDED: Final = "the subscription has ended"
NOT_SERVED: Final = (
    "the filter takes it, but nothing was taken for the subscription when the item was read:"
    " its tenant was suspended, its channel not in the configuration, its quota used up, or it"
    " has the item of another feed"
)
UNREADABLE: Final = "the filter cannot be read in this release"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription's part in the fate of an item.

    ``tried`` is what its filter makes of it now, None where that cannot be told; ``delivery`` is
    None where it did not take it; ``why`` says what the two do not.
    """

    subscription: str
    filter: str = ""
    tried: TriedItem | None = None
    delivery: TracedDelivery | None = None
    why: str = ""


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and what the subscriptions to its channel made of it; ``more`` than are here."""

    trace: Trace
    verdicts: tuple[Verdict, ...]
    more: bool = False


def verdict_of(one: Subscription | None, delivery: TracedDelivery | None, trace: Trace) -> Verdict:
    """Judge an item by a subscription that stands, or by the delivery to one that has ended."""
    if one is None:
        name = "" if delivery is None else delivery.subscription
        return Verdict(subscription=name, delivery=delivery, why=ENDED)
    text = one.content.filter
    if trace.item is None:
        return Verdict(subscription=one.name, filter=text, delivery=delivery, why=WITHDRAWN)
    try:
        (found,) = tried(one.content.parsed(), [_saved(trace.item)])
    except InvalidRequestError:
        return Verdict(subscription=one.name, filter=text, delivery=delivery, why=UNREADABLE)
    why = _why(one, found.taken, delivery, trace.item.received_at)
    return Verdict(subscription=one.name, filter=text, tried=found, delivery=delivery, why=why)


def _why(
    one: Subscription, is_taken: bool, delivery: TracedDelivery | None, read_at: datetime
) -> str:
    if delivery is not None:
        return "" if is_taken else CHANGED_SINCE
    if not is_taken:
        return ""
    if one.changed_at > read_at:
        return LATER
    return NOT_SERVED if is_active(one.content.active, read_at) else RESTING


def _saved(item: StreamItem) -> SavedItem:
    seen = item.seen
    return SavedItem(
        id=item.id,
        text=seen.text,
        author=seen.author,
        language=seen.language,
        hashtags=seen.hashtags,
        mentions=seen.mentions,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemExplainer:
    """List and explain items to the biz whose subscriptions have them."""

    traces: MongoTraces
    subscriptions: MongoSubscriptions

    def taken(
        self,
        tenant: str,
        biz: str,
        now: datetime,
        *,
        kept_seconds: float | None = None,
        cursor: str | None = None,
        limit: int,
    ) -> Listing[Delivery]:
        """List what subscriptions of a biz have taken, oldest first; the cursor goes on after it.

        Withdrawn items, and those older than ``kept_seconds``, are left out. The latest seconds
        are, too: readers write side by side, and who goes on by a cursor is to miss none of them.

        Raises:
            InvalidRequestError: the cursor is none.
        """
        kept = LIFE if kept_seconds is None else min(LIFE, timedelta(seconds=kept_seconds))
        found = self.traces.taken(
            *(tenant, biz),
            since=now - kept,
            before=now - SETTLED,
            after=None if cursor is None else paging.decode_job(cursor),
            limit=limit + 1,
        )
        page = found[:limit]
        last = page[-1] if page else None
        position = cursor if last is None else paging.encode_job(last.accepted_at, last.id)
        there = [one for one in page if one.item is not None]
        return Listing(there, position, more=len(found) > limit)

    def explain(
        self,
        tenant: str,
        biz: str,
        item: str,
        *,
        channel: str | None = None,
        subscription: str | None = None,
    ) -> Explained:
        """Explain an item by its id in a channel, or by the id of a message of it.

        Without a channel it is looked for in those that the biz subscribes to.

        Raises:
            NotFoundError: no subscription of the biz has it, or there is none of that name.
            InvalidRequestError: which channel is meant must be said.
        """
        standing = self._standing(tenant, biz)
        trace = self._trace(tenant, biz, item, channel, standing)
        deliveries = {one.subscription: one for one in trace.deliveries}
        of_channel = {one.name: one for one in standing if trace.channel in one.content.channels}
        names = sorted(of_channel.keys() | deliveries.keys())
        if subscription is not None:
            if subscription not in names:
                said = "this biz has no subscription called {!r} to the item's channel"
                raise NotFoundError(said.format(subscription[:64]))
            names = [subscription]
        # Those that took it come first.
        names.sort(key=lambda name: (name not in deliveries, name))
        verdicts = (
            verdict_of(of_channel.get(name), deliveries.get(name), trace) for name in names[:MOST]
        )
        return Explained(trace=trace, verdicts=tuple(verdicts), more=len(names) > MOST)

    def _standing(self, tenant: str, biz: str) -> list[Subscription]:
        found: list[Subscription] = []
        after: str | None = None
        while page := self.subscriptions.of_biz(tenant, biz, after, _PAGE):
            found += page
            after = page[-1].name
        return found

    def _trace(
        self,
        tenant: str,
        biz: str,
        item: str,
        channel: str | None,
        standing: Sequence[Subscription],
    ) -> Trace:
        if channel is not None:
            keys = [item_key(channel, item)]
        elif message := _MESSAGE.match(item):
            keys = [bytes.fromhex(message[1])[:ITEM_BYTES]]
        else:
            channels = sorted({each for one in standing for each in one.content.channels})
            if len(channels) > MOST_CHANNELS:
                said = f"is missing: the biz reads more than {MOST_CHANNELS:,}, so name the item's"
                raise InvalidRequestError.of("channel", said)
            keys = [item_key(each, item) for each in channels]
        found = self.traces.find(tenant, biz, keys)
        if not found:
            said = "no subscription of the biz has this item; `crawlfleet subscription try` says"
            raise NotFoundError(f"{said} what a filter makes of a text")
        if len(found) > 1:
            there = ", ".join(one.channel for one in found[:3])
            said = f"is missing: several have an item of this id, such as {there}"
            raise InvalidRequestError.of("channel", said)
        return found[0]


def explainer_over(nodes: MongoNodes) -> ItemExplainer:
    """Open the explainer of items over the home node."""
    return ItemExplainer(traces=MongoTraces(nodes), subscriptions=MongoSubscriptions(nodes))
