"""The life of incidents: a pure step from one look to the next (SPEC.md A11).

A finding is suspected until ``bad_looks`` looks in a row have had it, more for some kinds and one
for what rises between two looks; then its incident opens and one message is owed. While it lasts
reminders are owed at growing pauses. It is over after ``good_looks`` looks in a row that could see
its place and found nothing; then one message more is owed. What a look could not see is neither
good nor bad: a Redis that is away ends no incident that only Redis could tell of.

**Flapping.** What comes back within ``flap_seconds`` is the same incident, and each return doubles
the good looks that it needs to be over, up to ``most_good_looks``. So something that comes and goes
every few minutes soon just stays open, and is told of by reminders.

**What is owed is said or overtaken.** Messages go out later (policy.telling) and sending may fail;
what is owed stays owed. An incident that is over before anybody heard of it owes one word, not two;
one that is back before its end was told owes none.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from crawlfleet.finding_kinds import Severity, looks_wanted
from crawlfleet.model.alarms import AlarmLimits
from crawlfleet.model.incident import Finding, Incident, Life, Listener, Look, Telling, Word
from crawlfleet.model.times import to_ms
from crawlfleet.policy.incident_room import ROOM, Room, let_go, with_room

Incidents = Mapping[str, Incident]


def step(
    known: Incidents, look: Look, now: datetime, limits: AlarmLimits, room: Room = ROOM
) -> dict[str, Incident]:
    """The incidents after a look, by key; what is over and told of and will not be missed is gone.

    So is what there is no room for (policy.incident_room), once who was told of it has been told
    that it is followed no more; until then it is not found anew.

    Args:
        known: Those before it, by key.
        look: What was found.
        now: When; no earlier than the looks before.
        limits: The stage's.
        room: How many are followed.
    """
    found = {finding.key: finding for finding in look.findings}
    after: dict[str, Incident] = {}
    for key, incident in known.items():
        if incident.displaced:
            continue
        if key in found:
            after[key] = _bad(incident, found[key], now, limits)
        elif key in look.unknown or incident.kind in look.unseen:
            after[key] = _reminded(replace(incident, looked_at=now), now, limits)
        elif (kept := _good(incident, now, limits)) is not None:
            after[key] = kept
    new = {key: each for key, each in found.items() if key not in known}
    followed = with_room(after, new.values(), room)
    leaving = [each for each in known.values() if each.displaced]
    leaving += [let_go(each, now) for key, each in after.items() if key not in followed]
    after = {key: each for key, each in after.items() if key in followed}
    untold = (each for each in leaving if each.life is Life.OVER and each.owed)
    after |= {each.key: each for each in islice(untold, room.leaving)}
    for key, finding in new.items():
        if key in followed:
            after[key] = _opened(_suspected(finding, now), now, limits)
    return after


def left_out(after: Incidents, look: Look) -> int:
    """How many findings of a look are not among the incidents after it: there was no room."""
    followed = {key for key, each in after.items() if not each.displaced}
    return len({finding.key for finding in look.findings} - followed)


def told(telling: Telling, now: datetime) -> Telling:
    """After what is owed has been said."""
    if telling.owed is None:
        return telling
    reminders = telling.reminders + 1 if telling.owed is Word.REMINDER else 0
    return Telling(told=telling.owed, told_at=now, reminders=reminders)


def tried(telling: Telling) -> Telling:
    """Before what is owed is sent: from then on it may have been heard."""
    return replace(telling, tried=telling.owed is not None)


def calm_wanted(incident: Incident, limits: AlarmLimits) -> int:
    """Looks in a row without it that end it."""
    most = max(limits.good_looks, limits.most_good_looks)
    return min(most, limits.good_looks << min(incident.returns, 20))


def pause(reminders: int, limits: AlarmLimits) -> timedelta:
    """What lies between the last word and the next reminder.

    >>> [pause(n, AlarmLimits()).total_seconds() / 3600 for n in (0, 1, 2, 9)]
    [1.0, 2.0, 4.0, 24.0]
    """
    longest = max(limits.reminder_seconds, limits.most_reminder_seconds)
    return timedelta(seconds=min(longest, limits.reminder_seconds * 2.0 ** min(reminders, 40)))


def latest(mine: Iterable[Incident], theirs: Iterable[Incident]) -> dict[str, Incident]:
    """Of two memories of the same incidents what was looked at later, by key; mine at a tie."""
    merged = {incident.key: incident for incident in theirs}
    for incident in mine:
        other = merged.get(incident.key)
        if other is None or other.looked_at <= incident.looked_at:
            merged[incident.key] = incident
    return merged


def _suspected(finding: Finding, now: datetime) -> Incident:
    name = hashlib.sha256(f"{finding.key}@{to_ms(now)}".encode()).hexdigest()
    return Incident(
        id=name[:24],
        kind=finding.kind,
        place=finding.place,
        life=Life.SUSPECTED,
        said=finding.said,
        value=finding.value,
        worst=finding.value,
        threshold=finding.threshold,
        since=now,
        found_at=now,
        looked_at=now,
        met_by=finding.met_by,
    )


def _bad(incident: Incident, finding: Finding, now: datetime, limits: AlarmLimits) -> Incident:
    """After a look that has found it."""
    in_a_row = incident.bad > 0 and incident.good == 0
    incident = replace(
        incident,
        said=finding.said,
        value=finding.value,
        worst=max(incident.worst, finding.value),
        threshold=finding.threshold,
        since=incident.since if incident.life is Life.OPEN or in_a_row else now,
        found_at=now,
        looked_at=now,
        bad=incident.bad + 1 if in_a_row else 1,
        good=0,
        met_by=incident.met_by or finding.met_by,
    )
    if incident.life is Life.OPEN:
        return _reminded(incident, now, limits)
    return _opened(incident, now, limits)


def _opened(incident: Incident, now: datetime, limits: AlarmLimits) -> Incident:
    """Open, if that has been found often enough."""
    if incident.bad < looks_wanted(incident.kind, limits.bad_looks):
        return incident
    return replace(
        incident,
        life=Life.OPEN,
        opened_at=incident.opened_at or now,
        returns=incident.returns + (incident.life is Life.OVER),
        **_changed(incident, _owing_the_start),
    )


def _good(incident: Incident, now: datetime, limits: AlarmLimits) -> Incident | None:
    """After a look that has not found it; None where it need not be known any more."""
    incident = replace(incident, looked_at=now, bad=0, good=incident.good + 1)
    if incident.life is Life.SUSPECTED:
        return None
    if incident.life is Life.OPEN:
        if incident.good < calm_wanted(incident, limits):
            return _reminded(incident, now, limits)
        return replace(incident, life=Life.OVER, over_at=now, **_changed(incident, _owing_the_end))
    over_at = incident.over_at or now
    may_return = now - over_at < timedelta(seconds=limits.flap_seconds)
    return incident if may_return or incident.owed else None


def _reminded(incident: Incident, now: datetime, limits: AlarmLimits) -> Incident:
    """Owe people and phones a reminder, each if it is time; machines forget nothing."""
    if incident.life is not Life.OPEN:
        return incident
    return replace(
        incident,
        people=_owing_a_reminder(incident.people, now, limits),
        phones=_owing_a_reminder(incident.phones, now, limits),
    )


def _changed(incident: Incident, change: Callable[[Telling], Telling]) -> dict[str, Telling]:
    """What becomes of what everybody is told who hears of such an incident."""
    critical = incident.severity is Severity.CRITICAL
    return {
        each.value: change(incident.telling(each))
        for each in Listener
        if critical or each is not Listener.PHONES
    }


def _owing_a_reminder(telling: Telling, now: datetime, limits: AlarmLimits) -> Telling:
    if telling.owed is not None or telling.told_at is None:
        return telling
    if now - telling.told_at < pause(telling.reminders, limits):
        return telling
    return replace(telling, owed=Word.REMINDER, tried=False)


def _owing_the_start(telling: Telling) -> Telling:
    # Whose end nobody can have been told of is still open to them.
    open_to_them = telling.told in (Word.OPENED, Word.REMINDER) and not telling.tried
    return replace(telling, owed=None if open_to_them else Word.OPENED, tried=False)


def _owing_the_end(telling: Telling) -> Telling:
    # Also where its start is owed: the one message tells both.
    return replace(telling, owed=Word.RECOVERED, tried=False)
