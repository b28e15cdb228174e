"""Learn what a spider's runs take from what workers have measured (SPEC.md B3, B10).

The end of a job only records its run: workers report their last measurements a little later. After
``GRACE`` any process closes the run and adds it to the demand, once, however often it is called. A
run is not closed while its job goes on: an end that was recorded and did not come is forgotten, and
the next one is recorded again. Where dead letters of an ended job are retried, what that takes is
added to its run; the demand, which counts runs, stays as it is.

What counts for placing a run is what it takes of one worker: averages go over the seconds of all
workers, and a maximum is the highest of one. A demand's average counts each run once. Its maximum
is that of the latest runs (``PEAKS``), not an average of maxima, which every other run would
exceed; and not of all, so that one page that once took all memory does not decide for ever.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.jobs import models
from crawlfleet.jobs.costs.forecast import RunSummary, hosts_of
from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import TimeLeft, from_ms, to_ms
from crawlfleet.requests.models import Ledger

if TYPE_CHECKING:
    from crawlfleet.jobs.costs.mongo import MongoHistories
    from crawlfleet.jobs.mongo.store import MongoJobs
    from crawlfleet.jobs.mongo.usage import MongoDemands

#: A run's maxima count until so many others have come after it.
PEAKS: Final = 20
#: By then workers have reported what they measured of a job that has ended (worker.usage_meter).
GRACE: Final = timedelta(seconds=30)
#: Runs of one tenant that are closed before the next tenant's.
BATCH: Final = 50
#: Attempts to store a demand while others learn from runs of the same spider.
_TRIES: Final = 20
_CUT_SHORT: Final = frozenset(
    {models.JobState.CANCELLING, models.JobState.CANCELLED, models.JobState.UNPLACED}
)


def learn(demand: models.JobDemand, run: models.Usage) -> models.JobDemand:
    """Add a run to a demand, whose ``measured_at`` the caller sets.

    No figure gets below 0 or becomes anything but a number, whatever was measured.
    """
    known, runs = demand.usage, max(0, demand.runs)
    peak = models.Peak(
        memory=max(_sound(run.memory_max, 0.0), _sound(run.memory, 0.0)),
        cpu=max(_sound(run.cpu_max, 0.0), _sound(run.cpu, 0.0)),
        bandwidth=max(_sound(run.bandwidth_max, 0.0), _sound(run.bandwidth, 0.0)),
    )
    peaks = (*demand.peaks, peak)[-PEAKS:]
    memory = _average(known.memory, runs, run.memory)
    cpu = _average(known.cpu, runs, run.cpu)
    bandwidth = _average(known.bandwidth, runs, run.bandwidth)
    usage = models.Usage(
        memory=memory,
        cpu=cpu,
        bandwidth=bandwidth,
        # Where the great ones were long ago the average may be above all the latest maxima.
        memory_max=max(memory, *(one.memory for one in peaks)),
        cpu_max=max(cpu, *(one.cpu for one in peaks)),
        bandwidth_max=max(bandwidth, *(one.bandwidth for one in peaks)),
    )
    return replace(demand, runs=runs + 1, usage=usage, peaks=peaks)


def _average(known: float, runs: int, value: float) -> float:
    before = _sound(known, 0.0)
    run = _sound(value, before)
    if runs == 0:
        return run
    found = before + (run - before) / (runs + 1)
    return min(max(found, min(before, run)), max(before, run))  # whatever rounding does


def _sound(value: float, otherwise: float) -> float:
    return float(value) if math.isfinite(value) and value >= 0 else otherwise


def together(parts: Iterable[models.RunFigures]) -> models.RunFigures:
    """Merge the parts of a run: sums are added, maxima stay, from the first to the last moment.

    >>> two = together([models.RunFigures(seconds=1, bytes=5), models.RunFigures(bytes=6)])
    >>> two.seconds, two.bytes
    (1.0, 11)
    """
    found = tuple(parts)
    return models.RunFigures(
        seconds=sum((one.seconds for one in found), 0.0),
        memory_seconds=sum((one.memory_seconds for one in found), 0.0),
        memory_max=max((one.memory_max for one in found), default=0.0),
        cpu_seconds=sum((one.cpu_seconds for one in found), 0.0),
        cpu_max=max((one.cpu_max for one in found), default=0.0),
        bytes=sum(one.bytes for one in found),
        bandwidth_max=max((one.bandwidth_max for one in found), default=0.0),
        requests=sum(one.requests for one in found),
        records=sum(one.records for one in found),
        errors=sum(one.errors for one in found),
        workers=sum(one.workers for one in found),
        began_at=min((one.began_at for one in found if one.began_at), default=None),
        ended_at=max((one.ended_at for one in found if one.ended_at), default=None),
        gb_seconds=sum((one.gb_seconds for one in found), 0.0),
        proxied_bytes=sum(one.proxied_bytes for one in found),
        proxy_usd=sum((one.proxy_usd for one in found), 0.0),
        stored_bytes=sum(one.stored_bytes for one in found),
    )


def usage_of(figures: models.RunFigures) -> models.Usage:
    """Compute what a run takes of a worker: on average while it is there, and at its highest.

    It counts as a second at least: a shorter one has not taken a whole processor for good.

    >>> usage_of(models.RunFigures(seconds=10, memory_seconds=500, memory_max=90, bytes=20)).memory
    50.0
    """
    seconds = max(1.0, figures.seconds)
    memory = figures.memory_seconds / seconds
    cpu = figures.cpu_seconds / seconds
    bandwidth = figures.bytes / seconds
    return models.Usage(
        memory=memory,
        memory_max=max(memory, figures.memory_max),
        cpu=cpu,
        cpu_max=max(cpu, figures.cpu_max),
        bandwidth=bandwidth,
        bandwidth_max=max(bandwidth, figures.bandwidth_max),
    )


def counts_of(job: models.Job, ledger: Ledger) -> dict[str, int]:
    """Count how the tasks of a job have ended, as the job keeps it."""
    counts = {
        "done": ledger.done,
        "dead": ledger.dead,
        "cancelled": ledger.cancelled,
        "expired": ledger.expired,
        "refused": job.refused,
    }
    return counts | ({"others": ledger.others_ended} if ledger.others_ended else {})


def spider_of(job: models.Job) -> str:
    """Name what a job's run is learnt for: its kept spider, or its rule without one."""
    return job.spider or job.rule


def as_stated(learnt: models.JobDemand, stated: models.StatedDemand | None) -> models.JobDemand:
    """Put what a job states of its demand in the place of what was learnt of its spider.

    Where the average or the maximum alone is stated the other one is the same.

    >>> learnt = models.JobDemand(tenant="a", biz="b", spider="c")
    >>> own = models.StatedDemand(memory=models.StatedAmount(maximum=5e8))
    >>> found = as_stated(learnt, own)
    >>> found.runs, found.usage.memory, found.usage.memory_max, found.usage.cpu
    (1, 500000000.0, 500000000.0, 0.0)
    """
    if stated is None:
        return learnt
    given: dict[str, float] = {}
    for name in stated.__struct_fields__:
        amount: models.StatedAmount | None = getattr(stated, name)
        if amount is None:
            continue
        both = [one for one in (amount.average, amount.maximum) if one is not None]
        if both:
            given |= {name: both[0], f"{name}_max": both[-1]}
    if not given:
        return learnt
    # Of a spider that never ran nothing is wanted, but for what is stated.
    return replace(learnt, runs=max(1, learnt.runs), usage=replace(learnt.usage, **given))


def demand_of(
    demands: "MongoDemands",
    tenant: str,
    biz: str,
    spider: str,
    stated: models.StatedDemand | None = None,
) -> models.JobDemand:
    """Get what a spider's job takes: as ``stated``, or as learnt; nothing where it never ran."""
    known = demands.get(tenant, biz, spider)
    return as_stated(known or models.JobDemand(tenant=tenant, biz=biz, spider=spider), stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """The service that closes runs, learns demands from them, and answers what they took."""

    demands: "MongoDemands"
    jobs: "MongoJobs"
    histories: "MongoHistories | None" = None

    def end_run(self, job: models.Job, counts: dict[str, int], now: datetime) -> None:
        """Record that a job ends, so that its run is closed and learnt from after ``GRACE``.

        To be called before the job is stored as ended: whoever dies in between calls it again.
        """
        self.demands.end_run(
            models.RunRecord(
                tenant=job.tenant,
                biz=job.biz,
                job=job.name,
                spider=spider_of(job),
                counts=counts,
                # What clients submit is of no spider.
                is_whole=job.by != models.SUBMITTED and job.state not in _CUT_SHORT,
                started_at=job.created_at,
                ended_at=from_ms(to_ms(now)),
                retries=job.retries,
            )
        )

    def learn_due(self, now: datetime, time_left: TimeLeft) -> int:
        """Close the runs that ended ``GRACE`` ago, and return how many.

        Tenants alternate, so that thousands of one delay no other. What there is no time for is
        left to the next call.
        """
        before, closed = now - GRACE, 0
        tenants = self.demands.tenants_to_learn(before)
        while tenants and time_left() > 0:
            waiting = []
            for tenant in tenants:
                before_these = closed
                for run in self.demands.to_learn(tenant, before, BATCH):
                    if time_left() <= 0:
                        return closed
                    try:
                        closed += self._close(run, now)
                    except Exception as error:  # noqa: BLE001  one run must not keep the others
                        warn(f"the run of job {run.job} could not be learnt from", error)
                if closed - before_these == BATCH:
                    waiting.append(tenant)
            tenants = waiting
        return closed

    def _close(self, run: models.RunRecord, now: datetime) -> bool:
        demands = self.demands
        state = self.jobs.states(run.tenant, run.biz, [run.job]).get(run.job)
        if state is not None and state not in models.ENDED:
            demands.forget_end(run)
            return True
        is_whole = run.is_whole and state not in _CUT_SHORT
        figures = together([run.figures, demands.measured(run.tenant, run.biz, run.job)])
        to_learn = is_whole and figures.seconds > 0 and run.learnt_at is None
        at = from_ms(to_ms(now))
        learnt_at = at if to_learn else run.learnt_at
        whole = replace(run, is_whole=is_whole, figures=figures, learnt_at=learnt_at, closed=True)
        for _ in range(_TRIES):
            known = demand_of(demands, run.tenant, run.biz, run.spider)
            learnt = replace(learn(known, usage_of(figures)), measured_at=at) if to_learn else None
            if demands.close_run(whole, known, learnt):
                if to_learn:
                    self._remember(whole)
                return True
            standing = demands.run(run.tenant, run.biz, run.job)
            if standing is None or standing.closed or standing.ended_at != run.ended_at:
                return False
        return False  # so many others learn of this spider that it is left to the next call

    def _remember(self, run: models.RunRecord) -> None:
        """Keep what a run took, for forecasts. One that is lost here is one less to go by."""
        job = self.jobs.get(run.tenant, run.biz, run.job)
        if self.histories is None or job is None or run.ended_at is None:
            return
        figures = run.figures
        took = RunSummary(
            size=job.size,
            pages=figures.requests,
            seconds=(run.ended_at - job.created_at).total_seconds(),
            bytes=figures.bytes,
            gb_seconds=figures.gb_seconds,
            stored_bytes=figures.stored_bytes,
            proxy_usd=figures.proxy_usd,
            forecast=job.forecast,
        )
        owner = run.tenant, run.biz, run.spider
        self.histories.add(owner, hosts_of(job.start), took, run.ended_at)

    def get_demand(self, tree: Tree, tenant: str, biz: str, spider: str) -> models.JobDemand:
        """Get what a spider's runs have taken.

        Raises:
            UnknownBizError: the tenant has no such biz.
            NotFoundError: nothing was measured of it.
        """
        biz_of(tree, tenant, biz)
        known = self.demands.get(tenant, biz, spider)
        if known is None:
            what = f"a spider or rule called {spider[:64]!r}"
            raise NotFoundError(f"nothing was learnt of {what} yet")
        return known

    def list_demands(
        self, tree: Tree, tenant: str, biz: str, after: str | None, limit: int
    ) -> list[models.JobDemand]:
        """List what the spiders of a biz have taken, by name; UnknownBizError without the biz."""
        biz_of(tree, tenant, biz)
        return self.demands.of_biz(tenant, biz, after, limit)

    def get_run(self, tree: Tree, tenant: str, biz: str, name: str) -> models.RunRecord:
        """Get what a job's run took; while it goes on, what was reported up to now.

        Raises:
            UnknownBizError: the tenant has no such biz.
            NotFoundError: nothing was measured of such a job yet, or its run has expired.
        """
        biz_of(tree, tenant, biz)
        run = self.demands.run(tenant, biz, name)
        figures = self.demands.measured(tenant, biz, name)
        if run is not None:
            return replace(run, figures=together([run.figures, figures]))
        if figures == models.RunFigures():
            raise NotFoundError(f"nothing was measured of a job called {name[:64]!r} yet")
        return models.RunRecord(
            tenant=tenant, biz=biz, job=name, figures=figures, started_at=figures.began_at
        )
