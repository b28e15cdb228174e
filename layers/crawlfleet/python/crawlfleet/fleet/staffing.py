"""A worker's part in how many there are (SPEC.md C1): it calls for whoever is missing.

Capacity that dies is not to wait for the next tick. Whoever buries a worker, or ends because its
time is up, has those started that the standing decision wants and that are not there: of its own
pool, and of the one that the dead were of. Nor is work that was handed back: whoever ends sees that
somebody is there for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from crawlfleet.fleet.models import (
    ScalingState,
    ScalingTarget,
    Throughput,
    ThroughputReply,
    WorkReport,
    target_name,
)
from crawlfleet.fleet.ports import ScalingTargets, Workers
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.time import Clock
from crawlfleet.requests.ports import Waker

#: Beyond this age a decision is nobody's order any more: two ticks have not come.
FRESH_MS: Final = 150_000


def is_fresh(scaling_state: ScalingState) -> bool:
    """Whether the standing decision still is one to act by."""
    at_ms = scaling_state.target.at_ms
    return at_ms > 0 and abs(scaling_state.now_ms - at_ms) <= FRESH_MS


#: Workers that are reserved, and called for, at once: a reservation counts for some seconds only.
AT_ONCE: Final = 40

_NONE: Final[Mapping[str, Throughput]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPorts:
    """What a worker needs for it.

    ``pool`` is its own, and so are ``workers`` and ``waker``; ``elsewhere`` are those of others.
    """

    targets: ScalingTargets
    workers: Workers
    waker: Waker
    pool: str = MAIN_POOL
    elsewhere: "Mapping[str, CapacityPorts]" = field(default_factory=dict)


def replace_missing(ports: CapacityPorts, clock: Clock) -> int:
    """Start those that are missing; returns how many. Never more than were decided to be needed.

    Nor more than there is room for: calls for others would be refused, and be worth nothing when
    there is. A decision that is out of date is not acted by: the next tick makes a new one.
    """
    try:
        standing = ports.targets.read(target_name(ports.pool))
        if not is_fresh(standing):
            return 0
        wanted = standing.target.startable
        return start_missing(ports.workers, ports.waker, wanted, clock)
    except StoreUnavailableError as error:
        warn("missing workers could not be started; the next tick starts them", error)
        return 0


def succeed(ports: CapacityPorts, clock: Clock, report: WorkReport) -> int:
    """Have somebody go on for a worker that has ended and said good-bye; returns how many start.

    One whose time was up is replaced. Of what was handed back somebody has to take care: others may
    have left in that moment, as they had nothing to do while this one held it.
    """
    started = replace_missing(ports, clock) if report.stopped_because == "time" else 0
    if report.handed_back and not started:
        started = start_missing(ports.workers, ports.waker, 1, clock)
    return started


def replace_dead(ports: CapacityPorts, pools: Iterable[str], clock: Clock) -> int:
    """Fill the places of the dead of these pools; those that are not known here wait for the tick.

    Whoever looks on calls for its own pool in any case.
    """
    started = replace_missing(ports, clock)
    for pool in sorted({*pools} - {ports.pool}):
        other = ports.elsewhere.get(pool)
        try:
            started += replace_missing(other, clock) if other is not None else 0
        except Exception as error:  # noqa: BLE001  one pool's fault is not the others'
            warn(f"missing workers of the pool {pool} could not be started", error)
    return started


def start_missing(
    workers: Workers,
    waker: Waker,
    wanted: int,
    clock: Clock,
) -> int:
    """Start those of ``wanted`` that are missing; returns how many.

    Some are reserved and called for before the next are, so that however many there are no
    reservation ends before its worker can be there.

    Raises:
        StoreUnavailableError: Redis did not answer.
    """
    started = 0
    while started < wanted:
        missing = workers.reserve_wake(clock(), wanted, AT_ONCE)
        if not missing:
            break
        try:
            waker.wake(missing)
        except StoreUnavailableError as error:
            # Some may have been started. What was reserved for the others is free in some seconds.
            warn("workers could not be started; the next tick starts them", error)
            break
        started += missing
    return started


def report_throughput(
    ports: CapacityPorts,
    worker: str,
    throughput: Throughput | None,
    now: datetime,
    throughputs: Mapping[str, Throughput] = _NONE,
) -> ThroughputReply | None:
    """Tell what the worker can do, at all and by ``tenant/biz``; what it is told, if Redis answers.

    While it is away nobody leaves.
    """
    try:
        return ports.targets.report_throughput(
            target_name(ports.pool), worker, throughput, now, throughputs
        )
    except StoreUnavailableError as error:
        warn("whether this worker is still wanted is not known", error)
        return None


def decided(targets: ScalingTargets, pool: str = MAIN_POOL) -> ScalingTarget | None:
    """The decision that is in force; None where none is."""
    standing = targets.read(target_name(pool))
    return standing.target if is_fresh(standing) else None
