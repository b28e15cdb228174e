"""Read feeds in the process that reads streams: politely, parsed in a process of their own."""

import asyncio
from collections.abc import Callable

from crawlfleet.apps.context import Parts
from crawlfleet.apps.reading import PageReaders
from crawlfleet.config.lookup import share_of
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.fetching.stores import StoreAddresses
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.delivery.figures import Tally
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.feeds.fetching import PoliteFeeds
from crawlfleet.streams.feeds.hubs import HubSubscriber
from crawlfleet.streams.feeds.mongo import MongoFeeds, MongoHubs
from crawlfleet.streams.feeds.reader import FeedReader, parsed_by
from crawlfleet.streams.http.connection import StreamClient
from crawlfleet.streams.reading.closing import Closing
from crawlfleet.streams.reading.feeds import LOOK_SECONDS, FeedRunner
from crawlfleet.streams.reading.metering import Metering
from crawlfleet.streams.reading.runner import Terms
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions


async def read_feeds(
    parts: Parts,
    worker: str,
    clock: Clock,
    stores: StoreAddresses,
    terms: Callable[[], Terms],
    ends: Callable[[], bool],
    tally: Tally,
    told: Callable[[FeedRunner], None],
    meter: Metering,
    ledgers: QuotaLedgers,
    client: StreamClient,
) -> None:
    """Read feeds until it ends; without a subscription to one nothing is opened for them.

    ``told`` gets the runner, for its figures.
    """
    runner = FeedRunner(
        subscriptions=MongoSubscriptions(parts.nodes),
        accepting=MongoAccepting(parts.nodes),
        clock=clock,
        terms=terms,
        tally=tally,
        meter=meter,
        closing=Closing(ledgers, meter.is_over),
    )
    told(runner)
    while not runner.is_needed:
        if ends():
            return
        await runner.look()
        await asyncio.sleep(LOOK_SECONDS)
    config = parts.config
    pages = PageReaders(parts.settings.scrapy_packages)

    def may_ask(port: int) -> bool:
        return config.current().stage.may_ask(port)

    fetcher = AiohttpFetcher(
        lambda: config.current().stage.allow_private_addresses,
        may_ask=may_ask,
        is_store=stores.has,
        clock=clock,
    )
    try:
        async with fetcher, pages.reader(lambda: config.current().stage.reading) as parser:
            polite = PoliteFeeds(
                *(config, RedisHosts(parts.redis), RedisRobotsCache(parts.redis)),
                *(fetcher, clock, worker),
            )
            store, parse = MongoFeeds(parts.nodes), parsed_by(parser)
            hubs = HubSubscriber(
                store,
                MongoHubs(parts.nodes),
                client,
                lambda: config.current().stage.streams.hub_callback or "",
                lambda: config.current().stage.user_agent,
                clock,
            )
            await runner.run(
                lambda wanted: FeedReader(
                    *(store, polite.download, parse, wanted, clock),
                    tenants=lambda: runner.tenants,
                    share=lambda tenant: share_of(config.current(), tenant),
                    hubs=hubs,
                ),
                ends,
            )
    finally:
        pages.close()
