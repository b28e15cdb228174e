"""Sessions: the services that a worker works on, and what the parts of one invocation share."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, ParamSpec, TypeAlias, TypeVar

from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.crawling.fetching.models import Fetcher
from crawlfleet.crawling.fetching.proxy_exchange import ProxyExchange
from crawlfleet.crawling.fetching.secrets import SecretTexts, nothing_reads
from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
from crawlfleet.crawling.frontier.worker import FrontierClient
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.reading.reader import PageReader
from crawlfleet.crawling.records.coverage import together
from crawlfleet.crawling.records.pipeline import DataProcessor
from crawlfleet.crawling.records.redis import RedisCoverages
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.fleet.models import WorkReport
from crawlfleet.fleet.quotas.money import DEFAULT_GB
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.quotas.spending import Spending
from crawlfleet.fleet.recovery.reaper import Reaper
from crawlfleet.fleet.recovery.service import Recovery
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.fleet.resources import MachineReadings
from crawlfleet.fleet.scaling import PoolScaling
from crawlfleet.jobs.bidding.auction import JobAuction
from crawlfleet.jobs.bidding.bidder import Bidder
from crawlfleet.jobs.cancellation import JobCancellation
from crawlfleet.jobs.completion import JobRounds
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.kernel.fairness import FairParts
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.kernel.time import (
    PAUSES,
    STEADY,
    Clock,
    Pauses,
    SteadyTime,
    TimeLeft,
    from_ms,
    to_ms,
)
from crawlfleet.kernel.tracing import NO_TRACER, Tracer
from crawlfleet.requests.ceilings.service import TenantCeilings
from crawlfleet.requests.models import Coverage
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.redis.recovery import RedisLeaseBook
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.worker.in_flight import InFlight, Stopper
from crawlfleet.worker.shares import SETTLED_QUEUES, TenantShares, TenantSlots
from crawlfleet.worker.tracing import Traces
from crawlfleet.worker.usage_meter import Idle

#: With this much of the Lambda's time left no more is leased, and what waits is handed back.
HAND_BACK: Final = timedelta(seconds=25)
#: With this much left downloads that still run, and stores that are away, are given up.
GIVE_UP: Final = timedelta(seconds=10)
#: Calls that may block at once: batches of outcomes, and one for each part that runs beside: lease,
#: renew, account, reap, recover, seeds, items, jobs, throughput, cancellations, their sweep, usage,
#: awards, bids, quotas.
THREADS: Final = SETTLED_QUEUES + 15
#: Files for robots that are read at once: each keeps the processor busy.
PARSED_AT_ONCE: Final = 2
#: Pages of spiders that are read at once: the reader holds all of each.
MOST_BEGUN: Final = 8

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerServices:
    """The services that a worker works on.

    ``remaining`` is the Lambda's time left, in seconds; ``jitter`` gives a number from 0 to 1;
    ``pool`` is the worker's. Its waits go by ``steady``, and are as long as ``pauses`` says.
    It is paid for ``memory_gb``.
    ``idle`` is kept by the process, for all its workers; ``proxies`` is what ``fetcher`` leaves by.
    """

    config: SsmConfig
    queue: RedisQueue
    store: MongoRequestStore
    rules: MongoRules
    workers: RedisWorkers
    book: RedisLeaseBook
    scaling: PoolScaling
    reaper: Reaper
    recovery: Recovery
    hosts: RedisHosts
    robots: RedisRobotsCache
    fetcher: Fetcher
    reader: PageReader
    validator: SchemaValidator
    coverages: RedisCoverages
    visits: MongoVisits
    seeding: SeedDispatcher
    draining: DataProcessor
    cancelling: JobCancellation
    advancing: JobRounds
    readings: MachineReadings
    demands: MongoDemands
    quotas: QuotaLedgers
    bidder: Callable[..., Bidder]
    awarding: JobAuction
    ceilings: TenantCeilings
    clock: Clock
    remaining: TimeLeft
    jitter: Callable[[], float]
    idle: Idle = field(default_factory=Idle)
    tracer: Tracer = NO_TRACER
    proxies: ProxyExchange = field(default_factory=ProxyExchange)
    secrets: SecretTexts = field(default_factory=partial(SecretTexts, nothing_reads))
    pool: str = MAIN_POOL
    memory_gb: float = DEFAULT_GB
    pauses: Pauses = PAUSES
    steady: SteadyTime = STEADY


#: A queue, and the name and version of a rule.
CoverageKey: TypeAlias = tuple[QueueKey, str, str]


class Account:
    """Seconds by queue and phase, and field coverage by rule, since they were last taken."""

    def __init__(self, shares: TenantShares) -> None:
        self._shares = shares
        self._spent: dict[QueueKey, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._coverage: dict[CoverageKey, Coverage] = {}

    def add(self, queue_key: QueueKey, phase: str, seconds: float) -> None:
        """Add seconds to a phase; its tenant took them. Threads may call this."""
        self._shares.spend(queue_key, phase, seconds)
        self._spent[queue_key][phase] += seconds

    def count(self, key: CoverageKey, coverage: Coverage) -> None:
        """Add the coverage of a page."""
        before = self._coverage.get(key)
        self._coverage[key] = coverage if before is None else together(before, coverage)

    def take_phases(self) -> dict[QueueKey, dict[str, float]]:
        """Return the seconds since the last call."""
        spent, self._spent = self._spent, defaultdict(lambda: defaultdict(float))
        return spent

    def take_coverage(self) -> dict[CoverageKey, Coverage]:
        """Return the coverage since the last call."""
        found, self._coverage = self._coverage, {}
        return found


class Session:
    """The state of an invocation: its services and report, and the requests in flight."""

    def __init__(self, services: WorkerServices, worker: str) -> None:
        self.services = services
        self.worker = worker
        self.report = WorkReport(worker=worker)
        self.shares = TenantShares(services.steady)
        self.in_flight = InFlight(self.shares.holds)
        self.stopper = Stopper()
        self.account = Account(self.shares)
        self._parsers = TenantSlots(PARSED_AT_ONCE, self.shares.first, self.is_shared)
        #: Pages of spiders that are being read.
        self.begun = TenantSlots(
            MOST_BEGUN,
            self.shares.first,
            self.is_shared,
            self.shares.share,
            FairParts(services.steady.now),
        )
        self.traces = Traces(services.tracer)
        self.frontier = FrontierClient(services.seeding, services.clock, services.steady)
        self.spending = Spending(
            services.quotas,
            worker,
            services.config.current,
            services.cancelling.jobs.quota_terms,
            self.threaded,
            services.clock,
            services.steady,
            services.pool,
            services.memory_gb,
        )
        # Not the loop's own pool: name look-ups wait there, and a slow name server must not keep
        # leases from being renewed.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="parts")

    @property
    def limits(self) -> FleetLimits:
        """Return the limits that are in force now."""
        return self.services.config.current().stage.fleet

    def is_shared(self) -> bool:
        """Tell whether several tenants have requests in flight here."""
        return len(self.in_flight.by_tenant()) > 1

    def lease_end(self) -> datetime:
        """Return when a lease ends that is taken or renewed now, to the millisecond."""
        ends_at = self.services.clock() + timedelta(seconds=self.limits.lease_seconds)
        return from_ms(to_ms(ends_at))

    def time_left(self) -> float:
        """Return the seconds until waiting requests are handed back."""
        return self.services.remaining() - HAND_BACK.total_seconds()

    async def threaded(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call what blocks without stopping the event loop."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def parsed(
        self, tenant: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call in a thread what keeps the processor busy, in its tenant's turn and at its cost."""

        def charged() -> R:
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.shares.charge(tenant, time.thread_time() - began)

        async with self._parsers.of(tenant):
            return await self.threaded(charged)

    async def call(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call what blocks; its failure is warned of and does not stop the work."""
        await self.threaded(lambda: safely(function, *args, **kwargs))

    def close(self) -> None:
        """Take no further calls; those under way are not waited for."""
        self._threads.shutdown(wait=False)


def safely(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function whose failure is warned of and does not stop the work."""
    try:
        function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  that is what this is for
        warn("a part did not answer", error)
