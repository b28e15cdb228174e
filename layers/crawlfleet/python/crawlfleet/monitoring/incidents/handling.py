"""People's handling of incidents: nobody is reminded of one, or nobody is told of it for a while.

Machines are told of everything, as ever. An acknowledgement is of an incident as it stands: where
it is over and comes back, people are told anew. A silence is of the thing that is wrong, until a
time: what opens meanwhile under the same key is silenced too. What is still open when a silence
ends is told then; what opened and ended within it never is.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from crawlfleet.monitoring.incidents.kinds import Severity
from crawlfleet.monitoring.incidents.lifecycle import Incidents
from crawlfleet.monitoring.incidents.models import Incident, Life, Listener, NotificationState, Word

#: The longest time that a silence may last.
LONGEST_SILENCE: Final = timedelta(days=30)
#: Those to whom a handling matters.
_HUMANS: Final = (Listener.PEOPLE, Listener.PHONES)
_OPEN_TO_THEM: Final = (Word.OPENED, Word.REMINDER)


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """A person's word that somebody is at an incident: which one, and how often it had returned."""

    by: str
    at: datetime
    why: str = ""
    incident: str
    returns: int = 0


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A person's word that nobody is to be told of a thing until a time."""

    by: str
    at: datetime
    why: str = ""
    until: datetime


class Handling(msgspec.Struct, frozen=True, kw_only=True):
    """The handling of what is wrong under one key."""

    key: str
    acknowledged: Acknowledgement | None = None
    silenced: Silence | None = None

    def acknowledgement(self, incident: Incident) -> Acknowledgement | None:
        """Return the acknowledgement of an incident, if it is of this one as it stands."""
        given = self.acknowledged
        if given is None or (given.incident, given.returns) != (incident.id, incident.returns):
            return None
        return given

    def silence(self, now: datetime) -> Silence | None:
        """Return the silence that holds, if one does."""
        given = self.silenced
        return given if given is not None and now < given.until else None


Handlings = Mapping[str, Handling]


class HandledIncident(NamedTuple):
    """An incident, and the handling that it has, if any."""

    incident: Incident
    handling: Handling | None = None


def handled(incidents: Incidents, handlings: Handlings, now: datetime) -> dict[str, Incident]:
    """Change what people and phones are owed of incidents by how these are handled."""
    return {key: _handled(each, handlings.get(key), now) for key, each in incidents.items()}


def _handled(incident: Incident, handling: Handling | None, now: datetime) -> Incident:
    if handling is None or incident.displaced:
        return incident
    changed = {}
    for listener in _HUMANS:
        if listener is Listener.PHONES and incident.severity is not Severity.CRITICAL:
            continue
        before = incident.notification_state(listener)
        after = _owed(before, incident, handling, now)
        if after != before:
            changed[listener.value] = after
    return replace(incident, **changed) if changed else incident


def _owed(
    state: NotificationState, incident: Incident, handling: Handling, now: datetime
) -> NotificationState:
    if handling.silence(now) is not None:
        return replace(state, owed=None, tried=False)
    if state.owed is Word.REMINDER and handling.acknowledgement(incident) is not None:
        return replace(state, owed=None, tried=False)
    if (
        incident.life is Life.OPEN
        and state.owed is None
        and state.notified not in _OPEN_TO_THEM
        and handling.silenced is not None
    ):
        # It opened while it was silenced, and goes on.
        return replace(state, owed=Word.OPENED, tried=False)
    return state
