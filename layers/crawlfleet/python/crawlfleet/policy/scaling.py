"""How many workers there should be (SPEC.md A12, H4, C1).

**Needed.** A lane with a plan needs as many workers as end its backlog within :data:`MARGIN` of the
time that is left to its oldest request; one without a plan needs one for every
``requests_per_consumer``. A worker's rate is what workers have shown with requests of the lane, or
else with any (:func:`capacity`), and until then a guess. No lane gets more than its hosts may be
asked for: a worker more would wait at them too. Parts of workers add up over the lanes, so that a
hundred small ones share one. Where there is anything to do there is at least one. A lane that will
not end in time at the rate at which it goes on, though its hosts could bear more, keeps whoever
works for it: what is thought of the workers' rates is too good then.

**Kept.** More are started in one step, as soon as they are needed. Fewer are kept only after
``quiet_seconds`` in which fewer would have done even with :data:`BAND` times the work, then no
fewer than that quiet time's peak, and at most a quarter of them leaves at once. So a load that
varies within the band changes nothing, and one that comes back soon finds its workers.
"""

import math
from typing import Final

from msgspec.structs import replace

from crawlfleet.model.biz import FleetLimits
from crawlfleet.model.staff import Demand, LaneDemand, Shown, Staff, Staffed

#: A plan is to be kept with so much of its time used: rates vary, and a worker may die.
MARGIN: Final = 0.8
#: A plan that is over, or nearly, is taken to have so many seconds left.
LEAST_SECONDS: Final = 30.0
#: Fewer workers must be able to bear so many times the load before any leaves.
BAND: Final = 1.2
#: The part that leaves at once, at most; one may always.
LEAVING: Final = 0.25
#: A download and its page take so long before any was measured.
GUESSED_SECONDS: Final = 1.0
#: Who has used less of itself than this has not shown what it can do, only that it can do so much.
LEAST_BUSY: Final = 0.25
#: Below this nothing is learnt: a worker that deals with a page in 100 seconds is stuck.
SLOWEST: Final = 0.01
#: What one worker's showing weighs beside what is known: each shows some every few seconds.
PACE_WEIGHT: Final = 0.1
#: Lanes whose own pace is kept, at most: of others that of all counts.
MOST_PACES: Final = 500
#: Beyond this age a decision is nobody's order any more: two ticks have not come.
FRESH_MS: Final = 150_000
#: A lane that goes on at this part of what its hosts may be asked for is held up by them.
HELD_UP: Final = 0.9
#: Of invocations that are no workers, such as trials of rules, and of wake-ups by submissions.
SPARE: Final = 2


def capacity(per_second: float, busy: float) -> Shown | None:
    """What a worker could do in a second that has done so much with that part of itself.

    None if that is nothing to go by. ``busy`` is the part of its runners that were at work, on
    average. By Little's law a full worker does as many times more as it has runners left, at the
    same time a page. That the time stays the same is not to be believed of one that was nearly
    idle: it has only shown that it can do what it did.

    >>> capacity(8.0, 0.5)
    Shown(pace=16.0, is_least=False)
    >>> capacity(8.0, 0.01)
    Shown(pace=8.0, is_least=True)
    >>> capacity(0.0, 1.0)
    """
    if per_second < SLOWEST or busy <= 0:
        return None
    if busy < LEAST_BUSY:
        return Shown(pace=per_second, is_least=True)
    return Shown(pace=per_second / min(1.0, busy))


def learnt(known: float | None, shown: Shown) -> float | None:
    """What is known of a pace when one has been shown; muster.lua does the same.

    What a nearly idle worker has done can raise it and never lower it, and is no beginning: the
    guess is better, as one that has too few workers will soon be busy and say so.

    >>> learnt(None, Shown(pace=4.0)), learnt(10.0, Shown(pace=20.0))
    (4.0, 11.0)
    >>> learnt(10.0, Shown(pace=1.0, is_least=True)), learnt(None, Shown(pace=1.0, is_least=True))
    (10.0, None)
    """
    if known is None:
        return None if shown.is_least else shown.pace
    if shown.is_least and shown.pace < known:
        return known
    return known + (shown.pace - known) * PACE_WEIGHT


def guessed_pace(limits: FleetLimits) -> float:
    """A worker's rate before any was measured."""
    return limits.concurrency / GUESSED_SECONDS


def needed_workers(
    demand: Demand, pace: float, limits: FleetLimits, most: int, load: float = 1.0, live: int = 0
) -> int:
    """How many workers are needed for ``load`` times the demand, ``most`` at most.

    ``pace`` is a worker's where a lane has none of its own; ``live`` work now.

    >>> lane = LaneDemand(backlog=20_000, seconds_left=600)
    >>> needed_workers(Demand(lanes=(lane,)), 16.0, FleetLimits(max_consumers=9), 9)
    3
    """
    parts = [_lane_workers(lane, pace, limits, load) for lane in demand.lanes]
    made = sum(part * (lane.pace or pace) for part, lane in zip(parts, demand.lanes, strict=True))
    usable = min(1.0, demand.polite_per_second / made) if made else 1.0
    held = sum(lane.leased for lane in demand.lanes)
    total = 0.0
    for part, lane in zip(parts, demand.lanes, strict=True):
        now = live * lane.leased / held if held and is_late(lane) else 0.0
        total += max(part * usable, now)
    # Sums of parts are not exact: 3 of them must not become 4.
    needed = math.ceil(min(total, float(most)) - 1e-9)
    if demand.backlog:
        needed = max(1, needed)
    return min(max(limits.min_consumers, needed), most)


def _lane_workers(lane: LaneDemand, pace: float, limits: FleetLimits, load: float) -> float:
    if not lane.backlog:
        return 0.0
    pace = lane.pace or pace
    if lane.seconds_left is None:
        asked = lane.backlog / limits.requests_per_consumer
    else:
        asked = lane.backlog / (max(LEAST_SECONDS, lane.seconds_left * MARGIN) * pace)
    return min(asked * load, lane.polite_per_second / pace)


def is_late(lane: LaneDemand) -> bool:
    """Whether a lane will not end in time at its rate, for want of workers and not of turns.

    >>> lane = LaneDemand(backlog=1_000, seconds_left=100.0, polite_per_second=50.0, drained=5.0)
    >>> is_late(lane)
    True
    """
    if lane.seconds_left is None or lane.drained is None or not lane.backlog:
        return False
    in_time = lane.drained * max(0.0, lane.seconds_left)
    return lane.backlog > in_time and lane.drained < HELD_UP * lane.polite_per_second


def decide(
    staffed: Staffed, demand: Demand, limits: FleetLimits, *, live: int, ceiling: int | None = None
) -> Staff:
    """How many there are to be from now on.

    Args:
        staffed: What stands, and what is known of the workers.
        demand: What there is to do.
        limits: The stage's.
        live: How many work now. What stands is their number where nothing is known of a decision:
            what Redis has lost is no reason to send anybody away.
        ceiling: Most invocations that the stage may have at once; None for no such bound.
    """
    most = limits.max_consumers if ceiling is None else min(limits.max_consumers, ceiling)
    pace = staffed.pace or guessed_pace(limits)
    before, now_ms = staffed.staff, staffed.now_ms
    staying = max(0, live - staffed.leaving)
    needed = needed_workers(demand, pace, limits, most, live=staying)
    # More work may need fewer: quick lanes take the turns of hosts that slow ones share with them.
    roomy = max(needed, needed_workers(demand, pace, limits, most, BAND, staying))
    if is_fresh(staffed):
        kept = min(before.kept, most)
    else:
        before = Staff(allowed=before.allowed)
        kept = min(max(needed, live), most)
    quiet_ms = min(before.quiet_ms, now_ms)
    found = Staff(needed=needed, kept=kept, at_ms=now_ms, allowed=before.allowed)
    if roomy >= kept:
        return replace(found, kept=max(needed, kept))
    if not quiet_ms:
        return replace(found, quiet_ms=now_ms, peak=roomy)
    peak = max(before.peak, roomy)
    if now_ms - quiet_ms < limits.quiet_seconds * 1_000:
        return replace(found, quiet_ms=quiet_ms, peak=peak)
    # Never more than now: the peak may be of a time that had more to give.
    kept = min(kept, max(peak, kept - max(1, math.floor(kept * LEAVING))))
    return replace(found, kept=kept, quiet_ms=now_ms, peak=roomy)


def is_fresh(staffed: Staffed) -> bool:
    """Whether the standing decision still is one to act by."""
    at_ms = staffed.staff.at_ms
    return at_ms > 0 and abs(staffed.now_ms - at_ms) <= FRESH_MS


def reserved(staff: Staff, ceiling: int) -> int:
    """How many invocations at once the workers' function is to be allowed.

    Never none: a submission to an idle fleet wakes a worker, and rules are tried.

    >>> reserved(Staff(needed=3, kept=4), 10), reserved(Staff(), 10), reserved(Staff(kept=9), 10)
    (6, 2, 10)
    """
    return max(1, min(staff.kept + SPARE, ceiling))
