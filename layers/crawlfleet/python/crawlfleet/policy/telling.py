"""Which messages go out with a look, and how many (SPEC.md A11): a storm is told, not passed on.

People get a message for each incident while those are few. More than ``singly`` in one look, or
than ``messages_an_hour`` in an hour, become one message that sums them up, at most one every
``digest_seconds``; until then what is owed waits. So however much goes wrong, nobody gets more than
``messages_an_hour`` and ``3600 / digest_seconds`` messages in an hour, and nothing is left out.
Phones have the same measure, by themselves: only what is critical counts there.

Machines get everything with the next look, each tenant's by itself, so that a subscription may be
filtered to one tenant.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from crawlfleet.finding_kinds import Severity
from crawlfleet.model.alarms import AlarmLimits
from crawlfleet.model.incident import Incident, Listener, Sent

_HOUR: Final = timedelta(hours=1)
#: Incidents in one message for machines, of about 1 KB each; longer ones are halved (wording).
CHUNK: Final = 100


class Sending(NamedTuple):
    """A message to people or phones: of which incidents, and whether it sums up too many."""

    incidents: tuple[Incident, ...]
    sums_up: bool


def letters(
    incidents: Iterable[Incident],
    sent: Sent,
    now: datetime,
    limits: AlarmLimits,
    to: Listener = Listener.PEOPLE,
) -> list[Sending]:
    """What people, or phones, are told now, the gravest first."""
    owed = sorted((each for each in incidents if each.telling(to).owed), key=gravity)
    if not owed:
        return []
    if len(owed) <= min(limits.singly, limits.messages_an_hour - len(_lately(sent, now))):
        return [Sending((each,), sums_up=False) for each in owed]
    pause = timedelta(seconds=limits.digest_seconds)
    if sent.summed_at is not None and now - sent.summed_at < pause:
        return []
    return [Sending(tuple(owed), sums_up=True)]


def after_letter(sent: Sent, now: datetime, *, sums_up: bool) -> Sent:
    """What went out, after one message more."""
    if sums_up:
        return Sent(sent_at=_lately(sent, now), summed_at=now)
    return Sent(sent_at=(*_lately(sent, now), now), summed_at=sent.summed_at)


def bulletins(incidents: Iterable[Incident]) -> Iterator[tuple[Incident, ...]]:
    """What machines are told now: of which incidents of one tenant each message is."""
    owed: dict[str, list[Incident]] = defaultdict(list)
    for each in sorted(incidents, key=gravity):
        if each.machines.owed:
            owed[each.place.tenant].append(each)
    for theirs in owed.values():
        for start in range(0, len(theirs), CHUNK):
            yield tuple(theirs[start : start + CHUNK])


def gravity(incident: Incident) -> tuple[bool, datetime, str]:
    """Sorts the gravest first, of these the oldest."""
    return incident.severity is not Severity.CRITICAL, incident.since, incident.key


def _lately(sent: Sent, now: datetime) -> tuple[datetime, ...]:
    return tuple(at for at in sent.sent_at if at > now - _HOUR)
