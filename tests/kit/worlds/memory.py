"""A whole platform in memory, with a clock that only the test moves."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from tests.fakes.bidding import MemoryBoard, MemoryProbeCache, MemoryProber
from tests.fakes.ceilings import MemoryCeilings, MemorySizes
from tests.fakes.fetching import MemoryFetcher
from tests.fakes.fleet import MemoryFailureDetector, MemoryPoolBook, MemoryReadings, MemoryWorkers
from tests.fakes.frontier import MemorySeedFilter, MemorySeeds
from tests.fakes.job_ends import MemoryCancellations, MemoryDemands, MemoryOrphanedJobs
from tests.fakes.jobs import MemoryJobs
from tests.fakes.ledger import MemoryJournal, MemoryLedgers
from tests.fakes.politeness import MemoryHosts, MemoryRobotsCache
from tests.fakes.queue import MemoryOverview, MemoryQueue
from tests.fakes.quotas import MemoryQuotaCeilings, MemoryQuotaLedgers
from tests.fakes.reading import MemoryPageReader
from tests.fakes.records import MemoryCoverages, MemoryDataQueue
from tests.fakes.recovery import MemoryLeaseBook, MemoryLeaseRevocation, MemoryQueueRebuild
from tests.fakes.recrawl import MemoryVisits
from tests.fakes.requests import MemoryRequestStore, MemoryRules
from tests.fakes.scaling import MemoryLimit, MemoryQueueSampler, MemoryScalingTargets
from tests.fakes.schedules import MemorySchedules
from tests.fakes.submission import MemoryIntake, MemorySubmissionKeys
from tests.kit.bidding import Bidder, JobAuction, LinkProber, Probe
from tests.kit.ceilings import TenantCeilings, TenantSizesBook
from tests.kit.config import (
    Biz,
    Field,
    FleetLimits,
    Generation,
    HostLimits,
    Politeness,
    RetryLimits,
    Robots,
    Rule,
    Stage,
    Tenant,
    Tree,
)
from tests.kit.fleet import Forecast, PoolScaling, Scaling
from tests.kit.frontier import SeedDispatcher, SeededJobs
from tests.kit.jobs import (
    JobCancellation,
    JobExpansion,
    JobRounds,
    RunUsage,
)
from tests.kit.kernel import FetchError, QueueKey
from tests.kit.quotas import QuotaDemand, QuotaLedgers, Standing, limits_of
from tests.kit.records import DataProcessor, SchemaValidator
from tests.kit.recovery import Reaper, Recovery
from tests.kit.requests import Ledger
from tests.kit.submission import Submissions, Tracking
from tests.kit.warned import Warned
from tests.kit.worker import Pauses, SteadyTime, WorkerServices
from tests.kit.worlds.doubles import Ids, Lines, Titles
from tests.steady import SteadyClock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DOCS = QueueKey("default", "docs", "main")
OTHER = QueueKey("acme", "docs", "main")
#: Politeness that is at work and keeps nobody waiting.
UNBOUND = HostLimits(per_second=100_000, concurrency=10_000)
#: A worker that takes no pauses that a test would have to wait for.
QUICK = Pauses(
    poll=0.005,
    kept=0.01,
    trouble=0.01,
    rest=0.01,
    settle=0.005,
    settle_again=0.01,
    report_throughput=0.01,
)
RULE = Rule(fields={"title": Field(css="title")})


def make_biz(**changes: object) -> Biz:
    settings: dict[str, object] = {
        "generations": (
            Generation(
                starts_at=START - timedelta(days=30), nodes=("main",), databases=("docs",), shards=2
            ),
        ),
        "rules": {"page": RULE},
        "retry": RetryLimits(max_attempts=3, base_seconds=10, max_seconds=60),
        "states": {"reviewed": 100},
        # What is asked for is what is submitted; politeness has tests of its own.
        "politeness": Politeness(robots=Robots.IGNORE),
    }
    return Biz(**(settings | changes))  # type: ignore[arg-type]


def make_tree(biz: Biz | None = None, **fleet: object) -> Tree:
    biz = biz or make_biz()
    limits: dict[str, object] = {"concurrency": 4, "batch": 5, "idle_seconds": 0.0}
    return Tree(
        revision="1",
        stage=Stage(fleet=FleetLimits(**(limits | fleet)), hosts=UNBOUND),  # type: ignore[arg-type]
        tenants={"default": Tenant(), "acme": Tenant(api_keys=("acme-key",))},
        bizs={"default": {"docs": biz}, "acme": {"docs": biz}},
    )


@cache
def _steady_clock() -> SteadyClock:
    return SteadyClock().__enter__()


@dataclass
class World:
    """Ports in memory. Replace one with another to see what a fault does."""

    tree: Tree = field(default_factory=make_tree)
    now: datetime = START
    ids: Ids = field(default_factory=Ids)
    store: MemoryRequestStore = field(default_factory=MemoryRequestStore)
    queue: MemoryQueue = field(default_factory=MemoryQueue)
    rules: MemoryRules = field(default_factory=MemoryRules)
    workers: MemoryWorkers = field(default_factory=MemoryWorkers)
    schedules: MemorySchedules = field(default_factory=MemorySchedules)
    pauses: Pauses = QUICK
    woken: list[int] = field(default_factory=list)
    warned: Warned = field(default_factory=Warned)

    def __post_init__(self) -> None:
        # The clock that stands for the server's is the test's too.
        self.workers = MemoryWorkers(clock=self.clock)
        self.detector = MemoryFailureDetector(self.workers)
        self.targets = MemoryScalingTargets(self.workers)
        self.sampler = MemoryQueueSampler(self.queue)
        self.overview = MemoryOverview(self.queue)
        self.limit = MemoryLimit(100)
        self.rebuild = MemoryQueueRebuild(self.queue)
        self.book = MemoryLeaseBook(self.queue)
        self.revocation = MemoryLeaseRevocation(self.store.state)
        self.journal = MemoryJournal()
        self.pools = MemoryPoolBook()
        self.keys = MemorySubmissionKeys()
        self.intake = MemoryIntake(self.queue)
        self.permits = MemoryCeilings(clock=self.clock)
        self.sizes = MemorySizes()
        self.hosts = MemoryHosts(clock=self.clock)
        self.quota_ceilings = MemoryQuotaCeilings()
        self.quota_ledgers = MemoryQuotaLedgers(clock=self.clock)
        self.quotas = QuotaLedgers(self.quota_ledgers, self.quota_ceilings)  # type: ignore[arg-type]
        self.cancellations = MemoryCancellations(clock=self.clock)
        self.jobs = MemoryJobs()
        self.orphaned = MemoryOrphanedJobs(self.jobs)
        self.robots = MemoryRobotsCache(clock=self.clock)
        self.coverages = MemoryCoverages()
        self.visits = MemoryVisits()
        self.demands = MemoryDemands()
        self.readings = MemoryReadings()
        self.seeds = MemorySeeds(clock=self.clock)
        self.seed_filter = MemorySeedFilter()
        self.data = MemoryDataQueue()
        self.board = MemoryBoard()
        self.said: list[str] = []
        # Leases, silences and turns go by a clock that a machine's standing still stops.
        self.steady = SteadyTime(now=_steady_clock())

    @property
    def biz(self) -> Biz:
        return self.tree.bizs["default"]["docs"]

    @property
    def ledgers(self) -> MemoryLedgers:
        return MemoryLedgers(self.store.state)

    def ledger(self, queue_key: QueueKey = DOCS) -> Ledger:
        """The queue's ledger, which must balance whenever it is asked for."""
        found = self.ledgers.audit(queue_key, self.biz, self.now)
        assert found.difference == 0
        return found

    def clock(self) -> datetime:
        return self.now

    def pace(self, **pauses: float) -> None:
        """Have workers pause for so long from now on."""
        self.pauses = dataclasses.replace(self.pauses, **pauses)

    def current(self) -> Tree:
        return self.tree

    def follow(self) -> None:
        """Do nothing: a test's configuration is in force at once."""

    def unfollow(self) -> None:
        """Do nothing."""

    def wake(self, count: int) -> None:
        self.woken.append(count)

    @property
    def warnings(self) -> list[str]:
        return self.warned.texts

    def ceilings(self) -> TenantCeilings:
        """The ceilings as one more process opens them; their time is the test's."""

        def passed() -> float:
            return (self.now - START).total_seconds()

        steady = SteadyTime(passed)
        book = TenantSizesBook(
            redis=self.permits,  # type: ignore[arg-type]
            stored=self.sizes,  # type: ignore[arg-type]
            open=self.queue.open,  # type: ignore[arg-type]
            steady=steady,
        )
        return TenantCeilings(redis=self.permits, sizes=book, steady=steady)  # type: ignore[arg-type]

    def submission(self, **changes: object) -> Submissions:
        ports: dict[str, object] = {
            "ids": self.ids,
            "store": self.store,
            "queue": self.queue,
            "rules": self.rules,
            "workers": self.workers,
            "keys": self.keys,
            "intake": self.intake,
            "ceilings": self.ceilings(),
            "waker": self,
        }
        return Submissions(**(ports | changes))  # type: ignore[arg-type]

    def tracking(self) -> Tracking:
        return Tracking(store=self.store, ledgers=self.ledgers, queue=self.queue)

    def reaper(self, **changes: object) -> Reaper:
        ports: dict[str, object] = {
            "detector": self.detector,
            "book": self.book,
            "queue": self.queue,
            "hosts": self.hosts,
            "revocation": self.revocation,
            "journal": self.journal,
        }
        return Reaper(**(ports | changes))  # type: ignore[arg-type]

    def recovery(self, **changes: object) -> Recovery:
        ports: dict[str, object] = {
            "store": self.store,
            "ledgers": self.ledgers,
            "revocation": self.revocation,
            "queue": self.queue,
            "rebuild": self.rebuild,
            "book": self.book,
            "detector": self.detector,
            "journal": self.journal,
            "pools": self.pools,
        }
        return Recovery(**(ports | changes))  # type: ignore[arg-type]

    def target(self, **changes: object) -> PoolScaling:
        ports: dict[str, object] = {
            "targets": self.targets,
            "workers": self.workers,
            "waker": self,
        }
        return PoolScaling(**(ports | changes))  # type: ignore[arg-type]

    def standings(self, biz: str, tenant: str = "default") -> list[Standing]:
        """How the quotas stand that work of a biz is under."""
        return self.quotas.standings(limits_of(self.tree, tenant, biz), self.now)

    def ahead(self, **changes: object) -> Forecast:
        ports: dict[str, object] = {
            "sampler": self.sampler,
            "overview": self.overview,
            "data": self.data,
            "hosts": self.hosts,
            "store": self.store,
            "jobs": self.jobs,
            "quotas": QuotaDemand(self.quotas, self.jobs.quota_terms),
        }
        return Forecast(**(ports | changes))  # type: ignore[arg-type]

    def scaling(self, **changes: object) -> Scaling:
        ports: dict[str, object] = {
            "forecast": self.ahead(),
            "targets": self.targets,
            "workers": self.workers,
            "waker": self,
            "limit": self.limit,
        }
        return Scaling(**(ports | changes))  # type: ignore[arg-type]

    def seeding(self, jobs: SeededJobs | None = None) -> SeedDispatcher:
        return SeedDispatcher(
            seeds=self.seeds, filter=self.seed_filter, submission=self.submission(), jobs=jobs
        )

    def draining(self) -> DataProcessor:
        return DataProcessor(
            queue=self.data,
            store=self.store,
            validator=SchemaValidator(),
            coverages=self.coverages,
            journal=self.journal,
        )

    def usage(self) -> RunUsage:
        return RunUsage(demands=self.demands, jobs=self.jobs)

    def cancelling(self, **changes: object) -> JobCancellation:
        ports: dict[str, object] = {
            "jobs": self.jobs,
            "store": self.store,
            "ledgers": self.ledgers,
            "cancellations": self.cancellations,
            "usage": self.usage(),
        }
        return JobCancellation(**(ports | changes))  # type: ignore[arg-type]

    def expanding(self, jobs: object = None, **changes: object) -> JobExpansion:
        return JobExpansion(
            jobs=jobs or self.jobs,  # type: ignore[arg-type]
            ledgers=self.ledgers,
            submission=self.submission(**changes),
        )

    def advancing(self, **changes: object) -> JobRounds:
        ports: dict[str, object] = {
            "jobs": self.jobs,
            "orphaned": self.orphaned,
            "expansion": self.expanding(),
            "ledgers": self.ledgers,
            "seeds": self.seeds,
            "store": self.store,
            "usage": self.usage(),
            "detector": self.detector,
        }
        return JobRounds(**(ports | changes))  # type: ignore[arg-type]

    def auction(self, **changes: object) -> JobAuction:
        ports: dict[str, object] = {
            "jobs": self.jobs,
            "board": self.board,
            "demands": self.demands,
            "detector": self.detector,
            "say": lambda message, **_: self.said.append(message),
        }
        return JobAuction(**(ports | changes))  # type: ignore[arg-type]

    def bidder(
        self, links: Mapping[str, Probe | FetchError] | None = None, **changes: object
    ) -> Callable[..., Bidder]:
        prober = LinkProber(
            config=self,
            hosts=self.hosts,
            robots=self.robots,
            fetcher=MemoryFetcher({}),
            prober=MemoryProber(links or {}),
            cache=MemoryProbeCache(),
            clock=self.clock,
        )
        ports: dict[str, object] = {
            "config": self,
            "board": self.board,
            "jobs": self.jobs,
            "demands": self.demands,
            "readings": self.readings,
            "prober": prober,
            "clock": self.clock,
        }
        return partial(Bidder, **(ports | changes))

    def work(
        self,
        pages: dict[str, object],
        extractor: object | None = None,
        executors: object | None = None,
        **changes: object,
    ) -> WorkerServices:
        ports: dict[str, object] = {
            "reader": MemoryPageReader(extractor or Titles(), executors or Lines()),
            "config": self,
            "queue": self.queue,
            "store": self.store,
            "rules": self.rules,
            "workers": self.workers,
            "book": self.book,
            "scaling": self.target(),
            "reaper": self.reaper(),
            "recovery": self.recovery(),
            "fetcher": MemoryFetcher(pages),  # type: ignore[arg-type]
            "hosts": self.hosts,
            "robots": self.robots,
            "validator": SchemaValidator(),
            "coverages": self.coverages,
            "ceilings": self.ceilings(),
            "visits": self.visits,
            "seeding": self.seeding(),
            "draining": self.draining(),
            "cancelling": self.cancelling(),
            "advancing": self.advancing(),
            "readings": self.readings,
            "demands": self.demands,
            "quotas": self.quotas,
            "bidder": self.bidder(),
            "awarding": self.auction(),
            "clock": self.clock,
            "remaining": lambda: 600.0,
            "jitter": lambda: 1.0,
            "pauses": self.pauses,
            "steady": self.steady,
        }
        return WorkerServices(**(ports | changes))  # type: ignore[arg-type]
