"""The consumer: one worker over the parts, in an event loop of its own."""

import asyncio
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from crawlfleet.adapters.http_fetcher import AiohttpFetcher
from crawlfleet.adapters.http_prober import HttpProber
from crawlfleet.adapters.mongo.demands import MongoDemands
from crawlfleet.adapters.mongo.rules import MongoRules
from crawlfleet.adapters.mongo.visits import MongoVisits
from crawlfleet.adapters.redis_queue.clock import ServerClock
from crawlfleet.adapters.redis_queue.coverages import RedisCoverages
from crawlfleet.adapters.redis_queue.data_queue import RedisDataQueue
from crawlfleet.adapters.redis_queue.hosts import RedisHosts
from crawlfleet.adapters.redis_queue.robots import RedisRobotsCache
from crawlfleet.adapters.redis_queue.sessions import RedisSessions
from crawlfleet.adapters.schema import SchemaValidator
from crawlfleet.executors.applying import SpiderExecutors
from crawlfleet.extract import RuleExtractor
from crawlfleet.flows.execution import Worker
from crawlfleet.flows.processing import DrainPorts
from crawlfleet.flows.run_meter import RunPorts
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.worker import WorkReport
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.bidding import applying_ports, awarding_ports
from crawlfleet.wiring.cancelling import cancelling_ports
from crawlfleet.wiring.jobs import advancing_ports
from crawlfleet.wiring.parts import Parts
from crawlfleet.wiring.process import keep_memory
from crawlfleet.wiring.readers import REGISTRY, carry_spiders, check_reader
from crawlfleet.wiring.readings import machine_readings
from crawlfleet.wiring.recoveries import recovery_ports, watch_ports
from crawlfleet.wiring.seeding import seeding_ports
from crawlfleet.wiring.staffing import staffing_ports
from crawlfleet.wiring.submissions import submission_ports

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
        self._recovery = recovery_ports(parts)
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
        submission = submission_ports(parts)
        if parts.settings.pool == MAIN_POOL:
            # This worker is what there is to wake. One of another pool wakes a usual one.
            submission = replace(submission, waker=_Awake())
        self._seeding = seeding_ports(parts, submission)
        self._draining = DrainPorts(
            queue=RedisDataQueue(parts.redis),
            store=parts.store,
            validator=self._validator,
            coverages=self._coverages,
            journal=self._recovery.journal,
            warn=parts.warn,
        )
        self._advancing = advancing_ports(
            parts,
            replace(submission_ports(parts), waker=_Awake()),
            self._seeding.seeds,
            self._recovery.watch,
        )
        self._staffing = staffing_ports(parts)
        self._cancelling = cancelling_ports(parts)
        self._runs = RunPorts(readings=machine_readings(parts), demands=MongoDemands(parts.nodes))
        self._awarding = awarding_ports(parts, self._recovery.watch)
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
        from crawlfleet.wiring.trials import TrialParts, answer

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
            ports = WorkPorts(
                config=parts.config,
                queue=parts.queue,
                store=parts.store,
                rules=self._rules,
                workers=self._staffing.workers,
                book=self._recovery.book,
                staffing=self._staffing,
                watching=watch_ports(self._recovery, self._hosts),
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
                runs=self._runs,
                applying=applying_ports(
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
                    readings=self._runs.readings,
                    clock=self._clock,
                ),
                awarding=self._awarding,
                clock=self._clock,
                remaining=remaining,
                jitter=random.random,
                warn=parts.warn,
                pool=parts.settings.pool,
            )
            return await Worker(ports, worker).run()


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
