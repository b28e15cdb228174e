"""Sum the samples of workers and queues (SPEC.md A10, C5, C6); tell late bizs (A11, H4)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from crawlfleet.config.documents.biz import DetectorLimits
from crawlfleet.fleet import models
from crawlfleet.fleet.autoscaler import latest_seconds, seconds_left
from crawlfleet.fleet.failure_detector import status
from crawlfleet.kernel.queue_key import MAIN_POOL, Pool, QueueKey
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.queue.stats import Rates


def headcount(
    heartbeats: Iterable[models.WorkerHeartbeats],
    limits: DetectorLimits,
    *,
    present: int = 0,
    target: models.ScalingTarget | None = None,
    pools: Sequence[models.PoolState] = (),
) -> models.WorkersSample:
    """Count the workers by health, of all pools and of each.

    ``present`` and ``target`` are the usual pool's, ``pools`` the others. A pool that only its
    workers name, as it is not deployed any more, is shown with what they say.

    >>> headcount([models.WorkerHeartbeats(worker="w", silent_ms=100)], DetectorLimits()).alive
    1
    """
    verdicts: defaultdict[str, list[models.WorkerHealth]] = defaultdict(list)
    for beats in heartbeats:
        verdicts[beats.worker_status.pool].append(status(beats, limits))
    known = {MAIN_POOL: models.PoolState(pool=Pool(), present=present, target=target)}
    known |= {one.pool.name: one for one in pools}
    names = [*known, *sorted(verdicts.keys() - known.keys())]
    each = [
        _pool_sample(known.get(name, models.PoolState(pool=Pool(name=name))), verdicts[name])
        for name in names
    ]
    wanted = [one.wanted for one in each if one.wanted is not None]
    allowed = [one.allowed for one in each if one.allowed is not None]
    return models.WorkersSample(
        **{term: sum(getattr(one, term) for one in each) for term in _COUNTS},
        wanted=sum(wanted) if wanted else None,
        allowed=sum(allowed) if allowed else None,
        pools=tuple(each),
    )


def _pool_sample(
    state: models.PoolState, workers: Sequence[models.WorkerHealth]
) -> models.PoolSample:
    verdicts = Counter(one.health for one in workers)
    alive = [one for one in workers if one.health is models.Health.ALIVE]
    busy = sum(any(one.worker_status.held.values()) for one in alive)
    target = state.target
    return models.PoolSample(
        name=state.pool.name,
        memory_mb=state.pool.memory_mb if state.pool.function else None,
        region=state.pool.region,
        network=state.pool.network,
        alive=len(alive),
        busy=busy,
        idle=len(alive) - busy,
        suspected=verdicts[models.Health.SUSPECTED],
        dead=verdicts[models.Health.DEAD],
        unwatched=verdicts[models.Health.UNWATCHED],
        present=state.present,
        wanted=None if target is None else target.needed,
        allowed=None if target is None else target.allowed,
        kept=0 if target is None else target.floor,
        stated=0 if target is None else target.stated,
        done=sum(one.worker_status.done for one in workers),
        failed=sum(one.worker_status.failed for one in workers),
    )


#: Terms that samples of pools, of depths and of ledgers are summed by.
_COUNTS = ("alive", "suspected", "dead", "unwatched", "present")
_DEPTHS = ("queued", "leased", "delayed", "deferred")
_TERMS = ("submitted", "pending", "leased", "waiting", "done", "dead", "cancelled", "expired")


def finish_seconds(backlog: int, per_second: float) -> float | None:
    """Compute how long a backlog lasts at a rate; 0 for none, None where it never ends.

    >>> finish_seconds(30, 0.5), finish_seconds(0, 0.0), finish_seconds(1, 0.0)
    (60.0, 0.0, None)
    """
    if not backlog:
        return 0.0
    return backlog / per_second if per_second else None


def fleet_of(queues: Sequence[models.QueueSample]) -> models.FleetSample:
    """Sum the samples of all queues, as far as they were read."""
    depths = [queue.depth for queue in queues if queue.depth is not None]
    processed = _rates(queue.processed for queue in queues)
    sums = {term: sum(getattr(depth, term) for depth in depths) for term in _DEPTHS}
    differences = [abs(one.difference) for one in queues if one.difference is not None]
    return models.FleetSample(
        queues=len(queues),
        **sums,
        ready=sum(queue.load.ready for queue in queues if queue.load is not None),
        oldest_seconds=max((queue.oldest_seconds for queue in queues), default=0.0),
        submitted=_rates(queue.submitted for queue in queues),
        processed=processed,
        finish_seconds=finish_seconds(sums["queued"], processed.per_60s),
        late=sum(queue.late for queue in queues),
        ledger=_ledger([queue.ledger for queue in queues if queue.ledger is not None]),
        difference=sum(differences) if differences else None,
    )


def is_quiet(queue: models.QueueSample) -> bool:
    """Tell whether a queue has no work now, and had none within the last minute.

    One that nothing was read of in Redis counts as quiet: that is reported elsewhere.
    """
    if queue.depth is None or queue.submitted is None or queue.processed is None:
        return True
    depth = queue.depth
    lately = queue.submitted_seconds or queue.processed_seconds
    return not (depth.queued or depth.leased or depth.delayed or lately or queue.difference)


def _rates(each: Iterable[Rates | None]) -> Rates:
    known = [one for one in each if one is not None]
    return Rates(
        per_1s=sum(one.per_1s for one in known),
        per_5s=sum(one.per_5s for one in known),
        per_60s=sum(one.per_60s for one in known),
    )


def _ledger(each: Sequence[Ledger]) -> Ledger:
    sums = {term: sum(getattr(one, term) for one in each) for term in _TERMS}
    own: Counter[int] = Counter()
    for one in each:
        own.update(one.own)
    return Ledger(**sums, own=own)


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

    The entry that is served next is ``oldest_seconds`` old, the stage bears ``longest_seconds``.
    Without a rate of processing (``per_second``) there is no forecast, and the backlog is late once
    its oldest has waited for as long as the whole was planned. ``submitted`` are those of each of
    the last full seconds, the latest first.
    """
    if oldest_seconds > longest_seconds:
        return True
    if planned_seconds is None or not queued:
        return False
    left = seconds_left(planned_seconds, oldest_seconds, queued, submitted)
    forecast = finish_seconds(queued, per_second)
    return latest_seconds(planned_seconds, left, oldest_seconds, forecast) > planned_seconds


def seen_from(
    queue_key: QueueKey, status: models.WorkerHealth, *, counts: bool = False
) -> models.WorkerHealth:
    """Cut a worker's status down to one biz: its in-flight requests alone.

    With ``counts`` it keeps what it has done for all bizs together, for operators.
    """
    worker_status, name = status.worker_status, f"{queue_key.tenant}/{queue_key.biz}"
    cut = models.WorkerStatus(
        started_ms=worker_status.started_ms,
        held={name: worker_status.held.get(name, 0)},
        done=worker_status.done if counts else 0,
        failed=worker_status.failed if counts else 0,
        pool=worker_status.pool,
        version=worker_status.version,
    )
    return msgspec.structs.replace(status, worker_status=cut)
