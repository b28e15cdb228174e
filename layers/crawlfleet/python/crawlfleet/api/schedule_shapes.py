"""Schedules as clients write them. Every mistake is named with its field.

What the API shows of schedules: they themselves, their versions, and their runs to come.
"""

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from crawlfleet.api.inputs import Url, read
from crawlfleet.api.responses import View, at, maybe_at
from crawlfleet.jobs.models import Job
from crawlfleet.jobs.schedules.models import (
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
from crawlfleet.kernel.errors import InvalidRequestError
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
    return Schedule(
        tenant=tenant,
        biz=biz,
        name=name,
        cron=given.cron,
        time_zone=given.time_zone,
        rule=given.rule,
        urls=given.urls,
        start=given.start,
        spider=given.spider,
        spider_version=given.version,
        values=given.values,
        priority=given.priority,
        overlap=given.overlap,
        missed=given.missed,
        tolerance_seconds=given.tolerance_seconds,
        jitter_seconds=given.jitter_seconds,
        enabled=given.enabled,
    )


def preview_in(body: bytes, tenant: str, biz: str) -> Schedule:
    """A schedule to be previewed.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    given = read(body, PreviewInput)
    return Schedule(
        tenant=tenant,
        biz=biz,
        name=given.name,
        cron=given.cron,
        time_zone=given.time_zone,
        jitter_seconds=given.jitter_seconds,
    )


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
    return {
        "name": schedule.name,
        "version": schedule.version,
        "put_at": maybe_at(schedule.put_at),
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "rule": schedule.rule,
        "urls": list(schedule.urls),
        "start": None if schedule.start is None else msgspec.to_builtins(schedule.start),
        "spider": schedule.spider,
        "spider_version": schedule.spider_version,
        "values": dict(schedule.values),
        "priority": schedule.priority,
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "tolerance_seconds": schedule.tolerance_seconds,
        "jitter_seconds": schedule.jitter_seconds,
        "enabled": schedule.enabled,
    }
