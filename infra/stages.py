"""The stages, and all in which one differs from another; nothing else in ``infra`` names a stage.

No stage names an account, and none a region but one whose pools stand in several: the credentials
that deploy decide both, so the app synthesises anywhere and looks nothing up. How functions
*behave* is not here but in the config centre; this file holds what costs money or protects data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from crawlfleet.kernel import names
from infra.fleet import FLEET, Fleet
from infra.notify import Notify
from infra.pools import Home, PoolKind, compute_in, fleet_of, is_region, regions
from infra.pools import errors as pool_errors
from infra.redis_users import tenant_errors
from infra.spider_rules import SpiderRule, errors_of
from infra.streams import StreamReaders, with_streams

#: Zones of a network: what a stack without a fixed region may count on everywhere.
ZONES: Final = 2
#: Before that age S3 moves nothing into its cheaper class.
_LEAST_DAYS: Final = 30
_REDIS_SCHEMES: Final = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")


class Architecture(StrEnum):
    """Processor of the functions; the value is Lambda's name for it."""

    ARM64 = "arm64"
    X86_64 = "x86_64"


class Nat(StrEnum):
    """The carrier of IPv4 from the private subnets; IPv6 leaves by itself, free of charge."""

    INSTANCE = "instance"
    GATEWAY = "gateway"


class Engine(StrEnum):
    """The engine of ElastiCache. Scripts use commands of Redis 6.2 alone, so either serves."""

    REDIS = "redis"
    VALKEY = "valkey"


class ApiLogs(StrEnum):
    """The source of API Gateway's right to write logs, a setting of the whole account.

    There is one role an account and region, and whoever sets it last has set it for every API.
    """

    #: This stage makes a role and sets it; it stays when the stage goes, as others may rely on it.
    OWN_ROLE = "own-role"
    #: Somebody else has set it: the account is shared, and its role is not this stage's to change.
    ROLE_OF_ACCOUNT = "role-of-account"
    #: No logs of the API at all.
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vpc:
    """A network of the stage's own, dual stack, in two zones.

    Attributes:
        nat_count: NAT instances or gateways; one for each zone survives a zone's failure.
        nat: Which of the two.
        nat_instance_type: Size of a NAT instance; its processor must be arm64.
    """

    nat_count: int
    nat: Nat = Nat.INSTANCE
    nat_instance_type: str = "t4g.nano"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElastiCache:
    """A replication group of the stage's own: encrypted, with a token, evicting nothing.

    Attributes:
        node_type: Instance type of each node.
        replicas: Copies beside each primary; one or more means automatic failover.
        snapshot_days: How long the daily snapshots are kept.
        engine: Redis or Valkey.
        cluster_shards: Cluster mode with so many primaries; None is one primary without it. Between
            the two AWS changes a standing group in steps of its own, not by this number.
        snapshot: Snapshot that the first deployment fills it from; None begins empty. It stays as
            it is for as long as the group stands: AWS knows no other way to change it.
        scrapy_tenants: Tenants whose Scrapy processes have a user of their own, which sees their
            keys alone. The token is then the password of the user that the functions have.
    """

    node_type: str
    replicas: int
    snapshot_days: int
    engine: Engine = Engine.REDIS
    cluster_shards: int | None = None
    snapshot: str | None = None
    scrapy_tenants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRedis:
    """A Redis that stands already: the stage makes none.

    Attributes:
        url: ``redis://HOST:PORT`` or ``rediss://HOST:PORT``, without a password; with cluster mode
            ``redis+cluster://`` or ``rediss+cluster://``, and any of its nodes.
        has_token: Whether it asks for a password. The stage then has an empty secret for it, which
            the operator fills.
    """

    url: str
    has_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Atlas:
    """A MongoDB Atlas cluster that the stage makes for one of its nodes.

    The account must have activated the public extensions ``MongoDB::Atlas::Project``, ``Cluster``,
    ``DatabaseUser`` and ``ProjectIpAccessList`` in CloudFormation, and hold the API key of the
    organisation in the secret ``cfn/atlas/profile/<profile>``.

    Attributes:
        org_id: Organisation that pays.
        region: Atlas's name of the region, such as ``US_EAST_1``: that of the stage.
        tier: Size of each of the three members.
        version: Major version of MongoDB.
        profile: Which secret has the API key.
        node: The node whose URI this becomes.
    """

    org_id: str
    region: str
    tier: str = "M10"
    version: str = "8.0"
    profile: str = "default"
    node: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePlan:
    """The limits of the default tenant's API key, of callers without one, and of all together.

    Attributes:
        rate_per_second: Steady requests a second; one request may carry 1,000 URLs.
        burst: Requests at once.
        daily_quota: Requests a day.
        open_rate_per_second: Requests a second of everybody together to a route that asks for no
            key, each route by itself.
        api_rate_per_second: Requests a second of all tenants together to one route; beyond it the
            account's other APIs would go short, which share 10,000.
    """

    rate_per_second: int
    burst: int
    daily_quota: int
    open_rate_per_second: int = 10
    api_rate_per_second: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The archive bucket: how long its objects are kept, and in which class.

    Attributes:
        infrequent_after_days: Age at which an object moves to the cheaper class that costs a fee on
            each reading; S3 wants 30 at least. None leaves it where it is.
        days: Age at which it is deleted; None keeps it.
    """

    infrequent_after_days: int | None = 30
    days: int | None = 365

    def errors(self) -> Iterator[str]:
        """Yield what S3 would refuse in the middle of a deployment."""
        moved = self.infrequent_after_days
        if moved is not None and moved < _LEAST_DAYS:
            yield f"archive.infrequent_after_days is {moved}: S3 wants {_LEAST_DAYS} at least"
        if self.days is not None and self.days < 1:
            yield f"archive.days is {self.days}: S3 wants 1 at least"
        elif self.days is not None and moved is not None and self.days <= moved:
            yield (
                f"archive.days is {self.days}: S3 wants more than the {moved} of"
                " archive.infrequent_after_days; None moves nothing"
            )


class StageError(ValueError):
    """A stage's settings contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The settings of a stage.

    Attributes:
        name: Part of every deployed name.
        redis: The queue's Redis, made or given.
        consumer_concurrency: Most consumers at once, reserved for them; others have theirs in
            fleet.py, and AWS wants 100 of the account's concurrency to stay unreserved, so its
            limit must be that much higher.
        trials_concurrency: Steps of trials of rules at once, reserved for them: one more is refused
            with a time to come back. A trial takes a few steps, of milliseconds to 26 s each.
        vpc: The network; None puts no function into any, where all stores are reachable without.
        nodes: MongoDB nodes whose secrets exist from the first deployment; later ones need none.
        atlas: A MongoDB Atlas cluster to make for one of the nodes; None makes none.
        api_logs: Whether the API writes logs, and by whose leave.
        console: Whether calls of the console are passed on to the API, which takes an authorizer.
        tracing: Whether X-Ray follows requests.
        dashboard: Whether there is a CloudWatch dashboard.
        finding_alarms: Whether each kind of finding has an alarm, for whoever reads CloudWatch;
            otherwise those alone that start workers. The monitor notifies of all of them.
        is_watched: Whether somebody must be notified of what is wrong: without anybody it is not
            deployed. False for what stands for minutes.
        notify: Who is told what is wrong.
        protect_state: Whether the stack of the stores refuses deletion until somebody says
            otherwise.
        keep_state: Whether what is stored outlives its stack: secrets, key, topics and archive as
            they are, Redis as a snapshot. No stack can then be deleted unasked.
        tags: Tags of every resource, beside ``crawlfleet``.
        scrapy_packages: Folders of the packages whose Scrapy spiders consumers run, relative to the
            checkout, such as ``"../shop-crawler/shop"``. None: nothing of Scrapy is deployed.
        extra_packages: Folders of packages with executors and resolvers of one's own, relative to
            the checkout, such as ``"../acme/acme_crawl"``: found in every function that needs them.
        spider_rules: Rules of EventBridge that start kept spiders.
        pools: Kinds of workers beside the usual one. None of theirs is started before the stage
            document's ``pools`` or somebody's stated needs ask for it, and none costs before that.
        streams: The function that reads streams; None makes none, and nothing of it costs.
        plain_stores: Hosts of Redis and MongoDB that functions reach without TLS though they are
            other machines, in a network of one's own; ``*`` is any.
        region: Where all but the pools of other regions stands. Empty leaves that to the
            credentials that deploy, which only a stage without such pools can.

    Raises:
        StageError: Settings that exclude each other.
    """

    name: str
    redis: ElastiCache | GivenRedis
    usage_plan: UsagePlan
    consumer_concurrency: int
    vpc: Vpc | None
    trials_concurrency: int = 10
    nodes: tuple[str, ...] = ("main",)
    atlas: Atlas | None = None
    archive: Archive = Archive()
    architecture: Architecture = Architecture.ARM64
    api_logs: ApiLogs = ApiLogs.OWN_ROLE
    console: bool = True
    tracing: bool = True
    dashboard: bool = True
    finding_alarms: bool = True
    is_watched: bool = True
    notify: Notify = field(default_factory=Notify)
    log_retention_days: int = 30
    log_level: str = "INFO"
    streams: StreamReaders | None = None
    plain_stores: tuple[str, ...] = ()
    protect_state: bool = True
    keep_state: bool = True
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    scrapy_packages: tuple[str, ...] = ()
    extra_packages: tuple[str, ...] = ()
    spider_rules: tuple[SpiderRule, ...] = ()
    pools: tuple[PoolKind, ...] = ()
    region: str = ""

    def __post_init__(self) -> None:
        if errors := list(self._errors()):
            raise StageError(f"stage {self.name!r}: {'; '.join(errors)}")

    @property
    def fleet(self) -> Fleet:
        """Its functions, those of its pools and of its streams among them."""
        return with_streams(fleet_of(self.pools), self.streams)

    @property
    def codes(self) -> Fleet:
        """The functions whose code is built for it: those of pools have the consumer's."""
        return with_streams(FLEET, self.streams)

    @property
    def stacks(self) -> tuple[str, ...]:
        """Its stacks, by the last words of their names, in the order of their deployment."""
        network = () if self.vpc is None else ("network",)
        return (*network, "state", "compute", "api", "events", *self._away)

    @property
    def _away(self) -> Mapping[str, str]:
        """The stacks of pools in other regions, and these regions."""
        return {compute_in(region): region for region in regions(self.pools)}

    @property
    def notifies_nobody(self) -> bool:
        """Return whether it must not be deployed like this: nobody would be told what is wrong."""
        return self.is_watched and not self.notify

    def region_of(self, stack: str) -> str:
        """Return the region of one of its stacks; empty where the credentials decide that."""
        return self._away.get(stack, self.region)

    def protects(self, stack: str) -> bool:
        """Return whether that stack refuses deletion.

        Where state is kept all do, as ``cdk destroy --all`` begins with those that hold none. Those
        of other regions do not: they hold nothing, and go with the last pool there.
        """
        if stack in self._away:
            return False
        return self.keep_state or (self.protect_state and stack == "state")

    def _errors(self) -> Iterator[str]:
        if isinstance(self.redis, GivenRedis):
            address = urlsplit(self.redis.url)
            if f"{address.scheme}://" not in _REDIS_SCHEMES or not address.hostname:
                yield f"redis.url is none of {', '.join(_REDIS_SCHEMES)} with a host"
            elif address.password is not None:
                yield "redis.url holds a password; say has_token, and put it into the secret"
            elif not address.scheme.startswith("rediss") and names.needs_tls(
                address.hostname, self.plain_stores
            ):
                yield "redis.url needs TLS: rediss://; or name its host in plain_stores"
        elif self.vpc is None:
            yield "ElastiCache stands in a VPC and is reached from nowhere else; there is no vpc"
        elif self.redis.cluster_shards is not None and self.redis.cluster_shards < 1:
            yield "redis.cluster_shards is below 1; None is no cluster mode"
        else:
            yield from (f"redis.{error}" for error in tenant_errors(self.redis.scrapy_tenants))
        yield from self.archive.errors()
        yield from self.notify.errors()
        yield from errors_of(self.spider_rules)
        if self.streams is not None:
            yield from self.streams.errors()
        if self.region and not is_region(self.region):
            yield f"region {self.region!r} is no region of AWS"
        yield from pool_errors(
            self.pools,
            Home(
                stage=self.name,
                has_vpc=self.vpc is not None,
                region=self.region,
                redis_url=self.redis.url if isinstance(self.redis, GivenRedis) else "",
                has_token=isinstance(self.redis, GivenRedis) and self.redis.has_token,
            ),
        )
        if self.atlas is not None:
            if self.vpc is None:
                yield "atlas lets in the addresses of the NAT; there is no vpc"
            if self.atlas.node not in self.nodes:
                yield f"atlas.node {self.atlas.node!r} is none of nodes"


#: For one project or a first look: little that costs while nothing happens, and whoever ends the
#: protection of its state removes all of it.
AWS_SMALL: Final = Stage(
    name="aws-small",
    redis=ElastiCache(
        node_type="cache.t4g.micro", replicas=0, snapshot_days=1, engine=Engine.VALKEY
    ),
    usage_plan=UsagePlan(
        rate_per_second=20, burst=40, daily_quota=100_000, api_rate_per_second=100
    ),
    consumer_concurrency=5,
    vpc=Vpc(nat_count=1),
    archive=Archive(days=90),
    log_retention_days=7,
    finding_alarms=False,
    keep_state=False,
)

#: For what must not be lost and must not stand still: a zone may fail, stores outlive their stack.
AWS_LARGE: Final = Stage(
    name="aws-large",
    redis=ElastiCache(node_type="cache.t4g.small", replicas=1, snapshot_days=7),
    usage_plan=UsagePlan(rate_per_second=200, burst=400, daily_quota=5_000_000),
    consumer_concurrency=50,
    vpc=Vpc(nat_count=2),
    # For pages and spiders that 1,024 MB do not hold; nearly two virtual CPUs.
    pools=(PoolKind(name="large", memory_mb=3_008, concurrency=10),),
)

#: What the journey of LocalStack has started by events of its own (infra/localstack/starts.py).
ON_EVENT: Final = SpiderRule(
    name="pages-ready",
    tenant="default",
    biz="docs",
    spider="on-event",
    pattern={"source": ["crawlfleet.journey"], "detail-type": ["Pages Ready"]},
    values={"package": "$.detail.package"},
)
#: Enabled by hand: before its spider is kept there is nothing to start.
EVERY_MINUTE: Final = SpiderRule(
    name="every-minute",
    tenant="default",
    biz="docs",
    spider="by-clock",
    schedule="rate(1 minute)",
    enabled=False,
)

#: LocalStack on this machine: no service that it only pretends to have. Functions share the
#: machine's network, so stores are the machine's own, and its processor is x86-64.
LOCALSTACK: Final = Stage(
    name="localstack",
    redis=GivenRedis(url="redis://127.0.0.1:6379"),
    plain_stores=("*",),
    usage_plan=UsagePlan(rate_per_second=200, burst=400, daily_quota=5_000_000),
    consumer_concurrency=8,
    vpc=None,
    archive=Archive(infrequent_after_days=None, days=30),
    architecture=Architecture.X86_64,
    api_logs=ApiLogs.NONE,
    console=False,
    tracing=False,
    dashboard=False,
    is_watched=False,
    log_retention_days=7,
    protect_state=False,
    keep_state=False,
    extra_packages=("samplesconfig/own-code/project/acme_crawl",),
    spider_rules=(ON_EVENT, EVERY_MINUTE),
    streams=StreamReaders(targets=("arn:aws:sqs:us-east-1:000000000000:journey-*",)),
)

STAGES: Final = {stage.name: stage for stage in (AWS_SMALL, AWS_LARGE, LOCALSTACK)}
DEFAULT_STAGE: Final = AWS_SMALL.name


def find_stage(name: str, notify: str = "") -> Stage:
    """The stage of a name, which notifies those in ``notify`` as well.

    Raises:
        StageError: There is none, or what ``notify`` has is no address.
    """
    if name not in STAGES:
        raise StageError(f"no stage {name!r}; the stages are {', '.join(STAGES)}")
    found = STAGES[name]
    return replace(found, notify=found.notify.joined(notify)) if notify else found
