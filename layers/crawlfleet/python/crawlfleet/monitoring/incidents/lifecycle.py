"""The life of an incident: a pure step from one evaluation to the next (SPEC.md A11).

A finding is suspected until ``bad_looks`` evaluations in a row have had it, more for some kinds and
one for what rises between two samples; then its incident opens and one message is owed. While it
lasts reminders are owed at growing pauses. It is over after ``good_looks`` evaluations in a row saw
its place and found nothing; then one message more is owed. What could not be seen is neither good
nor bad: a Redis that is away ends no incident that only Redis could show.

**Flapping.** What comes back within ``flap_seconds`` is the same incident, and each return doubles
the good evaluations that it needs to be over, up to ``most_good_looks``. So something that comes
and goes every few minutes soon just stays open, with reminders.

**What is owed is sent or overtaken.** Messages go out later (monitoring.incidents.notifications)
and sending may fail; what is owed stays owed. An incident that is over before anybody was notified
owes one message, not two; one that is back before its end was sent owes none.

**Room.** No more incidents are followed than a :class:`Room` has places for, so that a storm of
little hides nothing great. What is critical is followed first, of that the platform's own; warnings
have bounds for each tenant, for hosts, and for all tenants and hosts together; of the hosts' places
no tenant's get more than half of those that are free when they come. Where there is still no room
the first to go is what is over and notified, then what is only suspected, then what is mildest;
among equals what is followed already stays.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.config.documents.stage import AlarmLimits
from crawlfleet.kernel.time import to_ms
from crawlfleet.monitoring.incidents import models
from crawlfleet.monitoring.incidents.capacity_checks import KINDS as KINDS_OF_HOSTS
from crawlfleet.monitoring.incidents.kinds import ADVICE, Kind, Severity, evaluations_required
from crawlfleet.monitoring.incidents.models import Evaluation, Finding, Incident, Life, Listener

#: Incidents that are followed at once; of a storm of more, the worst.
MOST: Final = 1_000
#: Incidents without room whose end is still to be sent, at once.
LEAVING: Final = MOST
Incidents = Mapping[str, Incident]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Places for incidents that are followed at once.

    ``reserve`` are for critical incidents and the platform's alone, ``tenants`` for warnings of one
    tenant, ``hosts`` for hosts that ask for fewer requests: there may be as many as sites.
    ``leaving`` are without room, their end still to be sent; they take nobody's place.
    """

    most: int = MOST
    reserve: int = 250
    tenants: int = 250
    hosts: int = 200
    leaving: int = LEAVING


ROOM: Final = Room()


class _Rank(IntEnum):
    """The order in which incidents keep their places."""

    CRITICAL_OF_THE_PLATFORM = 0
    CRITICAL = 1
    OF_THE_PLATFORM = 2
    WARNING = 3
    SUSPECTED = 4
    OVER_AND_NOTIFIED = 5


class _Candidate(NamedTuple):
    """An incident, or a finding that may become one."""

    rank: _Rank
    of: Incident | Finding
    is_new: bool = False
    since_ms: float = 0.0

    def order(self) -> tuple[_Rank, bool, float, str]:
        """Sort the first to be kept first."""
        return self.rank, self.is_new, self.since_ms, self.of.key


def with_room(known: Mapping[str, Incident], new: Iterable[Finding], room: Room = ROOM) -> set[str]:
    """Choose the keys that are followed from now on, of known incidents and new findings."""
    candidates = [
        _Candidate(
            _rank(each.kind, each.place, each.life, owed=each.owed),
            since_ms=each.since.timestamp(),
            of=each,
        )
        for each in known.values()
    ]
    candidates += [
        _Candidate(_rank(each.kind, each.place, Life.SUSPECTED, owed=False), is_new=True, of=each)
        for each in new
    ]
    kept: set[str] = set()
    ordinary, hosts = 0, 0
    tenants: Counter[str] = Counter()
    met_by: Counter[str] = Counter()
    for candidate in sorted(candidates, key=_Candidate.order):
        if len(kept) >= room.most:
            break
        one = candidate.of
        if not _is_grave(one.kind, one.place):
            tenant, is_host = one.place.tenant, one.kind in KINDS_OF_HOSTS
            if ordinary >= room.most - room.reserve:
                continue
            if is_host and hosts >= room.hosts:
                continue
            free = room.hosts - hosts
            if is_host and candidate.is_new and one.met_by and met_by[one.met_by] >= free:
                continue
            if tenant and tenants[tenant] >= room.tenants:
                continue
            ordinary, hosts = ordinary + 1, hosts + is_host
            tenants[tenant] += 1
            met_by[one.met_by] += is_host
        kept.add(one.key)
    return kept


def let_go(incident: Incident, now: datetime) -> Incident:
    """End an incident that is followed no more; it is kept while it owes anybody a message.

    One without room is over as far as anybody will ever know: what goes on is found again, as
    another one, once there is room. Who may know of its beginning is owed its end.
    """
    if incident.life is Life.SUSPECTED:
        return incident
    ends = {each.value: _owing_any_end(incident.notification_state(each)) for each in Listener}
    incident = replace(incident, **ends)
    if incident.life is Life.OVER:
        return incident
    said = f"not followed any longer, as too much else is wrong; last seen: {incident.said}"
    return replace(incident, life=Life.OVER, over_at=now, looked_at=now, said=said, displaced=True)


def _owing_any_end(state: models.NotificationState) -> models.NotificationState:
    """Owe the end where the incident may be open to the listener."""
    may_be_open = state.notified in (models.Word.OPENED, models.Word.REMINDER) or state.tried
    if state.owed is models.Word.RECOVERED:
        return state if may_be_open else replace(state, owed=None)
    return replace(state, owed=models.Word.RECOVERED if may_be_open else None, tried=False)


def _is_grave(kind: Kind, place: models.Place) -> bool:
    """Return whether the reserve is for it."""
    is_platforms = not place.tenant and kind not in KINDS_OF_HOSTS
    return is_platforms or ADVICE[kind].severity is Severity.CRITICAL


def _rank(kind: Kind, place: models.Place, life: Life, *, owed: bool) -> _Rank:
    if life is Life.OVER and not owed:
        return _Rank.OVER_AND_NOTIFIED
    if ADVICE[kind].severity is Severity.CRITICAL:
        return _Rank.CRITICAL if place.tenant else _Rank.CRITICAL_OF_THE_PLATFORM
    if _is_grave(kind, place):
        return _Rank.OF_THE_PLATFORM
    return _Rank.SUSPECTED if life is Life.SUSPECTED else _Rank.WARNING


def step(
    known: Incidents, evaluation: Evaluation, now: datetime, limits: AlarmLimits, room: Room = ROOM
) -> dict[str, Incident]:
    """Return the incidents after an evaluation, by key; ``now`` never goes back.

    Without what is over, notified and unlikely to return, and without what there is no room for
    once its end has been sent; until then that is not found anew.
    """
    found = {finding.key: finding for finding in evaluation.findings}
    after: dict[str, Incident] = {}
    for key, incident in known.items():
        if incident.displaced:
            continue
        if key in found:
            after[key] = _bad(incident, found[key], now, limits)
        elif key in evaluation.unknown or incident.kind in evaluation.unseen:
            after[key] = _reminded(replace(incident, looked_at=now), now, limits)
        elif (kept := _good(incident, now, limits)) is not None:
            after[key] = kept
    new = {key: each for key, each in found.items() if key not in known}
    followed = with_room(after, new.values(), room)
    leaving = [each for each in known.values() if each.displaced]
    leaving += [let_go(each, now) for key, each in after.items() if key not in followed]
    after = {key: each for key, each in after.items() if key in followed}
    unreported = (each for each in leaving if each.life is Life.OVER and each.owed)
    after |= {each.key: each for each in islice(unreported, room.leaving)}
    for key, finding in new.items():
        if key in followed:
            after[key] = _opened(_suspected(finding, now), now, limits)
    return after


def left_out(after: Incidents, evaluation: Evaluation) -> int:
    """Count the findings that are not among the incidents after it: there was no room."""
    followed = {key for key, each in after.items() if not each.displaced}
    return len({finding.key for finding in evaluation.findings} - followed)


def notified(state: models.NotificationState, now: datetime) -> models.NotificationState:
    """Return the state after what is owed has been sent."""
    if state.owed is None:
        return state
    reminders = state.reminders + 1 if state.owed is models.Word.REMINDER else 0
    return models.NotificationState(notified=state.owed, notified_at=now, reminders=reminders)


def tried(state: models.NotificationState) -> models.NotificationState:
    """Mark what is owed before it is sent: from then on it may have arrived."""
    return replace(state, tried=state.owed is not None)


def calm_wanted(incident: Incident, limits: AlarmLimits) -> int:
    """Count the evaluations in a row without it that end it."""
    most = max(limits.good_looks, limits.most_good_looks)
    return min(most, limits.good_looks << min(incident.returns, 20))


def pause(reminders: int, limits: AlarmLimits) -> timedelta:
    """Return the pause between the last message and the next reminder.

    >>> [pause(n, AlarmLimits()).total_seconds() / 3600 for n in (0, 1, 2, 9)]
    [1.0, 2.0, 4.0, 24.0]
    """
    longest = max(limits.reminder_seconds, limits.most_reminder_seconds)
    return timedelta(seconds=min(longest, limits.reminder_seconds * 2.0 ** min(reminders, 40)))


def latest(mine: Iterable[Incident], theirs: Iterable[Incident]) -> dict[str, Incident]:
    """Merge two memories of incidents by key: the one evaluated later, mine at a tie."""
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
    """Return an incident after an evaluation that has found it."""
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
    """Open an incident that was found often enough."""
    if incident.bad < evaluations_required(incident.kind, limits.bad_looks):
        return incident
    return replace(
        incident,
        life=Life.OPEN,
        opened_at=incident.opened_at or now,
        returns=incident.returns + (incident.life is Life.OVER),
        **_changed(incident, _owing_the_start),
    )


def _good(incident: Incident, now: datetime, limits: AlarmLimits) -> Incident | None:
    """Return an incident after an evaluation without it; None where it may be forgotten."""
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


def _changed(
    incident: Incident, change: Callable[[models.NotificationState], models.NotificationState]
) -> dict[str, models.NotificationState]:
    """Change what is owed to every kind of listener that is notified of such an incident."""
    critical = incident.severity is Severity.CRITICAL
    return {
        each.value: change(incident.notification_state(each))
        for each in Listener
        if critical or each is not Listener.PHONES
    }


def _owing_a_reminder(
    state: models.NotificationState, now: datetime, limits: AlarmLimits
) -> models.NotificationState:
    if state.owed is not None or state.notified_at is None:
        return state
    if now - state.notified_at < pause(state.reminders, limits):
        return state
    return replace(state, owed=models.Word.REMINDER, tried=False)


def _owing_the_start(state: models.NotificationState) -> models.NotificationState:
    # An incident whose end cannot have arrived is still open to them.
    open_to_them = state.notified in (models.Word.OPENED, models.Word.REMINDER) and not state.tried
    return replace(state, owed=None if open_to_them else models.Word.OPENED, tried=False)


def _owing_the_end(state: models.NotificationState) -> models.NotificationState:
    # Also where its start is owed: the one message has both.
    return replace(state, owed=models.Word.RECOVERED, tried=False)
