"""Incidents as the API shows them."""

from crawlfleet.edge.views import View, at
from crawlfleet.finding_kinds import ADVICE
from crawlfleet.model.incident import Incident
from crawlfleet.policy.advice import advised


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
        told=None if people.told is None else people.told.value,
        told_at=None if people.told_at is None else at(people.told_at),
        owed=None if people.owed is None else people.owed.value,
        do=advised(incident),
    )
