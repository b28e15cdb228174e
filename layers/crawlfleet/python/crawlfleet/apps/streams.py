"""Read the streams of a stage and deliver what they bring: ``python -m crawlfleet.apps.streams``.

It is a process of its own. It reads while somebody subscribes to a channel of the stage, and ends
by SIGTERM or SIGINT: then all cursors are kept and all holds released, what was pushed is settled,
and another one goes on at once.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from uuid import uuid4

from crawlfleet.apps.context import Parts
from crawlfleet.apps.feeds import read_feeds
from crawlfleet.apps.seeing import Seeing
from crawlfleet.config.documents.streams import Channel, ChannelKind
from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.crawling.fetching.stores import StoreAddresses
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.fleet.quotas.models import limits_of_channel
from crawlfleet.fleet.quotas.mongo import MongoCeilings
from crawlfleet.fleet.quotas.redis import RedisQuotaLedgers
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import NoConfigurationError
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.streams.delivery import deliverer
from crawlfleet.streams.delivery.aws import AwsPusher
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.delivery.mongo.leasing import MongoLeasing
from crawlfleet.streams.delivery.redis import RedisPusher
from crawlfleet.streams.http.connection import StreamClient
from crawlfleet.streams.http.token import Token
from crawlfleet.streams.items import Reader
from crawlfleet.streams.ndjson.reader import NdjsonReader
from crawlfleet.streams.packing import RuleLimits
from crawlfleet.streams.reading.channel import Stores
from crawlfleet.streams.reading.closing import Closing
from crawlfleet.streams.reading.metering import Metering
from crawlfleet.streams.reading.mongo import MongoCursors
from crawlfleet.streams.reading.plan import Planned
from crawlfleet.streams.reading.runner import LIVENESS, NO_STATUS, StreamRunner, Terms
from crawlfleet.streams.reading.succession import FLEET
from crawlfleet.streams.redis import RedisHolds
from crawlfleet.streams.subscriptions.models import Subscription
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.streams.subscriptions.service import is_served, limits_of, targets_of
from crawlfleet.streams.targets import Target, TargetKind, is_allowed
from crawlfleet.streams.x.api import XApi
from crawlfleet.streams.x.reader import XReader

#: Each channel has a call to a store under way now and then.
THREADS: Final = 32


class StreamReaders:
    """The streams of a stage, as one process reads its part of them."""

    def __init__(
        self, parts: Parts, worker: str | None = None, status: WorkerStatus = NO_STATUS
    ) -> None:
        self._parts, self._status = parts, status
        self._worker = worker or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._clock = ServerClock(parts.redis)
        self._stores = StoreAddresses(parts.store_places)
        self._seen = Seeing(parts, self._worker, self._clock)

    def _allow_private(self) -> bool:
        return self._parts.config.current().stage.allow_private_addresses

    def _may_ask(self, port: int) -> bool:
        return self._parts.config.current().stage.may_ask(port)

    def _terms(self) -> Terms:
        """Return what is in force; before the first push there is nothing to read."""
        try:
            tree = self._parts.config.current()
        except NoConfigurationError:
            return Terms(channels={})

        def serves(one: Subscription) -> bool:
            return is_served(tree, one, self._clock())

        return Terms(
            channels=tree.stage.streams.channels,
            serves=serves,
            limits=partial(limits_of, tree),
            ceilings=partial(limits_of_channel, tree),
            revision=tree.revision,
        )

    def _read_secret(self, _: str, name: str) -> str:
        return self._parts.read_secret(names.stream_secret(self._parts.settings.stage, name))

    def _is_allowed(self, tenant: str, target: Target) -> bool:
        try:
            tree = self._parts.config.current()
        except NoConfigurationError:
            return False
        return is_allowed(target, targets_of(tree, tenant))

    def _redis_entries(self) -> int:
        return self._parts.config.current().stage.streams.redis_entries

    def _deliverer(self) -> deliverer.Deliverer:
        aws = AwsPusher()
        return deliverer.Deliverer(
            outbox=MongoLeasing(self._parts.nodes),
            pushers={
                TargetKind.SQS: aws,
                TargetKind.SNS: aws,
                TargetKind.EVENTBRIDGE: aws,
                TargetKind.REDIS_STREAM: RedisPusher(self._parts.redis, self._redis_entries),
            },
            is_allowed=self._is_allowed,
            by=self._worker,
            clock=self._clock,
            tally=self._seen.tally,
        )

    async def run(self, ends: Callable[[], bool]) -> None:
        """Read and deliver until it ends."""
        self._clock.sync()
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(THREADS, thread_name_prefix="loop")
        )
        parts, secrets = self._parts, SecretTexts(self._read_secret)
        await asyncio.to_thread(self._stores.renew)
        async with StreamClient(
            self._allow_private, self._may_ask, clock=self._clock, is_store=self._stores.has
        ) as client:

            def open_reader(
                name: str,
                channel: Channel,
                planned: Callable[[], Planned],
                tell: Callable[[str, str], None],
            ) -> Reader:
                if channel.kind is ChannelKind.X:
                    return self._x_reader(name, channel, planned, tell, client, secrets)
                return NdjsonReader(
                    name,
                    channel,
                    client,
                    secrets,
                    clock=self._clock,
                    user_agent=parts.config.current().stage.user_agent,
                    filter_text=planned().filter_text,
                    tell=lambda fault: tell(fault.end, fault.message),
                )

            ledgers = QuotaLedgers(RedisQuotaLedgers(parts.redis), MongoCeilings(parts.nodes))
            meter = Metering(ledgers, self._worker, asyncio.to_thread, self._clock)
            runner = StreamRunner(
                self._worker,
                subscriptions=MongoSubscriptions(parts.nodes),
                workers=RedisWorkers(parts.redis, fleet=FLEET, liveness=LIVENESS),
                stores=Stores(
                    holds=RedisHolds(parts.redis),
                    cursors=MongoCursors(parts.nodes),
                    accepting=MongoAccepting(parts.nodes),
                    meter=meter,
                    clock=self._clock,
                    tally=self._seen.tally,
                ),
                terms=self._terms,
                open_reader=open_reader,
                status=self._status,
                closing=Closing(ledgers, meter.is_over),
            )
            metering = asyncio.ensure_future(meter.run())
            seen = self._seen
            reporting = asyncio.ensure_future(seen.report(runner.report))
            feeds = asyncio.ensure_future(
                read_feeds(
                    *(parts, self._worker, self._clock, self._stores, self._terms, ends),
                    *(seen.tally, seen.of_feeds),
                    *(meter, ledgers),
                    client,
                )
            )
            stop = threading.Event()
            delivering = threading.Thread(target=deliverer.run, args=(self._deliverer(), stop))
            delivering.start()
            try:
                await runner.run(lambda: ends() or feeds.done())
                await feeds
            finally:
                stop.set()
                tasks = reporting, feeds, metering
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                # What is left of shares is others' at once.
                await meter.close()
                await asyncio.to_thread(delivering.join)
                await asyncio.to_thread(seen.keep, runner.report())

    def _x_reader(
        self,
        name: str,
        channel: Channel,
        planned: Callable[[], Planned],
        tell: Callable[[str, str], None],
        client: StreamClient,
        secrets: SecretTexts,
    ) -> XReader:
        plan, token = channel.plan, Token(secrets, channel.secret)
        user_agent = self._parts.config.current().stage.user_agent
        return XReader(
            name,
            XApi(client, channel.url, token.headers, clock=self._clock, user_agent=user_agent),
            lambda: planned().filters,
            RuleLimits(characters=plan.characters, rules=plan.rules),
            token.is_replaced,
            clock=self._clock,
            backfill_minutes=plan.backfill_minutes,
            silent_seconds=channel.silence_seconds,
            tell=lambda fault: tell(fault.end, fault.message),
            note=lambda message: tell("rules", message),
        )


def main() -> None:
    """Read and deliver the streams of this environment's stage until a signal ends it."""
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: ended.append(got))
    settings = Settings.from_environment(needs=(Need.REDIS, Need.NODES))
    readers = StreamReaders(Parts(settings, "streams"))
    asyncio.run(readers.run(lambda: bool(ended)))


if __name__ == "__main__":
    main()
