"""The consumer: one worker over the parts, in an event loop of its own."""

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from crawlfleet.apps.context import Parts
from crawlfleet.apps.health import health_of, is_health_check
from crawlfleet.apps.process import keep_memory
from crawlfleet.apps.readers import carry_spiders, check_reader
from crawlfleet.apps.reading import PageReaders
from crawlfleet.apps.rounds import (
    open_auction,
    open_cancellation,
    open_job_rounds,
    open_quotas,
    open_reaper,
    open_recovery,
    open_seed_dispatcher,
)
from crawlfleet.apps.submissions import open_ceilings, open_submissions
from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.executors.registry import REGISTRY
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.fetching.proxies import Proxies
from crawlfleet.crawling.fetching.proxy_exchange import ProxyExchange
from crawlfleet.crawling.fetching.redis import RedisSessions
from crawlfleet.crawling.fetching.secrets import SecretTexts
from crawlfleet.crawling.fetching.stores import StoreAddresses
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.records.pipeline import DataProcessor
from crawlfleet.crawling.records.redis import RedisCoverages, RedisDataQueue
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.fleet.models import WorkReport
from crawlfleet.fleet.quotas.money import DEFAULT_GB
from crawlfleet.fleet.resources import MachineReadings, function_memory_mb
from crawlfleet.fleet.scaling import PoolScaling
from crawlfleet.jobs.bidding.bidder import Bidder
from crawlfleet.jobs.bidding.prober import HttpProber
from crawlfleet.jobs.bidding.probing import LinkProber, RedisProbeCache
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import (
    ConfigError,
    Problem,
)
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.worker.session import WorkerServices
from crawlfleet.worker.usage_meter import Idle
from crawlfleet.worker.worker import Worker


def pool_scaling(parts: Parts) -> PoolScaling:
    """Open the scaling of all pools, as a worker of ``settings.pool`` sees it.

    Raises:
        ConfigError: the worker's pool is none of those that the environment names.
    """
    settings = parts.settings
    pools = {
        pool.name: PoolScaling(
            targets=parts.targets,
            workers=parts.workers_of(pool.name),
            waker=parts.waker_of(pool.function),
            pool=pool.name,
        )
        for pool in settings.every_pool
    }
    own = pools.pop(settings.pool, None)
    if own is None:
        raise ConfigError([Problem(names.ENV_POOL, f"is none of the pools: {settings.pool}")])
    return replace(own, elsewhere=pools)


#: Threads of the loop's own: jars of cookies are exchanged there, and lists of proxies read.
THREADS: Final = 16


class _Awake:
    """Wakes nobody: whoever asks for a consumer here is one."""

    def wake(self, count: int) -> None:
        """Do nothing."""


class Consumer:
    """The consumer of one environment, kept between its invocations."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        settings = parts.settings
        for problem in REGISTRY.problems:
            parts.log.warning("an executor cannot be used", extra={"problem": str(problem)})
        self._readers = PageReaders(settings.scrapy_packages)
        self._validator = SchemaValidator()
        self._hosts = RedisHosts(parts.redis)
        self._robots = RedisRobotsCache(parts.redis)
        self._sessions = RedisSessions(parts.redis)
        self._clock = ServerClock(parts.redis)
        self._stores = StoreAddresses(parts.store_places)
        # The pool's memory counts where it is less than the function's.
        reported = [pool.memory_mb for pool in settings.pools if pool.name == settings.pool]
        self._readings = MachineReadings(
            lambda_mb=function_memory_mb(os.environ), reported_mb=reported[0] if reported else None
        )
        paid_mb = function_memory_mb(os.environ) or (reported[0] if reported else None)
        submission = open_submissions(parts)
        if settings.pool == MAIN_POOL:
            # This worker is what there is to wake. One of another pool wakes a usual one.
            submission = replace(submission, waker=_Awake())
        seeding, coverages = open_seed_dispatcher(parts, submission), RedisCoverages(parts.redis)
        recovery, scaling = open_recovery(parts), pool_scaling(parts)
        self._auction = open_auction(parts, recovery.detector)
        self._services = partial(
            WorkerServices,
            config=parts.config,
            queue=parts.queue,
            store=parts.store,
            rules=MongoRules(parts.nodes),
            workers=scaling.workers,
            book=recovery.book,
            scaling=scaling,
            reaper=open_reaper(recovery, self._hosts),
            recovery=recovery,
            hosts=self._hosts,
            robots=self._robots,
            validator=self._validator,
            coverages=coverages,
            ceilings=open_ceilings(parts),
            visits=MongoVisits(parts.nodes),
            seeding=seeding,
            draining=DataProcessor(
                queue=RedisDataQueue(parts.redis),
                store=parts.store,
                validator=self._validator,
                coverages=coverages,
                journal=recovery.journal,
            ),
            cancelling=open_cancellation(parts),
            advancing=open_job_rounds(
                parts,
                replace(open_submissions(parts), waker=_Awake()),
                seeding.seeds,
                recovery.detector,
            ),
            readings=self._readings,
            memory_gb=DEFAULT_GB if paid_mb is None else paid_mb / 1024,
            demands=MongoDemands(parts.nodes),
            quotas=open_quotas(parts),
            idle=Idle(),
            awarding=self._auction,
            clock=self._clock,
            jitter=random.random,
            pool=settings.pool,
        )

    def _allow_private(self) -> bool:
        """Tell whether the stage switches the check of addresses off."""
        return self._parts.config.current().stage.allow_private_addresses

    def _reading(self) -> ReadingLimits:
        return self._parts.config.current().stage.reading

    def _may_ask(self, port: int) -> bool:
        """Tell whether the stage allows a port of sites."""
        return self._parts.config.current().stage.may_ask(port)

    def answer(
        self, event: Mapping[str, Any], invocation: str, remaining: Callable[[], float]
    ) -> dict[str, object]:
        """Answer a health check, where the event asks for one; work otherwise."""
        if is_health_check(event):
            return health_of(
                names.CONSUMER, self._parts, REGISTRY.names(), self._readers.defences(self._reading)
            )
        return self.work(invocation, remaining)

    def close(self) -> None:
        """End the process that reads pages."""
        self._readers.close()

    def work(self, worker: str, remaining: Callable[[], float]) -> dict[str, object]:
        """Work until idle or nearly out of time; returns the report as plain values."""
        report = asyncio.run(self._work(worker, remaining))
        self._parts.log.info("worked", extra={"report": msgspec.to_builtins(report)})
        found: dict[str, object] = msgspec.to_builtins(report)
        return found

    async def _work(self, worker: str, remaining: Callable[[], float]) -> WorkReport:
        # A frozen environment's clocks may have stood still.
        self._clock.sync()
        # asyncio's own number follows the processors, of which a function may have one.
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(THREADS, thread_name_prefix="loop")
        )
        parts = self._parts
        exchange = ProxyExchange()
        leave_by: dict[str, Any] = {
            "proxies": Proxies(parts.read_secret, exchange),
            "source_address": parts.settings.source_address,
            "may_ask": self._may_ask,
            "is_store": self._stores.has,
        }
        await asyncio.to_thread(self._stores.renew)
        guard = self._allow_private
        secrets = SecretTexts(parts.read_tenant_secret)
        async with (
            self._readers.reader(self._reading) as reader,
            AiohttpFetcher(guard, sessions=self._sessions, secrets=secrets, **leave_by) as fetcher,
        ):
            link_prober = LinkProber(
                config=parts.config,
                hosts=self._hosts,
                robots=self._robots,
                fetcher=fetcher,
                prober=HttpProber(guard, **leave_by),
                cache=RedisProbeCache(parts.redis),
                clock=self._clock,
            )
            bidder = partial(
                Bidder,
                config=parts.config,
                board=self._auction.board,
                jobs=self._auction.jobs,
                demands=self._auction.demands,
                readings=self._readings,
                prober=link_prober,
                clock=self._clock,
            )
            services = self._services(
                fetcher=fetcher,
                reader=reader,
                bidder=bidder,
                remaining=remaining,
                secrets=secrets,
                tracer=parts.tracer,
                proxies=exchange,
            )
            return await Worker(services, worker).run()


@lru_cache(maxsize=1)
def consumer(open_parts: Callable[..., Parts] = Parts) -> Consumer:
    """Open the consumer of this environment."""
    settings = Settings.from_environment(
        needs=(Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
    )
    carry_spiders(settings.scrapy_packages)
    made = Consumer(open_parts(settings, "consumer", check_reader))
    keep_memory()
    return made
