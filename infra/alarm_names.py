"""The names of a stage's alarms: one list, for what makes them and what reads them."""

from collections.abc import Iterator
from typing import Final

from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.kinds import Kind
from infra.fleet import FunctionSpec
from infra.stages import ElastiCache, Stage

MONITOR_SILENT: Final = "monitor-silent"
SCHEDULER_SILENT: Final = "scheduler-silent"
MESSAGES_FAILED: Final = "messages-failed"
STARTS_WAITING: Final = "starts-waiting"
API_FAULTS: Final = "api-faults"
API_SLOW: Final = "api-slow"

#: What more workers may be the answer to.
SCALING: Final = (Kind.BACKLOG, Kind.OLDEST_WAITING, Kind.WILL_BE_LATE, Kind.NO_WORKERS)


def finding_kinds(stage: Stage) -> tuple[Kind, ...]:
    """Return the kinds of finding that a stage has an alarm of."""
    return tuple(Kind) if stage.finding_alarms else SCALING


def prefix(stage: str) -> str:
    """Return the prefix of all alarm names of a stage."""
    return f"{names.PRODUCT}-{stage}-"


def finding(kind: Kind) -> str:
    """The alarm of what the monitor has found.

    >>> finding(Kind.NO_WORKERS)
    'no-workers'
    """
    return kind.value.replace("_", "-")


def errors(function: str) -> str:
    """Name the alarm of a function that fails."""
    return f"{function}-errors"


def throttles(function: str) -> str:
    """Name the alarm of a function that Lambda does not start."""
    return f"{function}-throttles"


def slow(function: str) -> str:
    """Name the alarm of a function that is about to be cut off."""
    return f"{function}-slow"


def dead_letters(function: str) -> str:
    """Name the alarm of events that a function gave up on."""
    return f"{function}-dead-letters"


def redis_cpu(stage: str, node: str) -> str:
    """Name the alarm of a busy node of ElastiCache.

    >>> redis_cpu("aws-small", "crawlfleet-aws-small-001")
    'redis-001-cpu'
    """
    return f"redis-{node.removeprefix(prefix(stage))}-cpu"


def redis_memory(stage: str, node: str) -> str:
    """Name the alarm of a nearly full node of ElastiCache."""
    return f"redis-{node.removeprefix(prefix(stage))}-memory"


def has_an_end(spec: FunctionSpec) -> bool:
    """Return whether a slow run of the function deserves an alarm.

    A worker works for as long as it may, and is cut off by nobody; so does what reads streams. A
    trial may take nearly all of its time, as sites and pages please, and ends by itself before.
    """
    if spec.is_worker or spec.name in {names.TRIALS, names.STREAMS}:
        return False
    return is_called_all_day(spec)


def is_called_all_day(spec: FunctionSpec) -> bool:
    """Return whether a function is called by more than an operator, who sees what becomes of it."""
    return not spec.grants.manages_tenants


def of_stage(stage: Stage) -> frozenset[str]:
    """Every alarm of a stage, without what all names begin with."""
    return frozenset(_of_stage(stage))


def _of_stage(stage: Stage) -> Iterator[str]:
    yield from map(finding, finding_kinds(stage))
    yield from (MONITOR_SILENT, SCHEDULER_SILENT, MESSAGES_FAILED, API_FAULTS, API_SLOW)
    for spec in stage.fleet.at_home:
        yield errors(spec.name)
        if is_called_all_day(spec):
            yield throttles(spec.name)
        if has_an_end(spec):
            yield slow(spec.name)
        if spec.keeps_dead_letters:
            yield dead_letters(spec.name)
    if stage.spider_rules:
        yield STARTS_WAITING
    if isinstance(stage.redis, ElastiCache):
        for node in redis_nodes(stage, stage.redis):
            yield redis_cpu(stage.name, node)
            yield redis_memory(stage.name, node)


def redis_nodes(stage: Stage, settings: ElastiCache) -> tuple[str, ...]:
    """Return ElastiCache's names of the nodes of the stage's replication group.

    >>> from infra.stages import AWS_SMALL
    >>> redis_nodes(AWS_SMALL, ElastiCache(node_type="t", replicas=1, snapshot_days=1))
    ('crawlfleet-aws-small-001', 'crawlfleet-aws-small-002')
    """
    group = f"{names.PRODUCT}-{stage.name}"
    members = range(1, settings.replicas + 2)
    if settings.cluster_shards is None:
        return tuple(f"{group}-{member:03}" for member in members)
    return tuple(
        f"{group}-{shard:04}-{member:03}"
        for shard in range(1, settings.cluster_shards + 1)
        for member in members
    )
