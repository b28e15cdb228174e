"""Schedules: jobs at the times of a cron line; put, read, preview, pause, resume, run, delete."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.sdk.calls import Calls, parameters, path_of
from crawlfleet.sdk.submission import KEY_HEADER


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a fire time: ``started``, ``skipped``, ``waiting`` or ``failed``.

    The last two are tried again. ``job`` is what it started, ``why`` says why it did not.
    """

    outcome: str
    fire_at: datetime
    at: datetime
    job: str | None = None
    why: str = ""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A cron line on what its jobs crawl: a kept spider, or a rule on URLs or on a start.

    ``overlap`` says what a fire does while an earlier job has not ended: ``allow``, ``skip``,
    ``queue`` or ``replace``. ``missed`` says which fire times are made up for after a stop:
    ``all``, the ``latest``, or with ``skip`` those that are late by ``tolerance_seconds`` at most.
    ``fire_at`` is the next time of the line, ``next_at`` when it comes: with its jitter, or when it
    is looked at again while it has to wait. Of a version, what tells how far it has come is None.
    """

    name: str = ""
    cron: str
    urls: tuple[str, ...] = ()
    time_zone: str = "UTC"
    rule: str | None = None
    start: dict[str, Any] | None = None
    spider: str | None = None
    spider_version: int | None = None
    values: dict[str, str] = {}
    priority: int | None = None
    overlap: str = "allow"
    missed: str = "all"
    tolerance_seconds: int = 300
    jitter_seconds: int = 0
    enabled: bool = True
    version: int = 1
    put_at: datetime | None = None
    fire_at: datetime | None = None
    next_at: datetime | None = None
    last_fired_at: datetime | None = None
    last_outcome: Outcome | None = None


class NextRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to come: ``fire_at`` by the cron line, ``at`` and ``local_at`` with the jitter.

    ``shift_seconds`` is by how much clocks there are put forward (back, below 0) before it.
    """

    fire_at: datetime
    at: datetime
    local_at: datetime
    shift_seconds: int = 0


class StartedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a schedule was made to start; its name is that of its requests' ``job``."""

    job: str
    schedule: str
    state: str
    size: int
    created_at: datetime


class SchedulesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All schedules of a biz, as they travel."""

    schedules: tuple[Schedule, ...]


class RunsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The next runs, as they travel."""

    time_zone: str = "UTC"
    runs: tuple[NextRun, ...]


class _Versions(msgspec.Struct, frozen=True, kw_only=True):
    versions: tuple[Schedule, ...]


class ScheduleCalls(Calls):
    """The calls about schedules."""

    def schedules(self, biz: str) -> list[Schedule]:
        """All schedules of a biz."""
        return list(self._get(path_of(biz, "schedules"), SchedulesAnswer).schedules)

    def schedule(self, biz: str, name: str) -> Schedule:
        """One schedule.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        return _named(self._get(path_of(biz, "schedules", name), Schedule), name)

    def put_schedule(
        self,
        biz: str,
        name: str,
        *,
        cron: str,
        urls: str | Iterable[str] = (),
        rule: str | None = None,
        time_zone: str = "UTC",
        missed: str = "all",
        enabled: bool = True,
        start: Mapping[str, Any] | None = None,
        spider: str | None = None,
        version: int | None = None,
        values: Mapping[str, str] | None = None,
        priority: int | None = None,
        overlap: str = "allow",
        tolerance_seconds: int | None = None,
        jitter_seconds: int = 0,
    ) -> Schedule:
        """Create a schedule or replace the one of that name; what is in force then.

        Its jobs are runs of a kept ``spider``, of its newest version unless one is given, or of a
        ``rule`` on ``urls``, or on a ``start``: a pattern and what goes into its places. ``values``
        fill the places that are left open.

        Raises:
            InvalidRequestError: the cron line, the time zone or another field is wrong.
        """
        given = {
            "cron": cron,
            "time_zone": time_zone,
            "rule": rule,
            "urls": [urls] if isinstance(urls, str) else list(urls),
            "start": start,
            "spider": spider,
            "version": version,
            "values": dict(values or {}),
            "priority": priority,
            "overlap": overlap,
            "missed": missed,
            "tolerance_seconds": tolerance_seconds,
            "jitter_seconds": jitter_seconds,
            "enabled": enabled,
        }
        document = {field: value for field, value in given.items() if value not in (None, [], {})}
        answer = self._transport.call(
            "PUT", path_of(biz, "schedules", name), body=msgspec.json.encode(document)
        )
        return _named(self._read(answer, Schedule), name)

    def pause_schedule(self, biz: str, name: str) -> Schedule:
        """Let a schedule rest; the schedule as it is then.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        return self._switch(biz, name, "pause")

    def resume_schedule(self, biz: str, name: str) -> Schedule:
        """Have a paused schedule fire again, from its next fire time on.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        return self._switch(biz, name, "resume")

    def run_schedule(
        self, biz: str, name: str, *, idempotency_key: str | None = None
    ) -> StartedJob:
        """Start a job of a schedule now; its fire times stay as they are.

        The call carries a key, so that it is tried again after any failure and starts one job; give
        an ``idempotency_key`` of your own to be able to repeat it later.

        Raises:
            NotFoundError: the biz has none of that name.
            ConflictError: an earlier job has not ended, and the schedule runs none beside another.
        """
        headers = {KEY_HEADER: idempotency_key or uuid.uuid4().hex}
        path = path_of(biz, "schedules", name, "run")
        return self._read(self._transport.call("POST", path, headers=headers), StartedJob)

    def schedule_runs(self, biz: str, name: str, count: int = 5) -> list[NextRun]:
        """The next runs of a schedule, up to 50; of one that is paused, those it misses.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        path = path_of(biz, "schedules", name, "next")
        return list(self._get(path, RunsAnswer, parameters(count=count)).runs)

    def preview_schedule(
        self,
        biz: str,
        cron: str,
        *,
        time_zone: str = "UTC",
        jitter_seconds: int = 0,
        name: str | None = None,
        count: int = 5,
    ) -> list[NextRun]:
        """When a schedule would run next, up to 50 times; nothing is kept.

        ``name`` is what it would be called: its jitter depends on it.

        Raises:
            InvalidRequestError: the cron line or the time zone is wrong.
        """
        document = {"cron": cron, "time_zone": time_zone, "jitter_seconds": jitter_seconds}
        if name is not None:
            document["name"] = name
        answer = self._transport.call(
            "POST",
            path_of(biz, "schedules", "preview"),
            params=parameters(count=count),
            body=msgspec.json.encode(document),
        )
        return list(self._read(answer, RunsAnswer).runs)

    def schedule_versions(self, biz: str, name: str, limit: int | None = None) -> list[Schedule]:
        """The last versions of a schedule, up to 50, the newest first.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        path = path_of(biz, "schedules", name, "versions")
        return list(self._get(path, _Versions, parameters(limit=limit)).versions)

    def delete_schedule(self, biz: str, name: str) -> None:
        """Remove a schedule; jobs that it started stay.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        lost: list[str] = []
        try:
            self._transport.call("DELETE", path_of(biz, "schedules", name), lost=lost)
        except NotFoundError:
            if not lost:  # otherwise an earlier try has removed it
                raise

    def _switch(self, biz: str, name: str, verb: str) -> Schedule:
        answer = self._transport.call("POST", path_of(biz, "schedules", name, verb))
        return _named(self._read(answer, Schedule), name)


def _named(schedule: Schedule, name: str) -> Schedule:
    return schedule if schedule.name else msgspec.structs.replace(schedule, name=name)
