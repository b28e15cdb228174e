"""Schedules in the API: put, get, preview, pause, resume, run, delete."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import IDEMPOTENCY_KEY, Url, idempotency_key_in, number_in, read
from crawlfleet.api.responses import filled, no_content, page_of, shown
from crawlfleet.api.routing import Call, Parameter, Routes
from crawlfleet.config.documents.quota import UserName
from crawlfleet.crawling.frontier.models import SegmentChoice
from crawlfleet.jobs.schedules import models
from crawlfleet.jobs.schedules.dispatcher import ScheduleRunner
from crawlfleet.jobs.schedules.models import (
    KEPT_VERSIONS,
    USUAL_TOLERANCE_SECONDS,
    Jitter,
    Missed,
    Overlap,
    Run,
    ScheduleState,
    Tolerance,
    state_of,
)
from crawlfleet.jobs.schedules.service import preview
from crawlfleet.jobs.service import wake_for
from crawlfleet.jobs.spiders.models import Filling, PlaceName, SpiderName, Start
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import Priority
from crawlfleet.wire.schedules import (
    NextRun,
    Outcome,
    RunsAnswer,
    Schedule,
    ScheduleContent,
    SchedulesAnswer,
    StartedJob,
)

#: Runs of a preview, unless the call has a count.
RUNS: Final = 5
MOST_RUNS: Final = 50
_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
Line = Annotated[str, Meta(min_length=1, max_length=200)]
Zone = Annotated[str, Meta(min_length=1, max_length=64)]


class ScheduleInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as clients write it. Times are in ``time_zone``, an IANA name.

    Its jobs are runs of a kept ``spider`` (its newest ``version`` unless one is given), or of a
    ``rule`` on ``urls``, on a ``start``, or on what an executor's spider of that name begins with;
    ``values`` fill the places that the start leaves open, each by one value, a list or a range.
    ``segment`` is that of its jobs: each one's own unless it says ``biz``, or an hour, day, week or
    month. They are under the quotas that the tenant has for its ``user``.
    """

    cron: Line
    rule: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    urls: Annotated[tuple[Url, ...], Meta(max_length=10_000)] = ()
    start: Start | None = None
    spider: SpiderName | None = None
    version: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    values: Annotated[dict[PlaceName, Filling], Meta(max_length=8)] = {}
    priority: Priority | None = None
    segment: SegmentChoice | None = None
    user: UserName | None = None
    time_zone: Zone = "UTC"
    overlap: Overlap = Overlap.ALLOW
    missed: Missed = Missed.ALL
    tolerance_seconds: Tolerance = USUAL_TOLERANCE_SECONDS
    jitter_seconds: Jitter = 0
    enabled: bool = True


class PreviewInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to preview, stored or not; ``name`` matters for its jitter alone."""

    cron: Line
    time_zone: Zone = "UTC"
    jitter_seconds: Jitter = 0
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z")] = "preview"


def schedule_in(body: bytes, tenant: str, biz: str, name: str) -> models.Schedule:
    """Read the schedule that a client has written.

    Raises:
        InvalidRequestError: names every field that is wrong, or says that the name is none.
    """
    content = msgspec.structs.asdict(read(body, ScheduleInput))
    if not _SLUG.match(name):
        message = "must be 1 to 32 of a-z, 0-9 and -, beginning with a letter"
        raise InvalidRequestError.of("name", message)
    version = content.pop("version")
    return models.Schedule(tenant=tenant, biz=biz, name=name, spider_version=version, **content)


def preview_in(body: bytes, tenant: str, biz: str) -> models.Schedule:
    """Read a schedule to be previewed.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    given = read(body, PreviewInput)
    return models.Schedule(tenant=tenant, biz=biz, **msgspec.structs.asdict(given))


class ScheduleVersionsView(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of a schedule, the newest first."""

    versions: list[ScheduleContent]


def schedule_view(schedule: models.Schedule, state: ScheduleState) -> Schedule:
    """Shape a schedule."""
    outcomes = {
        "last_outcome": _outcome(schedule.last_outcome),
        "last_failure": _outcome(schedule.last_failure),
    }
    return filled(Schedule, schedule, **_content(schedule), **outcomes, state=state.value)


def _outcome(found: models.Outcome | None) -> Outcome | None:
    return None if found is None else filled(Outcome, found, outcome=found.kind.value)


def version_view(schedule: models.Schedule) -> ScheduleContent:
    """Shape a version of a schedule."""
    return filled(ScheduleContent, schedule, **_content(schedule))


def _content(schedule: models.Schedule) -> dict[str, Any]:
    return {
        "urls": tuple(schedule.urls),
        "start": None if schedule.start is None else msgspec.to_builtins(schedule.start),
        "values": msgspec.to_builtins(schedule.values),
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
    }


def runs_view(
    schedule: models.Schedule, runs: list[Run], state: ScheduleState = ScheduleState.WAITING
) -> RunsAnswer:
    """Shape the next runs of a schedule; its state is that of the first, paused ones of all."""
    waiting = state if state is ScheduleState.PAUSED else ScheduleState.WAITING
    states = [state, *[waiting] * len(runs)]
    return RunsAnswer(
        time_zone=schedule.time_zone,
        runs=tuple(
            filled(NextRun, run, local_at=run.local_at.isoformat(), state=one.value)
            for run, one in zip(runs, states, strict=False)
        ),
    )


_COUNT: Final = Parameter(
    name="count",
    meaning="How many runs.",
    shape={"type": "integer", "minimum": 1, "maximum": MOST_RUNS, "default": RUNS},
)

_VERSIONS: Final = Parameter(
    name="limit",
    meaning="Most versions; the answer holds fewer where they are large.",
    shape={"type": "integer", "minimum": 1, "maximum": KEPT_VERSIONS, "default": KEPT_VERSIONS},
)

_KEY: Final = Parameter(
    name=IDEMPOTENCY_KEY,
    meaning="Under one key a job is started once, however often it is asked for.",
    shape={"type": "string", "pattern": "^[!-~]{1,255}$"},
)

ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/schedules", SchedulesAnswer)
def list_schedules(call: Call, biz: str) -> Response[str]:
    """List the biz's schedules."""
    found = call.context.schedules.of_biz(call.tree, call.tenant, biz)
    return shown(200, SchedulesAnswer(schedules=tuple(_views(call, biz, found))))


@ROUTES.add("GET", "/v1/{biz}/schedules/{name}", Schedule)
def get_schedule(call: Call, biz: str, name: str) -> Response[str]:
    """Get one schedule."""
    return _shown(call, biz, _of(call, biz, name))


def _of(call: Call, biz: str, name: str) -> models.Schedule:
    return call.context.schedules.get(call.tree, call.tenant, biz, name)


@ROUTES.add(
    "PUT", "/v1/{biz}/schedules/{name}", Schedule, problems=(413, 429), body=(ScheduleInput,)
)
def put_schedule(call: Call, biz: str, name: str) -> Response[str]:
    """Create or replace a schedule: a cron line, in a time zone, on what to crawl."""
    schedule = schedule_in(call.body, call.tenant, biz, name)
    put = call.context.schedules.put(call.tree, schedule, call.now)
    return _shown(call, biz, put)


@ROUTES.add("DELETE", "/v1/{biz}/schedules/{name}", {204: None})
def delete_schedule(call: Call, biz: str, name: str) -> Response[str]:
    """Delete a schedule; what it has created stays."""
    call.context.schedules.delete(call.tree, call.tenant, biz, name)
    return no_content()


@ROUTES.add(
    "POST",
    "/v1/{biz}/schedules/preview",
    RunsAnswer,
    problems=(413,),
    body=(PreviewInput,),
    parameters=(_COUNT,),
)
def preview_schedule(call: Call, biz: str) -> Response[str]:
    """Preview the next runs of a schedule; nothing is stored."""
    schedule = preview_in(call.body, call.tenant, biz)
    runs = preview(call.tree, schedule, _count_in(call), call.now)
    return shown(200, runs_view(schedule, runs))


@ROUTES.add("GET", "/v1/{biz}/schedules/{name}/next", RunsAnswer, parameters=(_COUNT,))
def get_schedule_runs(call: Call, biz: str, name: str) -> Response[str]:
    """Get a schedule's next runs, in its time zone and in UTC; if paused, those it misses."""
    schedule = _of(call, biz, name)
    runs = preview(call.tree, schedule, _count_in(call), call.now)
    running = call.context.jobs.starter.jobs.running_schedules(call.tenant, biz)
    state = state_of(schedule, call.now, runs=name in running)
    return shown(200, runs_view(schedule, runs, state))


@ROUTES.add(
    "GET", "/v1/{biz}/schedules/{name}/versions", ScheduleVersionsView, parameters=(_VERSIONS,)
)
def list_schedule_versions(call: Call, biz: str, name: str) -> Response[str]:
    """List the last versions of a schedule, the newest first."""
    text = call.query.get("limit")
    schedules = call.context.schedules

    def ask(limit: int) -> Listing[models.Schedule]:
        found = schedules.versions(call.tree, call.tenant, biz, name, limit)
        return Listing(found, None, more=False)

    return page_of(
        KEPT_VERSIONS if text is None else number_in(text, "limit", 1, KEPT_VERSIONS),
        ask,
        lambda versions, **_: ScheduleVersionsView(versions=versions),
        version_view,
    )


@ROUTES.add("POST", "/v1/{biz}/schedules/{name}/pause", Schedule)
def pause_schedule(call: Call, biz: str, name: str) -> Response[str]:
    """Pause a schedule: it fires no more until it is resumed."""
    return _enabled(call, biz, name, enabled=False)


@ROUTES.add("POST", "/v1/{biz}/schedules/{name}/resume", Schedule)
def resume_schedule(call: Call, biz: str, name: str) -> Response[str]:
    """Have a paused schedule fire again, from its next fire time on."""
    return _enabled(call, biz, name, enabled=True)


def _enabled(call: Call, biz: str, name: str, *, enabled: bool) -> Response[str]:
    changed = call.context.schedules.set_enabled(
        call.tree, call.tenant, biz, name, call.now, enabled=enabled
    )
    return _shown(call, biz, changed)


def _shown(call: Call, biz: str, schedule: models.Schedule) -> Response[str]:
    return shown(200, _views(call, biz, [schedule])[0])


def _views(call: Call, biz: str, schedules: Sequence[models.Schedule]) -> list[Schedule]:
    if not schedules:
        return []
    running = call.context.jobs.starter.jobs.running_schedules(call.tenant, biz)
    return [
        schedule_view(one, state_of(one, call.now, runs=one.name in running)) for one in schedules
    ]


@ROUTES.add(
    "POST",
    "/v1/{biz}/schedules/{name}/run",
    {202: StartedJob},
    problems=(409, 429),
    headers=(_KEY,),
)
def run_schedule(call: Call, biz: str, name: str) -> Response[str]:
    """Start a job of a schedule now; its fire times stay as they are."""
    key = idempotency_key_in(call.event)
    schedule, jobs = _of(call, biz, name), call.context.jobs
    runner = ScheduleRunner(schedules=call.context.schedules.schedules, starter=jobs.starter)
    job = runner.run_now(call.tree, schedule, key, call.now)
    wake_for(job, jobs.workers, jobs.waker)
    started = filled(
        StartedJob, job, job=job.name, schedule=job.schedule or "", state=job.state.value
    )
    return shown(202, started)


def _count_in(call: Call) -> int:
    text = call.query.get("count")
    return RUNS if text is None else number_in(text, "count", 1, MOST_RUNS)
