"""``stream_reader.py WORKER CHANNEL URL``: a worker that reads a stream, to be killed."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable

from crawlfleet.config.documents.streams import Channel, ChannelKind
from crawlfleet.crawling.fetching.secrets import SecretTexts, nothing_reads
from crawlfleet.fleet.quotas.mongo import MongoCeilings
from crawlfleet.fleet.quotas.redis import RedisQuotaLedgers
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.http.connection import StreamClient
from crawlfleet.streams.items import Reader
from crawlfleet.streams.ndjson.reader import NdjsonReader
from crawlfleet.streams.reading.channel import Stores
from crawlfleet.streams.reading.metering import Metering
from crawlfleet.streams.reading.mongo import MongoCursors
from crawlfleet.streams.reading.plan import Planned
from crawlfleet.streams.reading.runner import LIVENESS, StreamRunner, Terms
from crawlfleet.streams.reading.succession import FLEET
from crawlfleet.streams.redis import RedisHolds
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions


async def read(worker: str, name: str, url: str) -> None:
    """Read until standard input ends; the stream knows the worker by its user agent."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    uri = os.environ["BENCH_MONGO"]
    nodes = MongoNodes(lambda _: uri, home=lambda: "main")
    channel = Channel(kind=ChannelKind.NDJSON, url=url, cursor_parameter="since")
    with RedisConnection(os.environ["BENCH_REDIS"]) as redis:
        clock = ServerClock(redis)
        ledgers = QuotaLedgers(RedisQuotaLedgers(redis), MongoCeilings(nodes))
        async with StreamClient(lambda: True, lambda _: True, clock=clock) as client:

            def open_reader(
                name: str,
                channel: Channel,
                _: Callable[[], Planned],
                tell: Callable[[str, str], None],
            ) -> Reader:
                return NdjsonReader(
                    name,
                    channel,
                    client,
                    SecretTexts(nothing_reads),
                    clock=clock,
                    user_agent=worker,
                    tell=lambda fault: tell(fault.end, fault.message),
                )

            await StreamRunner(
                worker,
                subscriptions=MongoSubscriptions(nodes),
                workers=RedisWorkers(redis, fleet=FLEET, liveness=LIVENESS),
                stores=Stores(
                    holds=RedisHolds(redis),
                    cursors=MongoCursors(nodes),
                    accepting=MongoAccepting(nodes),
                    meter=Metering(ledgers, worker, asyncio.to_thread, clock),
                    clock=clock,
                ),
                terms=lambda: Terms(channels={name: channel}),
                open_reader=open_reader,
            ).run(ended.is_set)
    nodes.close()


if __name__ == "__main__":
    asyncio.run(read(*sys.argv[1:]))
