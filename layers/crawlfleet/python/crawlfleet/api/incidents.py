"""The API's incidents: what is or was wrong, the newest first."""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import View, at, page_of
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Route
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.monitoring.incidents import service
from crawlfleet.monitoring.incidents.kinds import ADVICE
from crawlfleet.monitoring.incidents.models import Incident
from crawlfleet.monitoring.incidents.notifications import advised

#: What ``state`` may be; without it the first.
INCIDENT_STATES: Final = ("open", "all")


class IncidentView(View, frozen=True, kw_only=True):
    """Something that is or was wrong.

    ``tenant`` and ``biz`` are None where it is the platform's own, ``part`` and ``name`` where it
    is a biz's. ``value`` is how bad it is, ``worst`` how bad it has been, ``threshold`` what it
    must not exceed: all three in the unit that ``said`` names. ``since`` is when it began,
    ``found_at`` when it was seen last. ``returns`` is how often it has come back, ``told`` what
    people heard last (opened, reminder, recovered), ``owed`` what they still have to hear.
    """

    id: str
    kind: str
    severity: str
    state: str
    tenant: str | None
    biz: str | None
    part: str | None
    name: str | None
    title: str
    said: str
    value: float
    worst: float
    threshold: float
    since: str
    found_at: str
    opened_at: str | None
    over_at: str | None
    returns: int
    told: str | None
    told_at: str | None
    owed: str | None
    do: str


class IncidentsView(View, frozen=True, kw_only=True):
    """A page of incidents; ``cursor`` is where to go on."""

    incidents: list[IncidentView]
    cursor: str | None
    more: bool


def incident_view(incident: Incident) -> IncidentView:
    """One incident."""
    place, people = incident.place, incident.people
    return IncidentView(
        id=incident.id,
        kind=incident.kind.value,
        severity=incident.severity.value,
        state=incident.life.value,
        tenant=place.tenant or None,
        biz=place.biz or None,
        part=place.part or None,
        name=place.name or None,
        title=ADVICE[incident.kind].title,
        said=incident.said,
        value=incident.value,
        worst=incident.worst,
        threshold=incident.threshold,
        since=at(incident.since),
        found_at=at(incident.found_at),
        opened_at=None if incident.opened_at is None else at(incident.opened_at),
        over_at=None if incident.over_at is None else at(incident.over_at),
        returns=incident.returns,
        told=None if people.notified is None else people.notified.value,
        told_at=None if people.notified_at is None else at(people.notified_at),
        owed=None if people.owed is None else people.owed.value,
        do=advised(incident),
    )


def _list(call: Call) -> Response[str]:
    state = call.query.get("state", INCIDENT_STATES[0])
    if state not in INCIDENT_STATES:
        message = f"must be one of {', '.join(INCIDENT_STATES)}"
        raise InvalidRequestError.of("state", message)
    open_only = state == INCIDENT_STATES[0]
    return page_of(
        call.limit,
        lambda limit: service.list_incidents(
            call.context.incidents,
            call.tree,
            call.tenant,
            open_only=open_only,
            cursor=call.cursor,
            limit=limit,
        ),
        lambda page: IncidentsView(
            incidents=[incident_view(each) for each in page.items],
            cursor=page.cursor,
            more=page.more,
        ),
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listIncidents",
        handler=_list,
        method="GET",
        path="/v1/incidents",
        summary="What is or was wrong with the tenant's bizs, the newest first; an operator's key"
        " reads everybody's, and the platform's own.",
        parameters=(
            Parameter(
                name="state",
                meaning="Only those that are open, or all of the last three months.",
                shape={
                    "type": "string",
                    "enum": list(INCIDENT_STATES),
                    "default": INCIDENT_STATES[0],
                },
            ),
            CURSOR,
            LIMIT,
        ),
        answers={200: IncidentsView},
        problems=(400, 403, 503),
    ),
)
