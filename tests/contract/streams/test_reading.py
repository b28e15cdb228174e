"""Streams are read for those who subscribe, once, by real Redis and MongoDB."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from infra.local.parts import python_environment
from infra.local.stream_server import StreamServer, pieces
from tests.contract.streams import reader_process
from tests.contract.streams.streaming import (
    LEASE_SECONDS,
    Channels,
    delivered,
    known,
    runner_of,
    subscribe,
    unsubscribe,
)
from tests.kit.kernel import StoreUnavailableError
from tests.kit.streams import MongoAccepting
from tests.kit.worlds.worker import until


@pytest.fixture
def channel(tenant):
    return tenant


@pytest.fixture
def nodes(mongo_connection):
    return mongo_connection


class Running:
    """A runner at work in this loop."""

    def __init__(self, runner):
        self.runner = runner
        self._ended = []
        self._task = asyncio.ensure_future(runner.run(lambda: bool(self._ended)))

    def report(self, channel):
        return self.runner.report().get(channel)

    def is_reading(self, channel):
        report = self.report(channel)
        return report is not None and report.is_read

    async def end(self):
        self._ended.append(1)
        await self._task


@asynccontextmanager
async def running(redis, nodes, channels, *workers, fleet, **others):
    known(redis, *workers, fleet=fleet)
    async with AsyncExitStack() as stack:
        found = []
        for worker in workers:
            runner = await stack.enter_async_context(
                runner_of(redis, nodes, worker, channels, fleet=fleet, **others)
            )
            found.append(Running(runner))
        try:
            yield found
        finally:
            for one in found:
                await one.end()


def test_a_stream_is_read_once_for_all_and_each_has_what_its_filter_takes(
    redis_connection, nodes, channel
):
    def reports_of(two):
        return [report for one in two if (report := one.report(channel)) is not None]

    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "storms", "storm")
            subscribe(nodes, channel, "both", "storm OR rain")
            async with running(
                redis_connection, nodes, {channel: server.url}, "a", "b", fleet=channel
            ) as two:
                await until(lambda: server.open)
                await server.publish("a storm", "some rain", "the sun")
                # A delivery is there before its reader has counted it.
                await until(lambda: sum(one.delivered for one in reports_of(two)) == 3)
                return server, [one for one in reports_of(two) if one.read]

    server, [report] = asyncio.run(work())

    assert delivered(nodes) == {"storms": 1, "both": 2}
    assert server.most_open == 1
    assert (report.read, report.matched, report.delivered) == (3, 2, 3)
    assert report.lag_p95_seconds >= 0


def test_without_subscriptions_nothing_is_read_and_it_begins_and_ends_with_them(
    redis_connection, nodes, channel
):
    async def work():
        async with StreamServer() as server:
            channels = {channel: server.url}
            async with running(redis_connection, nodes, channels, "a", fleet=channel) as [one]:
                assert not one.runner.is_needed
                subscribe(nodes, channel, "storms", "storm")
                await until(lambda: server.open)
                unsubscribe(nodes, "storms")
                await until(lambda: not server.open)
                await until(lambda: not one.runner.is_needed)
            return server

    assert len(asyncio.run(work()).asked) == 1


def test_a_soft_reload_touches_no_connection(redis_connection, nodes, channel):
    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "storms", "storm")
            channels = {channel: server.url}
            async with running(redis_connection, nodes, channels, "a", fleet=channel) as [one]:
                await until(lambda: server.open)
                subscribe(nodes, channel, "rains", "rain")
                await until(lambda: one.report(channel).subscriptions == 2)
                await server.publish("a storm", "some rain")
                await until(lambda: delivered(nodes).total() == 2)
                unsubscribe(nodes, "storms")
                await until(lambda: one.report(channel).subscriptions == 1)
                await server.publish("a storm", "some rain")
                await until(lambda: delivered(nodes).total() == 3)
            return server

    server = asyncio.run(work())

    assert delivered(nodes) == {"storms": 1, "rains": 2}
    assert len(server.asked) == 1


def test_a_channel_that_filters_is_read_by_each_filter_that_no_other_covers(
    redis_connection, nodes, channel
):
    async def work():
        async with StreamServer() as server:
            for name, text in {"a": "storm", "b": "storm OR rain", "c": "snow"}.items():
                subscribe(nodes, channel, name, text)
            channels = Channels({channel: server.url}, filter_parameter="q")
            async with running(redis_connection, nodes, channels, "a", "b", fleet=channel):
                await until(lambda: server.open == 2)
                await server.publish("storm, snow")
                await until(lambda: delivered(nodes).total() == 3)
            return server

    server = asyncio.run(work())

    assert {query["q"] for query, _ in server.asked} == {"rain OR storm", "snow"}
    assert delivered(nodes) == {"a": 1, "b": 1, "c": 1}


def test_a_channel_whose_document_changes_is_read_as_it_is_now(redis_connection, nodes, channel):
    async def work():
        async with StreamServer() as server, StreamServer() as other:
            subscribe(nodes, channel, "storms", "storm")
            channels = Channels({channel: server.url})
            async with running(redis_connection, nodes, channels, "a", fleet=channel):
                await until(lambda: server.open)
                channels.now = Channels({channel: other.url}).now
                await until(lambda: other.open and not server.open)
                # A tenant that is suspended has nothing read for it.
                channels.refused.add("storms")
                await until(lambda: not other.open)
                channels.refused.clear()
                await until(lambda: other.open)
                channels.now = {}
                await until(lambda: not other.open)

    asyncio.run(work())


def test_a_reader_reads_for_as_long_as_its_hold_stands(redis_connection, nodes, channel):
    passed = [0.0]

    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "storms", "storm")
            channels, steady = {channel: server.url}, lambda: passed[0]
            async with running(
                redis_connection, nodes, channels, "a", fleet=channel, steady=steady
            ) as [one]:
                await until(lambda: one.is_reading(channel))
                passed[0] += LEASE_SECONDS / 2
                assert one.is_reading(channel)
                passed[0] += LEASE_SECONDS
                assert not one.is_reading(channel)

    asyncio.run(work())


def test_a_source_is_handed_over_when_its_worker_leaves(redis_connection, nodes, channel):
    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "storms", "storm")
            channels = {channel: server.url}
            async with running(redis_connection, nodes, channels, "a", "b", fleet=channel) as two:
                await until(lambda: server.open)
                await server.publish("first storm")
                await until(lambda: delivered(nodes).total() == 1)
                [reader] = [one for one in two if one.is_reading(channel)]
                [other] = [one for one in two if one is not reader]
                await reader.end()
                await server.publish("second storm")
                await until(lambda: delivered(nodes).total() == 2)
                await until(lambda: other.report(channel).delivered == 1)
                # What was kept before the hold was released is not read again.
                assert other.report(channel).read == 1
            return server

    assert asyncio.run(work()).most_open == 1


class Failing(MongoAccepting):
    """A store that answers every other call with an error, before or after it has done it."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.calls = 0

    def accept(self, batch, now, *noting):
        self.calls += 1
        if self.calls % 3 == 1:
            raise StoreUnavailableError("MongoDB", "is away")
        done = super().accept(batch, now, *noting)
        if self.calls % 3 == 2:
            raise StoreUnavailableError("MongoDB", "its answer is lost")
        return done


def test_what_delivery_does_not_take_at_once_is_handed_on_until_it_does(
    redis_connection, nodes, channel
):
    async def work():
        accepting = Failing(nodes)
        async with StreamServer() as server:
            server.script.extend([pieces(b'{"id": 1, "text": "storm"}\n{"id": 2, "te', cut=True)])
            await server.publish("storm", "storm", "storm")
            subscribe(nodes, channel, "storms", "storm")
            async with running(
                redis_connection,
                nodes,
                {channel: server.url},
                "a",
                fleet=channel,
                accepting=accepting,
            ):
                await until(lambda: delivered(nodes).total() == 3)

    asyncio.run(work())

    assert delivered(nodes) == {"storms": 3}


def test_readers_that_are_killed_lose_nothing_and_nothing_is_delivered_twice(
    redis_connection, redis_url, mongo_uri, nodes, channel
):
    def start(worker, url):
        arguments = redis_url, mongo_uri, nodes.control_name, channel, worker, url
        return subprocess.Popen(
            [sys.executable, reader_process.__file__, *arguments],
            env=python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def kill(processes):
        for one in processes:
            one.kill()
            one.communicate()

    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "storms", "storm")
            processes = [start(worker, server.url) for worker in ("a", "b")]
            try:
                for turn in range(2):
                    await until(lambda: server.open)
                    before = len(server.objects)
                    await server.publish(*["a storm"] * 400)
                    # Killed in the middle of them, whichever of both it is that reads.
                    await until(partial(is_beyond, before))
                    kill(processes)
                    await until(lambda: not server.open)
                    await server.publish("a storm")  # while nobody reads
                    processes = [start(f"{worker}{turn}", server.url) for worker in ("a", "b")]
                await until(partial(is_beyond, len(server.objects) - 1))
            finally:
                kill(processes)
            return server

    def is_beyond(count):
        return delivered(nodes).total() > count

    server = asyncio.run(work())

    # How many were connected is not asked here: a process that the machine lets stand still for a
    # lease is followed before it can hang up. By a clock of its own test_holds.py has that.
    assert delivered(nodes) == {"storms": len(server.objects)}
    assert nodes.control("stream_items").count_documents({}) == len(server.objects)
