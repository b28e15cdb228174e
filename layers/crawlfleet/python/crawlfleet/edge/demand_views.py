"""What runs took, as the API shows it: bytes, bytes a second, and the CPU index (SPEC.md B2)."""

from crawlfleet.edge.views import View, maybe_at
from crawlfleet.model.run import RunRecord
from crawlfleet.model.usage import JobDemand, Usage
from crawlfleet.policy.runs import usage_of


class AmountView(View, frozen=True, kw_only=True):
    """Of one resource: on average while it ran, and at its highest."""

    average: float
    maximum: float


class UsageView(View, frozen=True, kw_only=True):
    """What is taken of a worker.

    ``memory`` is bytes, ``cpu`` the index (GHz times cores times the part of them that is used),
    ``bandwidth`` bytes a second.
    """

    memory: AmountView
    cpu: AmountView
    bandwidth: AmountView


class DemandView(View, frozen=True, kw_only=True):
    """What a spider's runs have taken: an average of all ``runs``, the maxima of the latest 20."""

    spider: str
    runs: int
    measured_at: str | None
    usage: UsageView


class DemandsView(View, frozen=True, kw_only=True):
    """A page of demands, by the spider's name; ``cursor`` is where to go on."""

    demands: list[DemandView]
    cursor: str | None
    more: bool


class RunView(View, frozen=True, kw_only=True):
    """The run of a job; while it goes on ``ended_at`` is null, and all of it up to now.

    ``usage`` is what it took of each worker, ``seconds`` the time of all ``workers`` together in
    which tasks of it were under way. ``requests`` counts attempts, ``errors`` those that failed,
    ``counts`` its tasks by how they ended. ``learnt_at`` is when it became part of its spider's
    demand; of a run that was cancelled, or not measured, it stays null.
    """

    job: str
    spider: str | None
    usage: UsageView
    seconds: float
    workers: int
    requests: int
    records: int
    errors: int
    bytes: int
    counts: dict[str, int]
    started_at: str | None
    ended_at: str | None
    learnt_at: str | None


def demand_view(demand: JobDemand) -> DemandView:
    """One demand."""
    return DemandView(
        spider=demand.spider,
        runs=demand.runs,
        measured_at=maybe_at(demand.measured_at),
        usage=_usage_view(demand.usage),
    )


def demands_view(found: list[JobDemand], limit: int) -> DemandsView:
    """A page of up to ``limit``, where one more was asked for."""
    page = found[:limit]
    more = len(found) > limit
    return DemandsView(
        demands=[demand_view(one) for one in page],
        cursor=page[-1].spider if more else None,
        more=more,
    )


def run_view(run: RunRecord) -> RunView:
    """One run."""
    figures = run.figures
    return RunView(
        job=run.job,
        spider=run.spider or None,
        usage=_usage_view(usage_of(figures)),
        seconds=round(figures.seconds, 3),
        workers=figures.workers,
        requests=figures.requests,
        records=figures.records,
        errors=figures.errors,
        bytes=figures.bytes,
        counts=run.counts,
        started_at=maybe_at(run.started_at),
        ended_at=maybe_at(run.ended_at),
        learnt_at=maybe_at(run.learnt_at),
    )


def _usage_view(usage: Usage) -> UsageView:
    return UsageView(
        memory=_amount(usage.memory, usage.memory_max),
        cpu=_amount(usage.cpu, usage.cpu_max),
        bandwidth=_amount(usage.bandwidth, usage.bandwidth_max),
    )


def _amount(average: float, maximum: float) -> AmountView:
    return AmountView(average=round(average, 3), maximum=round(maximum, 3))
