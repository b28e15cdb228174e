"""Scaling (SPEC.md A12, H4): look, decide, act.

The minute's tick calls it, and an alarm does at once; several may at the same moment. Whatever
cannot be seen leaves everything as it is: nothing is started blindly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from crawlfleet.flows.allowing import allow
from crawlfleet.flows.outlooking import OutlookPorts, look_ahead
from crawlfleet.flows.staffing import start_missing
from crawlfleet.model.biz import Tree
from crawlfleet.model.staff import FLEET_POOL, Demand, Staff
from crawlfleet.policy.scaling import decide, is_fresh, reserved
from crawlfleet.ports import Clock, ConcurrencyLimit, Staffing, Waker, Workers

#: Deciders that come at the same moment, at most; who loses looks at what the other has decided.
TRIES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPorts:
    """What scaling needs of the world; ``warn`` is told what is wrong but not fatal."""

    ahead: OutlookPorts
    staffing: Staffing
    workers: Workers
    waker: Waker
    limit: ConcurrencyLimit
    warn: Callable[[str, Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What came of it.

    ``limit`` is how many invocations are allowed now, None where that is not known; ``live`` were
    there before ``started`` were started.
    """

    staff: Staff
    backlog: int
    live: int
    started: int
    limit: int | None


def scale(ports: ScalingPorts, tree: Tree, clock: Clock) -> Scaled:
    """Have as many workers as there should be.

    Raises:
        StoreError: a part did not answer, so that nothing was decided and nobody was started.
    """
    demand = look_ahead(ports.ahead, tree, clock(), ports.staffing.paces(FLEET_POOL))
    live = len(ports.workers.live(clock()))
    staff = _decided(ports, tree, demand, live)
    staff, limit = _allowed(ports, staff)
    started = start_missing(ports.workers, ports.waker, staff.startable, clock, ports.warn)
    return Scaled(staff=staff, backlog=demand.backlog, live=live, started=started, limit=limit)


def _decided(ports: ScalingPorts, tree: Tree, demand: Demand, live: int) -> Staff:
    """Decide, on top of whatever others have decided meanwhile."""
    for _ in range(TRIES):
        standing = ports.staffing.read(FLEET_POOL)
        staff = decide(standing, demand, tree.stage.fleet, live=live, ceiling=ports.limit.ceiling)
        if ports.staffing.settle(FLEET_POOL, standing, staff):
            return staff
    # Others decide all the time, about the same demand.
    return ports.staffing.read(FLEET_POOL).staff


def _allowed(ports: ScalingPorts, staff: Staff) -> tuple[Staff, int | None]:
    """Have the concurrency follow the decision; returns the one that it follows, and what it is.

    Whoever was held up between deciding and this would set what an older decision says. So it is
    looked whether that still stands, and gone by what does. Whoever fills places goes by what is
    noted of it: more calls than are allowed would be refused.
    """
    limit = None
    for _ in range(TRIES):
        target = reserved(staff, ports.limit.ceiling)
        limit = allow(ports.limit, target, ports.warn)
        standing = ports.staffing.read(FLEET_POOL)
        if not is_fresh(standing):
            # Redis has lost it. The next look decides anew.
            break
        staff = standing.staff
        if reserved(staff, ports.limit.ceiling) != target:
            continue
        noted = staff if limit is None else replace(staff, allowed=limit)
        if noted == staff or ports.staffing.settle(FLEET_POOL, standing, noted):
            return noted, limit
    return staff if limit is None else replace(staff, allowed=limit), limit
