"""Learn what subscriptions ask of readers: once all of it, then what changed.

Nothing is read but changes of subscriptions and whether a receiver is due, each by an index: that
is what a tick of the scheduler costs while nobody subscribes.
"""

from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.streams.delivery.mongo.leasing import MongoLeasing
from crawlfleet.streams.reading.succession import Demand
from crawlfleet.streams.subscriptions.models import Seen, StreamKind, Subscription, after
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions

#: The digest of a filter, which is all that is remembered of it.
_DIGEST: Final = 12


class StreamDemand:
    """The demand for readers, as one process knows it."""

    def __init__(
        self,
        subscriptions: MongoSubscriptions,
        leasing: MongoLeasing,
        is_served: Callable[[Tree, Subscription, datetime], bool],
    ) -> None:
        self._subscriptions, self._leasing = subscriptions, leasing
        self._is_served = is_served
        self._seen: Seen | None = None
        self._known: dict[str, Subscription] = {}

    def look(self, tree: Tree, now: datetime) -> Demand:
        """Return the demand now: of a channel that filters by itself a source a filter at most.

        Raises:
            StoreUnavailableError: MongoDB does not answer.
        """
        self._learn()
        channels = tree.stage.streams.channels
        sources: set[tuple[str, str]] = set()
        has_feeds = False
        for one in self._known.values():
            if not self._is_served(tree, one, now):
                continue
            name = one.content.channel
            if one.content.kind is StreamKind.RSS:
                has_feeds = True
            elif name is not None and name in channels:
                is_whole = channels[name].filter_parameter is None
                sources.add((name, "" if is_whole else one.content.filter))
        return Demand(len(sources), has_feeds, self._leasing.is_due(now))

    def _learn(self) -> None:
        known, seen, has_more = self._known, self._seen, True
        while has_more:
            changes = self._subscriptions.changed_since(seen)
            slim = tuple(map(_slim, changes.standing))
            known = after(known, replace(changes, standing=slim))
            seen, has_more = changes.seen, changes.more
        self._known, self._seen = known, seen


def _slim(one: Subscription) -> Subscription:
    """Keep of a subscription what the demand depends on: there may be a hundred thousand."""
    digest = blake2b(one.content.filter.encode(), digest_size=_DIGEST).hexdigest()
    return replace(one, content=replace(one.content, filter=digest, feeds=(), deliver=None))
