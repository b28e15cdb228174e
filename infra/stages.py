"""The stages, and all in which one differs from another; nothing else in ``infra`` names a stage.

No stage names an account or a region: the credentials that deploy decide both, so the app
synthesises anywhere and looks nothing up. How functions *behave* is not here but in the config
centre; this file holds what costs money or protects data.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Architecture(StrEnum):
    """Processor of the functions; the value is Lambda's name for it."""

    ARM64 = "arm64"
    X86_64 = "x86_64"


class Nat(StrEnum):
    """What carries IPv4 from the private subnets; IPv6 leaves by itself, free of charge."""

    INSTANCE = "instance"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redis:
    """Size and safety of the ElastiCache replication group.

    Attributes:
        node_type: Instance type of each node.
        replicas: Copies beside the primary; one or more means automatic failover.
        snapshot_days: How long the daily snapshots are kept.
    """

    node_type: str
    replicas: int
    snapshot_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePlan:
    """What the default tenant's API key may ask, and who has none.

    Attributes:
        rate_per_second: Steady requests a second; one request may carry 1,000 URLs.
        burst: Requests at once.
        daily_quota: Requests a day.
        open_rate_per_second: Requests a second of everybody together to a route that asks for no
            key, each route by itself.
    """

    rate_per_second: int
    burst: int
    daily_quota: int
    open_rate_per_second: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything that a stage decides.

    Attributes:
        name: Part of every deployed name.
        nodes: MongoDB nodes whose secrets exist from the first deployment; later ones need none.
        consumer_concurrency: Most consumers at once, reserved for them; AWS wants 100 of the
            account's concurrency to stay unreserved, so its limit must be that much higher.
        nat_count: NAT instances or gateways; one for each zone survives a zone's failure.
        keep_state: Whether stores and secrets outlive their stack, and stacks refuse deletion.
        scrapy_packages: Folders of the packages whose Scrapy spiders consumers run, relative to the
            checkout, such as ``"../shop-crawler/shop"``. None: nothing of Scrapy is deployed.
    """

    name: str
    redis: Redis
    usage_plan: UsagePlan
    consumer_concurrency: int
    nat_count: int
    nodes: tuple[str, ...] = ("main",)
    architecture: Architecture = Architecture.ARM64
    nat: Nat = Nat.INSTANCE
    nat_instance_type: str = "t4g.nano"
    log_retention_days: int = 30
    log_level: str = "INFO"
    keep_state: bool = True
    scrapy_packages: tuple[str, ...] = ()


DEV: Final = Stage(
    name="dev",
    redis=Redis(node_type="cache.t4g.micro", replicas=0, snapshot_days=1),
    usage_plan=UsagePlan(rate_per_second=20, burst=40, daily_quota=100_000),
    consumer_concurrency=5,
    nat_count=1,
    log_retention_days=7,
    log_level="DEBUG",
    keep_state=False,
)

PROD: Final = Stage(
    name="prod",
    redis=Redis(node_type="cache.t4g.small", replicas=1, snapshot_days=7),
    usage_plan=UsagePlan(rate_per_second=200, burst=400, daily_quota=5_000_000),
    consumer_concurrency=50,
    nat_count=2,
)

STAGES: Final = {stage.name: stage for stage in (DEV, PROD)}
DEFAULT_STAGE: Final = DEV.name
