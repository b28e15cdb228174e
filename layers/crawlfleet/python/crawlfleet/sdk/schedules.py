"""Schedules: jobs at the times of a cron line; put, read, preview, pause, resume, run, delete."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from crawlfleet.sdk.calls import Calls, Values, filling, parameters, path_of, start_of
from crawlfleet.sdk.submission import KEY_HEADER
from crawlfleet.wire.schedules import NextRun, RunsAnswer, Schedule, SchedulesAnswer, StartedJob


class _Versions(msgspec.Struct, frozen=True, kw_only=True):
    versions: tuple[Schedule, ...]


class ScheduleCalls(Calls):
    """The calls about schedules."""

    def schedules(self, biz: str) -> list[Schedule]:
        """List all schedules of a biz."""
        return list(self._get(path_of(biz, "schedules"), SchedulesAnswer).schedules)

    def schedule(self, biz: str, name: str) -> Schedule:
        """Read one schedule.

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
        values: Mapping[str, Values] | None = None,
        priority: int | None = None,
        segment: str | None = None,
        user: str | None = None,
        overlap: str = "allow",
        tolerance_seconds: int | None = None,
        jitter_seconds: int = 0,
    ) -> Schedule:
        """Create a schedule or replace the one of that name; return what is in force then.

        Its jobs are runs of a kept ``spider``, of its newest version unless one is given, or of a
        ``rule`` on ``urls``, or on a ``start``: a pattern and what goes into its places. ``values``
        fill the places that are left open: one value each, a list, or a ``range``. ``segment`` is
        that of its jobs, as ``start_job`` says, and so is the ``user`` that they are for.

        Raises:
            InvalidRequestError: the cron line, the time zone or another field is wrong.
        """
        given = {
            "cron": cron,
            "time_zone": time_zone,
            "rule": rule,
            "urls": [urls] if isinstance(urls, str) else list(urls),
            "start": start_of(start),
            "spider": spider,
            "version": version,
            "values": filling(values),
            "priority": priority,
            "segment": segment,
            "user": user,
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
        """Pause a schedule; return it as it is then.

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
        """Read the next runs of a schedule, up to 50; of a paused one, those it misses.

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
        """Preview the next runs of a schedule, up to 50; nothing is stored.

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
        """Read the last versions of a schedule, up to 50, the newest first.

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
        self._remove(path_of(biz, "schedules", name))

    def _switch(self, biz: str, name: str, verb: str) -> Schedule:
        answer = self._transport.call("POST", path_of(biz, "schedules", name, verb))
        return _named(self._read(answer, Schedule), name)


def _named(schedule: Schedule, name: str) -> Schedule:
    return schedule if schedule.name else msgspec.structs.replace(schedule, name=name)
