"""The consumer: one worker over the parts, in an event loop of its own.

What a worker reads of itself, by where it runs.

The ports of jobs that wait for a worker, where a stage has bidding.

A worker's part in how many there are, of its own pool and of the others.
"""

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
from crawlfleet.apps.process import keep_memory
from crawlfleet.apps.readers import REGISTRY, carry_spiders, check_reader
from crawlfleet.apps.rounds import (
    advancing_ports,
    cancelling_ports,
    open_reaper,
    open_recovery,
    seeding_ports,
)
from crawlfleet.crawling.executors.runner import SpiderExecutors
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.fetching.cookies import RedisSessions
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.fetching.models import Fetcher
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.records.pipeline import DataProcessor
from crawlfleet.crawling.records.redis import RedisCoverages, RedisDataQueue
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.fleet.models import WorkReport
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.fleet.resources import MachineReadings, Readings, function_memory_mb
from crawlfleet.fleet.scaling import PoolScaling
from crawlfleet.jobs.bidding.auction import JobAuction
from crawlfleet.jobs.bidding.bidder import Bidder
from crawlfleet.jobs.bidding.prober import HttpProber
from crawlfleet.jobs.bidding.probing import LinkProber, RedisProbeCache
from crawlfleet.jobs.bidding.redis import RedisBoard
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.kernel.time import Clock
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.worker.session import WorkerServices
from crawlfleet.worker.usage_meter import Idle
from crawlfleet.worker.worker import Worker


def machine_readings(parts: Parts) -> MachineReadings:
    """Of this machine; the pool's memory counts where it is less than the function's."""
    settings = parts.settings
    reported = [pool.memory_mb for pool in settings.pools if pool.name == settings.pool]
    return MachineReadings(
        lambda_mb=function_memory_mb(os.environ), reported_mb=reported[0] if reported else None
    )


def awarding_ports(parts: Parts, detector: RedisFailureDetector) -> JobAuction:
    """What every worker and the scheduler award by."""
    return JobAuction(
        jobs=MongoJobs(parts.nodes),
        board=RedisBoard(parts.redis),
        demands=MongoDemands(parts.nodes),
        detector=detector,
        say=parts.log.info,
    )


def bidder_of(
    parts: Parts,
    awarding: JobAuction,
    prober: HttpProber,
    *,
    hosts: RedisHosts,
    robots: RedisRobotsCache,
    fetcher: Fetcher,
    readings: Readings,
    clock: Clock,
) -> Callable[..., Bidder]:
    """Make the factory of a worker's bidder; ``prober`` probes the links of its downloads."""
    link_prober = LinkProber(
        config=parts.config,
        hosts=hosts,
        robots=robots,
        fetcher=fetcher,
        prober=prober,
        cache=RedisProbeCache(parts.redis),
        clock=clock,
    )
    return partial(
        Bidder,
        config=parts.config,
        board=awarding.board,
        jobs=awarding.jobs,
        demands=awarding.demands,
        readings=readings,
        prober=link_prober,
        clock=clock,
    )


def pool_scaling(parts: Parts) -> PoolScaling:
    """Everything on the real parts, as a worker of ``settings.pool`` has it.

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
    """Whoever asks for a consumer here is one."""

    def wake(self, count: int) -> None:
        """It is awake."""


class Consumer:
    """What an environment keeps between its invocations."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._recovery = open_recovery(parts)
        self._rules = MongoRules(parts.nodes)
        self._extractor = RuleExtractor()
        self._executors = SpiderExecutors(REGISTRY, self._extractor)
        for problem in REGISTRY.problems:
            parts.log.warning("an executor cannot be used", extra={"problem": str(problem)})
        self._validator = SchemaValidator()
        self._hosts = RedisHosts(parts.redis)
        self._robots = RedisRobotsCache(parts.redis)
        self._sessions = RedisSessions(parts.redis)
        self._coverages = RedisCoverages(parts.redis)
        self._visits = MongoVisits(parts.nodes)
        submission = parts.submissions()
        if parts.settings.pool == MAIN_POOL:
            # This worker is what there is to wake. One of another pool wakes a usual one.
            submission = replace(submission, waker=_Awake())
        self._seeding = seeding_ports(parts, submission)
        self._draining = DataProcessor(
            queue=RedisDataQueue(parts.redis),
            store=parts.store,
            validator=self._validator,
            coverages=self._coverages,
            journal=self._recovery.journal,
        )
        self._advancing = advancing_ports(
            parts,
            replace(parts.submissions(), waker=_Awake()),
            self._seeding.seeds,
            self._recovery.detector,
        )
        self._scaling = pool_scaling(parts)
        self._cancelling = cancelling_ports(parts)
        self._readings, self._demands = machine_readings(parts), MongoDemands(parts.nodes)
        self._idle = Idle()
        self._awarding = awarding_ports(parts, self._recovery.detector)
        self._clock = ServerClock(parts.redis)

    def _read_secret(self, name: str) -> str:
        # The fetcher remembers it for some minutes; then a list that has changed is to be had.
        self._parts.secrets.forget(name)
        return self._parts.secrets.read(name)

    def answer(
        self, event: Mapping[str, Any], invocation: str, remaining: Callable[[], float]
    ) -> dict[str, object]:
        """What an event asks for: a trial, where it carries one; work, whatever else it says."""
        if "trial" not in event:
            return self.work(invocation, remaining)
        from crawlfleet.apps.readers import TrialParts, answer

        # A frozen environment's clock may have stood still.
        self._clock.sync()
        shared = TrialParts(
            hosts=self._hosts,
            robots=self._robots,
            executors=self._executors,
            validator=self._validator,
            clock=self._clock,
            read_secret=self._read_secret,
        )
        return answer(self._parts, shared, event, invocation)

    def work(self, worker: str, remaining: Callable[[], float]) -> dict[str, object]:
        """Work until idle or nearly out of time; returns the report as plain values."""
        report = asyncio.run(self._work(worker, remaining))
        self._parts.log.info("worked", extra={"report": msgspec.to_builtins(report)})
        found: dict[str, object] = msgspec.to_builtins(report)
        return found

    async def _work(self, worker: str, remaining: Callable[[], float]) -> WorkReport:
        parts = self._parts
        # A frozen environment's clocks may have stood still.
        self._clock.sync()
        # asyncio's own number follows the processors, of which a function may have one.
        asyncio.get_running_loop().set_default_executor(
            ThreadPoolExecutor(THREADS, thread_name_prefix="loop")
        )
        allow_private = parts.config.current().stage.allow_private_addresses
        async with AiohttpFetcher(
            allow_private,
            sessions=self._sessions,
            read_secret=self._read_secret,
            source_address=parts.settings.source_address,
        ) as fetcher:
            services = WorkerServices(
                config=parts.config,
                queue=parts.queue,
                store=parts.store,
                rules=self._rules,
                workers=self._scaling.workers,
                book=self._recovery.book,
                scaling=self._scaling,
                reaper=open_reaper(self._recovery, self._hosts),
                recovery=self._recovery,
                hosts=self._hosts,
                robots=self._robots,
                fetcher=fetcher,
                extractor=self._extractor,
                executors=self._executors,
                validator=self._validator,
                coverages=self._coverages,
                visits=self._visits,
                seeding=self._seeding,
                draining=self._draining,
                cancelling=self._cancelling,
                advancing=self._advancing,
                readings=self._readings,
                demands=self._demands,
                idle=self._idle,
                bidder=bidder_of(
                    parts,
                    self._awarding,
                    HttpProber(
                        allow_private,
                        read_secret=self._read_secret,
                        source_address=parts.settings.source_address,
                    ),
                    hosts=self._hosts,
                    robots=self._robots,
                    fetcher=fetcher,
                    readings=self._readings,
                    clock=self._clock,
                ),
                awarding=self._awarding,
                clock=self._clock,
                remaining=remaining,
                jitter=random.random,
                pool=parts.settings.pool,
            )
            return await Worker(services, worker).run()


@lru_cache(maxsize=1)
def consumer(open_parts: Callable[..., Parts] = Parts) -> Consumer:
    """The consumer of this environment."""
    settings = Settings.from_environment(
        needs=(Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
    )
    carry_spiders(settings.scrapy_packages)
    made = Consumer(open_parts(settings, "consumer", check_reader))
    keep_memory()
    return made
