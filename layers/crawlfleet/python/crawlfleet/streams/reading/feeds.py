"""Read feeds for all who subscribe to them: match what comes, hand it to delivery.

Feeds need neither holds nor a plan of sources: each is taken where its state is kept, by whichever
worker finds it due (``streams.feeds.reader``). Every worker that runs this reads for all.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from crawlfleet.kernel.errors import CrawlfleetError, StoreError, StoreUnavailableError
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.delivery.figures import Tally
from crawlfleet.streams.delivery.models import Addressed
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.filters import Filter
from crawlfleet.streams.items import Batch, Reader, StreamItem
from crawlfleet.streams.matching import Matcher
from crawlfleet.streams.reading.channel import AGAIN_SECONDS, UNSTORABLE, Receiving
from crawlfleet.streams.reading.counters import ChannelCounters, ChannelReport
from crawlfleet.streams.reading.runner import Terms, receiving_of
from crawlfleet.streams.subscriptions.models import (
    Seen,
    StreamKind,
    Subscription,
    after,
    is_active,
)
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions

#: Between two looks at which subscriptions changed.
LOOK_SECONDS: Final = 1.0
log: Final = logging.getLogger(__name__)

#: Makes the reader of the feeds that the function returns, which is asked again and again.
OpenFeeds = Callable[[Callable[[], Collection[str]]], Reader]


class FeedRunner:
    """The reading of feeds by one worker, for one event loop. ``terms`` are those in force now."""

    def __init__(
        self,
        *,
        subscriptions: MongoSubscriptions,
        accepting: MongoAccepting,
        clock: Clock,
        terms: Callable[[], Terms],
        look_seconds: float = LOOK_SECONDS,
        tally: Tally | None = None,
    ) -> None:
        self._subscriptions, self._accepting = subscriptions, accepting
        self._clock = clock
        self._terms, self._look_seconds = terms, look_seconds
        self._revision: str | None = None
        self._seen: Seen | None = None
        self._known: dict[str, Subscription] = {}
        self._matcher = Matcher()
        self._receiving: dict[str, Receiving] = {}
        #: The subscriptions to each feed.
        self._of: Mapping[str, Collection[str]] = {}
        self._counters = ChannelCounters(clock())
        self._tally = tally or Tally()

    @property
    def is_needed(self) -> bool:
        """Tell whether anybody subscribes to a feed."""
        return bool(self._of)

    async def run(self, open_reader: OpenFeeds, ends: Callable[[], bool]) -> None:
        """Read until it ends."""
        await self.look()
        looking = asyncio.ensure_future(self._go_on_looking())
        try:
            batches = open_reader(lambda: self._of).read("", lambda: not ends())
            async with aclosing(batches):
                async for batch in batches:
                    if not await self._take(batch, ends):
                        return
        finally:
            looking.cancel()
            await asyncio.wait((looking,))

    async def look(self) -> None:
        """Take up what changed in subscriptions; what the store does not tell stays as it was."""
        try:
            is_changed = await asyncio.to_thread(self._learn)
        except StoreError as error:
            log.warning("changes of subscriptions cannot be read", extra={"reason": str(error)})
            is_changed = False
        terms = self._terms()
        if is_changed or terms.revision != self._revision:
            self._revision = terms.revision
            self._plan(terms)

    def report(self) -> ChannelReport:
        """Return the figures of all feeds together."""
        return self._counters.report(subscriptions=len(self._matcher), connections=len(self._of))

    async def _go_on_looking(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            await self.look()

    def _learn(self) -> bool:
        is_changed, has_more = False, True
        known, seen = self._known, self._seen
        while has_more:
            changes = self._subscriptions.changed_since(seen)
            is_changed |= bool(changes.standing or changes.ended or changes.afresh)
            known, seen, has_more = after(known, changes), changes.seen, changes.more
        self._known, self._seen = known, seen
        return is_changed

    def _plan(self, terms: Terms) -> None:
        """Match from now on for the subscriptions that are known, and served."""
        filters: dict[str, Filter] = {}
        receiving: dict[str, Receiving] = {}
        of: dict[str, set[str]] = defaultdict(set)
        for key, one in self._known.items():
            if one.content.kind is not StreamKind.RSS or not terms.serves(one):
                continue
            try:
                filters[key], receiving[key] = one.content.parsed(), receiving_of(one)
            except CrawlfleetError as error:
                filters.pop(key, None)
                extra = {"subscription": key, "reason": str(error)}
                log.warning("a subscription cannot be read for", extra=extra)
                continue
            for feed in one.content.channels:
                of[feed].add(key)
        for gone in self._receiving.keys() - receiving.keys():
            self._matcher.drop(gone)
        self._matcher.put_all(filters)
        self._receiving = receiving
        if of != self._of:
            self._of = dict(of)

    async def _take(self, batch: Batch, ends: Callable[[], bool]) -> bool:
        """Hand a batch to delivery; False where it was not taken before the end."""
        counters = self._counters
        counters.came(batch, self._clock())
        wanted = self._matched(batch.items)
        counters.matched += len(wanted)
        parts: list[Sequence[Addressed]] = [wanted] if wanted else []
        while parts:
            part = parts.pop()
            try:
                counters.delivered += await asyncio.to_thread(
                    self._accepting.accept, part, self._clock()
                )
            except StoreUnavailableError:
                if ends():
                    return False
                parts.append(part)
                await asyncio.sleep(AGAIN_SECONDS)
            except CrawlfleetError as error:
                # What no store takes at once is handed on one by one: a single one is dropped.
                if len(part) > 1:
                    parts += [[one] for one in part]
                    continue
                counters.dropped[UNSTORABLE] += 1
                extra = {"channel": part[0].item.channel, "reason": type(error).__name__}
                log.warning("an item cannot be stored", extra=extra)
        self._tally.read(batch.items, wanted, self._clock())
        if wanted:
            counters.accepted((one.item.published_at for one in wanted), self._clock())
        return True

    def _matched(self, items: Sequence[StreamItem]) -> list[Addressed]:
        """Find who wants the items, of those who subscribe to their feeds."""
        now, found = self._clock(), []
        for item in items:
            of = self._of.get(item.channel, ())
            wanting = (self._receiving[one] for one in self._matcher.match(item.seen) if one in of)
            subscribers = tuple(one.subscriber for one in wanting if is_active(one.active, now))
            if subscribers:
                found.append(Addressed(item=item, subscribers=subscribers))
        return found
