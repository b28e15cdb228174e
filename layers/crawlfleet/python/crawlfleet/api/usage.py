"""The API's demands and runs: bytes, bytes a second, and the CPU index (SPEC.md B2)."""

import re
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import View, maybe_at, shown
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Call, Route
from crawlfleet.jobs import usage_averages as service
from crawlfleet.jobs.usage import JobDemand, RunRecord, Usage, usage_of
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError

#: Names of kept spiders, rules and jobs.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


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


def _list(call: Call, biz: str) -> Response[str]:
    limit, after = call.limit, call.cursor
    if after is not None and not _NAME.match(after):
        raise InvalidRequestError.of("cursor", "is none of this list")
    demands, tree = call.context.demands, call.tree
    found = service.list_demands(demands, tree, call.tenant, biz, after, limit + 1)
    return shown(200, demands_view(found, limit))


def _get_demand(call: Call, biz: str, spider: str) -> Response[str]:
    name, demands = _name(spider), call.context.demands
    return shown(200, demand_view(service.get_demand(demands, call.tree, call.tenant, biz, name)))


def _get_run(call: Call, biz: str, job: str) -> Response[str]:
    name, demands = _name(job), call.context.demands
    return shown(200, run_view(service.get_run(demands, call.tree, call.tenant, biz, name)))


def _name(name: str) -> str:
    """What may be one; of anything else there is nothing."""
    if not _NAME.match(name):
        raise NotFoundError(f"there is nothing called {name[:64]!r}")
    return name


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listDemands",
        handler=_list,
        method="GET",
        path="/v1/{biz}/demands",
        summary="What runs of the biz's spiders and rules take of a worker, by name.",
        parameters=(CURSOR, LIMIT),
        answers={200: DemandsView},
        problems=ANY,
    ),
    Route(
        operation="getDemand",
        handler=_get_demand,
        method="GET",
        path="/v1/{biz}/demands/{spider}",
        summary="What one's runs take of a worker: memory, CPU, bandwidth, average and maximum.",
        answers={200: DemandView},
        problems=ANY,
    ),
    Route(
        operation="getRun",
        handler=_get_run,
        method="GET",
        path="/v1/{biz}/jobs/{job}/run",
        summary="What a job's run took, for a month after its end; while it goes on, up to now.",
        answers={200: RunView},
        problems=ANY,
    ),
)
