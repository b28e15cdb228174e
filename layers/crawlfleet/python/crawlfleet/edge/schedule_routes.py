"""The calls about schedules, as a table."""

from typing import Final

from crawlfleet.edge import schedule_views
from crawlfleet.edge.inputs import IDEMPOTENCY_KEY
from crawlfleet.edge.route import ANY, Parameter, Route
from crawlfleet.edge.schedule_inputs import MOST_RUNS, RUNS, PreviewInput, ScheduleInput
from crawlfleet.model.schedule import KEPT_VERSIONS

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
