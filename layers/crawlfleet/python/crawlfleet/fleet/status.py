"""How many workers are how, of all pools and of each (SPEC.md C5, C6).

Whether a biz is late (SPEC.md A11, H4).

What the figures of lanes say together, and how long a backlog lasts (SPEC.md A10, H4).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from crawlfleet.config.documents.biz import DetectorLimits
from crawlfleet.fleet.autoscaler import latest_seconds, seconds_left
from crawlfleet.fleet.failure_detector import status
from crawlfleet.fleet.models import (
    Card,
    FleetSample,
    Health,
    LaneSample,
    PoolSample,
    PoolState,
    Pulse,
    Staff,
    WorkersSample,
    WorkerStatus,
)
from crawlfleet.kernel.queue_key import MAIN_POOL, Lane, Pool
from crawlfleet.requests.ledger import Ledger
from crawlfleet.requests.queue.stats import Rates


def headcount(
    pulses: Iterable[Pulse],
    limits: DetectorLimits,
    *,
    present: int = 0,
    staff: Staff | None = None,
    pools: Sequence[PoolState] = (),
) -> WorkersSample:
    """The workers by what the failure detector makes of them.

    ``present`` and ``staff`` are the usual pool's, ``pools`` the others. One that only its workers
    tell of, as it is not deployed any more, is shown with what they say.

    >>> headcount([Pulse(worker="w", silent_ms=100)], DetectorLimits()).alive
    1
    """
    verdicts: defaultdict[str, list[WorkerStatus]] = defaultdict(list)
    for pulse in pulses:
        verdicts[pulse.card.pool].append(status(pulse, limits))
    known = {MAIN_POOL: PoolState(pool=Pool(), present=present, staff=staff)}
    known |= {one.pool.name: one for one in pools}
    names = [*known, *sorted(verdicts.keys() - known.keys())]
    each = [
        _pool_sample(known.get(name, PoolState(pool=Pool(name=name))), verdicts[name])
        for name in names
    ]
    wanted = [one.wanted for one in each if one.wanted is not None]
    allowed = [one.allowed for one in each if one.allowed is not None]
    return WorkersSample(
        alive=sum(one.alive for one in each),
        suspected=sum(one.suspected for one in each),
        dead=sum(one.dead for one in each),
        unwatched=sum(one.unwatched for one in each),
        present=sum(one.present for one in each),
        wanted=sum(wanted) if wanted else None,
        allowed=sum(allowed) if allowed else None,
        pools=tuple(each),
    )


def _pool_sample(state: PoolState, workers: Sequence[WorkerStatus]) -> PoolSample:
    verdicts = Counter(one.health for one in workers)
    alive = [one for one in workers if one.health is Health.ALIVE]
    busy = sum(any(one.card.held.values()) for one in alive)
    staff = state.staff
    return PoolSample(
        name=state.pool.name,
        memory_mb=state.pool.memory_mb if state.pool.function else None,
        region=state.pool.region,
        network=state.pool.network,
        alive=len(alive),
        busy=busy,
        idle=len(alive) - busy,
        suspected=verdicts[Health.SUSPECTED],
        dead=verdicts[Health.DEAD],
        unwatched=verdicts[Health.UNWATCHED],
        present=state.present,
        wanted=None if staff is None else staff.needed,
        allowed=None if staff is None else staff.allowed,
        kept=0 if staff is None else staff.floor,
        stated=0 if staff is None else staff.stated,
        done=sum(one.card.done for one in workers),
        failed=sum(one.card.failed for one in workers),
    )


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


def is_late(
    *,
    oldest_seconds: float,
    longest_seconds: float,
    queued: int,
    per_second: float,
    planned_seconds: float | None,
    submitted: Sequence[int] = (),
) -> bool:
    """Whether a biz's backlog is older than the stage bears, or will outlast the biz's plan.

    Args:
        oldest_seconds: Age of what is served next.
        longest_seconds: The age that the stage bears.
        queued: Requests waiting.
        per_second: The present rate of processing. Without one there is no forecast, and the
            backlog is late once its oldest has waited for as long as the whole was planned.
        planned_seconds: The time in which the biz wants a backlog finished; None for no wish.
        submitted: Requests submitted in each of the last full seconds, the latest first.
    """
    if oldest_seconds > longest_seconds:
        return True
    if planned_seconds is None or not queued:
        return False
    left = seconds_left(planned_seconds, oldest_seconds, queued, submitted)
    forecast = finish_seconds(queued, per_second)
    return latest_seconds(planned_seconds, left, oldest_seconds, forecast) > planned_seconds


def seen_from(lane: Lane, status: WorkerStatus, *, counts: bool = False) -> WorkerStatus:
    """The worker without what is other lanes': what it holds of them, what it did for them.

    With ``counts`` it keeps what it has done for all of them together, for operators.
    """
    card, name = status.card, f"{lane.tenant}/{lane.biz}"
    cut = Card(
        started_ms=card.started_ms,
        held={name: card.held.get(name, 0)},
        done=card.done if counts else 0,
        failed=card.failed if counts else 0,
        pool=card.pool,
    )
    return msgspec.structs.replace(status, card=cut)
