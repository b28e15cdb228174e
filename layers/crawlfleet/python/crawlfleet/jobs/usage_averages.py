"""What a run took becomes what its spider is known to take (SPEC.md B3, B10).

A job's end only writes its run down: the workers have measured it, and the last of what they have
seen may still be under way. Some seconds later whoever comes first closes the run, and the demand
has it once, whatever is called twice, late or at once.

A run is not closed while its job goes on: an end that was written down and did not come is
forgotten, and the next one is written down again. Where dead letters of an ended job are retried,
what that takes is added to its run; the demand, which counts runs, is left as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.jobs.models import ENDED, Job, JobState
from crawlfleet.jobs.ports import DemandStore, JobStates
from crawlfleet.jobs.usage import JobDemand, RunFigures, RunRecord, learn, together, usage_of
from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import from_ms, to_ms

#: Workers have told by then what they have measured of a job that has ended (worker.usage_meter).
GRACE: Final = timedelta(seconds=30)
#: Runs of one tenant that are closed before it is the next one's turn.
BATCH: Final = 50
#: So often others may have learnt from another run at the same moment.
_TRIES: Final = 20
_CUT_SHORT: Final = frozenset({JobState.CANCELLING, JobState.CANCELLED, JobState.UNPLACED})


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPorts:
    """What learning needs of the world."""

    demands: DemandStore
    states: JobStates


def spider_of(job: Job) -> str:
    """What is learnt from a job's run: its kept spider, or its rule where it has none."""
    return job.spider or job.rule


def learn_run(ports: LearningPorts, job: Job, counts: dict[str, int], now: datetime) -> None:
    """A job ends: have its run closed, and learnt from, as soon as all of it is told.

    To be called before the job is marked as ended: whoever dies in between calls again.
    """
    ports.demands.end_run(
        RunRecord(
            tenant=job.tenant,
            biz=job.biz,
            job=job.name,
            spider=spider_of(job),
            counts=counts,
            is_whole=job.state not in _CUT_SHORT,
            started_at=job.created_at,
            ended_at=from_ms(to_ms(now)),
            retries=job.retries,
        )
    )


def learn_due(ports: LearningPorts, now: datetime, time_left: Callable[[], float]) -> int:
    """Close the runs whose workers have had their time; returns how many.

    Tenants in turns, so that one whose jobs are thousands does not keep others from being learnt
    of. What there is no time for is for the next call.
    """
    before, closed = now - GRACE, 0
    tenants = ports.demands.tenants_to_learn(before)
    while tenants and time_left() > 0:
        waiting = []
        for tenant in tenants:
            before_these = closed
            for run in ports.demands.to_learn(tenant, before, BATCH):
                if time_left() <= 0:
                    return closed
                try:
                    closed += _close(ports, run, now)
                except Exception as error:  # noqa: BLE001  one run must not keep the others
                    warn(f"the run of job {run.job} could not be learnt from", error)
            if closed - before_these == BATCH:
                waiting.append(tenant)
        tenants = waiting
    return closed


def _close(ports: LearningPorts, run: RunRecord, now: datetime) -> bool:
    demands = ports.demands
    state = ports.states.states(run.tenant, run.biz, [run.job]).get(run.job)
    if state is not None and state not in ENDED:
        demands.forget_end(run)
        return True
    is_whole = run.is_whole if state is None else state not in _CUT_SHORT
    figures = together([run.figures, demands.measured(run.tenant, run.biz, run.job)])
    to_learn = is_whole and figures.seconds > 0 and run.learnt_at is None
    at = from_ms(to_ms(now))
    learnt_at = at if to_learn else run.learnt_at
    whole = replace(run, is_whole=is_whole, figures=figures, learnt_at=learnt_at, closed=True)
    for _ in range(_TRIES):
        known = demand_of(demands, run.tenant, run.biz, run.spider)
        learnt = replace(learn(known, usage_of(figures)), measured_at=at) if to_learn else None
        if demands.close_run(whole, known, learnt):
            return True
        standing = demands.run(run.tenant, run.biz, run.job)
        if standing is None or standing.closed or standing.ended_at != run.ended_at:
            return False
    return False  # so many others learn of this spider that it is left to the next call


def demand_of(demands: DemandStore, tenant: str, biz: str, spider: str) -> JobDemand:
    """What the spider is known to take: nothing, after no runs, where it never ran."""
    known = demands.get(tenant, biz, spider)
    return known or JobDemand(tenant=tenant, biz=biz, spider=spider)


def get_demand(demands: DemandStore, tree: Tree, tenant: str, biz: str, spider: str) -> JobDemand:
    """What a spider's runs have taken.

    Raises:
        UnknownBizError: the tenant has no such biz.
        NotFoundError: nothing was measured of it.
    """
    biz_of(tree, tenant, biz)
    known = demands.get(tenant, biz, spider)
    if known is None:
        raise NotFoundError(f"nothing was learnt of a spider or rule called {spider[:64]!r} yet")
    return known


def list_demands(
    demands: DemandStore, tree: Tree, tenant: str, biz: str, after: str | None, limit: int
) -> list[JobDemand]:
    """What the spiders of a biz have taken, by name.

    Raises:
        UnknownBizError: the tenant has no such biz.
    """
    biz_of(tree, tenant, biz)
    return demands.of_biz(tenant, biz, after, limit)


def get_run(demands: DemandStore, tree: Tree, tenant: str, biz: str, name: str) -> RunRecord:
    """What a job's run took; of one that goes on, or again, what is told up to now.

    Raises:
        UnknownBizError: the tenant has no such biz.
        NotFoundError: nothing was measured of such a job yet, or its run was forgotten.
    """
    biz_of(tree, tenant, biz)
    run = demands.run(tenant, biz, name)
    figures = demands.measured(tenant, biz, name)
    if run is not None:
        return replace(run, figures=together([run.figures, figures]))
    if figures == RunFigures():
        raise NotFoundError(f"nothing was measured of a job called {name[:64]!r} yet")
    return RunRecord(tenant=tenant, biz=biz, job=name, figures=figures, started_at=figures.began_at)
