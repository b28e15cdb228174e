"""The API's schedules: put, read, previewed, paused, resumed, run, deleted."""

import re
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import IDEMPOTENCY_KEY, Url, idempotency_key_in, number_in, read
from crawlfleet.api.responses import View, at, maybe_at, no_content, page_of, shown
from crawlfleet.api.routing import ANY, Call, Parameter, Route
from crawlfleet.jobs.models import Job
from crawlfleet.jobs.schedules import dispatcher, service
from crawlfleet.jobs.schedules.models import (
    KEPT_VERSIONS,
    USUAL_TOLERANCE_SECONDS,
    Jitter,
    Missed,
    Outcome,
    Overlap,
    Run,
    Schedule,
    Tolerance,
)
from crawlfleet.jobs.spiders.models import PlaceName, PlaceValue, SpiderName, Start
from crawlfleet.jobs.starting import wake_for
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import Priority

#: Runs of a preview, unless the caller asks for fewer or more.
RUNS: Final = 5
MOST_RUNS: Final = 50
_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
Line = Annotated[str, Meta(min_length=1, max_length=200)]
Zone = Annotated[str, Meta(min_length=1, max_length=64)]


class ScheduleInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as clients write it. Times are in ``time_zone``, an IANA name.

    Its jobs are runs of a kept ``spider`` (its newest ``version`` unless one is given), or of a
    ``rule`` on ``urls`` or on a ``start``; ``values`` fill the places that the start leaves open.
    """

    cron: Line
    rule: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    urls: Annotated[tuple[Url, ...], Meta(max_length=10_000)] = ()
    start: Start | None = None
    spider: SpiderName | None = None
    version: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    values: Annotated[dict[PlaceName, PlaceValue], Meta(max_length=8)] = {}
    priority: Priority | None = None
    time_zone: Zone = "UTC"
    overlap: Overlap = Overlap.ALLOW
    missed: Missed = Missed.ALL
    tolerance_seconds: Tolerance = USUAL_TOLERANCE_SECONDS
    jitter_seconds: Jitter = 0
    enabled: bool = True


class PreviewInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a schedule would run that need not be kept; ``name`` matters for its jitter alone."""

    cron: Line
    time_zone: Zone = "UTC"
    jitter_seconds: Jitter = 0
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z")] = "preview"


def schedule_in(body: bytes) -> ScheduleInput:
    """A schedule.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    return read(body, ScheduleInput)


def schedule_of(given: ScheduleInput, tenant: str, biz: str, name: str) -> Schedule:
    """The schedule that a client has written.

    Raises:
        InvalidRequestError: the name is none.
    """
    if not _SLUG.match(name):
        message = "must be 1 to 32 of a-z, 0-9 and -, beginning with a letter"
        raise InvalidRequestError.of("name", message)
    content = msgspec.structs.asdict(given)
    version = content.pop("version")
    return Schedule(tenant=tenant, biz=biz, name=name, spider_version=version, **content)


def preview_in(body: bytes, tenant: str, biz: str) -> Schedule:
    """A schedule to be previewed.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    given = read(body, PreviewInput)
    return Schedule(tenant=tenant, biz=biz, **msgspec.structs.asdict(given))


class OutcomeView(View, frozen=True, kw_only=True):
    """What became of a fire time: the ``job`` it started, or ``why`` it did not (yet)."""

    outcome: str
    fire_at: str
    at: str
    job: str | None
    why: str


class ScheduleContentView(View, frozen=True, kw_only=True):
    """What a client said of a schedule; ``put_at`` is null where nobody wrote it down yet."""

    name: str
    version: int
    put_at: str | None
    cron: str
    time_zone: str
    rule: str | None
    urls: list[str]
    start: dict[str, Any] | None
    spider: str | None
    spider_version: int | None
    values: dict[str, str]
    priority: int | None
    overlap: str
    missed: str
    tolerance_seconds: int
    jitter_seconds: int
    enabled: bool


class ScheduleView(ScheduleContentView, frozen=True, kw_only=True):
    """A schedule, the fire time that comes next, and what became of the last one.

    ``fire_at`` is the cron line's time, ``next_at`` when it is looked at: with its jitter, or later
    while it has to wait.
    """

    fire_at: str | None
    next_at: str | None
    last_fired_at: str | None
    last_outcome: OutcomeView | None


class SchedulesView(View, frozen=True, kw_only=True):
    """Every schedule of a biz."""

    schedules: list[ScheduleView]


class ScheduleVersionsView(View, frozen=True, kw_only=True):
    """Versions of a schedule, the newest first."""

    versions: list[ScheduleContentView]


class NextRunView(View, frozen=True, kw_only=True):
    """A run to come: ``fire_at`` by the cron line, ``at`` and ``local_at`` with the jitter.

    ``shift_seconds`` is by how much clocks in the time zone are put forward (or back, below 0)
    between the run before, or now, and this one.
    """

    fire_at: str
    at: str
    local_at: str
    shift_seconds: int


class RunsView(View, frozen=True, kw_only=True):
    """The next runs, in their order; fewer than were asked for where there are no more."""

    time_zone: str
    runs: list[NextRunView]


class StartedView(View, frozen=True, kw_only=True):
    """The job that a schedule was made to start; under one key it is the same one."""

    job: str
    schedule: str
    state: str
    size: int
    created_at: str


def schedule_view(schedule: Schedule) -> ScheduleView:
    """A schedule."""
    outcome = schedule.last_outcome
    return ScheduleView(
        **_content(schedule),
        fire_at=maybe_at(schedule.fire_at),
        next_at=maybe_at(schedule.next_at),
        last_fired_at=maybe_at(schedule.last_fired_at),
        last_outcome=None if outcome is None else _outcome_view(outcome),
    )


def version_view(schedule: Schedule) -> ScheduleContentView:
    """A version of a schedule."""
    return ScheduleContentView(**_content(schedule))


def runs_view(schedule: Schedule, runs: list[Run]) -> RunsView:
    """The next runs of a schedule."""
    return RunsView(
        time_zone=schedule.time_zone,
        runs=[
            NextRunView(
                fire_at=at(run.fire_at),
                at=at(run.at),
                local_at=run.local_at.isoformat(),
                shift_seconds=run.shift_seconds,
            )
            for run in runs
        ],
    )


def started_view(job: Job) -> StartedView:
    """A job of a schedule."""
    return StartedView(
        job=job.name,
        schedule=job.schedule or "",
        state=job.state.value,
        size=job.size,
        created_at=at(job.created_at),
    )


def _outcome_view(outcome: Outcome) -> OutcomeView:
    return OutcomeView(
        outcome=outcome.kind.value,
        fire_at=at(outcome.fire_at),
        at=at(outcome.at),
        job=outcome.job,
        why=outcome.why,
    )


def _content(schedule: Schedule) -> dict[str, Any]:
    content = {name: getattr(schedule, name) for name in ScheduleContentView.__struct_fields__}
    return content | {
        "put_at": maybe_at(schedule.put_at),
        "urls": list(schedule.urls),
        "start": None if schedule.start is None else msgspec.to_builtins(schedule.start),
        "values": dict(schedule.values),
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
    }


def _list(call: Call, biz: str) -> Response[str]:
    found = service.list_schedules(call.context.schedules.schedules, call.tree, call.tenant, biz)
    return shown(200, SchedulesView(schedules=[schedule_view(one) for one in found]))


def _get(call: Call, biz: str, name: str) -> Response[str]:
    return shown(200, schedule_view(_of(call, biz, name)))


def _of(call: Call, biz: str, name: str) -> Schedule:
    ports = call.context.schedules
    return service.get_schedule(ports.schedules, call.tree, call.tenant, biz, name)


def _put(call: Call, biz: str, name: str) -> Response[str]:
    schedule = schedule_of(schedule_in(call.body), call.tenant, biz, name)
    put = service.put_schedule(call.context.schedules, call.tree, schedule, call.now)
    return shown(200, schedule_view(put))


def _delete(call: Call, biz: str, name: str) -> Response[str]:
    service.delete_schedule(call.context.schedules.schedules, call.tree, call.tenant, biz, name)
    return no_content()


def _preview(call: Call, biz: str) -> Response[str]:
    return _runs(call, _count_in(call), preview_in(call.body, call.tenant, biz))


def _next(call: Call, biz: str, name: str) -> Response[str]:
    return _runs(call, _count_in(call), _of(call, biz, name))


def _runs(call: Call, count: int, schedule: Schedule) -> Response[str]:
    return shown(200, runs_view(schedule, service.preview(call.tree, schedule, count, call.now)))


def _versions(call: Call, biz: str, name: str) -> Response[str]:
    text = call.query.get("limit")
    kept = call.context.schedules.schedules

    def ask(limit: int) -> Listing[Schedule]:
        found = service.list_versions(kept, call.tree, call.tenant, biz, name, limit)
        return Listing(found, None, more=False)

    return page_of(
        KEPT_VERSIONS if text is None else number_in(text, "limit", 1, KEPT_VERSIONS),
        ask,
        lambda page: ScheduleVersionsView(versions=[version_view(each) for each in page.items]),
    )


def _enabled(call: Call, biz: str, name: str, *, enabled: bool) -> Response[str]:
    ports = call.context.schedules
    changed = service.set_enabled(
        ports, call.tree, call.tenant, biz, name, call.now, enabled=enabled
    )
    return shown(200, schedule_view(changed))


def _run(call: Call, biz: str, name: str) -> Response[str]:
    key = idempotency_key_in(call.event)
    schedule, jobs = _of(call, biz, name), call.context.jobs
    ports = dispatcher.FiringPorts(
        schedules=call.context.schedules.schedules, starting=jobs.starting
    )
    job = dispatcher.run_now(ports, call.tree, schedule, key, call.now)
    wake_for(job, jobs.workers, jobs.waker)
    return shown(202, started_view(job))


def _count_in(call: Call) -> int:
    text = call.query.get("count")
    return RUNS if text is None else number_in(text, "count", 1, MOST_RUNS)


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

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listSchedules",
        handler=_list,
        method="GET",
        path="/v1/{biz}/schedules",
        summary="The biz's schedules.",
        answers={200: SchedulesView},
        problems=ANY,
    ),
    Route(
        operation="previewSchedule",
        handler=_preview,
        method="POST",
        path="/v1/{biz}/schedules/preview",
        summary="When a schedule would run next: nothing is kept.",
        body=(PreviewInput,),
        parameters=(_COUNT,),
        answers={200: RunsView},
        problems=(*ANY, 413),
    ),
    Route(
        operation="getSchedule",
        handler=_get,
        method="GET",
        path="/v1/{biz}/schedules/{name}",
        summary="One schedule.",
        answers={200: ScheduleView},
        problems=ANY,
    ),
    Route(
        operation="putSchedule",
        handler=_put,
        method="PUT",
        path="/v1/{biz}/schedules/{name}",
        summary="Create or replace a schedule: a cron line, in a time zone, on what to crawl.",
        body=(ScheduleInput,),
        answers={200: ScheduleView},
        problems=(*ANY, 413, 429),
    ),
    Route(
        operation="deleteSchedule",
        handler=_delete,
        method="DELETE",
        path="/v1/{biz}/schedules/{name}",
        summary="Delete a schedule; what it has created stays.",
        answers={204: None},
        problems=ANY,
    ),
    Route(
        operation="getScheduleRuns",
        handler=_next,
        method="GET",
        path="/v1/{biz}/schedules/{name}/next",
        summary="A schedule's next runs, in its time zone and in UTC; if paused, those it misses.",
        parameters=(_COUNT,),
        answers={200: RunsView},
        problems=ANY,
    ),
    Route(
        operation="listScheduleVersions",
        handler=_versions,
        method="GET",
        path="/v1/{biz}/schedules/{name}/versions",
        summary="What a schedule was before: its last versions, the newest first.",
        parameters=(_VERSIONS,),
        answers={200: ScheduleVersionsView},
        problems=ANY,
    ),
    Route(
        operation="pauseSchedule",
        handler=partial(_enabled, enabled=False),
        method="POST",
        path="/v1/{biz}/schedules/{name}/pause",
        summary="Let a schedule rest: it fires no more until it is resumed.",
        answers={200: ScheduleView},
        problems=ANY,
    ),
    Route(
        operation="resumeSchedule",
        handler=partial(_enabled, enabled=True),
        method="POST",
        path="/v1/{biz}/schedules/{name}/resume",
        summary="Have a paused schedule fire again, from its next fire time on.",
        answers={200: ScheduleView},
        problems=ANY,
    ),
    Route(
        operation="runSchedule",
        handler=_run,
        method="POST",
        path="/v1/{biz}/schedules/{name}/run",
        summary="Start a job of a schedule now; its fire times stay as they are.",
        headers=(_KEY,),
        answers={202: StartedView},
        problems=(*ANY, 409, 429),
    ),
)
