"""Readers of streams as functions: a tick starts them, one follows another, none is left over."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.local.stream_server import StreamServer
from tests.functions.http import ask
from tests.kit.apps import StreamFunction, stream_function, stream_starts
from tests.kit.fleet import RedisWorkers, WorkerStatus
from tests.kit.kernel import names
from tests.kit.worlds.functions import STAGE, World, default_bizs
from tests.kit.worlds.worker import until

PLACE = "/v1/docs/subscriptions/storms"
WANTED = {"kind": "ndjson_stream", "filter": "storm", "channel": "wire"}
TICK = json.loads((Path(__file__).parents[3] / "events" / "scheduler" / "tick.json").read_text())
WIRE = {"kind": "ndjson_stream", "url": "http://127.0.0.1:9/lines", "cursor_parameter": "since"}


@pytest.fixture
def streaming(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A stage whose deployment has a function that reads streams."""
    monkeypatch.setenv(names.ENV_STREAMS_FUNCTION, names.function_name(STAGE, names.STREAMS))
    monkeypatch.setenv(names.ENV_STREAM_READERS, "2")
    # A machine that stands still for a while makes nobody look dead, and no start look lost.
    monkeypatch.setattr(stream_starts, "SILENT", timedelta(hours=1))
    monkeypatch.setattr("crawlfleet.fleet.redis.registry.WAKE_TERM", timedelta(hours=1))
    world.end_environments()
    world.push(default_bizs(), stage={"streams": {"channels": {"wire": WIRE}}})
    yield world
    for collection in ("subscriptions", "subscription_numbers", "stream_receivers"):
        world.control[collection].drop()
    world.end_environments()


def started(world: World) -> int:
    """Tick, and count the readers that it starts."""
    world.lambdas.woken.clear()
    done: dict[str, Any] = world.call(names.SCHEDULER, TICK["event"])
    woken = world.lambdas.woken.count(names.STREAMS)
    assert done["readers"] == woken
    assert done["faults"] == 0
    return woken


def lives(world: World, worker: str, left: float, began: float = 0.0) -> None:
    """Have a reader beat that has so many seconds left, and began so many ago."""
    now = datetime.now(UTC).timestamp()
    status = WorkerStatus(started_ms=int((now - began) * 1e3), ends_ms=int((now + left) * 1e3))
    workers = RedisWorkers(world.own.redis, fleet="streams")
    workers.beat(worker, datetime.now(UTC), status)


def test_nothing_is_started_while_nobody_subscribes_nor_after_the_last(streaming: World) -> None:
    assert started(streaming) == 0
    assert ask(streaming, "PUT", PLACE, WANTED).status == 200
    assert started(streaming) == 1
    streaming.redis.flushall()
    assert ask(streaming, "DELETE", PLACE).status == 204
    assert started(streaming) == 0


def test_a_stage_without_the_function_starts_none(world: World) -> None:
    done = world.call(names.SCHEDULER, TICK["event"])

    assert "readers" not in done
    assert names.STREAMS not in world.lambdas.woken


def test_a_start_under_way_and_a_reader_that_lives_are_counted(streaming: World) -> None:
    assert ask(streaming, "PUT", PLACE, WANTED).status == 200
    assert started(streaming) == 1
    assert started(streaming) == 0
    lives(streaming, "first", left=800)
    assert started(streaming) == 0


def test_the_successor_of_a_reader_whose_time_ends_is_started_once(streaming: World) -> None:
    assert ask(streaming, "PUT", PLACE, WANTED).status == 200
    lives(streaming, "first", left=50)

    assert started(streaming) == 1
    lives(streaming, "second", left=800)
    assert started(streaming) == 0


def test_more_sources_than_one_reader_takes_have_more_but_never_more_than_are_deployed(
    streaming: World,
) -> None:
    channels = {f"wire-{number}": WIRE for number in range(5)}
    stage = {"streams": {"channels": channels, "sources_per_reader": 2}}
    streaming.push(default_bizs(), stage=stage)
    for name in channels:
        answer = ask(streaming, "PUT", f"{PLACE}-{name}", {**WANTED, "channel": name})
        assert answer.status == 200, answer.text

    assert started(streaming) == 2


def test_a_lambda_that_takes_no_call_is_a_fault_of_that_part_alone(streaming: World) -> None:
    assert ask(streaming, "PUT", PLACE, WANTED).status == 200
    streaming.lambdas.faults[names.STREAMS] = RuntimeError("no room")

    done = streaming.call(names.SCHEDULER, TICK["event"])

    assert done["faults"] == 1
    assert "wanted" in done


def test_a_health_check_says_what_a_reader_reads(streaming: World) -> None:
    found = StreamFunction(streaming.own).answer({"health": True}, "one", lambda: 60.0)

    assert (found["function"], found["healthy"]) == (names.STREAMS, True)
    assert "ndjson_stream" in found["runs"]


def kept(world: World) -> list[str]:
    """The texts of what was accepted for the subscription, each as often as it was."""
    deliveries = world.control["stream_deliveries"].find({"name": "storms"})
    return [one["_id"].hex() for one in deliveries]


def test_a_successor_goes_on_where_its_predecessor_has_left_and_each_item_comes_once(
    streaming: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has its time; the second begins beside it, which is why the first may leave."""
    monkeypatch.setattr(stream_function, "LOOK_SECONDS", 0.1)

    async def work() -> list[dict[str, object]]:
        async with StreamServer() as server:
            wire = {**WIRE, "url": server.url}
            terms = {"channels": {"wire": wire}, "overlap_seconds": 0.0}
            streaming.push(default_bizs(), stage={"streams": terms})
            made = await asyncio.to_thread(ask, streaming, "PUT", PLACE, WANTED)
            assert made.status == 200, made.text
            parts = streaming.own
            first = asyncio.to_thread(StreamFunction(parts).read, "first", lambda: 400.0)
            reading = [asyncio.ensure_future(first)]
            await until(lambda: server.open)
            await server.publish("a storm")
            await until(lambda: len(kept(streaming)) == 1)
            second = asyncio.to_thread(StreamFunction(parts).read, "second", lambda: 900.0)
            reading.append(asyncio.ensure_future(second))
            await until(reading[0].done)
            await server.publish("another storm")
            await until(lambda: len(kept(streaming)) == 2)
            monkeypatch.setattr(stream_function, "IDLE", timedelta())
            await asyncio.to_thread(ask, streaming, "DELETE", PLACE)
            ended = await asyncio.gather(*reading)
            await until(lambda: not server.open)
            return ended

    assert [one["ended"] for one in asyncio.run(work())] == ["succeeded", "idle"]


def test_a_reader_ends_in_time_for_an_orderly_end(streaming: World) -> None:
    assert ask(streaming, "PUT", PLACE, WANTED).status == 200

    done = StreamFunction(streaming.own).read("only", stream_function.END.total_seconds)

    assert done["ended"] == "time"
    assert RedisWorkers(streaming.own.redis, fleet="streams").live(datetime.now(UTC)) == []
