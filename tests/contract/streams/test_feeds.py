"""Feeds are read from a real site: once a round, on condition, and nothing is lost or twice."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from aiohttp import web

from tests.fakes.politeness import MemoryHosts, MemoryRobotsCache
from tests.kit.config import HostLimits, Spider, Tree
from tests.kit.executors import BUILT_IN, Registry, SpiderExecutors
from tests.kit.extract import RuleExtractor
from tests.kit.feeds import FeedReader, MongoFeeds, PoliteFeeds, moved_to, parsed_by, reading_of
from tests.kit.fetching import AiohttpFetcher, Followed
from tests.kit.reading import PAGE_READER, PageReader, Spawner
from tests.kit.requests import Body, Page
from tests.kit.worlds.memory import make_biz, make_tree

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ITEM = "<item><guid>{0}</guid><title>Title {0}</title><pubDate>{1}</pubDate></item>"
DATE = "Tue, 24 Nov 2026 11:59:00 GMT"


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

    async def answer(self, request):
        path = request.path
        if path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private\n")
        self.asked.append((path, dict(request.headers)))
        if path in self.answers:
            return web.Response(**self.answers[path])
        items = self.items.get(path, ["1"])
        etag = f'"{"-".join(items)}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        text = "".join(ITEM.format(path + one, DATE) for one in items)
        return web.Response(
            text=f"<rss version='2.0'><channel><title>T</title>{text}</channel></rss>",
            content_type="application/rss+xml",
            headers={"ETag": etag},
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

    async def parse(self, download):
        page = Page(
            url=download.url, status=200, headers=dict(download.headers), body=download.body
        )
        body = Body(url=download.url, rule="feed", rule_version="")
        return reading_of(self._read(Spider(executor="feed_items"), page, body, owner=("", "")))

    def reader(self, fetcher, urls, worker="w1", parse=None):
        polite = PoliteFeeds(Config(), self.hosts, self.robots, fetcher, lambda: self.now, worker)
        return FeedReader(
            self.store,
            polite.download,
            parse or self.parse,
            lambda: urls,
            lambda: self.now,
            look_seconds=0.01,
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


@pytest.fixture
def run(mongo_connection, tenant):
    """Run a test's coroutine with a site, a round and a fetcher; URLs are the test's own."""

    def run_it(work):
        async def go():
            site = Site()
            async with opened(site), AiohttpFetcher(True) as fetcher:
                return await work(site, Round(mongo_connection, site), fetcher)

        return asyncio.run(go())

    return run_it


def test_a_feed_is_asked_for_once_a_round_however_many_want_it(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/{n}" for n in range(20)]
        for day in range(3):
            rounds.now = NOW + day * DAY
            # Three workers, to each of which all feeds are several subscriptions'.
            readers = [rounds.reader(fetcher, urls * 3, f"w{n}") for n in range(3)]
            await rounds.read(*readers, urls=urls)

            assert sorted(site.paths) == sorted(f"/f/{n}" for n in range(20))
            site.asked.clear()

    run(work)


def test_what_is_new_of_a_feed_is_given_once_whoever_reads_it(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a", f"{site.url}/f/b"]
        given = []
        for items in (["1"], ["2", "1"], ["2", "1"], ["3", "1"]):
            site.items = {"/f/a": items}
            found = await rounds.read(rounds.reader(fetcher, urls), urls=urls)
            given.append(sorted((item.channel[-1], item.title[-1]) for item in found))
            rounds.now += DAY / 2

        assert given == [[("a", "1"), ("b", "1")], [("a", "2")], [], [("a", "3")]]

    run(work)


def test_an_unchanged_feed_is_a_304(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a"]
        for _ in range(2):
            reader = rounds.reader(fetcher, urls)
            await rounds.read(reader, urls=urls)
            rounds.now += DAY / 2

        assert reader.counts == {"unchanged": 1}
        assert [headers.get("If-None-Match") for _, headers in site.asked] == [None, '"1"']

    run(work)


def test_a_reader_that_dies_before_its_items_are_accepted_loses_none(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a"]
        reader = rounds.reader(fetcher, urls)
        async with aclosing(reader.read("", lambda: True)) as batches:
            async for batch in batches:
                lost = batch.items
                break

        found = await rounds.read(rounds.reader(fetcher, urls, "w2"), urls=urls)

        assert lost
        assert [item.id for item in found] == [item.id for item in lost]

    run(work)


def test_a_permanent_redirect_is_remembered_and_a_temporary_one_is_not(run):
    async def work(site, rounds, fetcher):
        for path, status, to in (("/old", 301, "/f/a"), ("/now", 302, "/f/b")):
            site.answers[path] = {"status": status, "headers": {"Location": to}}
        urls = [f"{site.url}/old", f"{site.url}/now"]
        channels = set()
        for _ in range(2):
            found = await rounds.read(rounds.reader(fetcher, urls), urls=urls)
            channels |= {item.channel for item in found}
            rounds.now += DAY / 2

        assert sorted(site.paths) == ["/f/a", "/f/a", "/f/b", "/f/b", "/now", "/now", "/old"]
        # Validators go to the place that gave them, and not to the one that redirects there.
        asked = [(path, headers.get("If-None-Match")) for path, headers in site.asked[3:]]
        assert ("/f/a", '"1"') in asked
        assert ("/f/b", '"1"') in asked
        assert ("/now", '"1"') not in asked
        assert channels == set(urls)

    run(work)


def test_feeds_that_cannot_be_read_fail_by_themselves(run):
    async def work(site, rounds, fetcher):
        site.answers = {
            "/gone": {"status": 410},
            "/page": {"text": "<p>hello", "content_type": "text/html"},
        }
        paths = ["/gone", "/page", "/private", "/f/a"]
        urls = [f"{site.url}{path}" for path in paths]

        found = await rounds.read(rounds.reader(fetcher, urls), urls=urls)

        known = rounds.store.known(urls)
        gone, page, private, good = (known[url] for url in urls)
        assert [item.channel for item in found] == [urls[-1]]
        assert (gone.gone, good.trouble) == (True, "")
        assert [one.trouble.partition(":")[0] for one in (gone, page, private)] == [
            *("PageGone", "Extract", "RobotsDenied")
        ]
        assert "/private" not in site.paths

    run(work)


def test_a_site_that_asks_for_it_is_left_alone(run):
    async def work(site, rounds, fetcher):
        site.answers = {"/busy": {"status": 503, "headers": {"Retry-After": "100000"}}}
        urls = [f"{site.url}/busy"]

        await rounds.read(rounds.reader(fetcher, urls), urls=urls)

        [feed] = rounds.store.known(urls).values()
        assert feed.trouble.startswith("Throttled")
        assert feed.next_at >= NOW + timedelta(seconds=100_000)

    run(work)


def test_a_feed_is_parsed_in_the_process_that_pages_are_read_in(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a"]
        spawner = Spawner(PAGE_READER, packages=[], executors=[])
        try:
            async with PageReader(spawner) as pages:
                reader = rounds.reader(fetcher, urls, parse=parsed_by(pages))
                return await rounds.read(reader, urls=urls)
        finally:
            spawner.close()

    [item] = run(work)
    assert item.title == "Title /f/a1"


def test_feeds_that_are_not_wanted_any_more_are_not_asked_for(run):
    async def work(site, rounds, fetcher):
        both = [f"{site.url}/f/a", f"{site.url}/f/b"]
        await rounds.read(rounds.reader(fetcher, both), urls=both)
        rounds.now += DAY
        site.asked.clear()

        reader = rounds.reader(fetcher, both)
        reader.wanted = lambda: both[:1]
        await rounds.read(reader, urls=both[:1])

        assert site.paths == ["/f/a"]

    run(work)


@pytest.mark.parametrize(
    ("statuses", "place"),
    [([], ""), ([301, 308], "1"), ([301, 302, 301], "0"), ([302, 301], ""), ([307], "")],
)
def test_only_permanent_redirects_from_the_beginning_move_a_feed(statuses, place):
    followed = tuple(Followed(status=one, place=str(n)) for n, one in enumerate(statuses))

    assert moved_to(followed) == place


def test_feeds_are_read_by_an_executor_of_the_package():
    assert "feed_items" in BUILT_IN
