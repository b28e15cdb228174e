"""The API's jobs: started, listed, shown, cancelled, retried."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import IDEMPOTENCY_KEY, Url, idempotency_key_in, read, read_or
from crawlfleet.api.responses import View, at, maybe_at, page_of, shown
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Call, Parameter, Route
from crawlfleet.jobs import cancellation, service
from crawlfleet.jobs.completion import progress_of
from crawlfleet.jobs.models import Job, JobOrder, JobState
from crawlfleet.jobs.spiders.models import PlaceName, PlaceValue, SpiderName, Start
from crawlfleet.kernel.errors import InvalidRequestError, Problem, UnknownBizError
from crawlfleet.kernel.queue_key import Priority
from crawlfleet.kernel.validation import RuleName, Slug, Words
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.submission.admission import RESERVED, is_reserved

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
    """How failed tasks are read: by the rule as it was then, or as it is now."""

    rule: Literal["frozen", "current"] = "frozen"


def order_in(body: bytes, tenant: str, biz: str) -> JobOrder:
    """What is ordered.

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
    return JobOrder(
        tenant=tenant,
        biz=biz,
        by="api",
        name=given.name,
        spider=given.spider,
        version=given.version,
        rule=given.rule,
        start=given.start if given.urls is None else Start(urls=given.urls),
        values=given.values,
        priority=given.priority,
        pool=given.pool,
    )


def states_in(query: Mapping[str, str]) -> tuple[JobState, ...]:
    """Which states are meant: several with commas between; none are all."""
    text = query.get("state")
    if text is None:
        return ()
    known = [state.value for state in JobState]
    names = text.split(",")
    if not set(names) <= set(known):
        raise InvalidRequestError.of("state", f"must be of {', '.join(known)}")
    return tuple(JobState(name) for name in dict.fromkeys(names))


def named_in(query: Mapping[str, str], name: str) -> str | None:
    """The name of a spider or a schedule."""
    text = query.get(name)
    if text is not None and not _SHORT.match(text):
        raise InvalidRequestError.of(name, "must be 1 to 32 letters, digits, _ and -")
    return text


def job_name(text: str) -> str:
    """The name in a path."""
    if not _NAME.match(text):
        raise InvalidRequestError.of("job", "must be 1 to 64 letters, digits, '.', '_' or '-'")
    return text


class JobView(View, frozen=True, kw_only=True):
    """A job: one run of a spider, a schedule or a list of URLs.

    ``size`` is how many tasks it has; ``expanded`` so many of them are made, of which ``refused``
    have a URL that may not be asked for. ``counts`` are how its tasks ended, once it has;
    ``trouble`` is why it does not go on. Where jobs wait for a worker, ``worker`` has won it at
    ``placed_at``, its demand ``lowered`` so often until one did; ``pool`` is then the winner's,
    null for the usual one.
    """

    name: str
    state: str
    by: str
    rule: str
    rule_version: str
    spider: str | None
    spider_version: int | None
    schedule: str | None
    fire_at: str | None
    values: dict[str, str]
    priority: int
    pool: str | None
    worker: str | None
    placed_at: str | None
    lowered: int
    size: int
    expanded: int
    refused: int
    created_at: str
    expanded_at: str | None
    cancelled_at: str | None
    ended_at: str | None
    counts: dict[str, int]
    trouble: str | None


class JobLedgerView(View, frozen=True, kw_only=True):
    """Where its tasks are: ``submitted`` is the sum of the others."""

    submitted: int
    pending: int
    leased: int
    waiting: int
    done: int
    dead: int
    cancelled: int
    expired: int
    others: int


class JobProgressView(View, frozen=True, kw_only=True):
    """How far it is: ``ended`` of ``tasks``, those its pages led to among them; shares are 0 to 1.

    ``per_second`` is since it began, ``ends_at`` when it will have ended at that rate; null where
    nothing tells.
    """

    tasks: int
    expanded_share: float
    ended: int
    ended_share: float
    per_second: float | None
    ends_at: str | None


class WholeJobView(JobView, frozen=True, kw_only=True):
    """A job with its ledger and its progress; ``pattern`` makes its URLs where they are no list."""

    pattern: str | None
    refusals: list[str]
    ledger: JobLedgerView
    progress: JobProgressView


class JobsView(View, frozen=True, kw_only=True):
    """A page of jobs, the newest first."""

    jobs: list[JobView]
    cursor: str | None
    more: bool


class RetriedView(View, frozen=True, kw_only=True):
    """So many failed tasks are worked on again; ``skipped`` are past their biz's time to live.

    ``more`` says that the call's time was up before all were: call again.
    """

    retried: int
    skipped: int
    more: bool
    job: JobView


def job_view(job: Job) -> JobView:
    """A job as lists show it."""
    return JobView(**_facts(job))


def whole_job_view(job: Job, ledger: Ledger, now: datetime) -> WholeJobView:
    """A job with where its tasks are."""
    pace = progress_of(job, ledger, now)
    return WholeJobView(
        **_facts(job),
        pattern=job.start.pattern,
        refusals=list(job.refusals),
        ledger=JobLedgerView(
            submitted=ledger.submitted,
            pending=ledger.pending,
            leased=ledger.leased,
            waiting=ledger.waiting,
            done=ledger.done,
            dead=ledger.dead,
            cancelled=ledger.cancelled,
            expired=ledger.expired,
            others=ledger.others,
        ),
        progress=JobProgressView(
            tasks=pace.tasks,
            expanded_share=round(pace.expanded_share, 6),
            ended=pace.ended,
            ended_share=round(pace.ended_share, 6),
            per_second=None if pace.per_second is None else round(pace.per_second, 3),
            ends_at=maybe_at(pace.ends_at),
        ),
    )


def _facts(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "state": job.state.value,
        "by": job.by,
        "rule": job.rule,
        "rule_version": job.rule_version,
        "spider": job.spider,
        "spider_version": job.spider_version,
        "schedule": job.schedule,
        "fire_at": maybe_at(job.fire_at),
        "values": job.values,
        "priority": job.priority,
        "pool": job.pool,
        "worker": job.worker,
        "placed_at": maybe_at(job.placed_at),
        "lowered": job.lowered,
        "size": job.size,
        "expanded": job.expanded,
        "refused": job.refused,
        "created_at": at(job.created_at),
        "expanded_at": maybe_at(job.expanded_at),
        "cancelled_at": maybe_at(job.cancelled_at),
        "ended_at": maybe_at(job.ended_at),
        "counts": job.counts,
        "trouble": job.trouble,
    }


def _start(call: Call, biz: str) -> Response[str]:
    key = idempotency_key_in(call.event)
    order = order_in(call.body, call.tenant, biz)
    started = service.start(call.context.jobs, call.tree, order, key, call.now)
    return shown(201 if started.is_new else 200, job_view(started.job))


def _list(call: Call, biz: str) -> Response[str]:
    query = call.query
    states = states_in(query)
    spider, schedule = (named_in(query, name) for name in ("spider", "schedule"))
    return page_of(
        call.limit,
        lambda limit: service.list_jobs(
            call.context.jobs,
            call.tree,
            call.tenant,
            biz,
            states=states,
            spider=spider,
            schedule=schedule,
            cursor=call.cursor,
            limit=limit,
        ),
        lambda page: JobsView(
            jobs=[job_view(job) for job in page.items], cursor=page.cursor, more=page.more
        ),
    )


def _get(call: Call, biz: str, job: str) -> Response[str]:
    key = call.tenant, biz, job_name(job)
    return _whole(call, service.get_job(call.context.jobs, call.tree, key, call.now))


def _cancel(call: Call, biz: str, job: str) -> Response[str]:
    key = call.tenant, biz, job_name(job)
    context = call.context
    cancelled = cancellation.cancel_job(context.cancelling, call.tree, key, call.by, context.now)
    try:
        return _whole(call, service.get_job(context.jobs, call.tree, key, call.now))
    except UnknownBizError:
        # It was removed, and its ledger with it: the job says so itself.
        return _whole(call, service.Seen(cancelled, Ledger()))


def _whole(call: Call, seen: service.Seen) -> Response[str]:
    return shown(200, whole_job_view(seen.job, seen.ledger, call.now))


def _retry(call: Call, biz: str, job: str) -> Response[str]:
    given, context = read_or(RetryInput(), call.body), call.context
    done = service.retry_failed(
        context.jobs,
        context.dead_letters,
        context.reopening,
        call.tree,
        (call.tenant, biz, job_name(job)),
        current_rule=given.rule == "current",
        by=call.by,
        now=call.now,
    )
    view = RetriedView(
        retried=done.count, skipped=done.skipped, more=done.more, job=job_view(done.job)
    )
    return shown(200, view)


_KEY: Final = Parameter(
    name=IDEMPOTENCY_KEY,
    meaning="Under one key there is one job, however often it is ordered.",
    shape={"type": "string", "pattern": "^[!-~]{1,255}$"},
)

_SHORT_NAME: Final[dict[str, object]] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$"}
ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="startJob",
        handler=_start,
        method="POST",
        path="/v1/{biz}/jobs",
        summary="Start a job: a run of a kept spider, or of a rule on URLs. 200: it stood already.",
        body=(JobInput,),
        headers=(_KEY,),
        answers={201: JobView, 200: JobView},
        problems=(*ANY, 409, 413, 422, 429),
    ),
    Route(
        operation="listJobs",
        handler=_list,
        method="GET",
        path="/v1/{biz}/jobs",
        summary="Jobs, the newest first.",
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
        answers={200: JobsView},
        problems=ANY,
    ),
    Route(
        operation="getJob",
        handler=_get,
        method="GET",
        path="/v1/{biz}/jobs/{job}",
        summary="A job: how far it is, where its tasks are, when it will have ended.",
        answers={200: WholeJobView},
        problems=ANY,
    ),
    Route(
        operation="retryJob",
        handler=_retry,
        method="POST",
        path="/v1/{biz}/jobs/{job}/retry",
        summary="Have the failed tasks of a job worked on again; one that was done runs again.",
        body=(RetryInput,),
        body_required=False,
        answers={200: RetriedView},
        problems=(*ANY, 409, 413),
    ),
    Route(
        operation="cancelJob",
        handler=_cancel,
        method="POST",
        path="/v1/{biz}/jobs/{job}/cancel",
        summary="Cancel a job: what is open of it ends, downloads under way too. Again: the same.",
        answers={200: WholeJobView},
        problems=(*ANY, 409),
    ),
)
