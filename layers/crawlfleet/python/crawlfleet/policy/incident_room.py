"""Which incidents there is room for, so that a storm of little hides nothing great (SPEC.md A11).

Whatever goes wrong, no more are followed than a :class:`Room` has places for. What is critical is
followed first, of that the platform's own; what is merely worth a warning has bounds of its own, so
that room is left for it: for each tenant, for hosts that ask for less, and for all tenants and
hosts together; of the hosts' places no tenant's get more than half of those that are free when they
come. Where there is still no room the first to go is what is over and told of, then what is only
suspected, then what is mildest; among equals who is followed already stays.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.finding_kinds import ADVICE, Kind, Severity
from crawlfleet.model.incident import Finding, Incident, Life, Listener, Place, Telling, Word
from crawlfleet.policy.host_findings import KINDS as KINDS_OF_HOSTS

#: Incidents that are followed at once. A storm of more is told by the worst of them.
MOST: Final = 1_000
#: Of what there is no room for any more the end is still to be told: of so many at once.
LEAVING: Final = MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Places for incidents that are followed at once.

    Attributes:
        most: All of them.
        reserve: Of these neither a tenant's warnings nor hosts take: they are for critical ones and
            the platform's.
        tenants: Warnings of one tenant: the others', too, are to be followed.
        hosts: Hosts that ask for fewer requests: there may be as many as sites.
        leaving: Those that there is no room for any more, and whose end is still to be told. They
            are not followed, and take nobody's place.
    """

    most: int = MOST
    reserve: int = 250
    tenants: int = 250
    hosts: int = 200
    leaving: int = LEAVING


ROOM: Final = Room()


class _Rank(IntEnum):
    """What is kept before what."""

    CRITICAL_OF_THE_PLATFORM = 0
    CRITICAL = 1
    OF_THE_PLATFORM = 2
    WARNING = 3
    SUSPECTED = 4
    OVER_AND_TOLD = 5


class _Candidate(NamedTuple):
    """An incident, or a finding that wants to be one; sorts the first to be kept first."""

    rank: _Rank
    is_new: bool
    since_ms: float
    key: str
    kind: Kind
    place: Place
    met_by: str


def with_room(known: Mapping[str, Incident], new: Iterable[Finding], room: Room = ROOM) -> set[str]:
    """Keys of what is followed from now on.

    Args:
        known: What is followed, as the look has left it.
        new: Findings that are not followed yet.
        room: How many may be.
    """
    candidates = [
        _Candidate(
            _rank(each.kind, each.place, each.life, owed=each.owed),
            False,  # noqa: FBT003  a field of a sort key
            each.since.timestamp(),
            each.key,
            each.kind,
            each.place,
            each.met_by,
        )
        for each in known.values()
    ]
    candidates += [
        _Candidate(
            _rank(each.kind, each.place, Life.SUSPECTED, owed=False),
            True,  # noqa: FBT003  a field of a sort key
            0.0,
            each.key,
            each.kind,
            each.place,
            each.met_by,
        )
        for each in new
    ]
    kept: set[str] = set()
    ordinary, hosts = 0, 0
    tenants: Counter[str] = Counter()
    met_by: Counter[str] = Counter()
    for one in sorted(candidates):
        if len(kept) >= room.most:
            break
        if not _is_grave(one.kind, one.place):
            tenant, is_host = one.place.tenant, one.kind in KINDS_OF_HOSTS
            if ordinary >= room.most - room.reserve:
                continue
            if is_host and hosts >= room.hosts:
                continue
            free = room.hosts - hosts
            if is_host and one.is_new and one.met_by and met_by[one.met_by] >= free:
                continue
            if tenant and tenants[tenant] >= room.tenants:
                continue
            ordinary, hosts = ordinary + 1, hosts + is_host
            tenants[tenant] += 1
            met_by[one.met_by] += is_host
        kept.add(one.key)
    return kept


def let_go(incident: Incident, now: datetime) -> Incident:
    """An incident that is followed no more; to be kept while it owes anybody a word.

    One that there was no room for is over as far as anybody will ever know: what goes on is found
    again, as another one, once there is room. Who may have heard of its beginning is told of that.
    """
    if incident.life is Life.SUSPECTED:
        return incident
    told = {each.value: _owing_the_end(incident.telling(each)) for each in Listener}
    incident = replace(incident, **told)
    if incident.life is Life.OVER:
        return incident
    said = f"not followed any longer, as too much else is wrong; last seen: {incident.said}"
    return replace(incident, life=Life.OVER, over_at=now, looked_at=now, said=said, displaced=True)


def _owing_the_end(telling: Telling) -> Telling:
    """Owe the end to whom it is open, or who has just been told of one or the other."""
    may_be_open = telling.told in (Word.OPENED, Word.REMINDER) or telling.tried
    if telling.owed is Word.RECOVERED:
        return telling if may_be_open else replace(telling, owed=None)
    return replace(telling, owed=Word.RECOVERED if may_be_open else None, tried=False)


def _is_grave(kind: Kind, place: Place) -> bool:
    """Whether the reserve is for it."""
    is_platforms = not place.tenant and kind not in KINDS_OF_HOSTS
    return is_platforms or ADVICE[kind].severity is Severity.CRITICAL


def _rank(kind: Kind, place: Place, life: Life, *, owed: bool) -> _Rank:
    if life is Life.OVER and not owed:
        return _Rank.OVER_AND_TOLD
    if ADVICE[kind].severity is Severity.CRITICAL:
        return _Rank.CRITICAL if place.tenant else _Rank.CRITICAL_OF_THE_PLATFORM
    if _is_grave(kind, place):
        return _Rank.OF_THE_PLATFORM
    return _Rank.SUSPECTED if life is Life.SUSPECTED else _Rank.WARNING
