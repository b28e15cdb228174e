"""Feeds read in rounds for many subscribers: fetches a feed, and the time from fetch to delivery.

A local site has the feeds, ten a host. Two workers read them, both all of them, with the fleet's
politeness over Redis and their state on MongoDB; feeds are parsed in the process that pages are
read in. Each subscriber has twenty words, and ten feeds. Three rounds: all feeds are read first,
then each has two new items, then nothing has changed. A delivery takes from the last byte of the
feed until it is in the outbox: parsing, telling new from old, matching, accepting.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.matching import Load
from benchmarks.stand_ins import FixedConfig
from crawlfleet.apps.reading import PageReaders
from crawlfleet.config.documents.biz import Stage, Tree
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.requests.visits import Validators
from crawlfleet.streams.delivery.models import Addressed, Subscriber
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.feeds.fetching import PoliteFeeds
from crawlfleet.streams.feeds.models import Download, Feed
from crawlfleet.streams.feeds.mongo import MongoFeeds
from crawlfleet.streams.feeds.reader import FeedReader, parsed_by
from crawlfleet.streams.filters import Filter, leaves
from crawlfleet.streams.items import Batch
from crawlfleet.streams.matching import Matcher

ROUNDS: Final = 3
STEPS: Final = ROUNDS
WORKERS: Final = 2
#: Items of a feed, those that are new in the second round, feeds of a host and of a subscriber.
ITEMS: Final = 20
NEW: Final = 2
OF_HOST: Final = 10
OF_SUBSCRIBER: Final = 10
#: Subscribers of a feed of whose words each item has one.
MENTIONED: Final = 5
#: Between two rounds: no feed is idle for longer, nor is a body asked for without a condition.
BETWEEN: Final = timedelta(hours=12)
_LONGEST_SECONDS: Final = 600.0
_END: Final = b"\r\n\r\n"


class Site:
    """Feeds by their paths, and how often each was asked for."""

    def __init__(
        self, count: int, texts: Sequence[str], mentioned: Sequence[Sequence[str]]
    ) -> None:
        self.count, self.texts, self.mentioned = count, texts, mentioned
        self.asked: Counter[int] = Counter()
        self.unchanged = 0
        #: Items of each feed.
        self.items = ITEMS
        self.dated = datetime.now(UTC)
        self.urls: list[str] = []

    def answer(self, head: bytes) -> bytes:
        """Answer a request by its head."""
        path = head.split(b" ", 2)[1].decode()
        if not path.startswith("/feed/"):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        number = int(path.removeprefix("/feed/"))
        self.asked[number] += 1
        etag = f'"{self.items}"'.encode()
        if b"If-None-Match: " + etag in head:
            self.unchanged += 1
            return b"HTTP/1.1 304 Not Modified\r\nETag: " + etag + _END
        date = self.dated.strftime("%a, %d %b %Y %H:%M:%S GMT")
        items = "".join(
            f"<item><guid>{number}-{n}</guid><link>http://site.example/{number}/{n}</link>"
            f"<title>Item {n}</title><pubDate>{date}</pubDate>"
            f"<description>{self.text(number, n)}</description></item>"
            for n in range(self.items, self.items - ITEMS, -1)
        )
        text = f"<rss version='2.0'><channel><title>Feed {number}</title>{items}</channel></rss>"
        body = text.encode()
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\nETag: %s\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (etag, len(body), body)
        )

    def text(self, number: int, item: int) -> str:
        """Return the text of an item: made up, with words that some subscribers wait for."""
        draw = random.Random(f"{number}-{item}")
        wanted = self.mentioned[number]
        words = draw.sample(wanted, min(MENTIONED, len(wanted)))
        return " ".join((draw.choice(self.texts), *words))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve at an address of the loopback for every ten feeds."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    writer.write(self.answer(await reader.readuntil(_END)))
            except (asyncio.IncompleteReadError, OSError):
                writer.close()

        servers = []
        for first in range(0, self.count, OF_HOST):
            host = f"127.0.{1 + first // OF_HOST // 200}.{1 + first // OF_HOST % 200}"
            server = await asyncio.start_server(serve, host, 0)
            servers.append(server)
            place = f"http://{host}:{server.sockets[0].getsockname()[1]}"
            last = min(first + OF_HOST, self.count)
            self.urls += [f"{place}/feed/{n}" for n in range(first, last)]
        try:
            yield
        finally:
            for server in servers:
                server.close()


class Deliveries:
    """Matches items, accepts them, and measures how long that takes after the feed has come."""

    def __init__(
        self, accepting: MongoAccepting, load: Load, subscribed: Sequence[Sequence[str]], site: Site
    ) -> None:
        self._accepting = accepting
        self._matcher = Matcher()
        self._matcher.put_all(load.filters)
        made = {name: Subscriber(tenant="bench", biz="news", name=name) for name in load.filters}
        self._of = {
            url: {name: made[name] for name in names}
            for url, names in zip(site.urls, subscribed, strict=True)
        }
        self.came: dict[str, float] = {}
        self.seconds: list[float] = []
        self.items = self.deliveries = 0

    async def take(self, batch: Batch) -> None:
        """Match a batch, and accept it."""
        found = []
        for item in batch.items:
            of = self._of.get(item.channel, {})
            wanting = tuple(of[name] for name in self._matcher.match(item.seen) if name in of)
            found.append(Addressed(item=item, subscribers=wanting))
        if found:
            new = await asyncio.to_thread(self._accepting.accept, found, datetime.now(UTC))
            self.deliveries += new
        now = time.perf_counter()
        self.items += len(batch.items)
        self.seconds += [now - self.came[item.channel] for item in batch.items]


class Worker:
    """A worker that reads all feeds."""

    def __init__(self, polite: PoliteFeeds, deliveries: Deliveries) -> None:
        self._polite, self._deliveries = polite, deliveries

    async def download(self, feed: Feed) -> tuple[Download, Validators | None]:
        """Ask for a feed, and note when it has come."""
        found = await self._polite.download(feed)
        self._deliveries.came[feed.url] = time.perf_counter()
        return found


async def _measured(bench: Bench, redis: RedisConnection, nodes: MongoNodes) -> Found:
    scale = bench.scale
    load = Load(scale.feed_subscribers, scale.match_items)
    draw = random.Random(scale.feeds)
    subscribed: list[list[str]] = [[] for _ in range(scale.feeds)]
    for name in load.filters:
        for number in draw.sample(range(scale.feeds), OF_SUBSCRIBER):
            subscribed[number].append(name)
    mentioned = [[_word(load.filters[name], draw) for name in names] for names in subscribed]
    site = Site(scale.feeds, [item.text for item in load.items], mentioned)
    passed = 0

    def clock() -> datetime:
        return datetime.now(UTC) + passed * BETWEEN

    stage = Stage(hosts=HostLimits(per_second=1_000.0, concurrency=64))
    tree = Tree(revision="bench", stage=stage, tenants={}, bizs={})
    store, config = MongoFeeds(nodes), cast("SsmConfig", FixedConfig(tree))
    seconds: list[float] = []
    rounds: list[dict[str, int]] = []
    most = 0
    readers = PageReaders(())
    try:
        async with (
            site.served(),
            AiohttpFetcher(allow_private=True) as fetcher,
            readers.reader() as pages,
            asyncio.timeout(_LONGEST_SECONDS),
        ):
            await pages.ready()
            deliveries = Deliveries(MongoAccepting(nodes), load, subscribed, site)
            for number in range(ROUNDS):
                passed = number
                site.dated = clock() - (timedelta() if number else BETWEEN)
                site.items = ITEMS + (NEW if number else 0)
                site.asked.clear()
                began = time.perf_counter()
                workers = []
                for worker in range(WORKERS):
                    polite = PoliteFeeds(
                        *(config, RedisHosts(redis), RedisRobotsCache(redis), fetcher, clock),
                        f"bench-{worker}",
                    )
                    timed = Worker(polite, deliveries)
                    reader = FeedReader(
                        store, timed.download, parsed_by(pages), lambda: site.urls, clock
                    )
                    workers.append(_read(reader, deliveries, site))
                await asyncio.gather(*workers)
                seconds.append(time.perf_counter() - began)
                rounds.append(dict(Counter(map(str, site.asked.values()))))
                most = max(most, *site.asked.values())
                if len(site.asked) != scale.feeds:
                    raise BenchError(f"{len(site.asked)} feeds were fetched in a round")
                bench.tick(f"round {number + 1} of {scale.feeds:,} feeds")
    finally:
        readers.close()
    if deliveries.items != NEW * scale.feeds or site.unchanged != scale.feeds:
        raise BenchError(f"{deliveries.items} new items, {site.unchanged} feeds unchanged")
    return Found(
        figures={
            "rss_fetches_per_feed_round": float(most),
            "rss_delivery_p95_s": sorted(deliveries.seconds)[int(0.95 * deliveries.items)],
        },
        details={
            "seconds of rounds": seconds,
            "feeds by fetches, of rounds": rounds,
            "items": deliveries.items,
            "deliveries": deliveries.deliveries,
            "delivery, median s": sorted(deliveries.seconds)[deliveries.items // 2],
        },
    )


def _word(wanted: Filter, draw: random.Random) -> str:
    return draw.choice([leaf.value for leaf in leaves(wanted.root) if not leaf.excluded])


async def _read(reader: FeedReader, deliveries: Deliveries, site: Site) -> None:
    """Read until every feed was asked for, and what came is kept."""

    def may_read() -> bool:
        return len(site.asked) < site.count or reader.is_busy

    async for batch in reader.read("", may_read):
        await deliveries.take(batch)


def run(bench: Bench) -> Found:
    """Read all feeds in three rounds by two workers."""
    bench.addresses.clear()
    nodes = MongoNodes(lambda _: bench.addresses.mongo, lambda: "home")
    try:
        with RedisConnection(bench.addresses.redis) as redis:
            return asyncio.run(_measured(bench, redis, nodes))
    finally:
        nodes.close()
