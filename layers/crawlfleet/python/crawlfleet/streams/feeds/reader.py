"""Read feeds in rounds: take those that are due, ask for each once, give what is new of it.

One reader reads many feeds, where other kinds have one for each channel: a reader, a hold that is
kept every second and a cursor for each of 100,000 feeds would cost far more than to read them. Nor
is a feed metered, so nothing is lost where two read it for a moment. In place of holds a feed is
taken for a few minutes where its state is kept (``mongo``), which is also its cursor: it is kept
once the items are accepted. So a reader that dies loses nothing, and who reads the feed next gives
its items again, under the same ids.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from crawlfleet.config.documents.rule import Spider
from crawlfleet.crawling.reading.reader import PageReader
from crawlfleet.kernel.errors import CrawlfleetError, StoreError
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime
from crawlfleet.requests.models import Body, Skipped
from crawlfleet.requests.visits import Validators
from crawlfleet.streams.feeds import outcomes
from crawlfleet.streams.feeds.conditions import is_unchanged
from crawlfleet.streams.feeds.entries import reading_of
from crawlfleet.streams.feeds.hubs import HubSubscriber
from crawlfleet.streams.feeds.interval import USUAL, Bounds
from crawlfleet.streams.feeds.models import About, Download, Entry, Feed
from crawlfleet.streams.feeds.mongo import MOST, MongoFeeds
from crawlfleet.streams.feeds.places import FeedPlaces
from crawlfleet.streams.items import Batch

#: A feed that is taken is somebody's for so long.
LEASE: Final = timedelta(minutes=5)
#: Feeds that are asked for at once, and items of a batch before the next one begins. To read a feed
#: takes a processor longer than to ask for it, so with more of them bodies would only wait longer.
CONCURRENCY: Final = 24
BATCH_ITEMS: Final = 1_000
#: Seconds between two looks at which feeds are wanted, where none is due sooner.
LOOK_SECONDS: Final = 1.0
_SPIDER: Final = Spider(executor="feed_items")
_SLICE_SECONDS: Final = 1.0
_AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)
#: Feeds are taken when this part of the room is free: each taking is a call of the store.
_PARTS: Final = 4
_log: Final = logging.getLogger(__name__)

#: Asks for a feed; ``fetching.PoliteFeeds.download`` does.
DownloadFeed = Callable[[Feed], Awaitable[tuple[Download, Validators | None]]]
#: Reads the body of a download, for a tenant.
ParseFeed = Callable[[Download, str], Awaitable[tuple[About, tuple[Entry, ...]]]]


def parsed_by(reader: PageReader) -> ParseFeed:
    """Return what reads feeds in the process that pages are read in, as they are strangers' too."""

    async def parse(download: Download, tenant: str) -> tuple[About, tuple[Entry, ...]]:
        page = Page(
            url=download.url, status=200, headers=dict(download.headers), body=download.body or b""
        )
        body = Body(url=download.url, rule="feed", rule_version="")
        records, more = [], True
        async with reader.begin(_SPIDER, page, body, owner=(tenant, "")) as begun:
            while more:
                found, more, _ = await begun.next(_SLICE_SECONDS)
                records += [one for one in found if not isinstance(one, Skipped)]
        return reading_of(records)

    return parse


@dataclass(slots=True, eq=False)
class FeedReader:
    """Reads the feeds that ``wanted`` returns, a ``Reader`` of all their channels.

    ``wanted`` is asked again and again; the same object means the same feeds. ``tenants`` are those
    of each feed, who divide the places by their ``share``.
    """

    store: MongoFeeds
    download: DownloadFeed
    parse: ParseFeed
    wanted: Callable[[], Collection[str]]
    clock: Clock
    _: KW_ONLY
    steady: SteadyTime = STEADY
    bounds: Bounds = USUAL
    concurrency: int = CONCURRENCY
    look_seconds: float = LOOK_SECONDS
    hubs: HubSubscriber | None = None
    tenants: Callable[[], Mapping[str, Sequence[str]]] = dict
    share: Callable[[str], float] = lambda _: 1.0
    #: Feeds that were asked for, by their outcome: ``read``, ``unchanged``, ``failed``.
    counts: dict[str, int] = field(default_factory=dict, init=False)
    _known: Collection[str] = field(default=(), init=False)
    #: When each feed is worth to be taken.
    _due: dict[str, datetime] = field(default_factory=dict, init=False)
    #: Feeds that are taken and not kept, with the token that they were taken by.
    _taken: dict[str, str] = field(default_factory=dict, init=False)
    _tasks: set[asyncio.Task[outcomes.Outcome]] = field(default_factory=set, init=False)
    _tending: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _heard_at: float = field(default=float("-inf"), init=False)
    _places: FeedPlaces = field(init=False)

    def __post_init__(self) -> None:
        self._places = FeedPlaces(self.steady.now, self.tenants, self.share)

    async def read(self, cursor: str, may_read: Callable[[], bool]) -> AsyncGenerator[Batch, None]:
        """Give what is new of feeds as it comes; feeds have their own cursors, this one has none.

        Who asks on has accepted what came: only then the feeds are kept, and due again.
        """
        try:
            while may_read():
                await self._begin()
                ended = await self._ended()
                while ended:
                    part = _first_of(ended)
                    ended = ended[len(part) :]
                    items = tuple(item for found in part for item in found.items)
                    yield Batch(cursor=cursor, items=items)
                    await self._keep([found.feed for found in part])
        finally:
            await self._leave()

    @property
    def is_busy(self) -> bool:
        """Tell whether feeds are taken that are not kept yet."""
        return bool(self._taken)

    async def _begin(self) -> None:
        """Take feeds that are due, as many as there is room for, and ask for them."""
        wanted = self.wanted()
        if wanted is not self._known:
            self._known, now = wanted, self.clock()
            self._due = {url: self._due.get(url, now) for url in wanted}
        await self._hear()
        if self._tasks and self.concurrency - len(self._tasks) < self.concurrency // _PARTS:
            return
        now = self.clock()
        if not (due := self._first_due(now)):
            return
        token = uuid4().hex
        try:
            taken = await asyncio.to_thread(self.store.take, due, token, now, now + LEASE)
        except StoreError as error:
            self._places.leave(due)
            warn("feeds cannot be taken", error)
            await self.steady.sleep(self.look_seconds)
            return
        self._due.update(taken.others)
        mine = {feed.url for feed in taken.feeds}
        self._places.leave(url for url in due if url not in mine)
        for feed in taken.feeds:
            self._taken[feed.url] = token
            self._tasks.add(asyncio.create_task(self._ask(feed)))

    async def _hear(self) -> None:
        """Take up which feeds hubs have pushed: they come before all that are due."""
        if self.hubs is None or self.steady.now() - self._heard_at < self.look_seconds:
            return
        self._heard_at = self.steady.now()
        for url in await self.hubs.waking():
            if url in self._due and url not in self._taken:
                self._due[url] = _AT_ONCE

    def _first_due(self, now: datetime) -> list[str]:
        """List feeds that are longest due, as many as their tenants and hosts have places for."""
        due = [url for url, at in self._due.items() if at <= now and url not in self._taken]
        due.sort(key=self._due.__getitem__)
        return self._places.choose(due, min(self.concurrency, MOST))

    async def _ended(self) -> list[outcomes.Outcome]:
        """Wait a moment for feeds that were asked for; return what follows for those that came."""
        if not self._tasks:
            await self.steady.sleep(self.look_seconds)
            return []
        done, self._tasks = await asyncio.wait(
            self._tasks, timeout=self.look_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        found = [task.result() for task in done]
        # What is to be kept holds up nobody: its site has answered.
        self._places.leave(one.feed.url for one in found)
        return found

    async def _ask(self, feed: Feed) -> outcomes.Outcome:
        """Ask for a feed, and read what came."""
        try:
            download, sent = await self.download(feed)
            if is_unchanged(feed, download):
                self._count("unchanged")
                return outcomes.unchanged(feed, download, sent, self.clock(), self.bounds)
            about, entries = await self.parse(download, self._places.holder(feed.url))
        except CrawlfleetError as error:
            self._count("failed")
            return outcomes.failed(feed, error, self.clock(), self.bounds)
        except Exception as error:  # noqa: BLE001  one feed must not end the reading of all others
            self._count("failed")
            # Not its URL, which may hold somebody's token, nor the error's text, which is a site's.
            extra = {"host": host_of(feed.url), "reason": type(error).__name__}
            _log.error("a feed could not be read", extra=extra, exc_info=None)
            unforeseen = CrawlfleetError(f"unforeseen: {type(error).__name__}")
            return outcomes.failed(feed, unforeseen, self.clock(), self.bounds)
        self._count("read")
        return outcomes.read(feed, download, sent, about, entries, self.clock(), self.bounds)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    async def _keep(self, feeds: list[Feed]) -> None:
        by_token: dict[str, list[Feed]] = {}
        for feed in feeds:
            by_token.setdefault(self._taken.pop(feed.url), []).append(feed)
            if feed.url in self._due:
                self._due[feed.url] = feed.next_at
        for token, part in by_token.items():
            try:
                await asyncio.to_thread(self.store.keep, part, token)
            except StoreError as error:
                # They are read again when their lease has ended; receivers know what they have.
                warn("feeds cannot be kept", error)
        if self.hubs is not None:
            await self._tend(self.hubs, feeds)

    async def _tend(self, hubs: HubSubscriber, feeds: list[Feed]) -> None:
        """Have hubs be asked meanwhile; those that missed an item are trusted no longer."""
        if missed := [one.url for one in feeds if one.hub is not None and not one.hub.trusted]:
            await hubs.distrust(missed)
        for feed in feeds:
            if feed.offers is not None and feed.url in self._due:
                task = asyncio.create_task(hubs.tend(feed))
                self._tending.add(task)
                task.add_done_callback(self._tending.discard)

    async def _leave(self) -> None:
        """End what is under way, and let others take it."""
        under_way = [*self._tasks, *self._tending]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self._tasks.clear()
        self._places.leave(list(self._taken))
        taken, self._taken = self._taken, {}
        for token in set(taken.values()):
            mine = [url for url, by in taken.items() if by == token]
            try:
                await asyncio.to_thread(self.store.release, mine, token)
            except StoreError as error:
                warn("feeds cannot be released", error)


def _first_of(ended: list[outcomes.Outcome]) -> list[outcomes.Outcome]:
    """Return the first ones, with items for one batch; always one."""
    count = 0
    for place, found in enumerate(ended):
        count += len(found.items)
        if count > BATCH_ITEMS and place:
            return ended[:place]
    return ended
