"""Streams that many share: readers that are killed, sources that move, rules in channels.

A stream has fifty items a second, and three workers that may read it. Again and again the one that
reads is killed with ``kill -9``, and another one started. The gap is from the kill until the stream
is asked again. Each item is then to be in the outbox, once for each of two subscribers. What moves
when a worker goes, and how many rules terms are packed into, is worked out without any of that.
"""

import asyncio
import itertools
import random
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pymongo

from benchmarks.bench import Bench, BenchError, Found
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.names import CONTROL_DATABASE
from crawlfleet.streams.packing import Packing, RuleLimits, least, repack
from crawlfleet.streams.sources import Source, worker_of
from crawlfleet.streams.subscriptions.models import Content, StreamKind
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from infra.local.stream_server import StreamServer

WORKERS: Final = 3
STEPS: Final = 1
ITEM_SECONDS: Final = 0.02
SUBSCRIBERS: Final = 2
SOURCES: Final = 10_000
TERMS: Final = 50_000
_CHANNEL: Final = "bench-wire"
_READER: Final = Path(__file__).with_name("stream_reader.py")
_LONGEST_SECONDS: Final = 120.0


def move_ratio() -> float:
    """Part of all sources that move when one of ten workers goes."""
    workers = [f"w{number}" for number in range(10)]
    every = [Source("wire", str(number)) for number in range(SOURCES)]
    moved = sum(worker_of(one, workers) != worker_of(one, workers[1:]) for one in every)
    return moved / len(every)


def packed() -> float:
    """Rules that made-up terms are packed into, over a number that no packing is below."""
    draw = random.Random(21)
    letters = "abcdefghijklmnopqrstuvwxyz "
    lengths = (draw.choice((5, 8, 8, 8, 12, 20, 40)) for _ in itertools.count())
    terms: dict[str, None] = {}
    while len(terms) < TERMS:
        terms["".join(draw.choices(letters, k=next(lengths))).strip() or "x"] = None
    limits = RuleLimits()
    change = repack(Packing({}), terms, limits)
    return len(change.packing.rules) / least(terms, limits)


class Readers:
    """The workers, by the names that the stream knows them by."""

    def __init__(self, bench: Bench, url: str) -> None:
        self._bench, self._url = bench, url
        self._numbers = itertools.count()
        self.running: dict[str, Process] = {}

    async def start(self) -> None:
        worker = f"w{next(self._numbers)}"
        self.running[worker] = await asyncio.create_subprocess_exec(
            sys.executable,
            *(str(_READER), worker, _CHANNEL, self._url),
            stdin=PIPE,
            stdout=DEVNULL,
            env=self._bench.variables(PYTHONPATH=":".join(filter(None, sys.path))),
        )

    async def kill(self, worker: str) -> None:
        process = self.running.pop(worker)
        process.kill()
        await process.wait()


async def _until(holds: Any, what: str) -> None:
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            while not holds():  # noqa: ASYNC110  processes are waited for
                await asyncio.sleep(0.005)
    except TimeoutError as error:
        raise BenchError(f"{what} in {_LONGEST_SECONDS:g} s") from error


async def _killed(bench: Bench, kills: int) -> tuple[list[float], int]:
    async with StreamServer(keep_alive_seconds=1.0) as server:

        async def publish() -> None:
            while True:
                await server.publish("a storm")
                await asyncio.sleep(ITEM_SECONDS)

        readers = Readers(bench, server.url)
        gaps: list[float] = []
        publishing = asyncio.ensure_future(publish())
        try:
            for _ in range(WORKERS):
                await readers.start()
            for _ in range(kills):
                await _until(lambda: server.open, "nobody reads")
                # As long as it takes for the others to know of each other.
                await asyncio.sleep(5 + random.random())
                asked = len(server.asked)
                reader = server.asked[-1][1]["User-Agent"]
                at = time.monotonic()
                await readers.kill(reader)
                await _until(lambda asked=asked: len(server.asked) > asked, "nobody reads on")
                gaps.append(time.monotonic() - at)
                await readers.start()
        finally:
            publishing.cancel()
            with suppress(asyncio.CancelledError):
                await publishing
        count = len(server.objects)
        with pymongo.MongoClient[dict[str, Any]](bench.addresses.mongo) as client:
            kept = client[CONTROL_DATABASE]["stream_deliveries"]
            await _until(
                lambda: kept.estimated_document_count() >= count * SUBSCRIBERS, "not all came"
            )
        for worker in list(readers.running):
            await readers.kill(worker)
        if server.most_open > 1:
            raise BenchError("two have read at once")
        return gaps, count


def run(bench: Bench) -> Found:
    """Kill readers again and again; then work out what moves, and what is packed."""
    bench.addresses.clear()
    nodes = MongoNodes(lambda _: bench.addresses.mongo, home=lambda: "main")
    try:
        for number in range(SUBSCRIBERS):
            content = Content(kind=StreamKind.NDJSON_STREAM, filter="storm", channel=_CHANNEL)
            subscriptions = MongoSubscriptions(nodes)
            subscriptions.put("acme", "news", f"s{number}", content, datetime.now(UTC), most=10)
    finally:
        nodes.close()
    gaps, count = asyncio.run(_killed(bench, bench.scale.stream_kills))
    with pymongo.MongoClient[dict[str, Any]](bench.addresses.mongo) as client:
        control = client[CONTROL_DATABASE]
        items = control["stream_items"].count_documents({})
        deliveries = control["stream_deliveries"].count_documents({})
    bench.tick("readers killed")
    wanted = count * SUBSCRIBERS
    return Found(
        figures={
            "stream_lost": float(max(0, wanted - deliveries)),
            "stream_duplicates": float(max(0, deliveries - wanted, items - count)),
            "stream_gap_p95_s": sorted(gaps)[int(len(gaps) * 0.95)],
            "stream_move_ratio": move_ratio(),
            "stream_channels_vs_optimum": packed(),
        },
        details={"gaps after a killed reader, seconds": gaps, "items": count},
    )
