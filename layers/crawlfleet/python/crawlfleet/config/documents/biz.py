"""The documents of stage, tenant and biz, and the tree they make (SPEC.md A3, A4, C1, C9)."""

from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr, replace

from crawlfleet.config.documents import policies
from crawlfleet.config.documents.ceilings import Ceilings
from crawlfleet.config.documents.history import HistoryTerms
from crawlfleet.config.documents.prices import Price, PriceTerms
from crawlfleet.config.documents.quota import Quotas, UserName
from crawlfleet.config.documents.removal import Moment, Removing
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.secret import HeaderName, HeaderText, StageHeaderText
from crawlfleet.config.documents.stage import (
    AlarmLimits,
    BizThresholds,
    CapacityLimits,
    MonitorLimits,
    ReadingLimits,
    Thresholds,
)
from crawlfleet.config.documents.streams import StreamTerms
from crawlfleet.kernel import validation
from crawlfleet.kernel.ids import OWN, IdKind
from crawlfleet.kernel.queue_key import MAIN_POOL, MOST_POOLS, Ageing, QueueKey, bound
from crawlfleet.kernel.validation import Count, Document, HostName, RuleName, Seconds, Slug, Words

#: ``text/html``, or all of a kind: ``image/*``.
MediaRange = Annotated[
    str,
    Meta(pattern=r"^[a-z0-9.+-]{1,64}/(?:[a-z0-9.+-]{1,96}|\*)\Z"),
    Words("a type in lower case without parameters, such as text/html or image/*"),
]


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


class Rotation(StrEnum):
    """The choice of a request's proxy: the next one, or always the same for one job and host."""

    EACH_REQUEST = "each_request"
    EACH_JOB = "each_job"


class ProxyPool(Document, frozen=True, kw_only=True):
    """Proxies that stand for one another.

    ``secret`` names the secret whose text is the list of their URLs, one a line:
    ``http://user:password@host:port``; it is read by workers and shown nowhere. One that fails
    ``max_failures`` times in a row is left out by all workers for ``rest_seconds``, doubled each
    time up to an hour. ``allow_private`` lets proxies have private addresses; targets never do.
    A proxy is told the address that was checked; with ``resolves_names`` it is told the name, and
    what that leads to there is not checked. A GB through them costs ``usd_per_gb``.
    """

    secret: Annotated[str, Meta(min_length=1, max_length=256)]
    rotation: Rotation = Rotation.EACH_REQUEST
    max_failures: Count = 3
    rest_seconds: Seconds = 60.0
    allow_private: bool = False
    resolves_names: bool = False
    usd_per_gb: Price = 0.0


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
    ``nodes`` times ``databases`` times ``shards`` collections share the requests. Where they are
    not written they are the stage's home node, and a database named after the biz.
    """

    starts_at: datetime
    nodes: Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=64)] = ()
    databases: Annotated[
        tuple[validation.DatabaseName, ...], Meta(min_length=1, max_length=64)
    ] = ()
    shards: Annotated[int, Meta(ge=1, le=256)] = 1
    spread: Spread = Spread.RENDEZVOUS


#: States that have transitions, and those that one may become.
MOST_TRANSITIONS: Final = 64


class FetchLimits(Document, frozen=True, kw_only=True):
    """The limits of one download, and its headers.

    ``content_types`` are the media types that are read; another one makes the page a dead letter
    before its body arrives. ``text/*`` stands for every text; none are no filter. ``cookies`` keeps
    those of a job for its later requests, whichever worker does them; without it none are kept.
    ``proxies`` names a pool of the stage document; the stage's own default holds where it is null.
    A header may be a reference to a secret instead of a text.
    """

    user_agent: Annotated[str, Meta(min_length=1, max_length=256)] = "Crawlfleet"
    headers: dict[str, HeaderText] = {}
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
    ``scrapy_requests`` lets callers say by ``meta.scrapy`` which callback of a Scrapy spider reads
    a page, and with what, as an import from scrapy-redis does; else workers alone say it.
    """

    max_backlog: Count = 5_000_000
    jobs_ahead: Count = 50_000
    per_second: Annotated[float, Meta(gt=0)] | None = None
    burst: Count = 1_000
    scrapy_requests: bool = False


class Biz(Document, frozen=True, kw_only=True):
    """A business type. Its name and its tenant come from the document's place in the tree.

    A request not processed ``ttl_seconds`` after it was queued is counted as expired and never
    worked on; MongoDB removes it, and finished ones, ``expiry_grace_seconds`` later. A backlog that
    will take longer than ``planned_seconds`` at the present rate is reported as late.
    ``thresholds`` are those of the stage that this biz has its own of.

    Of a tenant's bizs that have work each has requests taken in proportion to its ``weight``; where
    jobs wait for a worker, an award of one moves its tenant on by so much less.

    A request names one of the ``rules`` or ``spiders``, whose names differ from each other.
    Without ``generations`` there is one, that has always been in force (:func:`routed`).
    ``open_jobs`` is how many jobs may be started and not ended at once.
    ``needs`` is capacity that is kept available for it. ``trace_share`` of its requests are traced.
    ``quotas`` are the most that it may use, beside those of its tenant and of the user that a
    request is for.

    ``states`` are its own, by number: a request in one of 100 to 999 is open, so that its job waits
    for it and it expires as others do; in one from 1,000 on it has ended. No worker takes either.
    ``transitions`` has, by state, those that its owner may change a request to by a call; one of
    the two is its own, and what has ended does not become open again.
    """

    description: str = ""
    queue: validation.StoreName = "main"
    collection: validation.StoreName = "requests"
    ttl_seconds: Annotated[int, Meta(ge=60, le=31_536_000)] = 604_800
    expiry_grace_seconds: Annotated[int, Meta(ge=0, le=604_800)] = 300
    records_ttl_seconds: Annotated[int, Meta(ge=60)] | None = None
    id_kind: IdKind = IdKind.SNOWFLAKE
    planned_seconds: Seconds | None = None
    thresholds: BizThresholds = BizThresholds()
    generations: Annotated[tuple[Generation, ...], Meta(min_length=1, max_length=64)] = ()
    rules: Annotated[dict[RuleName, Rule], Meta(max_length=500)] = {}
    spiders: Annotated[dict[RuleName, Spider], Meta(max_length=500)] = {}
    fetch: FetchLimits = FetchLimits()
    politeness: policies.Politeness = policies.Politeness()
    seeds: policies.SeedPolicy = policies.SeedPolicy()
    recrawl: policies.RecrawlPolicy | None = None
    retry: RetryLimits = RetryLimits()
    intake: IntakeLimits = IntakeLimits()
    ageing: Ageing = Ageing()
    weight: Annotated[int, Meta(ge=1, le=100)] = 1
    states: dict[Slug, Annotated[int, Meta(ge=OWN, le=2**31 - 1)]] = {}
    transitions: Annotated[
        dict[Slug, Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=MOST_TRANSITIONS)]],
        Meta(max_length=MOST_TRANSITIONS),
    ] = {}
    open_jobs: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    needs: Needs | None = None
    quotas: Quotas = ()
    trace_share: Annotated[float, Meta(ge=0, le=1)] = 0.001

    def reader(self, name: str) -> Rule | Spider | None:
        """Return the rule or spider of that name."""
        return self.rules.get(name) or self.spiders.get(name)

    @property
    def readers(self) -> tuple[str, ...]:
        """Names of all rules and spiders, in a stable order."""
        return (*sorted(self.rules), *sorted(self.spiders))


#: When the route of a biz that writes none began: before any id.
ROUTE_BEGAN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DATABASE_CHARACTERS: Final = 24


def routed(biz: Biz, name: str, home_node: str) -> Biz:
    """Return the biz with the route that it does not write: a database of its name at home.

    A name that is too long for a database is cut, and told from others by a digest.

    >>> [one] = routed(Biz(), "shop", "main").generations
    >>> one.starts_at.year, one.nodes, one.databases
    (1970, ('main',), ('shop',))
    """
    if len(name) > _DATABASE_CHARACTERS:
        digest = blake2b(name.encode(), digest_size=4).hexdigest()
        name = f"{name[: _DATABASE_CHARACTERS - len(digest) - 1]}-{digest}"
    written = biz.generations or (Generation(starts_at=ROUTE_BEGAN),)
    filled = tuple(
        msgspec.structs.replace(
            one, nodes=one.nodes or (home_node,), databases=one.databases or (name,)
        )
        for one in written
    )
    return biz if filled == biz.generations else replace(biz, generations=filled)


KeyId = Annotated[str, Meta(min_length=1, max_length=128)]


class Tenant(Document, frozen=True, kw_only=True):
    """An owner of bizs. ``api_keys`` are the ids of API Gateway keys, not the keys themselves.

    ``retiring_keys`` are ids of keys that others replace: valid beside them until that moment.
    ``needs`` is capacity that is kept available for all of its bizs together. While several tenants
    have work, each has workers' and stores' time in proportion to its ``share``, however many bizs
    it has; what one does not use the others have. ``ceilings`` are the most that it has in all.
    ``quotas`` are the most that its bizs may use together. A user is a name that the tenant gives
    with its submissions, jobs and schedules: each may use ``user_quotas`` over all bizs, one of
    ``users`` what is said there instead.

    Of one that is ``suspended`` nothing is taken, started or leased, and its calls may only read.
    Of one that is ``managed`` files change neither keys nor suspension. One that is ``removing`` is
    suspended, and gone once all of it is deleted.
    """

    description: str = ""
    share: Annotated[int, Meta(ge=1, le=100)] = 1
    managed: bool = False
    suspended: bool = False
    removing: Removing | None = None
    ceilings: Ceilings = Ceilings()
    api_keys: tuple[KeyId, ...] = ()
    retiring_keys: Annotated[dict[KeyId, Moment], Meta(max_length=16)] = {}
    needs: Needs | None = None
    quotas: Quotas = ()
    user_quotas: Quotas = ()
    users: Annotated[dict[UserName, Quotas], Meta(max_length=1_000)] = {}


#: Downloads of one worker at once. Lambda gives a process 1,024 descriptors; 256 are of idle
#: connections (crawling.fetching.connections), the rest is for Redis, MongoDB, names and files.
MOST_DOWNLOADS: Final = 600


class FleetLimits(Document, frozen=True, kw_only=True):
    """The number of workers and their behaviour.

    A queue without a plan wants one for every ``requests_per_consumer``. Before any is sent away,
    fewer must have done for ``quiet_seconds`` (fleet.autoscaler). A ``concurrency`` above
    :data:`MOST_DOWNLOADS` counts as that many.
    """

    min_consumers: Annotated[int, Meta(ge=0, le=1000)] = 0
    max_consumers: Annotated[int, Meta(ge=1, le=1000)] = 2
    requests_per_consumer: Count = 2000
    quiet_seconds: Seconds = 90.0
    concurrency: Annotated[int, Meta(ge=1, le=2000)] = 64
    batch: Annotated[int, Meta(ge=1, le=1000)] = 100
    lease_seconds: Seconds = 60.0
    idle_seconds: Annotated[float, Meta(ge=0)] = 2.0

    def __post_init__(self) -> None:
        """Bound what older documents, which stay readable, may say."""
        force_setattr(self, "concurrency", min(self.concurrency, MOST_DOWNLOADS))


class PoolLimits(Document, frozen=True, kw_only=True):
    """The number of workers of a pool beside the usual one; ``fleet`` says how each behaves.

    With ``bound_only`` they take nothing but what is bound for their pool, and leave the
    background tasks of the fleet to the usual workers; without it they share the others' work.
    ``proxies`` are those of bizs that name none, where these workers download (SPEC.md C9).
    """

    min_consumers: Annotated[int, Meta(ge=0, le=1000)] = 0
    max_consumers: Annotated[int, Meta(ge=1, le=1000)] = 2
    bound_only: bool = True
    proxies: Slug | None = None


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


Port = Annotated[int, Meta(ge=1, le=65_535)]
#: The ports that sites are asked at where the stage does not say otherwise.
WEB_PORTS: Final = frozenset({80, 443, 8080, 8443})


class Stage(Document, frozen=True, kw_only=True):
    """The stage document: what holds for every tenant. ``home_node`` keeps schedules and rules.

    ``allow_private_addresses`` switches off the check that keeps the worker away from loopback,
    private, link-local and metadata addresses. Only a stage on one's own machine does that.
    ``ports`` are those of sites that may be asked; unset the usual ones of the web, or all where
    private addresses are allowed.
    Submissions are answered with 429 while Redis uses more than ``redis_memory_ratio`` of its
    ``maxmemory``, and those of one tenant of several while its queues use more than
    ``tenant_redis_ratio`` of that. ``hosts`` is how any host is treated by all workers and tenants
    together, but for those of which ``host_limits`` says otherwise, subdomains not included.
    ``proxies`` are pools by name, ``default_proxies`` the one of bizs that name none.
    ``user_agent`` asks for robots.txt, whose copy serves all tenants. ``operators`` are the tenants
    whose keys also read what concerns the platform and other tenants' bizs, such as incidents;
    where none is named, the default one.
    Spans of traced requests go to the collector of OpenTelemetry at ``otlp_endpoint`` too, with
    ``otlp_headers``, unless the environment names one; ``trace_url`` is where it shows a trace,
    whose id stands for ``{trace}``.
    ``pools`` are kinds of workers beside the usual one, by the names that the infrastructure has
    given them; ``fleet`` is the usual one's. ``capacity`` bounds what tenants may state that they
    need. ``reading`` bounds the process in which a worker reads pages.
    With ``bidding`` a job waits for a worker that it suits; without it any worker takes it.
    ``prices`` say what the stage pays, where that is not the list price of its region. ``streams``
    are the channels that tenants may subscribe to, and where subscriptions may deliver. ``history``
    bounds what is kept of earlier configurations.
    """

    home_node: Slug = "main"
    nodes: Annotated[tuple[Slug, ...], Meta(min_length=1, max_length=64)] = ("main",)
    allow_private_addresses: bool = False
    ports: Annotated[tuple[Port, ...], Meta(min_length=1, max_length=100)] | None = None
    fleet: FleetLimits = FleetLimits()
    detector: DetectorLimits = DetectorLimits()
    redis_memory_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.85
    tenant_redis_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.5
    hosts: policies.HostLimits = policies.HostLimits()
    host_limits: Annotated[dict[HostName, policies.HostLimits], Meta(max_length=1000)] = {}
    proxies: Annotated[dict[Slug, ProxyPool], Meta(max_length=64)] = {}
    default_proxies: Slug | None = None
    user_agent: Annotated[str, Meta(min_length=1, max_length=256)] = "Crawlfleet"
    thresholds: Thresholds = Thresholds()
    alarms: AlarmLimits = AlarmLimits()
    monitor: MonitorLimits = MonitorLimits()
    otlp_endpoint: validation.WebAddress | None = None
    otlp_headers: Annotated[dict[HeaderName, StageHeaderText], Meta(max_length=16)] = {}
    trace_url: validation.TraceAddress | None = None
    operators: Annotated[tuple[Slug, ...], Meta(max_length=64)] = ()
    pools: Annotated[dict[Slug, PoolLimits], Meta(max_length=MOST_POOLS)] = {}
    capacity: CapacityLimits = CapacityLimits()
    reading: ReadingLimits = ReadingLimits()
    bidding: policies.BiddingTerms | None = None
    prices: PriceTerms = PriceTerms()
    streams: StreamTerms = StreamTerms()
    history: HistoryTerms = HistoryTerms()

    def may_ask(self, port: int) -> bool:
        """Tell whether a site may be asked at this port.

        >>> Stage().may_ask(443), Stage().may_ask(22), Stage(ports=(22,)).may_ask(22)
        (True, False, True)
        """
        if self.ports is not None:
            return port in self.ports
        return self.allow_private_addresses or port in WEB_PORTS


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
        queues = () if pool == MAIN_POOL else self.queues()
        return tuple(bound(queue_key, pool) for queue_key in queues)
