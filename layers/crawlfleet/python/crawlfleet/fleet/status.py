"""Sum the samples of workers and queues (SPEC.md A10, C5, C6); tell late bizs (A11, H4)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from crawlfleet.config.documents.biz import DetectorLimits
from crawlfleet.fleet.autoscaler import latest_seconds, seconds_left
from crawlfleet.fleet.failure_detector import status
from crawlfleet.fleet.models import (
    FleetSample,
    Health,
    PoolSample,
    PoolState,
    QueueSample,
    ScalingTarget,
    WorkerHealth,
    WorkerHeartbeats,
    WorkersSample,
    WorkerStatus,
)
from crawlfleet.kernel.queue_key import MAIN_POOL, Pool, QueueKey
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.queue.stats import Rates


def headcount(
    heartbeats: Iterable[WorkerHeartbeats],
    limits: DetectorLimits,
    *,
    present: int = 0,
    target: ScalingTarget | None = None,
    pools: Sequence[PoolState] = (),
) -> WorkersSample:
    """Count the workers by health, of all pools and of each.

    ``present`` and ``target`` are the usual pool's, ``pools`` the others. A pool that only its
    workers name, as it is not deployed any more, is shown with what they say.

    >>> headcount([WorkerHeartbeats(worker="w", silent_ms=100)], DetectorLimits()).alive
    1
    """
    verdicts: defaultdict[str, list[WorkerHealth]] = defaultdict(list)
    for beats in heartbeats:
        verdicts[beats.worker_status.pool].append(status(beats, limits))
    known = {MAIN_POOL: PoolState(pool=Pool(), present=present, target=target)}
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


def _pool_sample(state: PoolState, workers: Sequence[WorkerHealth]) -> PoolSample:
    verdicts = Counter(one.health for one in workers)
    alive = [one for one in workers if one.health is Health.ALIVE]
    busy = sum(any(one.worker_status.held.values()) for one in alive)
    target = state.target
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
        wanted=None if target is None else target.needed,
        allowed=None if target is None else target.allowed,
        kept=0 if target is None else target.floor,
        stated=0 if target is None else target.stated,
        done=sum(one.worker_status.done for one in workers),
        failed=sum(one.worker_status.failed for one in workers),
    )


_TERMS = ("submitted", "pending", "leased", "waiting", "done", "dead", "cancelled", "expired")


def finish_seconds(backlog: int, per_second: float) -> float | None:
    """Compute how long a backlog lasts at a rate; 0 for none, None where it never ends.

    >>> finish_seconds(30, 0.5), finish_seconds(0, 0.0), finish_seconds(1, 0.0)
    (60.0, 0.0, None)
    """
    if not backlog:
        return 0.0
    return backlog / per_second if per_second else None


def fleet_of(queues: Sequence[QueueSample]) -> FleetSample:
    """Sum the samples of all queues, as far as they were read."""
    depths = [queue_key.depth for queue_key in queues if queue_key.depth is not None]
    processed = _rates(queue_key.processed for queue_key in queues)
    queued = sum(depth.queued for depth in depths)
    differences = [
        abs(queue_key.difference) for queue_key in queues if queue_key.difference is not None
    ]
    return FleetSample(
        queues=len(queues),
        queued=queued,
        leased=sum(depth.leased for depth in depths),
        delayed=sum(depth.delayed for depth in depths),
        deferred=sum(depth.deferred for depth in depths),
        ready=sum(queue_key.load.ready for queue_key in queues if queue_key.load is not None),
        oldest_seconds=max((queue_key.oldest_seconds for queue_key in queues), default=0.0),
        submitted=_rates(queue_key.submitted for queue_key in queues),
        processed=processed,
        finish_seconds=finish_seconds(queued, processed.per_60s),
        late=sum(queue_key.late for queue_key in queues),
        ledger=_ledger([queue_key.ledger for queue_key in queues if queue_key.ledger is not None]),
        difference=sum(differences) if differences else None,
    )


def is_quiet(queue_key: QueueSample) -> bool:
    """Tell whether a queue has no work now, and had none within the last minute.

    One that a figure is missing of is not quiet.
    """
    if queue_key.depth is None or queue_key.submitted is None or queue_key.processed is None:
        return True  # nothing was read, which is reported elsewhere
    depth = queue_key.depth
    return not (
        depth.queued
        or depth.leased
        or depth.delayed
        or queue_key.submitted_seconds
        or queue_key.processed_seconds
        or queue_key.difference
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
    """Tell whether a backlog is older than the stage bears, or will outlast the biz's plan.

    Args:
        oldest_seconds: Age of the entry that is served next.
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


def seen_from(queue_key: QueueKey, status: WorkerHealth, *, counts: bool = False) -> WorkerHealth:
    """Cut a worker's status down to one biz: its in-flight requests alone.

    With ``counts`` it keeps what it has done for all bizs together, for operators.
    """
    worker_status, name = status.worker_status, f"{queue_key.tenant}/{queue_key.biz}"
    cut = WorkerStatus(
        started_ms=worker_status.started_ms,
        held={name: worker_status.held.get(name, 0)},
        done=worker_status.done if counts else 0,
        failed=worker_status.failed if counts else 0,
        pool=worker_status.pool,
    )
    return msgspec.structs.replace(status, worker_status=cut)
