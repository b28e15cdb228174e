"""Incidents in the API: list what is or was wrong, the newest first."""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import filled, page_of
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.monitoring.incidents import models, service
from crawlfleet.monitoring.incidents.kinds import ADVICE
from crawlfleet.monitoring.incidents.notifications import advised
from crawlfleet.wire.fleet import Incident, IncidentsPage

#: Values of ``state``; without it the first.
INCIDENT_STATES: Final = ("open", "all")
ROUTES: Final = Routes()


def incident_view(incident: models.Incident) -> Incident:
    """Shape an incident."""
    place, people = incident.place, incident.people
    return filled(
        Incident,
        incident,
        kind=incident.kind.value,
        severity=incident.severity.value,
        state=incident.life.value,
        tenant=place.tenant or None,
        biz=place.biz or None,
        part=place.part or None,
        name=place.name or None,
        title=ADVICE[incident.kind].title,
        told=None if people.notified is None else people.notified.value,
        told_at=people.notified_at,
        owed=None if people.owed is None else people.owed.value,
        do=advised(incident),
    )


@ROUTES.add(
    "GET",
    "/v1/incidents",
    IncidentsPage,
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
)
def list_incidents(call: Call) -> Response[str]:
    """List the tenant's incidents, the newest first; operators read all, the platform's own too."""
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
        IncidentsPage,
        incident_view,
    )
