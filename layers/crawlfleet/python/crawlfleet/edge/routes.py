"""Everything the API offers, as a table."""

from typing import Final

import msgspec

from crawlfleet.edge import views
from crawlfleet.edge.inputs import LARGEST_PAGE, PAGE, Batch, ScheduleInput
from crawlfleet.model.submission import Submission


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A query parameter: what it means and its JSON schema."""

    name: str
    meaning: str
    shape: dict[str, object]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One call. ``answers`` gives the shape by status; ``problems`` the statuses of its errors."""

    operation: str
    method: str
    path: str
    summary: str
    answers: dict[int, type[views.View] | None]
    problems: tuple[int, ...] = ()
    body: tuple[type[msgspec.Struct], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    open: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the query parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


_CURSOR: Final = Parameter(
    name="cursor",
    meaning="Where to go on: the cursor of an earlier answer.",
    shape={"type": "string", "maxLength": 200},
)
_LIMIT: Final = Parameter(
    name="limit",
    meaning="Most entries of one page; it holds fewer where they are large.",
    shape={"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE},
)
_STATE: Final = Parameter(
    name="state",
    meaning="Only requests in this state: a state of every biz, or one of this biz's own.",
    shape={"type": "string", "maxLength": 32},
)
_SINCE: Final = Parameter(
    name="since",
    meaning="Only requests queued at this time or later: RFC 3339 with a zone, or epoch ms.",
    shape={"type": "string", "maxLength": 40},
)
_REQUEST_ID: Final = Parameter(
    name="request_id",
    meaning="Only the records of this request.",
    shape={"type": "string", "maxLength": 36},
)

#: What any call to a biz may answer: no tenant, no such biz, a part is down.
_ANY: Final = (400, 403, 404, 503)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="submitRequests",
        method="POST",
        path="/v1/{biz}/requests",
        summary="Submit one page, or up to 1,000, to be downloaded. Each entry is answered.",
        body=(Submission, Batch),
        answers={202: views.BatchView},
        problems=(*_ANY, 409, 413),
    ),
    Route(
        operation="listRequests",
        method="GET",
        path="/v1/{biz}/requests",
        summary="Requests by time of queueing, oldest first.",
        parameters=(_STATE, _SINCE, _CURSOR, _LIMIT),
        answers={200: views.RequestsView},
        problems=_ANY,
    ),
    Route(
        operation="getRequest",
        method="GET",
        path="/v1/{biz}/requests/{id}",
        summary="One request: state, timeline, attempts, worker, error, readable body.",
        answers={200: views.RequestView},
        problems=_ANY,
    ),
    Route(
        operation="cancelRequest",
        method="DELETE",
        path="/v1/{biz}/requests/{id}",
        summary="Cancel a request that nobody works on yet.",
        answers={200: views.RequestView},
        problems=(*_ANY, 409),
    ),
    Route(
        operation="listRecords",
        method="GET",
        path="/v1/{biz}/records",
        summary="Records by time of storing, oldest first. The cursor may be kept to come back.",
        parameters=(_REQUEST_ID, _CURSOR, _LIMIT),
        answers={200: views.RecordsView},
        problems=_ANY,
    ),
    Route(
        operation="getStats",
        method="GET",
        path="/v1/{biz}/stats",
        summary="Totals per state, queue depth, rates over 1, 5 and 60 seconds.",
        answers={200: views.StatsView},
        problems=_ANY,
    ),
    Route(
        operation="listSchedules",
        method="GET",
        path="/v1/{biz}/schedules",
        summary="The biz's schedules.",
        answers={200: views.SchedulesView},
        problems=_ANY,
    ),
    Route(
        operation="getSchedule",
        method="GET",
        path="/v1/{biz}/schedules/{name}",
        summary="One schedule.",
        answers={200: views.ScheduleView},
        problems=_ANY,
    ),
    Route(
        operation="putSchedule",
        method="PUT",
        path="/v1/{biz}/schedules/{name}",
        summary="Create or replace a schedule: a cron line, in a time zone, on a list of URLs.",
        body=(ScheduleInput,),
        answers={200: views.ScheduleView},
        problems=(*_ANY, 413),
    ),
    Route(
        operation="deleteSchedule",
        method="DELETE",
        path="/v1/{biz}/schedules/{name}",
        summary="Delete a schedule; what it has created stays.",
        answers={204: None},
        problems=_ANY,
    ),
    Route(
        operation="getHealth",
        method="GET",
        path="/health",
        summary="Whether the router can do its work.",
        answers={200: views.HealthView, 503: views.HealthView},
        problems=(400, 503),
        open=True,
    ),
    Route(
        operation="getOpenApi",
        method="GET",
        path="/openapi.json",
        summary="This document.",
        answers={200: None},
        problems=(400,),
        open=True,
    ),
)
