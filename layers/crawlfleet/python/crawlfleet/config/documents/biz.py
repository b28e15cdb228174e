"""The documents of stage, tenant and biz, and the tree they make (SPEC.md A3, A4, C1, C9)."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.policies import (
    BiddingTerms,
    HostLimits,
    Politeness,
    RecrawlPolicy,
    SeedPolicy,
)
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.stage import AlarmLimits, BizThresholds, Thresholds
from crawlfleet.kernel.ids import IdKind
from crawlfleet.kernel.queue_key import MAIN_POOL, MOST_POOLS, Ageing, QueueKey, bound
from crawlfleet.kernel.validation import (
    Count,
    DatabaseName,
    Document,
    HostName,
    RuleName,
    Seconds,
    Slug,
    StoreName,
    Words,
)


class Needs(Document, frozen=True, kw_only=True):
    """Capacity that is kept available in a pool: ``workers``, or as many as do that in an hour.

    One of the two is said. How many workers ``requests_per_hour`` comes to follows what workers
    have shown to be able to do with requests of the biz. A tenant's is for all its bizs together,
    beside none of theirs: the greater counts.

    Who has had no work for ``idle_seconds`` has its capacity released, and has it back within a
    minute of its next request; null keeps it for as long as it is stated.
    """

    workers: Annotated[int, Meta(ge=1, le=1000)] | None = None
    requests_per_hour: Count | None = None
    pool: Slug = MAIN_POOL
    idle_seconds: Seconds | None = 3600.0


class CapacityLimits(Document, frozen=True, kw_only=True):
    """The most workers of each pool that one tenant may have kept available, whatever it states."""

    workers_per_tenant: Annotated[int, Meta(ge=0, le=1000)] = 10


class Rotation(StrEnum):
    """The choice of a request's proxy: the next one, or always the same for one job and host."""

    EACH_REQUEST = "each_request"
    EACH_JOB = "each_job"


class ProxyPool(Document, frozen=True, kw_only=True):
    """Proxies that stand for one another.

    ``secret`` names the secret whose text is the list of their URLs, one a line:
    ``http://user:password@host:port``; it is read by workers and shown nowhere. One that fails
    ``max_failures`` times in a row is left out for ``rest_seconds``, doubled each time up to an
    hour. ``allow_private`` lets proxies have private addresses; targets never do.
    """

    secret: Annotated[str, Meta(min_length=1, max_length=256)]
    rotation: Rotation = Rotation.EACH_REQUEST
    max_failures: Count = 3
    rest_seconds: Seconds = 60.0
    allow_private: bool = False


#: ``text/html``, or all of a kind: ``image/*``.
MediaRange = Annotated[
    str,
    Meta(pattern=r"^[a-z0-9.+-]{1,64}/(?:[a-z0-9.+-]{1,96}|\*)\Z"),
    Words("a type in lower case without parameters, such as text/html or image/*"),
]


#: Figures of Redis and MongoDB that findings need, named as their metrics are.
FigureName = Literal[
    "CacheRatio",
    "ConnectionsRatio",
    "EvictedKeys",
    "LagSeconds",
    "Latency",
    "LinkDown",
    "MembersUnwell",
    "MemoryRatio",
    "Replicas",
    "SlowOperations",
    "StorageBytes",
]


class Spread(StrEnum):
    """The formula by which an id picks its shard.

    ``modulo`` and ``rendezvous`` mix the 64 bits first. ``plain_modulo`` is the sources' formula,
    kept for data that was routed so: at low load it puts nearly everything on one shard.
    """

    MODULO = "modulo"
    RENDEZVOUS = "rendezvous"
    PLAIN_MODULO = "plain_modulo"


class Generation(Document, frozen=True, kw_only=True):
    """A route in force from ``starts_at`` until the next one starts (DESIGN.md 3).

    An id carries its own time, so the generation in force then finds it again; nothing is moved.
    ``nodes`` times ``databases`` times ``shards`` collections share the requests.
    """

    starts_at: datetime
    nodes: Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=64)]
    databases: Annotated[tuple[DatabaseName, ...], Meta(min_length=1, max_length=64)]
    shards: Annotated[int, Meta(ge=1, le=256)] = 1
    spread: Spread = Spread.RENDEZVOUS


class FetchLimits(Document, frozen=True, kw_only=True):
    """The limits of one download, and its headers.

    ``content_types`` are the media types that are read; another one makes the page a dead letter
    before its body arrives. ``text/*`` stands for every text; none are no filter. ``cookies`` keeps
    those of a job for its later requests, whichever worker does them; without it none are kept.
    ``proxies`` names a pool of the stage document; the stage's own default holds where it is null.
    """

    user_agent: Annotated[str, Meta(min_length=1, max_length=256)] = "Crawlfleet"
    headers: dict[str, str] = {}
    connect_seconds: Seconds = 5.0
    first_byte_seconds: Seconds = 15.0
    total_seconds: Seconds = 30.0
    content_types: Annotated[tuple[MediaRange, ...], Meta(max_length=32)] = ()
    cookies: bool = False
    proxies: Slug | None = None
    max_body_bytes: Count = 10_000_000
    max_redirects: Annotated[int, Meta(ge=0, le=20)] = 10
    per_host: Count = 16


class RetryLimits(Document, frozen=True, kw_only=True):
    """The retries of a failed request; delays double and carry jitter."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 4
    base_seconds: Seconds = 5.0
    max_seconds: Seconds = 3600.0


class IntakeLimits(Document, frozen=True, kw_only=True):
    """The most that a biz takes, and how fast. Beyond it a submission is answered with 429.

    ``max_backlog`` counts what is queued, leased and delayed. ``per_second`` may be exceeded by
    ``burst`` at once; None is no limit. Of a job tasks are made while fewer than ``jobs_ahead``
    are there, or than a minute's work, and never beyond half of ``max_backlog`` (jobs.expansion).
    """

    max_backlog: Count = 5_000_000
    jobs_ahead: Count = 50_000
    per_second: Annotated[float, Meta(gt=0)] | None = None
    burst: Count = 1_000


class Biz(Document, frozen=True, kw_only=True):
    """A business type. Its name and its tenant come from the document's place in the tree.

    A request not processed ``ttl_seconds`` after it was queued is counted as expired and never
    worked on; MongoDB removes it, and finished ones, ``expiry_grace_seconds`` later. A backlog that
    will take longer than ``planned_seconds`` at the present rate is reported as late.
    ``thresholds`` are those of the stage that this biz has its own of.

    Of the bizs that have work, each has requests taken in proportion to its ``weight``; where jobs
    wait for a worker, an award of one moves its tenant on by so much less.

    A request names one of the ``rules`` or ``spiders``, whose names differ from each other.
    ``open_jobs`` is how many jobs may be started and not ended at once.
    ``needs`` is capacity that is kept available for it.
    """

    description: str = ""
    queue: StoreName = "main"
    collection: StoreName = "requests"
    ttl_seconds: Annotated[int, Meta(ge=60, le=31_536_000)] = 604_800
    expiry_grace_seconds: Annotated[int, Meta(ge=0, le=604_800)] = 300
    records_ttl_seconds: Annotated[int, Meta(ge=60)] | None = None
    id_kind: IdKind = IdKind.SNOWFLAKE
    planned_seconds: Seconds | None = None
    thresholds: BizThresholds = BizThresholds()
    generations: Annotated[tuple[Generation, ...], Meta(min_length=1, max_length=64)]
    rules: Annotated[dict[RuleName, Rule], Meta(max_length=500)] = {}
    spiders: Annotated[dict[RuleName, Spider], Meta(max_length=500)] = {}
    fetch: FetchLimits = FetchLimits()
    politeness: Politeness = Politeness()
    seeds: SeedPolicy = SeedPolicy()
    recrawl: RecrawlPolicy | None = None
    retry: RetryLimits = RetryLimits()
    intake: IntakeLimits = IntakeLimits()
    ageing: Ageing = Ageing()
    weight: Annotated[int, Meta(ge=1, le=100)] = 1
    states: dict[Slug, Annotated[int, Meta(ge=100, le=2**31 - 1)]] = {}
    open_jobs: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    needs: Needs | None = None

    def reader(self, name: str) -> Rule | Spider | None:
        """Return the rule or spider of that name."""
        return self.rules.get(name) or self.spiders.get(name)

    @property
    def readers(self) -> tuple[str, ...]:
        """Names of all rules and spiders, in a stable order."""
        return (*sorted(self.rules), *sorted(self.spiders))


class Tenant(Document, frozen=True, kw_only=True):
    """An owner of bizs. ``api_keys`` are the ids of API Gateway keys, not the keys themselves.

    ``needs`` is capacity that is kept available for all of its bizs together.
    """

    description: str = ""
    api_keys: tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...] = ()
    needs: Needs | None = None


class FleetLimits(Document, frozen=True, kw_only=True):
    """The number of workers and their behaviour.

    A queue without a plan wants one for every ``requests_per_consumer``. Before any is sent away,
    fewer must have done for ``quiet_seconds`` (fleet.autoscaler).
    """

    min_consumers: Annotated[int, Meta(ge=0, le=1000)] = 0
    max_consumers: Annotated[int, Meta(ge=1, le=1000)] = 2
    requests_per_consumer: Count = 2000
    quiet_seconds: Seconds = 90.0
    concurrency: Annotated[int, Meta(ge=1, le=2000)] = 64
    batch: Annotated[int, Meta(ge=1, le=1000)] = 100
    lease_seconds: Seconds = 60.0
    idle_seconds: Annotated[float, Meta(ge=0)] = 2.0


class PoolLimits(Document, frozen=True, kw_only=True):
    """The number of workers of a pool beside the usual one; ``fleet`` says how each behaves.

    With ``bound_only`` they take nothing but what is bound for their pool, and leave the chores of
    the fleet to the usual workers; without it they share the others' work.
    """

    min_consumers: Annotated[int, Meta(ge=0, le=1000)] = 0
    max_consumers: Annotated[int, Meta(ge=1, le=1000)] = 2
    bound_only: bool = True


class DetectorLimits(Document, frozen=True, kw_only=True):
    """The limits after which a silent worker is declared dead (fleet.failure_detector).

    ``threshold`` is phi; ``pause_seconds`` is what a healthy worker may be silent for beyond what
    its history says; ``deviation_seconds`` the least that its beats are taken to vary by.
    ``detached_seconds`` without Redis a worker gives back what it has not begun.
    """

    beat_seconds: Annotated[float, Meta(gt=0, le=10)] = 1.0
    threshold: Annotated[float, Meta(ge=1, le=30)] = 8.0
    pause_seconds: Annotated[float, Meta(ge=0)] = 2.0
    deviation_seconds: Seconds = 0.3
    detached_seconds: Seconds = 60.0


class MonitorLimits(Document, frozen=True, kw_only=True):
    """The bizs and hosts that have metrics of their own in an hour (monitoring.metrics).

    Each biz more is at most 3.30 USD a month, each host 1.20 (crawlfleet.kernel.metric_names).
    ``unwatched`` are figures of parts that nobody is to read, for want of a right that is not
    given: that they are missing is no finding.
    """

    bizs: Annotated[int, Meta(ge=0, le=1000)] = 50
    hosts: Annotated[int, Meta(ge=0, le=100)] = 10
    unwatched: Annotated[tuple[FigureName, ...], Meta(max_length=32)] = ()


class Stage(Document, frozen=True, kw_only=True):
    """The stage document: what holds for every tenant. ``home_node`` keeps schedules and rules.

    ``allow_private_addresses`` switches off the check that keeps the worker away from loopback,
    private, link-local and metadata addresses. Only a stage on one's own machine does that.
    Submissions are answered with 429 while Redis uses more than ``redis_memory_ratio`` of its
    ``maxmemory``. ``hosts`` is how any host is treated by all workers and tenants together, but for
    those of which ``host_limits`` says otherwise, subdomains not included. ``proxies`` are pools by
    name, ``default_proxies`` the one of bizs that name none. ``user_agent`` asks for robots.txt,
    whose copy serves all tenants. ``operators`` are the tenants whose keys also read what concerns
    the platform and other tenants' bizs, such as incidents; where none is named, the default one.
    ``pools`` are kinds of workers beside the usual one, by the names that the infrastructure has
    given them; ``fleet`` is the usual one's. ``capacity`` bounds what tenants may state that they
    need.
    With ``bidding`` a job waits for a worker that it suits; without it any worker takes it.
    """

    home_node: Slug = "main"
    nodes: Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=64)] = ("main",)
    allow_private_addresses: bool = False
    fleet: FleetLimits = FleetLimits()
    detector: DetectorLimits = DetectorLimits()
    redis_memory_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.85
    hosts: HostLimits = HostLimits()
    host_limits: Annotated[dict[HostName, HostLimits], Meta(max_length=1000)] = {}
    proxies: Annotated[dict[Slug, ProxyPool], Meta(max_length=64)] = {}
    default_proxies: Slug | None = None
    user_agent: Annotated[str, Meta(min_length=1, max_length=256)] = "Crawlfleet"
    thresholds: Thresholds = Thresholds()
    alarms: AlarmLimits = AlarmLimits()
    monitor: MonitorLimits = MonitorLimits()
    operators: Annotated[tuple[Slug, ...], Meta(max_length=64)] = ()
    pools: Annotated[dict[Slug, PoolLimits], Meta(max_length=MOST_POOLS)] = {}
    capacity: CapacityLimits = CapacityLimits()
    bidding: BiddingTerms | None = None


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration of a stage at one ``revision``; bizs by tenant, then by name.

    ``refused`` are bizs, as (tenant, name), that have a document but never had a right one.
    ``pools`` are those beside the usual one that are deployed, whatever the stage says of them.
    """

    revision: str
    stage: Stage
    tenants: dict[str, Tenant]
    bizs: dict[str, dict[str, Biz]]
    refused: frozenset[tuple[str, str]] = frozenset()
    pools: frozenset[str] = frozenset()

    def queues(self) -> tuple[QueueKey, ...]:
        """Return every queue key of the stage, in a stable order."""
        return tuple(
            QueueKey(tenant, name, biz.queue)
            for tenant, bizs in sorted(self.bizs.items())
            for name, biz in sorted(bizs.items())
        )

    @property
    def further_pools(self) -> tuple[str, ...]:
        """Return every pool beside the usual one that is deployed, or named by the stage."""
        return tuple(sorted(self.pools | self.stage.pools.keys()))

    def bound_queues(self, pool: str) -> tuple[QueueKey, ...]:
        """Return a queue key of each biz for that pool; none for the usual one."""
        return (
            ()
            if pool == MAIN_POOL
            else tuple(bound(queue_key, pool) for queue_key in self.queues())
        )
