"""Demands in the API: what runs of spiders take of workers, and what one run took (SPEC.md B3)."""

import re
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import filled, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Routes
from crawlfleet.jobs import models
from crawlfleet.jobs.models import JobDemand, RunRecord
from crawlfleet.jobs.usage import usage_of
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.wire.jobs import Amount, Demand, DemandsPage, Run, Usage

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")

ROUTES: Final = Routes()


def demand_view(demand: JobDemand) -> Demand:
    """Shape the demand of a spider's jobs."""
    return filled(Demand, demand, usage=_usage_view(demand.usage))


def run_view(run: RunRecord) -> Run:
    """Shape the run of a job."""
    figures = run.figures
    return filled(
        Run,
        figures,
        job=run.job,
        spider=run.spider or None,
        usage=_usage_view(usage_of(figures)),
        seconds=round(figures.seconds, 3),
        counts=run.counts,
        started_at=run.started_at,
        ended_at=run.ended_at,
        learnt_at=run.learnt_at,
    )


def _usage_view(used: models.Usage) -> Usage:
    return Usage(
        memory=_amount(used.memory, used.memory_max),
        cpu=_amount(used.cpu, used.cpu_max),
        bandwidth=_amount(used.bandwidth, used.bandwidth_max),
    )


def _amount(average: float, maximum: float) -> Amount:
    return Amount(average=round(average, 3), maximum=round(maximum, 3))


@ROUTES.add("GET", "/v1/{biz}/demands", DemandsPage, parameters=(CURSOR, LIMIT))
def list_demands(call: Call, biz: str) -> Response[str]:
    """List the demands of the biz's spiders and rules, by name."""
    limit, after = call.limit, call.cursor
    if after is not None and not _NAME.match(after):
        raise InvalidRequestError.of("cursor", "is none of this list")
    found = call.context.usage.list_demands(call.tree, call.tenant, biz, after, limit + 1)
    page, more = found[:limit], len(found) > limit
    cursor = page[-1].spider if more else None
    return shown(200, DemandsPage(tuple(map(demand_view, page)), cursor=cursor, more=more))


@ROUTES.add("GET", "/v1/{biz}/demands/{spider}", Demand)
def get_demand(call: Call, biz: str, spider: str) -> Response[str]:
    """Get one spider's demand: memory, CPU, bandwidth, average and maximum."""
    found = call.context.usage.get_demand(call.tree, call.tenant, biz, _name(spider))
    return shown(200, demand_view(found))


@ROUTES.add("GET", "/v1/{biz}/jobs/{job}/run", Run)
def get_run(call: Call, biz: str, job: str) -> Response[str]:
    """Get the usage of a job's run, for a month after its end; while it goes on, up to now."""
    found = call.context.usage.get_run(call.tree, call.tenant, biz, _name(job))
    return shown(200, run_view(found))


def _name(name: str) -> str:
    """Accept what may be one; of anything else there is nothing."""
    if not _NAME.match(name):
        raise NotFoundError(f"there is nothing called {name[:64]!r}")
    return name
