"""Read feeds for all who subscribe to them: match what comes, hand it to delivery.

Feeds need neither holds nor a plan of sources: each is taken where its state is kept, by whichever
worker finds it due (``streams.feeds.reader``). Every worker that runs this reads for all.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from crawlfleet.kernel.errors import CrawlfleetError, StoreError, StoreUnavailableError
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.delivery.figures import Tally
from crawlfleet.streams.delivery.models import Addressed
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.feeds.places import tenants_of_feeds
from crawlfleet.streams.filters import Filter
from crawlfleet.streams.items import Batch, Reader, StreamItem
from crawlfleet.streams.matching import Matcher
from crawlfleet.streams.reading.changes import Changed, KnownFilters
from crawlfleet.streams.reading.channel import AGAIN_SECONDS, UNSTORABLE
from crawlfleet.streams.reading.closing import Closing, Conditions, Receiving
from crawlfleet.streams.reading.counters import ChannelCounters, ChannelReport
from crawlfleet.streams.reading.metering import OVER_QUOTA, Admitted, Metering, Wanted
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
        meter: Metering,
        closing: Closing | None = None,
        look_seconds: float = LOOK_SECONDS,
        tally: Tally | None = None,
    ) -> None:
        self._subscriptions, self._accepting = subscriptions, accepting
        self._clock = clock
        self._terms, self._look_seconds = terms, look_seconds
        self._meter, self._closing = meter, closing or Closing()
        self._revision: str | None = None
        self._seen: Seen | None = None
        self._known: dict[str, Subscription] = {}
        self._known_filters, self._changed = KnownFilters(), Changed()
        self._matcher = Matcher()
        self._matched_for: frozenset[str] = frozenset()
        self._filters: dict[str, Filter] = {}
        self._receiving: dict[str, Receiving] = {}
        self._conditions: dict[str, Conditions] = {}
        #: The subscriptions to each feed.
        self._of: Mapping[str, Collection[str]] = {}
        self._tenants: Mapping[str, Sequence[str]] = {}
        self._counters = ChannelCounters(clock())
        self._tally = tally or Tally()

    @property
    def is_needed(self) -> bool:
        """Tell whether anybody subscribes to a feed."""
        return bool(self._of)

    @property
    def tenants(self) -> Mapping[str, Sequence[str]]:
        """The tenants of each feed."""
        return self._tenants

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
            self._changed.note()
        is_due = self._changed.is_due
        if is_due:
            with self._changed.taken_up():
                self._read(terms)
        # Of what a quota keeps ledgers are asked.
        look = partial(self._closing.look, self._conditions, self._clock())
        if await asyncio.to_thread(look) or is_due:
            with self._changed.taken_up():
                self._plan()

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

    def _read(self, terms: Terms) -> None:
        """Read what subscriptions ask for, of those that are served."""
        filters: dict[str, Filter] = {}
        receiving: dict[str, Receiving] = {}
        of: dict[str, set[str]] = defaultdict(set)
        for key, one in self._known.items():
            if one.content.kind is not StreamKind.RSS or not terms.serves(one):
                continue
            try:
                filters[key] = self._known_filters.of(key, one)
                receiving[key] = receiving_of(one, terms.limits(one))
            except CrawlfleetError as error:
                filters.pop(key, None)
                extra = {"subscription": key, "reason": str(error)}
                log.warning("a subscription cannot be read for", extra=extra)
                continue
            for feed in one.content.channels:
                of[feed].add(key)
        self._known_filters.keep(filters)
        self._filters, self._receiving = filters, receiving
        self._conditions = {key: one.conditions for key, one in receiving.items()}
        if of != self._of:
            self._of = dict(of)
        standing = (self._known[key] for key in receiving)
        self._tenants = tenants_of_feeds((one.tenant, one.content.channels) for one in standing)

    def _plan(self) -> None:
        """Match from now on for all that is not left out now.

        Feeds are read on for it, so that what comes meanwhile is no news when it is back.
        """
        wanted = {key: one for key, one in self._filters.items() if key not in self._closing}
        for gone in self._matched_for - wanted.keys():
            self._matcher.drop(gone)
        self._matcher.put_all(wanted)
        self._matched_for = frozenset(wanted)

    async def _take(self, batch: Batch, ends: Callable[[], bool]) -> bool:
        """Hand a batch to delivery; False where it was not taken before the end."""
        counters = self._counters
        counters.came(batch, self._clock())
        wanted = self._matched(batch.items)
        counters.matched += len(wanted)
        while True:
            try:
                admitted = await self._meter.admit(len(batch.items), wanted)
                break
            except StoreUnavailableError:
                if ends():
                    return False
                await asyncio.sleep(AGAIN_SECONDS)
        if admitted.dropped:
            counters.dropped[OVER_QUOTA] += admitted.dropped
        fresh: set[bytes] | None = None
        try:
            fresh = await self._accepted(admitted, ends)
        finally:
            self._meter.settle(admitted, fresh)
        self._tally.read(batch.items, admitted.addressed, self._clock())
        return fresh is not None

    async def _accepted(self, admitted: Admitted, ends: Callable[[], bool]) -> set[bytes] | None:
        """Hand to delivery what was admitted; return what is new, None where it came to an end."""
        counters, fresh, addressed = self._counters, set[bytes](), admitted.addressed
        noting = (fresh,) if admitted.owed else ()
        parts: list[Sequence[Addressed]] = [addressed] if addressed else []
        while parts:
            part = parts.pop()
            try:
                counters.delivered += await asyncio.to_thread(
                    self._accepting.accept, part, self._clock(), *noting
                )
            except StoreUnavailableError:
                if ends():
                    return None
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
        if addressed:
            counters.accepted((one.item.published_at for one in addressed), self._clock())
        return fresh

    def _matched(self, items: Sequence[StreamItem]) -> list[Wanted]:
        """Find who wants the items, of those who subscribe to their feeds."""
        now, found = self._clock(), []
        for place, item in enumerate(items):
            of = self._of.get(item.channel, ())
            wanting = (self._receiving[one] for one in self._matcher.match(item.seen) if one in of)
            takers = [one.taker for one in wanting if is_active(one.active, now)]
            if takers:
                found.append(Wanted(item, takers, place))
        return found
