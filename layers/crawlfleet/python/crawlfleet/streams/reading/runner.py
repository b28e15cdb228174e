"""Run the readers of one worker: look once a second at what changed, and change that alone.

A soft reload takes up what changed in subscriptions; a hard one moves sources when workers come or
go. A source that moves is read on by its new worker as soon as the old one has released it, or a
lease after that has died.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from crawlfleet.config.documents.streams import Channel
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.fleet.quotas.models import Limit
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.kernel.errors import CrawlfleetError, StoreError
from crawlfleet.streams import sources
from crawlfleet.streams.delivery.models import Subscriber
from crawlfleet.streams.items import Reader
from crawlfleet.streams.reading.changes import Changed, KnownFilters
from crawlfleet.streams.reading.channel import SourceReader, Stores
from crawlfleet.streams.reading.closing import Closing, Conditions, Receiving
from crawlfleet.streams.reading.counters import ChannelCounters, ChannelReport
from crawlfleet.streams.reading.metering import Taker
from crawlfleet.streams.reading.plan import Planned, owned, planned
from crawlfleet.streams.sources import Source
from crawlfleet.streams.subscriptions.models import Seen, Subscription, after
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.streams.targets import target_of

LOOK_SECONDS: Final = 1.0
#: A worker that has not beaten for so long is taken to be gone. Holds keep two from reading, so it
#: may be short: a worker that was only slow has its sources back.
LIVENESS: Final = timedelta(seconds=3)
#: The status of a worker that lives until it is told to end.
NO_STATUS: Final = WorkerStatus()
log: Final = logging.getLogger(__name__)

#: Makes the reader of a source: its channel's name, the channel, what is planned for the source as
#: it is now, and what is told of faults, by kind and in words.
OpenReader = Callable[[str, Channel, Callable[[], Planned], Callable[[str, str], None]], Reader]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a configuration: its channels, and whom it lets have items of them.

    ``limits`` are the quotas that a subscription is under, ``ceilings`` those of a channel.
    """

    channels: Mapping[str, Channel]
    serves: Callable[[Subscription], bool] = lambda _: True
    limits: Callable[[Subscription], tuple[Limit, ...]] = lambda _: ()
    ceilings: Callable[[str], tuple[Limit, ...]] = lambda _: ()
    revision: str = ""


class StreamRunner:
    """The readers of one worker, for one event loop. ``terms`` are those in force now."""

    def __init__(
        self,
        worker: str,
        *,
        subscriptions: MongoSubscriptions,
        workers: RedisWorkers,
        stores: Stores,
        terms: Callable[[], Terms],
        open_reader: OpenReader,
        status: WorkerStatus = NO_STATUS,
        closing: Closing | None = None,
    ) -> None:
        self._worker, self._status = worker, status
        self._subscriptions, self._workers, self._stores = subscriptions, workers, stores
        self._terms, self._open_reader = terms, open_reader
        self._seen: Seen | None = None
        self._known: dict[str, Subscription] = {}
        self._standing = Terms(channels={})
        self._asked: dict[str, sources.Subscription] = {}
        self._receiving: dict[str, Receiving] = {}
        #: The conditions of all subscriptions, and of all channels, as :func:`key_of` names them.
        self._conditions: dict[str, Conditions] = {}
        self._known_filters, self._changed = KnownFilters(), Changed()
        self._closing = closing or Closing()
        self._planned: dict[Source, Planned] = {}
        self._living: list[str] = []
        self._reading: dict[Source, tuple[SourceReader, Channel, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._counters: dict[str, ChannelCounters] = {}

    @property
    def is_needed(self) -> bool:
        """Tell whether anybody subscribes to a channel of the stage."""
        return bool(self._planned)

    async def run(self, ends: Callable[[], bool]) -> None:
        """Read until it ends; then stop, keep all cursors, and release all holds."""
        try:
            while not ends():
                await self.look()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for source in list(self._reading):
                self._stop(source)
            if self._ending:
                await asyncio.wait(self._ending)
            with suppress(StoreError):
                await asyncio.to_thread(self._workers.leave, self._worker)

    async def look(self) -> None:
        """Look at what changed; what a store does not tell stays as it was."""
        try:
            is_changed = await asyncio.to_thread(self._learn)
        except StoreError as error:
            log.warning("changes of subscriptions cannot be read", extra={"reason": str(error)})
            is_changed = False
        terms, before = self._terms(), self._standing
        is_other = (terms.revision, terms.channels) != (before.revision, before.channels)
        # A change of channels is an operator's, and taken up at once.
        if is_changed:
            self._changed.note()
        is_due = is_other or self._changed.is_due
        if is_due:
            with self._changed.taken_up():
                self._standing = terms
                self._read()
        # Of what a quota keeps ledgers are asked.
        look = partial(self._closing.look, self._conditions, self._stores.clock())
        if await asyncio.to_thread(look) or is_due:
            with self._changed.taken_up():
                self._plan()
        with suppress(StoreError):
            self._living = await asyncio.to_thread(self._beat)
        self._apply()

    def report(self) -> dict[str, ChannelReport]:
        """Return the figures of each channel."""
        found = {}
        for name, counters in self._counters.items():
            readers = [one for one, _, _ in self._reading.values() if one.source.channel == name]
            found[name] = counters.report(
                subscriptions=sum(one.subscriptions for one in readers),
                connections=sum(one.is_reading for one in readers),
                stopped=self._closing.over.get(key_of(name), ""),
            )
        return found

    def _learn(self) -> bool:
        """Read what changed of subscriptions; True where something did."""
        is_changed, has_more = False, True
        known, seen = self._known, self._seen
        while has_more:
            changes = self._subscriptions.changed_since(seen)
            is_changed |= bool(changes.standing or changes.ended or changes.afresh)
            known, seen, has_more = after(known, changes), changes.seen, changes.more
        self._known, self._seen = known, seen
        return is_changed

    def _beat(self) -> list[str]:
        now = self._stores.clock()
        self._workers.beat(self._worker, now, self._status)
        # Starts that are under way read nothing yet.
        return self._workers.staying(now)

    def _read(self) -> None:
        """Read what subscriptions ask for, and on which conditions."""
        self._asked, self._receiving, conditions = {}, {}, {}
        channels = self._standing.channels
        for name, channel in channels.items():
            limits = self._standing.ceilings(name)
            conditions[key_of(name)] = Conditions(None, limits, channel.price)
        for key, one in self._known.items():
            channel_name = one.content.channel or ""
            if channel_name not in channels or not self._standing.serves(one):
                continue
            try:
                wanted = self._known_filters.of(key, one)
                price, limits = channels[channel_name].price, self._standing.limits(one)
                self._receiving[key] = receiving_of(one, limits, price)
            except CrawlfleetError as error:
                extra = {"subscription": key, "reason": str(error)}
                log.warning("a subscription cannot be read for", extra=extra)
                continue
            conditions[key] = self._receiving[key].conditions
            asked = sources.Subscription(id=key, channel=channel_name, filter=wanted)
            self._asked[key] = asked
        self._known_filters.keep(self._asked)
        self._conditions = conditions

    def _plan(self) -> None:
        """Plan sources for all that is not left out now."""
        filtering = {
            name: channel.filter_parameter is not None
            for name, channel in self._standing.channels.items()
            if key_of(name) not in self._closing
        }
        asked = (one for key, one in self._asked.items() if key not in self._closing)
        self._planned = planned(asked, filtering)

    def _apply(self) -> None:
        mine = owned(self._planned, self._worker, self._living)
        for source, (reader, channel, task) in list(self._reading.items()):
            if task.done():
                self._end(source, task)
            elif source not in mine or self._standing.channels[source.channel].asked != channel:
                self._stop(source)
            else:
                bought = self._conditions[key_of(source.channel)]
                reader.update(self._planned[source], self._receiving, bought)
        for source in sorted(mine - self._reading.keys()):
            self._begin(source)

    def _begin(self, source: Source) -> None:
        channel, wanted = self._standing.channels[source.channel], self._planned[source]
        clock = self._stores.clock
        if source.channel not in self._counters:
            self._counters[source.channel] = ChannelCounters(clock())
        counters = self._counters[source.channel]
        if not any(one.source.channel == source.channel for one, _, _ in self._reading.values()):
            counters.since = clock()

        def tell(end: str, message: str) -> None:
            counters.fault(end, message, clock())

        def planned_now() -> Planned:
            return self._planned.get(source, wanted)

        def open_reader() -> Reader:
            return self._open_reader(source.channel, channel, planned_now, tell)

        reader = SourceReader(
            wanted,
            self._receiving,
            self._conditions[key_of(source.channel)],
            open_reader,
            self._stores,
            self._worker,
            counters,
        )
        self._reading[source] = reader, channel.asked, asyncio.ensure_future(reader.run())

    def _stop(self, source: Source) -> None:
        reader, _, task = self._reading.pop(source)
        reader.stop()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _end(self, source: Source, task: asyncio.Task[None]) -> None:
        """Note that a reader has ended by itself; it begins again with this look."""
        del self._reading[source]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Its class and place alone: its text may hold what a stranger has sent.
            extra = {"channel": source.channel, "reason": type(error).__name__}
            log.error("the reader of a channel has ended", extra=extra, exc_info=None)


def key_of(channel: str) -> str:
    """Return the key of a channel's conditions, among those of subscriptions."""
    return f"channel {channel}"


def receiving_of(one: Subscription, limits: Sequence[Limit] = (), price: int = 0) -> Receiving:
    """Return what readers need of a subscription; raises InvalidRequestError for a bad target."""
    deliver = one.content.deliver
    target = target_of(deliver.named) if deliver is not None else None
    who = Subscriber(tenant=one.tenant, biz=one.biz, name=one.name, target=target)
    its = Conditions(one.content.active, tuple(limits), price)
    return Receiving(Taker(one.id, who, its.limits), its)
