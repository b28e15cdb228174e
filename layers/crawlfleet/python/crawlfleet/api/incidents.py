"""Incidents in the API: list what is or was wrong; acknowledge it, silence it."""

from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import read, read_or
from crawlfleet.api.responses import filled, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.monitoring.incidents import service
from crawlfleet.monitoring.incidents.handling import LONGEST_SILENCE, HandledIncident
from crawlfleet.monitoring.incidents.kinds import ADVICE
from crawlfleet.monitoring.incidents.notifications import advised
from crawlfleet.wire.fleet import (
    Incident,
    IncidentAcknowledgement,
    IncidentSilence,
    IncidentsPage,
)

#: Values of ``state``; without it the first.
INCIDENT_STATES: Final = ("open", "all")
ROUTES: Final = Routes()
Why = Annotated[str, Meta(max_length=500)]


class AcknowledgementInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An acknowledgement, and why it is given."""

    why: Why = ""


class SilenceInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A silence: for how long, and why."""

    seconds: Annotated[int, Meta(ge=60, le=LONGEST_SILENCE // timedelta(seconds=1))]
    why: Why = ""


def incident_view(shown_at: datetime, one: HandledIncident) -> Incident:
    """Shape an incident with the handling that holds at a time."""
    incident, handling = one
    acknowledged = None if handling is None else handling.acknowledgement(incident)
    silenced = None if handling is None else handling.silence(shown_at)
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
        acknowledged=acknowledged and filled(IncidentAcknowledgement, acknowledged),
        silenced=silenced and filled(IncidentSilence, silenced),
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
        partial(incident_view, call.now),
    )


@ROUTES.add(
    "POST",
    "/v1/incidents/{incident}/acknowledge",
    Incident,
    problems=(404, 409, 413),
    body=(AcknowledgementInput,),
    body_required=False,
)
def acknowledge_incident(call: Call, incident: str) -> Response[str]:
    """Acknowledge an open incident: nobody is reminded of it; its end and its return are told."""
    given = read_or(AcknowledgementInput(), call.body)
    now, place = call.now, (call.context.incidents, call.tree, call.tenant, incident)
    return shown(200, incident_view(now, service.acknowledge(*place, why=given.why, now=now)))


@ROUTES.add(
    "POST",
    "/v1/incidents/{incident}/silence",
    Incident,
    problems=(404, 409, 413),
    body=(SilenceInput,),
)
def silence_incident(call: Call, incident: str) -> Response[str]:
    """Silence what is wrong for a while: people and phones are told nothing, machines as ever."""
    given = read(call.body, SilenceInput)
    now, place = call.now, (call.context.incidents, call.tree, call.tenant, incident)
    until = now + timedelta(seconds=given.seconds)
    done = service.silence(*place, why=given.why, now=now, until=until)
    return shown(200, incident_view(now, done))


@ROUTES.add("POST", "/v1/incidents/{incident}/unsilence", Incident, problems=(404, 409))
def unsilence_incident(call: Call, incident: str) -> Response[str]:
    """Take back the acknowledgement and the silence of an open incident: people are told of it."""
    now, place = call.now, (call.context.incidents, call.tree, call.tenant, incident)
    return shown(200, incident_view(now, service.unsilence(*place, now)))
