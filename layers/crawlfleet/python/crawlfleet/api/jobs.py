"""Jobs in the API: start, list, get, cancel, retry; usage of runs by spider (SPEC.md B2)."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.api.costs import budget_view, cost_view, forecast_view, took_view
from crawlfleet.api.inputs import (
    IDEMPOTENCY_KEY,
    Url,
    caller_in,
    idempotency_key_in,
    job_in,
    read,
    read_or,
)
from crawlfleet.api.quotas import budgets_reached, must_have_room
from crawlfleet.api.responses import filled, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, TRACED, Call, Parameter, Routes
from crawlfleet.api.rules import field_views
from crawlfleet.config.documents.quota import Quotas, UserName
from crawlfleet.crawling.frontier.models import SegmentChoice
from crawlfleet.crawling.records.falls import JobCoverage as CoveredRule
from crawlfleet.jobs import models
from crawlfleet.jobs.completion import JobProgress as Progress
from crawlfleet.jobs.completion import progress_of
from crawlfleet.jobs.models import (
    JobOrder,
    JobState,
    StatedAmount,
    StatedDemand,
)
from crawlfleet.jobs.spiders.models import (
    Filling,
    LinkNeeds,
    PlaceName,
    SpiderName,
    Start,
)
from crawlfleet.jobs.submitted import CountedJob
from crawlfleet.jobs.usage import counts_of
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
from crawlfleet.wire.costs import Forecast
from crawlfleet.wire.jobs import (
    Job,
    JobCoverage,
    JobLedger,
    JobProgress,
    JobSummary,
    OwnAmount,
    OwnDemand,
    OwnLink,
)
from crawlfleet.wire.quotas import OwnQuota

#: A job's name when a client gives it: it is a part of addresses, where dots alone mean others.
StartName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
    Words("up to 64 letters, digits, ., _ and -, a letter or a digit first"),
]

_SHORT: Final = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


class JobInput(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A run of a kept ``spider``, the newest ``version`` unless it says which; or of a ``rule``.

    A rule comes with its pages: ``urls``, or a ``start`` whose pattern makes them; one that is the
    spider of an executor may name its own, as ``start_url`` of a list does. ``values`` fill
    places that the start leaves open, each by one value, a list or a range. ``pool`` are the
    workers that alone do it, whatever its spider says. Where jobs are placed by bidding, ``link``
    is what a worker's way to the site must be like, each field before its spider's, and ``demand``
    what the job takes of a worker, each resource in the place of what its spider's runs took. A
    page that its links lead to is read once a ``segment``: once a job where it is ``job`` or left
    out, once a segment of the biz's where it is ``biz``, once an hour, day, week or month. Under
    one ``name`` there is one job. It may use no more than its ``quotas`` say, and than its ``user``
    may: whom its tenant has named as the one that it is for.
    """

    spider: SpiderName | None = None
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    rule: RuleName | None = None
    urls: Annotated[tuple[Url, ...], Meta(min_length=1, max_length=10_000)] | None = None
    start: Start | None = None
    values: Annotated[dict[PlaceName, Filling], Meta(max_length=16)] = {}
    priority: Priority | None = None
    pool: Slug | None = None
    link: LinkNeeds | None = None
    demand: StatedDemand | None = None
    segment: SegmentChoice | None = None
    quotas: Quotas = ()
    user: UserName | None = None
    name: StartName | None = None


class JobQuotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The quotas of a job in the place of those that it has; none have it be unlimited."""

    quotas: Quotas


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


def job_view(
    job: models.Job, ledger: Ledger | None = None, now: datetime | None = None
) -> JobSummary:
    """Shape a job as lists show it, by its ledger as it is now if that was read."""
    quotas = tuple(filled(OwnQuota, one) for one in job.quotas)
    counted = _counted(job, ledger, now)
    return filled(JobSummary, job, state=job.state.value, quotas=quotas, **counted)


def _counted(job: models.Job, ledger: Ledger | None, now: datetime | None) -> dict[str, Any]:
    """Count the tasks of a job: as they are now, or as they were at its end."""
    if job.state in models.ENDED:
        return {"open": 0, "counted_at": job.ended_at}
    if ledger is None:
        return {"open": None, "counted_at": None}
    return {"counts": counts_of(job, ledger), "open": max(0, ledger.open), "counted_at": now}


def whole_job_view(
    job: models.Job, ledger: Ledger | None, now: datetime, read: Iterable[CoveredRule] = ()
) -> Job:
    """Shape a job with its ledger, its progress and its coverage."""
    return filled(
        Job,
        job,
        **_counted(job, ledger, now),
        state=job.state.value,
        pattern=job.start.pattern,
        places=msgspec.to_builtins(job.start.values),
        link=None if job.link == LinkNeeds() else filled(OwnLink, job.link),
        demand=None if job.demand is None else _own_demand(job.demand),
        quotas=tuple(filled(OwnQuota, one) for one in job.quotas),
        refusals=tuple(job.refusals),
        ledger=None if ledger is None else filled(JobLedger, ledger),
        progress=None if ledger is None else _progress_view(progress_of(job, ledger, now)),
        coverage=tuple(
            filled(
                JobCoverage,
                one.coverage,
                rule=one.rule,
                fields=field_views(one.coverage),
                empty=one.empty,
                mostly_empty=one.mostly,
            )
            for one in read
        ),
        cost=None,
        forecast=None,
        took=None,
    )


def _progress_view(progress: Progress) -> JobProgress:
    rate = progress.per_second
    return filled(
        JobProgress,
        progress,
        expanded_share=round(progress.expanded_share, 6),
        ended_share=round(progress.ended_share, 6),
        per_second=None if rate is None else round(rate, 3),
    )


def _own_demand(stated: StatedDemand) -> OwnDemand:
    def amount(one: StatedAmount | None) -> OwnAmount | None:
        return None if one is None else filled(OwnAmount, one)

    return OwnDemand(
        memory=amount(stated.memory), cpu=amount(stated.cpu), bandwidth=amount(stated.bandwidth)
    )


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
    headers=(_KEY, TRACED),
)
def start_job(call: Call, biz: str) -> Response[str]:
    """Start a job: a run of a kept spider, or of a rule on URLs. 200: it stood already."""
    key = idempotency_key_in(call.event)
    order = replace(
        order_in(call.body, call.tenant, biz),
        caller=caller_in(call.event),
    )
    # A worker would only find out that it has to wait.
    wakes = must_have_room(call, biz, [(order.user, None)])
    started = call.context.jobs.start(call.tree, order, key, call.now, wakes=wakes)
    return shown(201 if started.is_new else 200, job_view(started.job))


@ROUTES.add("POST", "/v1/{biz}/forecasts", Forecast, problems=(409, 413), body=(JobInput,))
def forecast_job(call: Call, biz: str) -> Response[str]:
    """Forecast a job that is not started: its pages, bytes, time and cost, from earlier runs.

    With a quota of money it says what part of the run that pays for, and when it ends.
    """
    order = order_in(call.body, call.tenant, biz)
    found = call.context.jobs.starter.forecast(call.tree, order, call.now)
    view = forecast_view(found)
    reached = budgets_reached(call, biz, order.user, order.quotas, view.usd)
    budget = budget_view(found, order.quotas)
    return shown(200, replace(view, why=(*view.why, *reached), budget=budget))


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
    """List jobs, the newest first; those that go on with their counts as they are now."""
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
            now=call.now,
        ),
        JobsPage,
        lambda seen: job_view(seen.job, seen.ledger, call.now),
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


@ROUTES.add("PUT", "/v1/{biz}/jobs/{job}/quotas", Job, problems=(409, 413), body=(JobQuotas,))
def set_job_quotas(call: Call, biz: str, job: str) -> Response[str]:
    """Replace the quotas of a job that has not ended: what they let go on goes on at once."""
    key, given = (call.tenant, biz, job_in(job)), read(call.body, JobQuotas)
    redis = call.context.submission.queue, call.context.cancelling.cancellations
    return _whole(call, call.context.jobs.set_quotas(call.tree, key, given.quotas, redis, call.now))


@ROUTES.add("POST", "/v1/{biz}/jobs/{job}/cancel", Job, problems=(409,))
def cancel_job(call: Call, biz: str, job: str) -> Response[str]:
    """Cancel a job: what is open of it ends, downloads under way too. Again: the same."""
    key = call.tenant, biz, job_in(job)
    context = call.context
    context.jobs.check_open(call.tree, key, call.now)
    cancelled = context.cancelling.cancel(call.tree, key, call.by, context.now)
    try:
        return _whole(call, context.jobs.get(call.tree, key, call.now))
    except UnknownBizError:
        # It was removed, and its ledger with it: the job says so itself.
        return _whole(call, CountedJob(cancelled, None))


def _whole(call: Call, seen: CountedJob) -> Response[str]:
    view = whole_job_view(seen.job, seen.ledger, call.now, seen.coverage)
    return shown(200, _with_cost(call, seen.job, view))


def _with_cost(call: Call, job: models.Job, view: Job) -> Job:
    if job.forecast is not None:
        view = replace(view, forecast=forecast_view(job.forecast))
    try:
        figures = call.context.usage.get_run(call.tree, job.tenant, job.biz, job.name).figures
    except (NotFoundError, UnknownBizError):
        return view
    took = took_view(call.tree, job, figures, call.now)
    return replace(view, cost=cost_view(call.tree, figures), took=took)
