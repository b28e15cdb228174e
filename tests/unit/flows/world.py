"""A whole platform in memory, with a clock that only the test moves."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from crawlfleet.adapters.memory.board import MemoryBoard
from crawlfleet.adapters.memory.cancellations import MemoryCancellations
from crawlfleet.adapters.memory.coverages import MemoryCoverages
from crawlfleet.adapters.memory.data_queue import MemoryDataQueue
from crawlfleet.adapters.memory.demands import MemoryDemands
from crawlfleet.adapters.memory.disowning import MemoryDisowning
from crawlfleet.adapters.memory.fetcher import MemoryFetcher
from crawlfleet.adapters.memory.filling import MemoryFilling
from crawlfleet.adapters.memory.hosts import MemoryHosts
from crawlfleet.adapters.memory.intake import MemoryIntake
from crawlfleet.adapters.memory.job_reopening import MemoryJobStates
from crawlfleet.adapters.memory.jobs import MemoryJobs
from crawlfleet.adapters.memory.journal import MemoryJournal
from crawlfleet.adapters.memory.lease_book import MemoryLeaseBook
from crawlfleet.adapters.memory.ledgers import MemoryLedgers
from crawlfleet.adapters.memory.lost_jobs import MemoryLostJobs
from crawlfleet.adapters.memory.overview import MemoryOverview
from crawlfleet.adapters.memory.pools import MemoryPoolBook
from crawlfleet.adapters.memory.probes import MemoryProber, MemoryProbes
from crawlfleet.adapters.memory.queue import MemoryQueue
from crawlfleet.adapters.memory.readings import MemoryReadings
from crawlfleet.adapters.memory.robots import MemoryRobotsCache
from crawlfleet.adapters.memory.rules import MemoryRules
from crawlfleet.adapters.memory.schedules import MemorySchedules
from crawlfleet.adapters.memory.seed_filter import MemorySeedFilter
from crawlfleet.adapters.memory.seeds import MemorySeeds
from crawlfleet.adapters.memory.staffing import MemoryLimit, MemoryOutlook, MemoryStaffing
from crawlfleet.adapters.memory.store import MemoryRequestStore
from crawlfleet.adapters.memory.submission_keys import MemorySubmissionKeys
from crawlfleet.adapters.memory.visits import MemoryVisits
from crawlfleet.adapters.memory.watch import MemoryWatch
from crawlfleet.adapters.memory.workers import MemoryWorkers
from crawlfleet.adapters.schema import SchemaValidator
from crawlfleet.errors import ExtractError, FetchError, StoreUnavailableError
from crawlfleet.flows.advancing import AdvancingPorts
from crawlfleet.flows.applying import ApplyingPorts
from crawlfleet.flows.awarding import AwardingPorts
from crawlfleet.flows.cancelling import CancellingPorts
from crawlfleet.flows.ending import EndingPorts
from crawlfleet.flows.expanding import ExpandingPorts
from crawlfleet.flows.learning import LearningPorts
from crawlfleet.flows.outlooking import OutlookPorts
from crawlfleet.flows.probing import ProbingPorts
from crawlfleet.flows.processing import DrainPorts
from crawlfleet.flows.recovery_ports import RecoveryPorts, WatchPorts
from crawlfleet.flows.run_meter import RunPorts
from crawlfleet.flows.scaling import ScalingPorts
from crawlfleet.flows.seeding import SeedingPorts
from crawlfleet.flows.staffing import StaffingPorts
from crawlfleet.flows.submission import SubmissionPorts
from crawlfleet.flows.tracking import TrackingPorts
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.model.biz import (
    Biz,
    FleetLimits,
    Generation,
    RetryLimits,
    Stage,
    Tenant,
    Tree,
)
from crawlfleet.model.harvest import Coverage, Harvest, Link, Skipped
from crawlfleet.model.ids import COUNTER_LIMIT, IdKind, RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Ledger
from crawlfleet.model.metric import Metric
from crawlfleet.model.outcome import Page
from crawlfleet.model.politeness import HostLimits, Politeness, Robots
from crawlfleet.model.request import Body
from crawlfleet.model.rule import Field, Rule
from crawlfleet.model.spider import Spider
from crawlfleet.model.usage import Probe

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DOCS = Lane("default", "docs", "main")
OTHER = Lane("acme", "docs", "main")
#: Politeness that is at work and keeps nobody waiting.
UNBOUND = HostLimits(per_second=100_000, concurrency=10_000)
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
        # What is asked for is what is submitted; manners have tests of their own.
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


class Ids:
    """Ids that count up, as far from a counter's as Snowflakes are."""

    def __init__(self) -> None:
        self.last = COUNTER_LIMIT * 300

    def take(self, lane: Lane, kind: IdKind, count: int) -> list[RequestId]:
        first, self.last = self.last + 1, self.last + count
        return list(range(first, self.last + 1))


class Broken:
    """Any port, whose part does not answer."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            raise StoreUnavailableError("test", f"{name}: no answer")

        return call


class Failing:
    """A port of which the named methods fail as often as is said, then work."""

    def __init__(self, port: object, **times: int) -> None:
        self._port = port
        self.left = times

    def __getattr__(self, name: str) -> object:
        if self.left.get(name, 0) > 0:
            self.left[name] -= 1
            return getattr(Broken(), name)
        return getattr(self._port, name)


class Titles:
    """Reads pages that are their title; a page that says `bad` cannot be read.

    Behind a title there may be links: `a title -> http://a.example/ http://b.example/`.
    """

    def harvest(self, rule: Rule, page: Page, depth: int = 0, meta: object = None) -> Harvest:
        title, _, links = page.body.decode().partition(" -> ")
        if title == "bad":
            raise ExtractError("title", "is missing")
        return Harvest(
            records=({"title": title},),
            links=tuple(Link(url=url, rule="page", depth=depth + 1) for url in links.split()),
            coverage=Coverage(pages=1, records=1, fields={"title": 1}),
        )


class Lines:
    """Reads by spiders: a record for each line; one that is an URL is a link."""

    def read(self, spider: Spider, page: Page, body: Body) -> Iterator[object]:
        for number, line in enumerate(page.body.decode().splitlines()):
            if line.startswith("http"):
                yield Link(url=line, rule=body.rule, depth=body.depth + 1)
            elif line == "bad":
                yield Skipped(f"line {number}", "is bad")
            else:
                yield {"line": line}


class Metrics:
    def __init__(self) -> None:
        self.put_metrics: list[tuple[Metric, dict[str, str], datetime]] = []

    def put(self, metrics: list[Metric], dimensions: dict[str, str], at: datetime) -> None:
        self.put_metrics += [(metric, dict(dimensions), at) for metric in metrics]

    def value(self, name: str, **dimensions: str) -> list[float]:
        return [
            metric.value
            for metric, given, _ in self.put_metrics
            if metric.name == name and dimensions.items() <= given.items()
        ]


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
    woken: list[int] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The clock that stands for the server's is the test's too.
        self.workers = MemoryWorkers(clock=self.clock)
        self.watch = MemoryWatch(self.workers)
        self.staffing = MemoryStaffing(self.workers)
        self.outlook = MemoryOutlook(self.queue)
        self.overview = MemoryOverview(self.queue)
        self.limit = MemoryLimit(100)
        self.filling = MemoryFilling(self.queue)
        self.book = MemoryLeaseBook(self.queue)
        self.disowning = MemoryDisowning(self.store.state)
        self.journal = MemoryJournal()
        self.pools = MemoryPoolBook()
        self.keys = MemorySubmissionKeys()
        self.intake = MemoryIntake(self.queue)
        self.hosts = MemoryHosts(clock=self.clock)
        self.cancellations = MemoryCancellations(clock=self.clock)
        self.jobs = MemoryJobs()
        self.lost = MemoryLostJobs(self.jobs)
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

    @property
    def biz(self) -> Biz:
        return self.tree.bizs["default"]["docs"]

    @property
    def ledgers(self) -> MemoryLedgers:
        return MemoryLedgers(self.store.state)

    def ledger(self, lane: Lane = DOCS) -> Ledger:
        """The lane's ledger, which must balance whenever it is asked for."""
        found = self.ledgers.audit(lane, self.biz, self.now)
        assert found.difference == 0
        return found

    def clock(self) -> datetime:
        return self.now

    def current(self) -> Tree:
        return self.tree

    def wake(self, count: int) -> None:
        self.woken.append(count)

    def warn(self, message: str, error: Exception) -> None:
        self.warnings.append(f"{message}: {error}")

    def submission(self, **changes: object) -> SubmissionPorts:
        ports: dict[str, object] = {
            "ids": self.ids,
            "store": self.store,
            "queue": self.queue,
            "rules": self.rules,
            "workers": self.workers,
            "keys": self.keys,
            "intake": self.intake,
            "waker": self,
            "warn": self.warn,
        }
        return SubmissionPorts(**(ports | changes))  # type: ignore[arg-type]

    def tracking(self) -> TrackingPorts:
        return TrackingPorts(store=self.store, ledgers=self.ledgers, queue=self.queue)

    def watching(self, **changes: object) -> WatchPorts:
        ports: dict[str, object] = {
            "watch": self.watch,
            "book": self.book,
            "queue": self.queue,
            "hosts": self.hosts,
            "disowning": self.disowning,
            "journal": self.journal,
            "warn": self.warn,
        }
        return WatchPorts(**(ports | changes))  # type: ignore[arg-type]

    def recovery(self, **changes: object) -> RecoveryPorts:
        ports: dict[str, object] = {
            "store": self.store,
            "ledgers": self.ledgers,
            "disowning": self.disowning,
            "queue": self.queue,
            "filling": self.filling,
            "book": self.book,
            "watch": self.watch,
            "journal": self.journal,
            "pools": self.pools,
            "warn": self.warn,
        }
        return RecoveryPorts(**(ports | changes))  # type: ignore[arg-type]

    def staff(self, **changes: object) -> StaffingPorts:
        ports: dict[str, object] = {
            "staffing": self.staffing,
            "workers": self.workers,
            "waker": self,
            "warn": self.warn,
        }
        return StaffingPorts(**(ports | changes))  # type: ignore[arg-type]

    def ahead(self, **changes: object) -> OutlookPorts:
        ports: dict[str, object] = {
            "outlook": self.outlook,
            "overview": self.overview,
            "data": self.data,
            "hosts": self.hosts,
            "store": self.store,
            "jobs": self.jobs,
            "warn": self.warn,
        }
        return OutlookPorts(**(ports | changes))  # type: ignore[arg-type]

    def scaling(self, **changes: object) -> ScalingPorts:
        ports: dict[str, object] = {
            "ahead": self.ahead(),
            "staffing": self.staffing,
            "workers": self.workers,
            "waker": self,
            "limit": self.limit,
            "warn": self.warn,
        }
        return ScalingPorts(**(ports | changes))  # type: ignore[arg-type]

    def seeding(self) -> SeedingPorts:
        return SeedingPorts(
            seeds=self.seeds, filter=self.seed_filter, warn=self.warn, submission=self.submission()
        )

    def draining(self) -> DrainPorts:
        return DrainPorts(
            queue=self.data,
            store=self.store,
            validator=SchemaValidator(),
            coverages=self.coverages,
            journal=self.journal,
            warn=self.warn,
        )

    def learning(self) -> LearningPorts:
        states = MemoryJobStates(self.jobs)
        return LearningPorts(demands=self.demands, states=states, warn=self.warn)

    def cancelling(self, **changes: object) -> CancellingPorts:
        ports: dict[str, object] = {
            "jobs": self.jobs,
            "store": self.store,
            "ledgers": self.ledgers,
            "cancellations": self.cancellations,
            "learning": self.learning(),
            "warn": self.warn,
        }
        return CancellingPorts(**(ports | changes))  # type: ignore[arg-type]

    def expanding(self, jobs: object = None, **changes: object) -> ExpandingPorts:
        return ExpandingPorts(
            jobs=jobs or self.jobs,  # type: ignore[arg-type]
            ledgers=self.ledgers,
            submission=self.submission(**changes),
        )

    def ending(self, **changes: object) -> EndingPorts:
        ports: dict[str, object] = {
            "jobs": self.jobs,
            "ledgers": self.ledgers,
            "seeds": self.seeds,
            "store": self.store,
            "learning": self.learning(),
            "warn": self.warn,
        }
        return EndingPorts(**(ports | changes))  # type: ignore[arg-type]

    def advancing(self, **changes: object) -> AdvancingPorts:
        ports: dict[str, object] = {
            "expanding": self.expanding(),
            "ending": self.ending(),
            "lost": self.lost,
            "watch": self.watch,
            "warn": self.warn,
        }
        return AdvancingPorts(**(ports | changes))  # type: ignore[arg-type]

    def awarding(self, **changes: object) -> AwardingPorts:
        ports: dict[str, object] = {
            "jobs": self.jobs,
            "board": self.board,
            "demands": self.demands,
            "watch": self.watch,
            "warn": self.warn,
            "say": lambda message, **_: self.said.append(message),
        }
        return AwardingPorts(**(ports | changes))  # type: ignore[arg-type]

    def applying(
        self, ways: Mapping[str, Probe | FetchError] | None = None, **changes: object
    ) -> ApplyingPorts:
        probing = ProbingPorts(
            config=self,
            hosts=self.hosts,
            robots=self.robots,
            fetcher=MemoryFetcher({}),
            prober=MemoryProber(ways or {}),
            book=MemoryProbes(),
            clock=self.clock,
            warn=self.warn,
        )
        ports: dict[str, object] = {
            "config": self,
            "board": self.board,
            "jobs": self.jobs,
            "demands": self.demands,
            "readings": self.readings,
            "probing": probing,
            "clock": self.clock,
            "warn": self.warn,
        }
        return ApplyingPorts(**(ports | changes))  # type: ignore[arg-type]

    def work(self, pages: dict[str, object], **changes: object) -> WorkPorts:
        ports: dict[str, object] = {
            "config": self,
            "queue": self.queue,
            "store": self.store,
            "rules": self.rules,
            "workers": self.workers,
            "book": self.book,
            "staffing": self.staff(),
            "watching": self.watching(),
            "recovery": self.recovery(),
            "fetcher": MemoryFetcher(pages),  # type: ignore[arg-type]
            "hosts": self.hosts,
            "robots": self.robots,
            "extractor": Titles(),
            "executors": Lines(),
            "validator": SchemaValidator(),
            "coverages": self.coverages,
            "visits": self.visits,
            "seeding": self.seeding(),
            "draining": self.draining(),
            "cancelling": self.cancelling(),
            "advancing": self.advancing(),
            "runs": RunPorts(readings=self.readings, demands=self.demands),
            "applying": self.applying(),
            "awarding": self.awarding(),
            "clock": self.clock,
            "remaining": lambda: 600.0,
            "jitter": lambda: 1.0,
            "warn": self.warn,
        }
        return WorkPorts(**(ports | changes))  # type: ignore[arg-type]
