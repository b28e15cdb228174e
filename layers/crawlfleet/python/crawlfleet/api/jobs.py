"""Jobs in the API: start, list, get, cancel, retry; usage of runs by spider (SPEC.md B2)."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import IDEMPOTENCY_KEY, Url, idempotency_key_in, job_in, read, read_or
from crawlfleet.api.responses import filled, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes
from crawlfleet.jobs import models
from crawlfleet.jobs.completion import progress_of
from crawlfleet.jobs.models import JobDemand, JobOrder, JobState, RunRecord
from crawlfleet.jobs.service import CountedJob
from crawlfleet.jobs.spiders.models import PlaceName, PlaceValue, SpiderName, Start
from crawlfleet.jobs.usage import usage_of
from crawlfleet.kernel.errors import (
    InvalidRequestError,
    NotFoundError,
    Problem,
    UnknownBizError,
)
from crawlfleet.kernel.queue_key import Priority
from crawlfleet.kernel.validation import RuleName, Slug, Words
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.submission.admission import RESERVED, is_reserved
from crawlfleet.wire import Page
from crawlfleet.wire.jobs import (
    Amount,
    Demand,
    DemandsPage,
    Job,
    JobLedger,
    JobProgress,
    JobSummary,
    Run,
    Usage,
)

#: A job's name when a client gives it: it is a part of addresses, where dots alone mean others.
StartName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
    Words("up to 64 letters, digits, ., _ and -, a letter or a digit first"),
]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SHORT: Final = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


class JobInput(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A run of a kept ``spider``, the newest ``version`` unless it says which; or of a ``rule``.

    A rule comes with its pages: ``urls``, or a ``start`` whose pattern makes them. ``values`` fill
    places that the start leaves open. ``pool`` are the workers that alone do it, whatever its
    spider says. Under one ``name`` there is one job.
    """

    spider: SpiderName | None = None
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    rule: RuleName | None = None
    urls: Annotated[tuple[Url, ...], Meta(min_length=1, max_length=10_000)] | None = None
    start: Start | None = None
    values: Annotated[dict[PlaceName, PlaceValue], Meta(max_length=16)] = {}
    priority: Priority | None = None
    pool: Slug | None = None
    name: StartName | None = None


class RetryInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choice of a retry's rule: as it was then, or as it is now."""

    rule: Literal["frozen", "current"] = "frozen"


def order_in(body: bytes, tenant: str, biz: str) -> JobOrder:
    """Read the order of a job.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    given = read(body, JobInput)
    problems = []
    if given.urls is not None and given.start is not None:
        problems.append(Problem("urls", "are given, and a start too: one of both"))
    if given.spider is not None:
        problems += [
            Problem(field, "is the spider's own: a job is of a spider, or has both itself")
            for field in ("rule", "urls", "start")
            if getattr(given, field) is not None
        ]
    elif given.version is not None:
        problems.append(Problem("version", "is of a spider, and none is named"))
    if given.name is not None and is_reserved(given.name):
        problems.append(Problem("name", RESERVED))
    if problems:
        raise InvalidRequestError(problems)
    content = msgspec.structs.asdict(given)
    urls = content.pop("urls")
    start = given.start if urls is None else Start(urls=urls)
    return JobOrder(**content | {"tenant": tenant, "biz": biz, "by": "api", "start": start})


def states_in(query: Mapping[str, str]) -> tuple[JobState, ...]:
    """Read the states of a list: several with commas between; none are all."""
    text = query.get("state")
    if text is None:
        return ()
    known = [state.value for state in JobState]
    names = text.split(",")
    if not set(names) <= set(known):
        raise InvalidRequestError.of("state", f"must be of {', '.join(known)}")
    return tuple(JobState(name) for name in dict.fromkeys(names))


def named_in(query: Mapping[str, str], name: str) -> str | None:
    """Read the name of a spider or a schedule."""
    text = query.get(name)
    if text is not None and not _SHORT.match(text):
        raise InvalidRequestError.of(name, "must be 1 to 32 letters, digits, _ and -")
    return text


class JobsPage(Page, frozen=True):
    """A page of jobs, the newest first."""

    jobs: list[JobSummary]


class RetriedView(msgspec.Struct, frozen=True, kw_only=True):
    """The count of failed tasks to be retried; ``skipped`` are past their biz's time to live.

    ``more`` says that the call's time was up before all were: call again.
    """

    retried: int
    skipped: int
    more: bool
    job: JobSummary


def job_view(job: models.Job) -> JobSummary:
    """Shape a job as lists show it."""
    return filled(JobSummary, job, state=job.state.value)


def whole_job_view(job: models.Job, ledger: Ledger, now: datetime) -> Job:
    """Shape a job with its ledger and its progress."""
    progress = progress_of(job, ledger, now)
    rate = progress.per_second
    return filled(
        Job,
        job,
        state=job.state.value,
        pattern=job.start.pattern,
        refusals=tuple(job.refusals),
        ledger=filled(JobLedger, ledger),
        progress=filled(
            JobProgress,
            progress,
            expanded_share=round(progress.expanded_share, 6),
            ended_share=round(progress.ended_share, 6),
            per_second=None if rate is None else round(rate, 3),
        ),
    )


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


_KEY: Final = Parameter(
    name=IDEMPOTENCY_KEY,
    meaning="Under one key there is one job, however often it is ordered.",
    shape={"type": "string", "pattern": "^[!-~]{1,255}$"},
)

_SHORT_NAME: Final[dict[str, object]] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$"}

ROUTES: Final = Routes()


@ROUTES.add(
    "POST",
    "/v1/{biz}/jobs",
    {201: JobSummary, 200: JobSummary},
    problems=(409, 413, 422, 429),
    body=(JobInput,),
    headers=(_KEY,),
)
def start_job(call: Call, biz: str) -> Response[str]:
    """Start a job: a run of a kept spider, or of a rule on URLs. 200: it stood already."""
    key = idempotency_key_in(call.event)
    order = order_in(call.body, call.tenant, biz)
    started = call.context.jobs.start(call.tree, order, key, call.now)
    return shown(201 if started.is_new else 200, job_view(started.job))


@ROUTES.add(
    "GET",
    "/v1/{biz}/jobs",
    JobsPage,
    parameters=(
        Parameter(
            name="state",
            meaning="Only jobs in this state, or in one of several with commas between: "
            + ", ".join(state.value for state in JobState)
            + ".",
            shape={"type": "string", "maxLength": 100},
        ),
        Parameter(name="spider", meaning="Only runs of this spider.", shape=_SHORT_NAME),
        Parameter(
            name="schedule", meaning="Only jobs that this schedule fired.", shape=_SHORT_NAME
        ),
        CURSOR,
        LIMIT,
    ),
)
def list_jobs(call: Call, biz: str) -> Response[str]:
    """List jobs, the newest first."""
    query = call.query
    states = states_in(query)
    spider, schedule = (named_in(query, name) for name in ("spider", "schedule"))
    return page_of(
        call.limit,
        lambda limit: call.context.jobs.list_jobs(
            call.tree,
            call.tenant,
            biz,
            states=states,
            spider=spider,
            schedule=schedule,
            cursor=call.cursor,
            limit=limit,
        ),
        JobsPage,
        job_view,
    )


@ROUTES.add("GET", "/v1/{biz}/jobs/{job}", Job)
def get_job(call: Call, biz: str, job: str) -> Response[str]:
    """Get a job: its progress, its ledger, when it will have ended."""
    key = call.tenant, biz, job_in(job)
    return _whole(call, call.context.jobs.get(call.tree, key, call.now))


@ROUTES.add(
    "POST",
    "/v1/{biz}/jobs/{job}/retry",
    RetriedView,
    problems=(409, 413),
    body=(RetryInput,),
    body_required=False,
)
def retry_job(call: Call, biz: str, job: str) -> Response[str]:
    """Retry the failed tasks of a job; one that was done runs again."""
    given, context = read_or(RetryInput(), call.body), call.context
    done = context.jobs.retry_failed(
        context.dead_letters,
        context.reopening,
        call.tree,
        (call.tenant, biz, job_in(job)),
        current_rule=given.rule == "current",
        by=call.by,
        now=call.now,
    )
    view = RetriedView(
        retried=done.count, skipped=done.skipped, more=done.more, job=job_view(done.job)
    )
    return shown(200, view)


@ROUTES.add("POST", "/v1/{biz}/jobs/{job}/cancel", Job, problems=(409,))
def cancel_job(call: Call, biz: str, job: str) -> Response[str]:
    """Cancel a job: what is open of it ends, downloads under way too. Again: the same."""
    key = call.tenant, biz, job_in(job)
    context = call.context
    cancelled = context.cancelling.cancel(call.tree, key, call.by, context.now)
    try:
        return _whole(call, context.jobs.get(call.tree, key, call.now))
    except UnknownBizError:
        # It was removed, and its ledger with it: the job says so itself.
        return _whole(call, CountedJob(cancelled, Ledger()))


def _whole(call: Call, seen: CountedJob) -> Response[str]:
    return shown(200, whole_job_view(seen.job, seen.ledger, call.now))


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
