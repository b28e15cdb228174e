"""Feeds are read for their subscribers: what they want is theirs, once, as long as they want it."""

import asyncio

import pytest

from tests.contract.streams.feed_site import DAY, NOW, Round, Site, opened
from tests.kit.feeds import FeedRunner, Terms
from tests.kit.fetching import AiohttpFetcher
from tests.kit.kernel import StoreError, StoreUnavailableError
from tests.kit.streams import Metering, MongoAccepting
from tests.kit.subscriptions import Active, Content, Hours, MongoSubscriptions, StreamKind


class Outbox(MongoAccepting):
    """An outbox that notes who was given what; ``fails`` are raised first, one a call."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.given, self.fails = [], []

    def accept(self, batch, now, *noting):
        if self.fails:
            raise self.fails.pop(0)
        self.given += [
            (subscriber.name, one.item.title.removeprefix("Title "))
            for one in batch
            for subscriber in one.subscribers
        ]
        return super().accept(batch, now, *noting)


class Desk:
    """Subscriptions to feeds of a site, and a worker that reads for them."""

    def __init__(self, nodes, site, fetcher, tenant):
        self.site, self.fetcher, self.tenant = site, fetcher, tenant
        self.rounds, self.outbox = Round(nodes, site), Outbox(nodes)
        self.subscriptions = MongoSubscriptions(nodes)
        self.terms = Terms(channels={})
        self.runner = FeedRunner(
            subscriptions=self.subscriptions,
            accepting=self.outbox,
            clock=lambda: self.rounds.now,
            terms=lambda: self.terms,
            meter=Metering(None, "w", asyncio.to_thread, lambda: self.rounds.now),
            look_seconds=0.01,
        )

    def put(self, name, text, *paths, **more):
        feeds = tuple(f"{self.site.url}{path}" for path in paths)
        content = Content(kind=StreamKind.RSS, filter=text, feeds=feeds, **more)
        self.subscriptions.put(self.tenant, "news", name, content, NOW, most=100)

    async def read(self, *paths):
        """Read until these feeds are not due any more; return who was given what meanwhile."""
        urls = [f"{self.site.url}{path}" for path in paths]
        async with asyncio.timeout(120):
            await self.runner.run(
                lambda wanted: self.rounds.reader(self.fetcher, (), wanted=wanted),
                lambda: self.rounds.is_done(urls),
            )
        given, self.outbox.given = sorted(self.outbox.given), []
        self.rounds.now += DAY / 2
        return given


@pytest.fixture
def run(mongo_connection, tenant):
    def run_it(work):
        async def go():
            site = Site()
            async with opened(site), AiohttpFetcher(True) as fetcher:
                return await work(site, Desk(mongo_connection, site, fetcher, tenant))

        return asyncio.run(go())

    return run_it


def test_each_subscriber_has_what_its_filter_takes_of_its_own_feeds(run):
    async def work(site, desk):
        site.items = {"/f/a": ["rain", "snow"], "/f/b": ["rain"]}
        desk.put("wet", "rain", "/f/a", "/f/b")
        desk.put("cold", "snow OR rain", "/f/a")
        desk.put("dry", "sun", "/f/a", "/f/b")

        assert await desk.read("/f/a", "/f/b") == [
            ("cold", "/f/a rain"),
            ("cold", "/f/a snow"),
            ("wet", "/f/a rain"),
            ("wet", "/f/b rain"),
        ]
        assert sorted(site.paths) == ["/f/a", "/f/b"]
        report = desk.runner.report()
        assert (report.read, report.matched, report.delivered) == (3, 3, 4)
        assert (report.subscriptions, report.is_read) == (3, True)

    run(work)


def test_an_entry_that_two_feeds_have_comes_once(run, mongo_connection):
    async def work(site, desk):
        site.items = {"/f/a": ["urn:rain", "rain"], "/f/b": ["urn:rain", "rain"]}
        desk.put("wet", "rain", "/f/a", "/f/b")

        # Each feed gives both; those with an id that is nobody else's are one.
        assert len(await desk.read("/f/a", "/f/b")) == 4
        assert desk.runner.report().delivered == 3
        look = mongo_connection.control("stream_deliveries").count_documents
        assert look({"tenant": desk.tenant}) == 3

    run(work)


def test_subscriptions_come_and_go_while_feeds_are_read(run):
    async def work(site, desk):
        site.items = {"/f/a": ["rain"], "/f/b": ["rain"]}
        desk.put("one", "rain", "/f/a")
        assert await desk.read("/f/a") == [("one", "/f/a rain")]

        desk.put("two", "snow OR rain", "/f/a", "/f/b")
        desk.subscriptions.end(desk.tenant, "news", "one", NOW)
        site.items = {"/f/a": ["snow", "rain"], "/f/b": ["rain"]}

        # What a feed had half a day ago is nobody's news.
        assert await desk.read("/f/a", "/f/b") == [("two", "/f/a snow")]

    run(work)


def test_a_store_that_is_away_is_waited_for(run):
    async def work(site, desk):
        site.items = {"/f/a": ["rain"]}
        desk.put("one", "rain", "/f/a")
        desk.outbox.fails = [StoreUnavailableError("mongodb", "no primary")] * 2

        assert await desk.read("/f/a") == [("one", "/f/a rain")]

    run(work)


def test_an_item_that_no_store_takes_is_dropped_alone(run):
    async def work(site, desk):
        site.items = {"/f/a": ["rain", "more rain"]}
        desk.put("one", "rain", "/f/a")
        desk.outbox.fails = [StoreError("too large"), StoreError("too large")]

        assert len(await desk.read("/f/a")) == 1
        assert desk.runner.report().dropped == {"unstorable": 1}

    run(work)


def test_a_subscription_that_is_not_active_takes_nothing(run):
    async def work(site, desk):
        site.items = {"/f/a": ["rain"]}
        hour = NOW.hour
        past, other = f"{(hour + 2) % 24:02}:00", f"{(hour + 3) % 24:02}:00"
        desk.put("one", "rain", "/f/a", active=Active(hours=(Hours(begins=past, ends=other),)))

        assert await desk.read("/f/a") == []

    run(work)


def test_who_is_not_served_has_nothing_read_until_that_changes(run):
    async def work(site, desk):
        site.items = {"/f/a": ["rain"]}
        desk.put("one", "rain", "/f/a", "/f/b")
        desk.put("two", "rain", "/f/a")
        desk.terms = Terms(channels={}, serves=lambda one: one.name == "two", revision="1")
        assert await desk.read("/f/a") == [("two", "/f/a rain")]
        assert site.paths == ["/f/a"]

        site.items = {"/f/a": ["more rain"]}
        desk.terms = Terms(channels={}, revision="2")
        assert await desk.read("/f/a", "/f/b") == [
            ("one", "/f/a more rain"),
            ("two", "/f/a more rain"),
        ]

    run(work)
