"""The process that reads streams: from a subscription of the API to a delivery, with its secret."""

import asyncio
import json
from collections.abc import Iterator

import boto3
import pytest

from crawlfleet.kernel.errors import ConfigError
from infra.local.stream_server import StreamServer
from tests.contract.streams.feed_site import Site, opened
from tests.contract.streams.streaming import long_known
from tests.functions.http import ask
from tests.kit.apps import StreamReaders
from tests.kit.kernel import names
from tests.kit.worlds.functions import STAGE, World, default_bizs
from tests.kit.worlds.worker import until
from tests.kit.x_server import XServer

PLACE = "/v1/docs/subscriptions/storms"
WANTED = {"kind": "ndjson_stream", "filter": "storm", "channel": "wire"}


@pytest.fixture
def secret() -> Iterator[str]:
    text = "t0p-s3cret"
    client = boto3.client("secretsmanager")
    name = names.stream_secret(STAGE, "wire")
    client.create_secret(Name=name, SecretString=f"{text}\n")
    yield text
    client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


def deliveries(world: World, subscription: str) -> int:
    return world.control["stream_deliveries"].count_documents({"name": subscription})


def test_what_is_subscribed_to_is_read_and_kept(world: World, secret: str, caplog) -> None:
    async def work() -> None:
        async with StreamServer(token=secret) as server:
            wire = {"kind": "ndjson_stream", "url": server.url, "secret": "wire"}
            assert ask(world, "PUT", f"{PLACE}-kept", WANTED).status == 400
            stage = {"streams": {"channels": {"wire": wire}}}
            world.push(default_bizs(), stage=stage)
            made = await asyncio.to_thread(ask, world, "PUT", f"{PLACE}-kept", WANTED)
            assert (made.status, made.json["state"]) == (200, "active")

            ended: list[int] = []
            long_known(world.own.redis, "wire")
            readers = StreamReaders(world.own)
            reading = asyncio.ensure_future(readers.run(lambda: bool(ended)))
            await until(lambda: server.open)
            await server.publish("a storm", "the sun")
            await until(lambda: deliveries(world, "storms-kept") == 1)
            await asyncio.to_thread(ask, world, "DELETE", f"{PLACE}-kept")
            await until(lambda: not server.open)
            ended.append(1)
            await reading

    asyncio.run(work())

    assert secret not in caplog.text


def test_what_is_subscribed_to_is_delivered(world: World) -> None:
    tenant = world.tenants["acme"]

    async def work() -> list[bytes]:
        async with StreamServer() as server:
            wire = {"kind": "ndjson_stream", "url": server.url}
            targets = {tenant: [{"redis_stream": "storm*"}]}
            stage = {"streams": {"channels": {"wire": wire}, "targets": targets}}
            world.push(default_bizs(), stage=stage)
            refused = {**WANTED, "deliver": {"redis_stream": "others"}}
            assert ask(world, "PUT", PLACE, refused).fields == ["deliver.redis_stream"]
            wanted = {**WANTED, "deliver": {"redis_stream": "storms"}}
            made = await asyncio.to_thread(ask, world, "PUT", PLACE, wanted)
            assert made.status == 200, made.text

            ended: list[int] = []
            long_known(world.own.redis, "wire")
            readers = StreamReaders(world.own)
            reading = asyncio.ensure_future(readers.run(lambda: bool(ended)))
            await until(lambda: server.open)
            await server.publish("a storm", "the sun", "another storm")
            redis, key = world.own.redis.client, f"{tenant}:streams:storms"
            await until(lambda: redis.xlen(key) >= 2)
            await asyncio.to_thread(ask, world, "DELETE", PLACE)
            await until(lambda: not server.open)
            ended.append(1)
            await reading
            return [fields[b"message"] for _, fields in redis.xrange(key)]

    found = {json.loads(message)["id"]: json.loads(message) for message in asyncio.run(work())}

    assert {one["item"]["text"] for one in found.values()} == {"a storm", "another storm"}
    assert {(one["subscription"], one["channel"]) for one in found.values()} == {("storms", "wire")}


def test_posts_of_x_that_are_subscribed_to_are_read_by_rules_made_of_the_filters(
    world: World, secret: str, caplog
) -> None:
    wanted = {"kind": "x_stream", "filter": "storm OR flood", "channel": "posts"}

    async def work() -> None:
        async with XServer() as server:
            server.token = secret
            plan = {"rules": 10, "characters": 128}
            posts = {"kind": "x_stream", "url": server.base, "secret": "wire", "plan": plan}
            world.push(default_bizs(), stage={"streams": {"channels": {"posts": posts}}})
            too_long = {**wanted, "filter": " ".join(f"word{number}" for number in range(40))}
            assert ask(world, "PUT", f"{PLACE}-of-x", too_long).fields == ["filter"]
            made = await asyncio.to_thread(ask, world, "PUT", f"{PLACE}-of-x", wanted)
            assert (made.status, made.json["state"]) == (200, "active")

            ended: list[int] = []
            long_known(world.own.redis, "posts")
            readers = StreamReaders(world.own)
            reading = asyncio.ensure_future(readers.run(lambda: bool(ended)))
            await until(lambda: server.open)
            assert server.values() == ["flood OR storm"]
            await server.publish("a storm", "the sun", "a flood")
            await until(lambda: deliveries(world, "storms-of-x") == 2)
            await asyncio.to_thread(ask, world, "DELETE", f"{PLACE}-of-x")
            await until(lambda: not server.open)
            ended.append(1)
            await reading

    asyncio.run(work())

    assert secret not in caplog.text


def test_a_channel_of_x_names_what_it_lacks_and_what_is_not_its_own(world: World) -> None:
    wrong = {"kind": "x_stream", "url": "https://api.example/2", "cursor_parameter": "since"}
    wire = {"kind": "ndjson_stream", "url": "https://a.example/", "plan": {"rules": 5}}

    with pytest.raises(ConfigError) as caught:
        world.push(default_bizs(), stage={"streams": {"channels": {"posts": wrong, "wire": wire}}})

    said = [str(problem) for problem in caught.value.problems]
    for place in ("posts.secret: is missing", "posts.cursor_parameter: is", "wire.plan: is given"):
        assert any(f"streams.channels.{place}" in one for one in said)
    assert len(said) == 3


def test_feeds_that_are_subscribed_to_are_read_and_kept(world: World) -> None:
    async def work() -> None:
        site = Site()
        async with opened(site):
            site.items = {"/f/a": ["a storm", "the sun"]}
            wanted = {"kind": "rss", "filter": "storm", "feeds": [f"{site.url}/f/a"]}
            world.push(default_bizs(), stage={"allow_private_addresses": True})
            ended: list[int] = []
            readers = StreamReaders(world.own)
            reading = asyncio.ensure_future(readers.run(lambda: bool(ended)))
            made = await asyncio.to_thread(ask, world, "PUT", f"{PLACE}-in-feeds", wanted)
            assert (made.status, made.json["state"]) == (200, "active")
            await until(lambda: deliveries(world, "storms-in-feeds") == 1)
            await asyncio.to_thread(ask, world, "DELETE", f"{PLACE}-in-feeds")
            ended.append(1)
            await reading
            assert site.paths == ["/f/a"]

    asyncio.run(work())
