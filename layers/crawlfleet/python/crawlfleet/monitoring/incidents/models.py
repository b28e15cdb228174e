"""Findings, evaluations and incidents, from the first finding to the last message (SPEC.md A11)."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from crawlfleet.monitoring.incidents.kinds import ADVICE, Kind, Severity


class Place(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """A place: a tenant's biz, a tenant, or a part of the platform, whose ``tenant`` is empty.

    ``part`` is ``redis``, ``mongodb``, ``host``, ``workers``, ``scheduler``, ``config`` or
    ``monitor``; ``name`` the node or the host.
    """

    tenant: str = ""
    biz: str = ""
    part: str = ""
    name: str = ""

    def __str__(self) -> str:
        if self.tenant:
            return f"biz {self.tenant}/{self.biz}" if self.biz else f"tenant {self.tenant}"
        if not self.name or self.name == self.part:
            return self.part
        return f"{self.part} {self.name}"


class Finding(msgspec.Struct, frozen=True):
    """A thing that one evaluation has found wrong.

    ``value`` is how bad it is and ``threshold`` what it must not exceed, in the unit that ``said``,
    a sentence about both, has them in. ``met_by`` is a tenant that has met the host, if one has.
    """

    kind: Kind
    place: Place
    value: float
    threshold: float
    said: str
    met_by: str = ""

    @property
    def key(self) -> str:
        """Return what makes two findings the same thing."""
        return key_of(self.kind, self.place)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation: what is wrong, and what is unknown.

    What is in none of them is well. ``unknown`` holds keys of findings, ``unseen`` kinds of which
    nothing at all was seen, ``covered`` the bizs whose field coverage could be judged, ``read``
    those of which enough was read to tell which fields have no value.
    """

    findings: tuple[Finding, ...] = ()
    unknown: frozenset[str] = frozenset()
    unseen: frozenset[Kind] = frozenset()
    covered: frozenset[Place] = frozenset()
    read: frozenset[Place] = frozenset()


class Life(StrEnum):
    """The state of an incident: not sure yet, open, over."""

    SUSPECTED = "suspected"
    OPEN = "open"
    OVER = "over"


class Word(StrEnum):
    """The subject of a message about an incident."""

    OPENED = "opened"
    REMINDER = "reminder"
    RECOVERED = "recovered"


class Listener(StrEnum):
    """A kind of listener: people by e-mail, phones for what is critical, machines in JSON."""

    PEOPLE = "people"
    PHONES = "phones"
    MACHINES = "machines"


class NotificationState(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that a kind of listener is owed, and what was sent last and when.

    ``tried`` says that what is owed may have arrived already: it was about to be sent, and
    what came of it is unknown. ``reminders`` counts those since the incident opened.
    """

    owed: Word | None = None
    tried: bool = False
    notified: Word | None = msgspec.field(default=None, name="told")
    notified_at: datetime | None = msgspec.field(default=None, name="told_at")
    reminders: int = 0


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that lasts. What comes back soon keeps its ``id``.

    ``said``, ``value`` and ``threshold`` are the latest finding's, ``worst`` is the highest value.

    Attributes:
        since: The first evaluation in a row that found it, when it opened the last time.
        found_at: The last evaluation that found it.
        looked_at: The last evaluation at all.
        opened_at: When it opened first; None while it is suspected.
        over_at: When it was last found to be over.
        bad: Evaluations in a row that found it.
        good: Evaluations in a row that did not, since.
        returns: How often it has come back.
        met_by: A tenant that has met the host, for sharing the places; empty where none is known.
        displaced: Whether it is over for want of room: only its end is to be sent.
        phones: What phones are owed and were sent: nothing ever of what is not critical.
    """

    id: str
    kind: Kind
    place: Place
    life: Life
    said: str
    value: float
    worst: float
    threshold: float
    since: datetime
    found_at: datetime
    looked_at: datetime
    opened_at: datetime | None = None
    over_at: datetime | None = None
    bad: int = 1
    good: int = 0
    returns: int = 0
    met_by: str = ""
    displaced: bool = False
    people: NotificationState = NotificationState()
    phones: NotificationState = NotificationState()
    machines: NotificationState = NotificationState()

    @property
    def key(self) -> str:
        """Return what makes two findings the same thing."""
        return key_of(self.kind, self.place)

    @property
    def severity(self) -> Severity:
        """Return the severity of its kind: phones are notified of critical ones alone."""
        return ADVICE[self.kind].severity

    @property
    def owed(self) -> bool:
        """Return whether any listener is owed a message."""
        return any(self.notification_state(each).owed is not None for each in Listener)

    def notification_state(self, listener: Listener) -> NotificationState:
        """Return what that kind of listener is owed and was sent."""
        state: NotificationState = getattr(self, listener.value)
        return state


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of the last hour, and when the last one that sums up went out."""

    sent_at: tuple[datetime, ...] = ()
    summed_at: datetime | None = None


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The messages sent to people and to phones, each with an hour's measure of its own."""

    people: Sent = Sent()
    phones: Sent = Sent()


class Book(NamedTuple):
    """The book's present: every incident that may still change, and the desk."""

    incidents: tuple[Incident, ...] = ()
    desk: Desk = Desk()


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message for people, in the forms that e-mail and SMS take.

    ``subject`` and ``text`` are an e-mail's: the subject is ASCII, one line and shorter than 100
    characters. ``short`` is for phones: ASCII, at most 140 characters, which is one SMS.
    """

    subject: str
    text: str
    short: str
    severity: Severity
    words: tuple[Word, ...]


class Bulletin(msgspec.Struct, frozen=True, kw_only=True):
    """A message for machines: incidents of one tenant (or of the platform: empty) as JSON."""

    tenant: str
    document: str
    severity: Severity
    words: tuple[Word, ...]


def key_of(kind: Kind, place: Place) -> str:
    """Make the key by which two findings are the same thing.

    >>> key_of(Kind.BACKLOG, Place(tenant="acme", biz="docs"))
    'backlog|acme|docs||'
    """
    return f"{kind}|{place.tenant}|{place.biz}|{place.part}|{place.name}"
