"""Incidents and the overview in the API: what is or was wrong; how everything is now."""

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.api.costs import cost_view
from crawlfleet.api.fleet import (
    REFUSAL,
    bizs_view,
    plain_reason,
    pools_view,
    totals_view,
    unread_view,
)
from crawlfleet.api.inputs import if_none_match_in, read, read_or
from crawlfleet.api.responses import JSON, filled, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes
from crawlfleet.config.documents.biz import Tree
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.redaction import plain
from crawlfleet.kernel.time import from_ms
from crawlfleet.monitoring import overview
from crawlfleet.monitoring.incidents import service
from crawlfleet.monitoring.incidents.handling import LONGEST_SILENCE, HandledIncident
from crawlfleet.monitoring.incidents.kinds import ADVICE, Severity
from crawlfleet.monitoring.incidents.notifications import advised
from crawlfleet.wire.fleet import (
    Headcount,
    Incident,
    IncidentAcknowledgement,
    IncidentSilence,
    IncidentsPage,
)
from crawlfleet.wire.overview import LateItem, Overview

#: Values of ``state``; without it the first.
INCIDENT_STATES: Final = ("open", "all")
#: Entries of each list of the overview: people look at the first ones, and lists have the rest.
BIZS_SHOWN: Final = 50
LATE_SHOWN: Final = 100
INCIDENTS_SHOWN: Final = 20
#: Characters that are shown of why something is late.
LATE_REASON: Final = 500
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


def overview_view(seen: overview.Overview, tree: Tree) -> Overview:
    """Shape an overview."""
    late, incidents, workers = seen.late, seen.incidents, seen.workers
    by_severity: dict[str, int] | None = None
    if incidents is not None:
        counts = Counter(one.severity for one in incidents)
        by_severity = {severity.value: counts[severity] for severity in Severity}
    return filled(
        Overview,
        seen,
        config_refused=plain_reason(seen.config_refused, REFUSAL),
        workers=None if workers is None else filled(Headcount, workers),
        pools=pools_view(workers),
        totals=totals_view(seen.totals),
        bizs=bizs_view(seen.queues, BIZS_SHOWN),
        late=None if late is None else tuple(map(_late, late[:LATE_SHOWN])),
        late_count=None if late is None else len(late),
        incidents=None
        if incidents is None
        else tuple(
            incident_view(seen.at, HandledIncident(one, seen.handlings.get(one.key)))
            for one in incidents[:INCIDENTS_SHOWN]
        ),
        incident_counts=by_severity,
        cost=None if seen.money is None else cost_view(tree, seen.money),
        unread=unread_view(seen.unread),
    )


def _late(one: overview.LateThing) -> LateItem:
    return filled(LateItem, one, kind=one.kind.value, why=plain(one.why, LATE_REASON))


def etag_of(view: Overview) -> str:
    """Make the tag of an overview: the same one while nothing but its moment differs."""
    said = msgspec.json.encode(replace(view, at=from_ms(0)))
    return f'"{blake2b(said, digest_size=12).hexdigest()}"'


_IF_NONE_MATCH: Final = Parameter(
    name="If-None-Match",
    meaning="Tags of answers that you have: while one is current, the answer is 304 and empty.",
    shape={"type": "string"},
)
_ETAG: Final = Parameter(
    name="ETag",
    meaning="The tag of this answer; it stays the same while nothing but the moment changes.",
    shape={"type": "string"},
)


@ROUTES.add(
    "GET",
    "/v1/overview",
    {200: Overview, 304: None},
    headers=(_IF_NONE_MATCH,),
    answer_headers=(_ETAG,),
)
def get_overview(call: Call) -> Response[str]:
    """Get rates, backlog, workers, incidents, the day's cost and what is late, in one answer.

    An operator's key gets those of the fleet, any other those of its tenant's bizs. Ask again as
    often as you like: all viewers share a glance that is two seconds old at most.
    """
    tenant, tree = call.tenant, call.tree
    view = overview_view(overview.overview_of(call.context.glance(), tree, tenant), tree)
    etag = etag_of(view)
    headers: dict[str, str | list[str]] = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if etag in if_none_match_in(call.event):
        return Response(304, JSON, "", headers)
    return Response(200, JSON, msgspec.json.encode(view).decode(), headers)
