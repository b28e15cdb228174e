"""What the API shows of schedules: they themselves, their versions, and their runs to come."""

from typing import Any

import msgspec

from crawlfleet.edge.views import View, at, maybe_at
from crawlfleet.model.job import Job
from crawlfleet.model.schedule import Outcome, Run, Schedule


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
