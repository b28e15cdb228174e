"""How many workers are how, of all pools and of each (SPEC.md C5, C6)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from crawlfleet.model.biz import DetectorLimits
from crawlfleet.model.pool import MAIN_POOL, Pool
from crawlfleet.model.sample import PoolSample, PoolState, WorkersSample
from crawlfleet.model.staff import Staff
from crawlfleet.model.worker import Health, Pulse, WorkerStatus
from crawlfleet.policy.liveness import status


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
