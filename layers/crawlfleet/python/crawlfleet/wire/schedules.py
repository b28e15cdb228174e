"""Schedules, their versions and their runs."""

from datetime import datetime
from typing import Any

import msgspec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a fire time: ``started``, ``skipped``, ``waiting`` or ``failed``.

    The last two are tried again. ``job`` is the job it started, ``why`` says why it did not.
    """

    outcome: str
    fire_at: datetime
    at: datetime
    job: str | None = None
    why: str = ""


class ScheduleContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a schedule, as a client put it; ``put_at`` is null where it is not stored."""

    name: str = ""
    version: int = 1
    put_at: datetime | None = None
    cron: str
    time_zone: str = "UTC"
    rule: str | None = None
    urls: tuple[str, ...] = ()
    start: dict[str, Any] | None = None
    spider: str | None = None
    spider_version: int | None = None
    values: dict[str, str | dict[str, int] | tuple[str, ...]] = {}
    priority: int | None = None
    segment: str | None = None
    user: str | None = None
    overlap: str = "allow"
    missed: str = "all"
    tolerance_seconds: int = 300
    jitter_seconds: int = 0
    enabled: bool = True


class Schedule(ScheduleContent, frozen=True, kw_only=True):
    """A schedule: a cron line on what its jobs crawl, a kept spider or a rule on URLs or a start.

    ``overlap`` says what a fire does while an earlier job has not ended: ``allow``, ``skip``,
    ``queue`` or ``replace``. ``missed`` says which fire times are made up for after a stop:
    ``all``, the ``latest``, or with ``skip`` those that are late by ``tolerance_seconds`` at most.
    ``state`` is ``paused``, ``due`` (a job starts now, or ``last_outcome`` says why it waits),
    ``running`` (a job has not ended), ``waiting`` for the next time, or ``over``: no time comes.
    ``segment`` says how often its jobs read a page that links lead to; null is once a job.
    ``fire_at`` is the next time of the cron line, ``next_at`` when it is evaluated: with its
    jitter, or later while it has to wait. ``last_failure`` is the last outcome that was a failure,
    which a later one leaves as it is. Of a version, all that follows ``enabled`` is null.
    """

    state: str = ""
    fire_at: datetime | None = None
    next_at: datetime | None = None
    last_fired_at: datetime | None = None
    last_outcome: Outcome | None = None
    last_failure: Outcome | None = None


class SchedulesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every schedule of a biz."""

    schedules: tuple[Schedule, ...]


class NextRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to come: ``fire_at`` by the cron line, ``at`` and ``local_at`` with the jitter.

    ``shift_seconds`` is by how much clocks in the time zone are put forward (or back, below 0)
    between the run before, or now, and this one. ``state`` is ``waiting``; of the first run it is
    that of its schedule, ``paused`` of them all.
    """

    fire_at: datetime
    at: datetime
    local_at: datetime
    shift_seconds: int = 0
    state: str = ""


class RunsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The next runs, in their order; fewer than were asked for where there are no more."""

    time_zone: str = "UTC"
    runs: tuple[NextRun, ...]


class StartedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a schedule was made to start; under one key it is the same one."""

    job: str
    schedule: str
    state: str
    size: int
    created_at: datetime
