"""Hubs of feeds call back without a key: they are answered, and their pushes have feeds be read."""

import asyncio
import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from tests.contract.streams.feed_site import Site, opened
from tests.contract.streams.test_feed_hubs import HubSite, hub_opened
from tests.functions.http import Answer, ask
from tests.kit.apps import StreamReaders
from tests.kit.feeds import Feed, Hub, MongoFeeds, MongoHubs
from tests.kit.worlds.functions import World, default_bizs
from tests.kit.worlds.worker import until

HUB = Hub(url="https://hub.example/", topic="https://feed.example/a")
BODY = "<feed>ü</feed>"


def signed(secret: str, body: str = BODY, method: str = "sha256") -> dict[str, str]:
    digest = hmac.new(secret.encode(), body.encode(), getattr(hashlib, method)).hexdigest()
    return {"X-Hub-Signature": f"{method}={digest}"}


def verify(world: World, callback: str, **query: str) -> Answer:
    asked = {"mode": "subscribe", "topic": HUB.topic, "challenge": "<b>", "lease_seconds": "864000"}
    given = {f"hub.{name}": value for name, value in (asked | query).items()}
    return ask(world, "GET", f"/hubs/{callback}", query=given, key=None)


@pytest.fixture
def asked(world: World, tenant: str) -> tuple[str, str]:
    """The callback and the secret of a feed whose hub is asked."""
    feeds, url, now = MongoFeeds(world.own.nodes), f"https://{tenant}.example/", datetime.now(UTC)
    feeds.take([url], "a", now, now)
    feeds.keep([Feed(url=url, next_at=now)], "a")
    made = MongoHubs(world.own.nodes).ask(url, HUB, now)
    assert made is not None
    callback, lease = made
    return callback, lease.secret


def test_a_subscription_that_is_meant_is_confirmed_as_plain_text(world, asked):
    answer = verify(world, asked[0], later="what nobody knows yet")

    assert (answer.status, answer.text) == (200, "<b>")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "query", [{"topic": "https://other.example/"}, {"mode": "unsubscribe"}, {"challenge": ""}]
)
def test_what_is_not_meant_is_not_found(world, asked, query):
    assert verify(world, asked[0], **query).status == 404
    assert verify(world, "0" * 40).status == 404


def test_a_push_is_taken_by_its_signature_and_says_nothing_of_others(world, asked):
    callback, secret = asked
    path = f"/hubs/{callback}"
    feeds = MongoFeeds(world.own.nodes)

    for headers in ({}, signed("x" * 64), signed(secret, "other"), {"X-Hub-Signature": "md5=0"}):
        answer = ask(world, "POST", path, BODY, key=None, headers=headers)
        assert (answer.status, answer.text) == (202, "")
    assert feeds.waking(datetime.now(UTC)) == ()

    assert ask(world, "POST", path, BODY, key=None, headers=signed(secret)).status == 202
    assert len(feeds.waking(datetime.now(UTC))) == 1
    gone = ask(world, "POST", f"/hubs/{'0' * 40}", BODY, key=None, headers=signed(secret))
    assert gone.status == 410


def test_a_push_that_is_too_long_to_be_read_is_acknowledged(world, asked):
    body = "x" * 7_000_000
    headers = signed(asked[1], body)

    assert ask(world, "POST", f"/hubs/{asked[0]}", body, key=None, headers=headers).status == 202


def test_a_feed_with_a_hub_is_read_when_that_pushes(world: World) -> None:
    async def work() -> None:
        site, hub = Site(), HubSite()
        async with opened(site), hub_opened(hub) as place:
            site.links = {"Link": f'<{place}>; rel="hub"'}
            site.items = {"/f/a": ["a storm"]}
            url = f"{site.url}/f/a"
            streams = {"hub_callback": "https://api.example/prod"}
            stage = {"allow_private_addresses": True, "streams": streams}
            world.push(default_bizs(), stage=stage)
            wanted = {"kind": "rss", "filter": "storm", "feeds": [url]}
            ended: list[int] = []
            readers = StreamReaders(world.own)
            reading = asyncio.ensure_future(readers.run(lambda: bool(ended)))
            made = await asyncio.to_thread(ask, world, "PUT", "/v1/docs/subscriptions/hub", wanted)
            assert made.status == 200, made.text
            await until(lambda: hub.asked)
            secret = hub.asked[0]["hub.secret"]
            path = urlsplit(hub.asked[0]["hub.callback"]).path.removeprefix("/prod")
            query = {"hub.mode": "subscribe", "hub.topic": url, "hub.challenge": "c"}
            answer = await asyncio.to_thread(ask, world, "GET", path, query=query, key=None)
            assert (answer.status, answer.text) == (200, "c")

            site.items = {"/f/a": ["another storm", "a storm"]}
            pushed = await asyncio.to_thread(
                ask, world, "POST", path, BODY, key=None, headers=signed(secret)
            )
            assert pushed.status == 202
            taken = world.control["stream_deliveries"]
            await until(lambda: taken.count_documents({"name": "hub"}) == 2)
            await asyncio.to_thread(ask, world, "DELETE", "/v1/docs/subscriptions/hub")
            ended.append(1)
            await reading

    asyncio.run(work())
