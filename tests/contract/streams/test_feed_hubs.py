"""Feeds with a hub: it is asked, answered, believed when it signs, and never trusted alone."""

import asyncio
import hashlib
import hmac
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.contract.streams.feed_site import DAY, NOW, Round, Site, opened
from tests.kit.feeds import HubCallbacks, HubSubscriber, MongoHubs
from tests.kit.fetching import AiohttpFetcher
from tests.kit.streams import StreamClient
from tests.kit.worlds.worker import until

CALLBACK = "https://api.example/prod"
MINUTE = timedelta(minutes=1)


class HubSite:
    """A hub: it keeps what it is asked, and asks back when a test has it."""

    def __init__(self):
        self.asked = []
        self.status = 202
        self.place = ""
        self.holds = asyncio.Event()
        self.holds.set()

    async def answer(self, request):
        self.asked.append(dict(await request.post()) | {"at": request.path})
        await self.holds.wait()
        if self.place and request.path != self.place:
            return web.Response(status=307, headers={"Location": self.place})
        return web.Response(status=self.status, text="x" * 100_000)

    @property
    def callback(self):
        return urlsplit(self.asked[-1]["hub.callback"]).path.rpartition("/")[2]


@asynccontextmanager
async def hub_opened(hub):
    app = web.Application()
    app.router.add_post("/{tail:.*}", hub.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        hub.holds.set()
        await runner.cleanup()


class Scene:
    """A feed with a hub, its reader, and the callbacks of the API."""

    def __init__(self, nodes, site, hub, client, fetcher):
        self.site, self.hub = site, hub
        self.rounds = Round(nodes, site)
        self.place = CALLBACK
        self.store = MongoHubs(nodes)
        clock = lambda: self.rounds.now  # noqa: E731
        self.subscriber = HubSubscriber(
            *(self.rounds.store, self.store, client),
            *(lambda: self.place, lambda: "Crawlfleet", clock),
        )
        self.callbacks = HubCallbacks(self.rounds.store, self.store, clock)
        self.url = f"{site.url}/f/a"
        self.fetcher = fetcher

    @property
    def feed(self):
        return self.rounds.store.known([self.url])[self.url]

    async def read(self):
        """Read until nothing is due; return the titles of what is new."""
        reader = self.rounds.reader(self.fetcher, [self.url], hubs=self.subscriber)
        found, asked = [], len(self.site.asked)

        def may_read():
            is_read = len(self.site.asked) > asked and self.rounds.is_done([self.url])
            return not (is_read and not reader.is_busy and not reader._tending)

        async with asyncio.timeout(120):
            async for batch in reader.read("", may_read):
                found += [item.title[-1] for item in batch.items]
        return found

    def confirm(self, mode="subscribe", **change):
        asked = self.hub.asked[-1]
        query = {
            "hub.mode": mode,
            "hub.topic": asked["hub.topic"],
            "hub.challenge": "chal",
            "hub.lease_seconds": "864000",
        }
        return self.callbacks.answer(self.hub.callback, query | change)

    def push(self, body=b"<feed/>", secret=None):
        secret = secret or next(one["hub.secret"] for one in reversed(self.hub.asked))
        signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return self.callbacks.push(self.hub.callback, f"sha256={signed}", body)

    @property
    def lease(self):
        return self.feed.hub


@pytest.fixture
def run(mongo_connection, tenant):
    def run_it(work, allow_private=True, may_ask=lambda _: True):
        async def go():
            site, hub = Site(), HubSite()
            client = StreamClient(lambda: allow_private, may_ask, clock=lambda: NOW)
            async with (
                opened(site),
                hub_opened(hub) as place,
                client,
                AiohttpFetcher(True) as fetcher,
            ):
                site.links = {"Link": f'<{place}>; rel="hub", <{site.url}/f/a>; rel="self"'}
                await work(Scene(mongo_connection, site, hub, client, fetcher))

        return asyncio.run(go())

    return run_it


def test_a_hub_is_asked_once_and_what_it_pushes_is_read_at_once(run):
    async def work(scene):
        assert await scene.read() == ["1"]
        (asked,) = scene.hub.asked
        assert asked["hub.topic"] == scene.url
        assert asked["hub.callback"].startswith(f"{CALLBACK}/hubs/")
        assert len(asked["hub.secret"]) == 64

        assert scene.confirm().challenge == "chal"
        scene.site.items = {"/f/a": ["2", "1"]}
        scene.rounds.now += MINUTE
        assert not scene.lease.trusted
        assert scene.push() == 202
        assert scene.lease.trusted
        assert await scene.read() == ["2"]

        # Trusted: polling is rare, and the hub is not asked again.
        assert scene.feed.next_at - scene.rounds.now >= 4 * timedelta(hours=1)
        assert len(scene.hub.asked) == 1
        # The push told of it: it was not missed.
        assert scene.lease.trusted

    run(work)


def test_without_an_address_of_the_api_no_hub_is_asked(run):
    async def work(scene):
        scene.place = ""

        assert await scene.read() == ["1"]
        assert scene.hub.asked == []
        assert await scene.subscriber.waking() == ()

    run(work)


@pytest.mark.parametrize("secret", ["x" * 64, ""])
def test_what_is_not_signed_is_acknowledged_and_wakes_nobody(run, secret):
    async def work(scene):
        await scene.read()
        scene.confirm()
        scene.rounds.now += MINUTE

        if secret:
            assert scene.push(secret=secret) == 202
        else:
            assert scene.callbacks.push(scene.hub.callback, "", b"") == 202
        assert await scene.subscriber.waking() == ()
        assert not scene.lease.trusted

    run(work)


def test_a_callback_that_nobody_has_is_gone_and_means_nothing(run):
    async def work(scene):
        assert scene.callbacks.push("0" * 40, "sha1=0", b"") == 410
        asked = {"hub.mode": "subscribe", "hub.topic": "t", "hub.challenge": "c"}
        assert scene.callbacks.answer("0" * 40, asked).status == 404
        assert scene.callbacks.answer("0" * 40, asked | {"hub.mode": "unsubscribe"}).status == 200

    run(work)


def test_a_topic_that_was_not_asked_for_is_not_confirmed(run):
    async def work(scene):
        await scene.read()

        assert scene.confirm(**{"hub.topic": "https://other.example/"}).status == 404
        assert scene.confirm("unsubscribe").status == 404
        assert scene.lease.until is None

    run(work)


def test_a_feed_that_nobody_wants_any_more_ends_at_its_hub(run):
    async def work(scene):
        await scene.read()
        scene.confirm()
        scene.rounds.now += 3 * DAY

        assert scene.push() == 410
        assert scene.push() == 410
        assert scene.store.of(scene.hub.callback) is None

    run(work)


def test_pushes_in_a_row_have_a_feed_be_asked_twice_a_minute_at_most(run):
    async def work(scene):
        await scene.read()
        scene.confirm()
        scene.rounds.now += MINUTE
        scene.push()
        await scene.read()
        asked = len(scene.site.asked)
        for _ in range(20):
            scene.rounds.now += timedelta(seconds=1)
            assert scene.push() == 202
            assert await scene.subscriber.waking() == ()
        scene.rounds.now += timedelta(seconds=10)

        assert await scene.subscriber.waking() == (scene.url,)
        await scene.read()
        assert len(scene.site.asked) == asked + 1

    run(work)


def test_a_push_while_a_feed_is_being_read_has_it_be_read_again(run):
    async def work(scene):
        await scene.read()
        scene.confirm()
        now = scene.rounds.now = scene.feed.next_at
        (taken,) = scene.rounds.store.take([scene.url], "a", now, now + MINUTE).feeds
        assert not taken.woken
        assert scene.push() == 202
        nobody = scene.rounds.store.take([scene.url], "b", now, now + MINUTE)
        assert nobody.feeds == ()

        scene.rounds.store.keep([taken], "a")

        again = scene.rounds.store.take([scene.url], "b", now, now + MINUTE)
        assert [one.woken for one in again.feeds] == [True]

    run(work)


def test_a_push_that_is_faster_than_the_copies_of_a_feed_has_it_be_asked_once_more(run):
    async def work(scene):
        await scene.read()
        scene.confirm()
        scene.rounds.now += MINUTE
        scene.push()
        assert await scene.read() == []  # a stale copy
        assert scene.feed.next_at == scene.rounds.now + MINUTE

        scene.site.items = {"/f/a": ["2", "1"]}
        scene.rounds.now += MINUTE
        assert await scene.read() == ["2"]
        assert scene.lease.trusted

    run(work)


def test_a_hub_that_misses_an_item_is_trusted_no_longer_until_it_pushes(run):
    async def work(scene):
        await scene.read()
        scene.confirm()
        scene.rounds.now += MINUTE
        scene.push()
        await scene.read()
        scene.rounds.now += 2 * MINUTE
        await scene.read()
        scene.rounds.now += 2 * DAY
        scene.site.items = {"/f/a": ["2", "1"]}
        assert await scene.read() == ["2"]
        assert not scene.lease.trusted

        scene.push()
        assert scene.lease.trusted

    run(work)


def test_a_lease_is_renewed_before_it_ends_with_the_same_callback_and_secret(run):
    async def work(scene):
        await scene.read()
        scene.confirm(**{"hub.lease_seconds": "7200"})
        renewed_at = NOW + timedelta(hours=1.6)
        scene.rounds.now += timedelta(hours=1)
        scene.push()
        await scene.read()
        scene.rounds.now += 2 * MINUTE
        await scene.read()
        assert scene.feed.next_at <= renewed_at
        assert len(scene.hub.asked) == 1

        scene.rounds.now = renewed_at
        await scene.read()

        first, second = scene.hub.asked
        assert first == second
        assert scene.confirm().status == 200
        assert scene.lease.until == renewed_at + timedelta(days=10)

    run(work)


def test_a_hub_that_denies_pushes_nothing_and_is_asked_again_later(run):
    async def work(scene):
        await scene.read()
        scene.confirm()
        scene.rounds.now += MINUTE
        scene.push()

        assert scene.confirm("denied", **{"hub.reason": "no"}).status == 404
        assert (scene.lease.until, scene.lease.trusted) == (None, False)
        scene.rounds.now += DAY
        await scene.read()
        assert len(scene.hub.asked) == 2

    run(work)


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_a_hub_that_refuses_is_asked_again_after_hours_and_polling_goes_on(run, status):
    async def work(scene):
        scene.hub.status = status
        assert await scene.read() == ["1"]
        scene.site.items = {"/f/a": ["2", "1"]}
        scene.rounds.now += timedelta(hours=7)
        scene.hub.status = 202

        assert await scene.read() == ["2"]
        assert len(scene.hub.asked) == 2
        assert scene.hub.asked[0]["hub.secret"] == scene.hub.asked[1]["hub.secret"]

    run(work)


def test_a_hub_that_never_answers_holds_up_no_feed(run):
    async def work(scene):
        scene.hub.holds.clear()
        reader = scene.rounds.reader(scene.fetcher, [scene.url], hubs=scene.subscriber)
        batches = reader.read("", lambda: True)
        found = await anext(batches)
        assert len(found.items) == 1
        going_on = asyncio.ensure_future(anext(batches))
        await until(lambda: scene.hub.asked)
        scene.site.items = {"/f/a": ["2", "1"]}
        scene.rounds.now += DAY

        async with asyncio.timeout(30):
            assert [item.title[-1] for item in (await going_on).items] == ["2"]
            await batches.aclose()

    run(work)


def test_a_redirect_that_keeps_the_method_is_followed(run):
    async def work(scene):
        scene.hub.place = "/new"
        await scene.read()

        assert [one["at"] for one in scene.hub.asked] == ["/", "/new"]
        assert scene.hub.asked[0]["hub.secret"] == scene.hub.asked[1]["hub.secret"]

    run(work)


@pytest.mark.parametrize(
    "options", [{"allow_private": False}, {"may_ask": lambda _: False}], ids=["address", "port"]
)
def test_a_hub_at_an_address_that_may_not_be_asked_is_not_asked(run, options):
    async def work(scene):
        assert await scene.read() == ["1"]
        assert scene.hub.asked == []

    run(work, **options)


def test_two_workers_that_read_a_feed_ask_its_hub_once(run):
    async def work(scene):
        scene.place = ""
        await scene.read()
        scene.place = CALLBACK
        feed = scene.feed

        await asyncio.gather(*(scene.subscriber.tend(feed) for _ in range(4)))

        assert len(scene.hub.asked) == 1

    run(work)
