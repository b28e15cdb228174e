"""The parts of a stage that cost: read from the stage, the fleet and the names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crawlfleet.kernel import metric_names, names
from crawlfleet.monitoring.incidents.kinds import Kind
from infra import alarm_names
from infra.cost.inputs import Assumed
from infra.fleet import FLEET
from infra.stages import AWS_LARGE, AWS_SMALL, ZONES, ElastiCache, Engine, Nat, Stage

#: The stages that the page compares.
COMPARED: Final = (AWS_SMALL, AWS_LARGE)

#: Of each method of the API: calls, 4xx, 5xx, and both latencies.
_API_SERIES: Final = 5
#: That of topics and configuration.
_KEYS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The parts of a stage that cost.

    Attributes:
        name: The stage's.
        consumer_gb: Memory of a consumer; ``router_gb`` and ``tick_gb`` are those of the others.
        consumers: Most consumers at once.
        arm64: Which price of a GB-second.
        redis_nodes: Nodes of the replication group, of ``redis_type``.
        nats: NAT instances of ``nat_type``, or gateways where that is None, for ``zones``.
        ticks: Calls of functions by clocks in a minute.
        series: Metric series that there are always; ``stage_series`` those of the stage, its Redis
            and its nodes in an hour with work, ``work_series`` those of bizs and hosts in one,
            ``api_series`` those of an hour with calls.
        alarms: Alarms.
        secrets: Secrets.
        keys: Keys of KMS.
        mongodb: Tier of MongoDB Atlas.
    """

    name: str
    consumer_gb: float
    router_gb: float
    tick_gb: float
    consumers: int
    arm64: bool
    redis_nodes: int
    redis_type: str
    valkey: bool
    nats: int
    zones: int
    nat_type: str | None
    ticks: int
    series: int
    stage_series: int
    work_series: float
    api_series: float
    alarms: int
    secrets: int
    keys: int
    dashboard: bool
    tracing: bool
    mongodb: str


def shape_of(stage: Stage, assumed: Assumed, *, mongodb: Mapping[str, str] | None = None) -> Shape:
    """The shape of a stage that has a network and an ElastiCache of its own.

    Raises:
        ValueError: it has not, and so is not one that AWS bills like this.
    """
    redis, vpc = stage.redis, stage.vpc
    if not isinstance(redis, ElastiCache) or vpc is None:
        raise ValueError(f"stage {stage.name!r} has no network or no ElastiCache of its own")
    consumer, router = FLEET.function(names.CONSUMER), FLEET.function(names.ROUTER)
    ticking = [FLEET.function(clock.function) for clock in FLEET.clocks]
    nodes = len(stage.nodes)
    return Shape(
        name=stage.name,
        consumer_gb=consumer.memory_mb / 1024,
        router_gb=router.memory_mb / 1024,
        tick_gb=max(one.memory_mb for one in ticking) / 1024,
        consumers=stage.consumer_concurrency,
        arm64=stage.architecture.value == "arm64",
        redis_nodes=(1 + redis.replicas) * (redis.cluster_shards or 1),
        redis_type=redis.node_type,
        valkey=redis.engine is Engine.VALKEY,
        nats=vpc.nat_count,
        zones=ZONES,
        nat_type=vpc.nat_instance_type if vpc.nat is Nat.INSTANCE else None,
        ticks=sum(2 if clock.again_seconds else 1 for clock in FLEET.clocks),
        series=len(metric_names.IDLE),
        stage_series=len(metric_names.FLEET)
        + len(metric_names.REDIS)
        + nodes * len(metric_names.NODE)
        + len(Kind)
        - len(metric_names.IDLE),
        work_series=assumed.bizs * len(metric_names.QUEUE_KEY)
        + assumed.hosts * len(metric_names.HOST),
        api_series=assumed.api_methods * _API_SERIES,
        alarms=len(alarm_names.of_stage(stage)),
        secrets=1 + nodes,
        keys=_KEYS,
        dashboard=stage.dashboard,
        tracing=stage.tracing,
        mongodb=(mongodb or assumed.mongodb)[stage.name],
    )
