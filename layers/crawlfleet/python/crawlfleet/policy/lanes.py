"""What the figures of lanes say together, and how long a backlog lasts (SPEC.md A10, H4)."""

from collections.abc import Callable, Iterable, Sequence

from crawlfleet.model.ledger import Ledger
from crawlfleet.model.sample import FleetSample, LaneSample
from crawlfleet.model.totals import Rates

_TERMS = ("submitted", "pending", "leased", "waiting", "done", "dead", "cancelled", "expired")


def finish_seconds(backlog: int, per_second: float) -> float | None:
    """How long a backlog lasts at a rate; 0 for none, None where it never ends.

    >>> finish_seconds(30, 0.5), finish_seconds(0, 0.0), finish_seconds(1, 0.0)
    (60.0, 0.0, None)
    """
    if not backlog:
        return 0.0
    return backlog / per_second if per_second else None


def fleet_of(lanes: Sequence[LaneSample]) -> FleetSample:
    """All lanes together, as far as they were read."""
    depths = [lane.depth for lane in lanes if lane.depth is not None]
    processed = _rates(lane.processed for lane in lanes)
    queued = sum(depth.queued for depth in depths)
    differences = [abs(lane.difference) for lane in lanes if lane.difference is not None]
    return FleetSample(
        lanes=len(lanes),
        queued=queued,
        leased=sum(depth.leased for depth in depths),
        delayed=sum(depth.delayed for depth in depths),
        parked=sum(depth.parked for depth in depths),
        ready=sum(lane.load.ready for lane in lanes if lane.load is not None),
        oldest_seconds=max((lane.oldest_seconds for lane in lanes), default=0.0),
        submitted=_rates(lane.submitted for lane in lanes),
        processed=processed,
        finish_seconds=finish_seconds(queued, processed.per_60s),
        late=sum(lane.late for lane in lanes),
        ledger=_ledger([lane.ledger for lane in lanes if lane.ledger is not None]),
        difference=sum(differences) if differences else None,
    )


def is_quiet(lane: LaneSample) -> bool:
    """Whether there is nothing to tell of a lane: no work now, none within the last minute.

    One that a figure is missing of is not quiet.
    """
    if lane.depth is None or lane.submitted is None or lane.processed is None:
        return True  # nothing was read; what was not read is told elsewhere
    depth = lane.depth
    return not (
        depth.queued
        or depth.leased
        or depth.delayed
        or lane.submitted_seconds
        or lane.processed_seconds
        or lane.difference
    )


def _rates(each: Iterable[Rates | None]) -> Rates:
    known = [one for one in each if one is not None]

    def total(of: Callable[[Rates], float]) -> float:
        return sum(map(of, known))

    return Rates(
        per_1s=total(lambda one: one.per_1s),
        per_5s=total(lambda one: one.per_5s),
        per_60s=total(lambda one: one.per_60s),
    )


def _ledger(each: Sequence[Ledger]) -> Ledger:
    sums = {term: sum(getattr(one, term) for one in each) for term in _TERMS}
    return Ledger(**sums, others=sum(one.others for one in each))
