"""The calls about schedules, as a table.

The API's calls about schedules.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api import inputs
from crawlfleet.api import schedule_shapes as schedule_inputs
from crawlfleet.api import schedule_shapes as schedule_views
from crawlfleet.api.inputs import IDEMPOTENCY_KEY
from crawlfleet.api.responses import JSON, Page, View, page_of, shown
from crawlfleet.api.routing import ANY, Call, Parameter, Route
from crawlfleet.api.schedule_shapes import MOST_RUNS, RUNS, PreviewInput, ScheduleInput
from crawlfleet.jobs.schedules.models import KEPT_VERSIONS, Schedule

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

SCHEDULE_ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listSchedules",
        method="GET",
        path="/v1/{biz}/schedules",
        summary="The biz's schedules.",
        answers={200: schedule_views.SchedulesView},
        problems=ANY,
    ),
    Route(
        operation="previewSchedule",
        method="POST",
        path="/v1/{biz}/schedules/preview",
        summary="When a schedule would run next: nothing is kept.",
        body=(PreviewInput,),
        parameters=(_COUNT,),
        answers={200: schedule_views.RunsView},
        problems=(*ANY, 413),
    ),
    Route(
        operation="getSchedule",
        method="GET",
        path="/v1/{biz}/schedules/{name}",
        summary="One schedule.",
        answers={200: schedule_views.ScheduleView},
        problems=ANY,
    ),
    Route(
        operation="putSchedule",
        method="PUT",
        path="/v1/{biz}/schedules/{name}",
        summary="Create or replace a schedule: a cron line, in a time zone, on what to crawl.",
        body=(ScheduleInput,),
        answers={200: schedule_views.ScheduleView},
        problems=(*ANY, 413, 429),
    ),
    Route(
        operation="deleteSchedule",
        method="DELETE",
        path="/v1/{biz}/schedules/{name}",
        summary="Delete a schedule; what it has created stays.",
        answers={204: None},
        problems=ANY,
    ),
    Route(
        operation="getScheduleRuns",
        method="GET",
        path="/v1/{biz}/schedules/{name}/next",
        summary="A schedule's next runs, in its time zone and in UTC; if paused, those it misses.",
        parameters=(_COUNT,),
        answers={200: schedule_views.RunsView},
        problems=ANY,
    ),
    Route(
        operation="listScheduleVersions",
        method="GET",
        path="/v1/{biz}/schedules/{name}/versions",
        summary="What a schedule was before: its last versions, the newest first.",
        parameters=(_VERSIONS,),
        answers={200: schedule_views.ScheduleVersionsView},
        problems=ANY,
    ),
    Route(
        operation="pauseSchedule",
        method="POST",
        path="/v1/{biz}/schedules/{name}/pause",
        summary="Let a schedule rest: it fires no more until it is resumed.",
        answers={200: schedule_views.ScheduleView},
        problems=ANY,
    ),
    Route(
        operation="resumeSchedule",
        method="POST",
        path="/v1/{biz}/schedules/{name}/resume",
        summary="Have a paused schedule fire again, from its next fire time on.",
        answers={200: schedule_views.ScheduleView},
        problems=ANY,
    ),
    Route(
        operation="runSchedule",
        method="POST",
        path="/v1/{biz}/schedules/{name}/run",
        summary="Start a job of a schedule now; its fire times stay as they are.",
        headers=(_KEY,),
        answers={202: schedule_views.StartedView},
        problems=(*ANY, 409, 429),
    ),
)


class _Versions(NamedTuple):
    """All versions that there are."""

    items: list[Schedule]
    cursor: str | None = None
    more: bool = False


class ScheduleCalls(Call):
    """Put, read, preview, pause, resume, run, delete."""

    def _list_schedules(self, tenant: str, biz: str) -> Response[str]:
        found = self._operations.list_schedules(tenant, biz)
        views = [schedule_views.schedule_view(one) for one in found]
        return shown(200, schedule_views.SchedulesView(schedules=views))

    def _get_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        return _seen(self._operations.get_schedule(tenant, biz, name))

    def _put_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        given = schedule_inputs.schedule_in(inputs.body_of(self._event))
        schedule = schedule_inputs.schedule_of(given, tenant, biz, name)
        return _seen(self._operations.put_schedule(schedule))

    def _delete_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        self._operations.delete_schedule(tenant, biz, name)
        return Response(204, JSON, "")

    def _preview_schedule(self, tenant: str, biz: str) -> Response[str]:
        count = _count_in(self._query())
        schedule = schedule_inputs.preview_in(inputs.body_of(self._event), tenant, biz)
        runs = self._operations.preview_schedule(schedule, count)
        return shown(200, schedule_views.runs_view(schedule, runs))

    def _get_schedule_runs(self, tenant: str, biz: str, name: str) -> Response[str]:
        count = _count_in(self._query())
        schedule = self._operations.get_schedule(tenant, biz, name)
        runs = self._operations.preview_schedule(schedule, count)
        return shown(200, schedule_views.runs_view(schedule, runs))

    def _list_schedule_versions(self, tenant: str, biz: str, name: str) -> Response[str]:
        text = self._query().get("limit")
        limit = KEPT_VERSIONS
        if text is not None:
            limit = inputs.number_in(text, "limit", 1, KEPT_VERSIONS)

        def ask(limit: int) -> Page:
            return _Versions(self._operations.schedule_versions(tenant, biz, name, limit))

        def view(page: Page) -> View:
            found = [schedule_views.version_view(each) for each in page.items]
            return schedule_views.ScheduleVersionsView(versions=found)

        return page_of(limit, ask, view)

    def _pause_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        return _seen(self._operations.enable_schedule(tenant, biz, name, enabled=False))

    def _resume_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        return _seen(self._operations.enable_schedule(tenant, biz, name, enabled=True))

    def _run_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        key = inputs.idempotency_key_in(self._event)
        job = self._operations.run_schedule(tenant, biz, name, key)
        return shown(202, schedule_views.started_view(job))


def _seen(schedule: Schedule) -> Response[str]:
    return shown(200, schedule_views.schedule_view(schedule))


def _count_in(query: Mapping[str, str]) -> int:
    text = query.get("count")
    if text is None:
        return schedule_inputs.RUNS
    return inputs.number_in(text, "count", 1, schedule_inputs.MOST_RUNS)
