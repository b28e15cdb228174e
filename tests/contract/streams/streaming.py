"""Readers of streams over real stores, and what delivery has of them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from msgspec.structs import replace

from tests.kit.config import Channel, Stage, StreamTerms, Tenant, Tree
from tests.kit.fetching import SecretTexts
from tests.kit.fleet import RedisWorkers
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.quotas import (
    MongoCeilings,
    Quota,
    QuotaLedgers,
    RedisQuotaLedgers,
    limits_of_channel,
    limits_of_items,
)
from tests.kit.redis import RedisConnection, ServerClock
from tests.kit.streams import (
    WHOLE,
    Closing,
    Metering,
    MongoAccepting,
    MongoCursors,
    NdjsonReader,
    RedisHolds,
    Source,
    Stores,
    StreamClient,
    StreamRunner,
    Taken,
    Terms,
)
from tests.kit.subscriptions import Content, MongoSubscriptions, StreamKind

#: Nobody is taken to be gone, and no hold ends, while a machine stands still for some seconds.
LIVENESS = timedelta(minutes=10)
LEASE_SECONDS = 600.0


class LongHolds(RedisHolds):
    """Holds that outlast a test, of channels that Redis has known for longer than a lease."""

    def __init__(self, redis: RedisConnection) -> None:
        super().__init__(redis, lease_seconds=LEASE_SECONDS, offer_seconds=LEASE_SECONDS)
        self._yesterday = RedisHolds(
            redis,
            clock=lambda: datetime.now(UTC) - timedelta(days=1),
            lease_seconds=LEASE_SECONDS,
        )

    def take(self, channel: str, worker: str) -> Taken:
        """Take a channel, which was asked for in vain a day ago."""
        assert self._yesterday.take(channel, worker).fence is None
        return super().take(channel, worker)


class Channels:
    """The channels of a stage that a test changes."""

    def __init__(self, urls: Mapping[str, str], **options: object) -> None:
        self.now = {
            name: Channel(kind="ndjson_stream", url=url, cursor_parameter="since", **options)
            for name, url in urls.items()
        }

        self.refused: set[str] = set()
        #: The quotas of every channel, and those of each user.
        self.quotas: tuple[Quota, ...] = ()
        self.user_quotas: tuple[Quota, ...] = ()

    def tree(self) -> Tree:
        """Say the quotas as documents do."""
        stage = Stage(
            streams=StreamTerms(
                channels={name: replace(one, quotas=self.quotas) for name, one in self.now.items()}
            )
        )
        return Tree(
            revision="",
            bizs={},
            stage=stage,
            tenants={"acme": Tenant(user_quotas=self.user_quotas)},
        )

    def __call__(self) -> Terms:
        refused = frozenset(self.refused)
        tree = self.tree()
        return Terms(
            channels=tree.stage.streams.channels,
            serves=lambda one: one.name not in refused,
            limits=partial(limits_of_items, tree),
            ceilings=partial(limits_of_channel, tree),
            revision=f"{sorted(refused)} {self.quotas} {self.user_quotas}",
        )


@asynccontextmanager
async def runner_of(
    redis: RedisConnection,
    nodes: NodesOnOneServer,
    worker: str,
    urls: Mapping[str, str] | Channels,
    *,
    fleet: str,
    liveness: timedelta = LIVENESS,
    **others: object,
) -> AsyncIterator[StreamRunner]:
    """A runner of one worker; the fleet's name keeps it apart from other tests'."""
    clock = ServerClock(redis)
    ledgers = QuotaLedgers(RedisQuotaLedgers(redis), MongoCeilings(nodes))
    meter = Metering(ledgers, worker, asyncio.to_thread, clock)
    metering = asyncio.ensure_future(meter.run())
    stores = Stores(
        holds=others.pop("holds", None) or LongHolds(redis),
        meter=meter,
        cursors=MongoCursors(nodes),
        accepting=others.pop("accepting", None) or MongoAccepting(nodes),
        clock=clock,
        steady=others.pop("steady", time.monotonic),
    )
    secrets = SecretTexts(lambda *_: "")
    async with StreamClient(lambda: True, lambda _: True, clock=clock) as client:

        def open_reader(name, channel, planned, tell):
            return NdjsonReader(
                name,
                channel,
                client,
                secrets,
                clock=clock,
                user_agent="Crawlfleet",
                filter_text=planned().filter_text,
                tell=lambda fault: tell(fault.end, fault.message),
            )

        yield StreamRunner(
            worker,
            subscriptions=MongoSubscriptions(nodes),
            workers=RedisWorkers(redis, fleet=fleet, liveness=liveness),
            stores=stores,
            terms=urls if isinstance(urls, Channels) else Channels(urls),
            open_reader=open_reader,
            closing=Closing(ledgers, meter.is_over),
        )
    metering.cancel()
    await asyncio.wait((metering,))
    await meter.close()


def long_known(redis: RedisConnection, channel: str) -> None:
    """Have Redis know a channel, which is read whole, since yesterday: it is granted at once."""
    yesterday = RedisHolds(redis, clock=lambda: datetime.now(UTC) - timedelta(days=1))
    assert yesterday.take(Source(channel, WHOLE).name, "nobody").fence is None


def known(redis: RedisConnection, *workers: str, fleet: str) -> None:
    """Have workers know each other before they begin: no source moves once it is read."""
    now = ServerClock(redis)()
    for worker in workers:
        RedisWorkers(redis, fleet=fleet, liveness=LIVENESS).beat(worker, now)


def subscribe(
    nodes: NodesOnOneServer, channel: str, name: str, text: str, **others: object
) -> None:
    content = Content(kind=StreamKind.NDJSON_STREAM, filter=text, channel=channel, **others)
    MongoSubscriptions(nodes).put("acme", "news", name, content, datetime.now(UTC), most=1_000)


def unsubscribe(nodes: NodesOnOneServer, name: str) -> None:
    MongoSubscriptions(nodes).end("acme", "news", name, datetime.now(UTC))


def delivered(nodes: NodesOnOneServer) -> Counter[str]:
    """Count deliveries by the name of their subscription."""
    found = nodes.control("stream_deliveries").find({}, ["name"])
    return Counter(one["name"] for one in found)
