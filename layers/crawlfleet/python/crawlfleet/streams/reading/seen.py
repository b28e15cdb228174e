"""Show the sources that a biz subscribes to: who reads them, how fast, how late, what is wrong.

Of a source that others share, what is shown is the source's own; who else subscribes is not.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.paging import Listing
from crawlfleet.streams.delivery.figures import Figures
from crawlfleet.streams.delivery.mongo.figures import MongoFigures
from crawlfleet.streams.delivery.mongo.waiting import MongoWaiting
from crawlfleet.streams.feeds.models import Feed
from crawlfleet.streams.feeds.mongo import MongoFeeds
from crawlfleet.streams.reading.mongo import MongoReaders
from crawlfleet.streams.reading.status import FEEDS, SourceStatus, together
from crawlfleet.streams.subscriptions.models import StreamKind, Subscription
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions

_PAGE: Final = 500
#: Digits of a cursor. It is a place in the list: URLs of feeds are longer than one may be.
_CURSOR: Final = 9


class SourceState(StrEnum):
    """The state of a source."""

    READING = "reading"
    #: It is read, and its last connection or answer failed.
    FAILING = "failing"
    #: Its secret is refused.
    REFUSED = "refused"
    #: Nobody reads it now.
    UNREAD = "unread"


class SeenSource(msgspec.Struct, frozen=True, kw_only=True):
    """A channel or a feed that a biz subscribes to, as it is read.

    ``due_at`` is when a feed is asked next; ``subscriptions`` are those of the biz.
    """

    name: str
    kind: StreamKind
    state: SourceState
    subscriptions: tuple[str, ...]
    status: SourceStatus
    figures: Figures
    due_at: datetime | None = None


class SeenSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a subscription, its deliveries that wait and that are dead, its receiver."""

    figures: Figures
    pending: int = 0
    dead: int = 0
    receiver_error: str = ""
    failing_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSources:
    """List the sources of a biz, and show one."""

    subscriptions: MongoSubscriptions
    readers: MongoReaders
    figures: MongoFigures
    feeds: MongoFeeds
    waiting: MongoWaiting

    def list_all(
        self, tenant: str, biz: str, now: datetime, *, cursor: str | None, limit: int
    ) -> Listing[SeenSource]:
        """List sources by name. Raises InvalidRequestError (the cursor is none of this list)."""
        of = self._of(tenant, biz)
        names = sorted(of)
        begin = 0 if cursor is None else _place(cursor)
        shown = names[begin : begin + limit]
        found = self._seen({name: of[name] for name in shown}, now)
        end = begin + len(shown)
        return Listing(found, str(end) if found else cursor, more=end < len(names))

    def get(self, tenant: str, biz: str, name: str, now: datetime) -> SeenSource:
        """Show one source; raises NotFoundError where no subscription of the biz is to it."""
        of = self._of(tenant, biz)
        if name not in of:
            said = f"no subscription of this biz is to a channel or feed {name[:200]!r}"
            raise NotFoundError(said)
        (found,) = self._seen({name: of[name]}, now)
        return found

    def of_subscription(self, one: Subscription, now: datetime) -> SeenSubscription:
        """Return the figures of a subscription; what was read is of all of its sources."""
        figures = self.figures.of_subscriptions([one.id], now)[one.id]
        sources = self.figures.of_sources(one.content.channels, now)
        read = sum(each.read for each in sources.values())
        waiting = self.waiting.of(one.tenant, one.biz, one.name, one.content.target())
        return SeenSubscription(
            figures=msgspec.structs.replace(figures, read=read),
            pending=waiting.pending,
            dead=waiting.dead,
            receiver_error=waiting.error,
            failing_since=waiting.failing_since,
        )

    def _of(self, tenant: str, biz: str) -> dict[str, list[Subscription]]:
        of: defaultdict[str, list[Subscription]] = defaultdict(list)
        after: str | None = None
        while page := self.subscriptions.of_biz(tenant, biz, after, _PAGE):
            for one in page:
                for channel in one.content.channels:
                    of[channel].append(one)
            after = page[-1].name
        return of

    def _seen(self, of: dict[str, list[Subscription]], now: datetime) -> list[SeenSource]:
        kinds = {name: those[0].content.kind for name, those in of.items()}
        feeds = self.feeds.known([name for name in of if kinds[name] is StreamKind.RSS])
        channels = [name for name in of if kinds[name] is not StreamKind.RSS]
        statuses = self.readers.of([*channels, FEEDS])
        figures = self.figures.of_sources(list(of), now)
        found = []
        for name, those in sorted(of.items()):
            status, feed = together(statuses.get(name, ()), now), feeds.get(name)
            if kinds[name] is StreamKind.RSS:
                status = _of_feed(feed, together(statuses[FEEDS], now))
            found.append(
                SeenSource(
                    name=name,
                    kind=kinds[name],
                    state=_state(status),
                    subscriptions=tuple(sorted(one.name for one in those)),
                    status=status,
                    figures=figures[name],
                    due_at=None if feed is None else feed.next_at,
                )
            )
        return found


def sources_over(nodes: MongoNodes) -> SeenSources:
    """Open the sources that a home node knows."""
    return SeenSources(
        subscriptions=MongoSubscriptions(nodes),
        readers=MongoReaders(nodes),
        figures=MongoFigures(nodes),
        feeds=MongoFeeds(nodes),
        waiting=MongoWaiting(nodes),
    )


def _of_feed(feed: Feed | None, readers: SourceStatus) -> SourceStatus:
    """Return the status of a feed, which all workers that read feeds read."""
    if feed is None:
        return SourceStatus()
    return SourceStatus(
        readers=readers.readers,
        since=readers.since,
        connections=len(readers.readers),
        per_second=feed.rate,
        last_item_at=feed.gaps.item_at,
        faults=feed.failures,
        last_fault=feed.trouble,
    )


def _state(status: SourceStatus) -> SourceState:
    if status.refused:
        return SourceState.REFUSED
    if status.last_fault_at is None:
        is_failing = bool(status.last_fault)
    else:
        is_failing = not status.last_item_at or status.last_fault_at > status.last_item_at
    if status.connections and is_failing:
        return SourceState.FAILING
    return SourceState.READING if status.connections else SourceState.UNREAD


def _place(cursor: str) -> int:
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _CURSOR:
        raise InvalidRequestError.of("cursor", "is no cursor of this list")
    return int(cursor)
