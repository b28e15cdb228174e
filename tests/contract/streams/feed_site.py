"""Feeds at a real site, and readers of them whose time is the test's."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
from aiohttp import web

from tests.fakes.politeness import MemoryHosts, MemoryRobotsCache
from tests.kit.config import HostLimits, Spider, Tree
from tests.kit.executors import Registry, SpiderExecutors
from tests.kit.extract import RuleExtractor
from tests.kit.feeds import FeedReader, MongoFeeds, PoliteFeeds, reading_of
from tests.kit.requests import Body, Page
from tests.kit.worlds.memory import make_biz, make_tree

#: The real time: what is kept is forgotten by the server's.
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
ITEM = "<item><guid>{3}</guid><title>Title {0} {1}</title><pubDate>{2}</pubDate></item>"
DATE = format_datetime(NOW - timedelta(minutes=1))


def _id(path, item):
    """Return an id that the feed alone knows, or one that is the same in each."""
    return item if item.startswith("urn:") else path + item


class Config:
    def __init__(self):
        tree = make_tree(make_biz())
        stage = msgspec.structs.replace(
            tree.stage, hosts=HostLimits(per_second=10_000.0, concurrency=100)
        )
        self.tree: Tree = msgspec.structs.replace(tree, stage=stage)

    def current(self):
        return self.tree


class Site:
    """Feeds at any path below /f/, with ETags; other answers as a test has it."""

    def __init__(self):
        self.url = ""
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.items: dict[str, list[str]] = {}
        self.answers: dict[str, dict] = {}
        #: Headers of each feed.
        self.links: dict[str, str] = {}

    async def answer(self, request):
        path = request.path
        if path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private\n")
        self.asked.append((path, dict(request.headers)))
        if path in self.answers:
            return web.Response(**self.answers[path])
        items = self.items.get(path, ["1"])
        etag = f'"{"-".join(items).replace(" ", "_")}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        text = "".join(ITEM.format(path, one, DATE, _id(path, one)) for one in items)
        return web.Response(
            text=f"<rss version='2.0'><channel><title>T</title>{text}</channel></rss>",
            content_type="application/rss+xml",
            headers={"ETag": etag, **self.links},
        )

    @property
    def paths(self):
        return [path for path, _ in self.asked]


@asynccontextmanager
async def opened(site):
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", site.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    site.url = f"http://127.0.0.1:{server._server.sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        await runner.cleanup()


class Round:
    """Readers of one store over one site; time is the test's."""

    def __init__(self, nodes, site):
        self.store, self.site, self.now = MongoFeeds(nodes), site, NOW
        self.hosts, self.robots = MemoryHosts(), MemoryRobotsCache()
        executors = SpiderExecutors(Registry(installed=False), RuleExtractor())
        self._read = executors.read

    async def parse(self, download, _tenant):
        page = Page(
            url=download.url, status=200, headers=dict(download.headers), body=download.body
        )
        body = Body(url=download.url, rule="feed", rule_version="")
        return reading_of(self._read(Spider(executor="feed_items"), page, body, owner=("", "")))

    def reader(self, fetcher, urls, worker="w1", parse=None, wanted=None, **more):
        polite = PoliteFeeds(Config(), self.hosts, self.robots, fetcher, lambda: self.now, worker)
        return FeedReader(
            self.store,
            polite.download,
            parse or self.parse,
            wanted or (lambda: urls),
            lambda: self.now,
            look_seconds=0.01,
            **more,
        )

    def is_done(self, urls):
        """Tell whether no feed is due any more."""
        known = self.store.known(urls)
        return len(known) == len(set(urls)) and all(
            one.next_at > self.now for one in known.values()
        )

    async def read(self, *readers, urls):
        """Read until no feed is due, with all readers at once; return their items."""

        async def one(reader):
            may_read = lambda: not self.is_done(urls)  # noqa: E731
            return [item async for batch in reader.read("", may_read) for item in batch.items]

        async with asyncio.timeout(120):
            return [item for part in await asyncio.gather(*map(one, readers)) for item in part]
