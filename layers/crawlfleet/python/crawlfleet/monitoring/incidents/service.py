"""An incident (SPEC.md A11, B13, H4): judge what a look has seen, follow what is wrong, tell of it.

The book on the home node says what was known and told, so that any environment goes on where
another one ended. What is owed is written down before it is said, and that it was said afterwards:
who dies in between has it said again, never not at all. While the book is away this environment's
memory carries on, so nothing is told twice by one environment; one that starts without a book knows
nothing and tells of everything that it finds once more.

Reading incidents (SPEC.md A11): a tenant reads of its own bizs, an operator of everything.

What is known of incidents, and who is told of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.stage import AlarmLimits
from crawlfleet.config.lookup import readable_tenants
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel import paging as cursors
from crawlfleet.kernel.errors import CrawlfleetError, MessageRefusedError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Metric, MetricSink
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.time import Clock, from_ms, to_ms
from crawlfleet.monitoring.incidents import notifications as notification_state
from crawlfleet.monitoring.incidents import notifications as wording
from crawlfleet.monitoring.incidents.detectors import judge, seen, unseen
from crawlfleet.monitoring.incidents.lifecycle import (
    ROOM,
    Room,
    latest,
    left_out,
    let_go,
    notified,
    step,
    tried,
)
from crawlfleet.monitoring.incidents.models import (
    Bulletin,
    Desk,
    Incident,
    Life,
    Listener,
    Look,
    Notification,
    NotificationState,
)
from crawlfleet.monitoring.models import Sample


class Book(NamedTuple):
    """What the book holds of the present: every incident that may still change, and the desk."""

    incidents: tuple[Incident, ...] = ()
    desk: Desk = Desk()


class IncidentBook(Protocol):
    """The incidents of the stage, of now and of the last months."""

    def acquire_lock(self, by: str, now: datetime, term: timedelta) -> bool:
        """Whether the caller is the one to look and tell now, until the term ends or it is done.

        False while it is another's turn; two that look at once would tell twice.
        """
        ...

    def release_lock(self, by: str) -> None:
        """The caller is done; no effect if the turn is another's by now."""
        ...

    def read(self) -> Book:
        """The present."""
        ...

    def write(
        self, incidents: Iterable[Incident], desk: Desk, past: Iterable[Incident] = ()
    ) -> None:
        """Put incidents in the place of what was known of them, by key and ``id``.

        ``past`` are those that will not change any more: they are kept for three months for people
        who ask, but for such as were only ever suspected.
        """
        ...

    def find(
        self,
        tenants: Sequence[str] | None,
        *,
        open_only: bool,
        before: tuple[int, str] | None,
        limit: int,
    ) -> list[Incident]:
        """Incidents that opened once, the newest first: by ``opened_at``, then by ``id``.

        Args:
            tenants: Whose; the empty name is the platform. None for everybody's.
            open_only: Only those that are open.
            before: Only those behind this place: epoch milliseconds of ``opened_at``, and ``id``.
            limit: The most that are wanted.
        """
        ...


class Notifier(Protocol):
    """Tells. Each message may arrive more than once; a call that returns has handed it over.

    MessageRefusedError: this message will never be taken. StoreUnavailableError: none is taken now.
    """

    def notify_people(self, notification: Notification) -> None:
        """Send a message to the administrators, in sentences."""
        ...

    def notify_phones(self, notification: Notification) -> None:
        """Send the short form of a message to those who are to be woken."""
        ...

    def notify_machines(self, bulletin: Bulletin) -> None:
        """Send a message to whatever listens for one."""
        ...


#: After what a monitor that vanished loses its turn: the next look, a minute later, has it again.
TERM: Final = timedelta(seconds=55)
#: So long is spent on messages; the rest is owed still with the next look. The monitor has a minute
#: for everything.
PATIENCE: Final = timedelta(seconds=15)


#: What becomes of what a kind of listener has been told.
Change: TypeAlias = Callable[[NotificationState], NotificationState]
M = TypeVar("M", Notification, Bulletin)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmingPorts:
    """What alarming needs of the world."""

    book: IncidentBook
    notifier: Notifier
    metrics: MetricSink
    clock: Clock
    stage: str
    room: Room = ROOM


@dataclass(slots=True, kw_only=True)
class Memory:
    """What one environment knows by itself; ``unwritten`` are keys that the book lacks."""

    incidents: dict[str, Incident] = field(default_factory=dict)
    desk: Desk = field(default_factory=Desk)
    before: Sample | None = None
    unwritten: set[str] = field(default_factory=set)
    gone: dict[str, Incident] = field(default_factory=dict)
    desk_unwritten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarmed:
    """What came of one look: incidents open after it, and messages sent, failed and still owed.

    Failed are also those that were refused, whether or not a bare one went in their place.
    ``mine`` is False when it was another's turn.
    """

    mine: bool = True
    open: int = 0
    sent: int = 0
    failed: int = 0
    owed: int = 0


def alarm(ports: AlarmingPorts, memory: Memory, sample: Sample, tree: Tree, by: str) -> Alarmed:
    """Go on with all incidents by what a look has seen; ``by`` is who looks.

    Emits 0 or 1 of each kind of finding, under the stage alone. A book or a notifier that is away
    is no error.
    """
    look = judge(sample, memory.before, tree)
    memory.before = sample
    now = from_ms(to_ms(ports.clock()))
    booked = _open_book(ports, memory, by, now)
    known = memory.incidents.values()
    look = replace(look, unknown=look.unknown | unseen(known, sample, look))
    metrics = [Metric(names.finding(kind), int(is_so)) for kind, is_so in seen(look, known).items()]
    ports.metrics.put(metrics, {}, sample.at)
    if booked is None:
        return Alarmed(mine=False)
    alarmed = _go_on(ports, memory, look, tree.stage.alarms, now, booked=booked)
    if booked:
        try:
            ports.book.release_lock(by)
        except CrawlfleetError as error:
            warn("the turn at the incidents could not be ended", error)
    delivered = [
        Metric(names.INCIDENTS_OPEN, alarmed.open),
        Metric(names.MESSAGES_FAILED, alarmed.failed),
        Metric(names.MESSAGES_OWED, alarmed.owed),
    ]
    ports.metrics.put(delivered, {}, sample.at)
    return alarmed


def _open_book(ports: AlarmingPorts, memory: Memory, by: str, now: datetime) -> bool | None:
    """Take the turn and learn what others know; None if it is another's, False without a book."""
    try:
        if not ports.book.acquire_lock(by, now, TERM):
            return None
        present = ports.book.read()
    except CrawlfleetError as error:
        warn("the incidents' book is away: memory carries on", error)
        return False
    mine = [memory.incidents[key] for key in memory.unwritten if key in memory.incidents]
    theirs = [
        each
        for each in present.incidents
        if each.key not in memory.gone or each.looked_at > memory.gone[each.key].looked_at
    ]
    memory.incidents = latest(mine, theirs)
    if not memory.desk_unwritten:
        memory.desk = present.desk
    return True


def _go_on(
    ports: AlarmingPorts,
    memory: Memory,
    look: Look,
    limits: AlarmLimits,
    now: datetime,
    *,
    booked: bool,
) -> Alarmed:
    """One step of every incident, then the messages."""
    before = memory.incidents
    memory.incidents = step(before, look, now, limits, ports.room)
    if missing := left_out(memory.incidents, look):
        warn("more is wrong than can be followed", ValueError(f"{missing:,} are left out"))
    memory.gone |= {
        key: let_go(each, now) for key, each in before.items() if key not in memory.incidents
    }
    present = memory.incidents.values()
    sendings = notification_state.owed_notifications(present, memory.desk.people, now, limits)
    woken = notification_state.owed_notifications(
        present, memory.desk.phones, now, limits, Listener.PHONES
    )
    bulletins = list(notification_state.owed_bulletins(present))
    for sending in sendings:
        _note(memory, sending.incidents, Listener.PEOPLE, tried)
    for sending in woken:
        _note(memory, sending.incidents, Listener.PHONES, tried)
    for incidents in bulletins:
        _note(memory, incidents, Listener.MACHINES, tried)
    memory.unwritten |= memory.incidents.keys()
    booked = booked and _write(ports, memory)
    until = ports.clock() + PATIENCE
    said = (
        _notify_people(ports, memory, sendings, limits, now, until),
        _notify_people(ports, memory, woken, limits, now, until, Listener.PHONES),
        _notify_machines(ports, memory, bulletins, now, until),
    )
    sent = sum(each.sent for each in said)
    if sent and booked:
        _write(ports, memory)
    return Alarmed(
        open=sum(each.life is Life.OPEN for each in memory.incidents.values()),
        sent=sent,
        failed=sum(each.failed for each in said),
        owed=sum(each.owed for each in memory.incidents.values()),
    )


def _write(ports: AlarmingPorts, memory: Memory) -> bool:
    """Put into the book what it lacks; False when it is away."""
    changed = [memory.incidents[key] for key in memory.unwritten if key in memory.incidents]
    try:
        ports.book.write(changed, memory.desk, memory.gone.values())
    except CrawlfleetError as error:
        warn("the incidents could not be written down", error)
        return False
    memory.unwritten.clear()
    memory.gone.clear()
    memory.desk_unwritten = False
    return True


class _Delivery(NamedTuple):
    """Messages that went out, and those that did not: refused, or the one that nobody took.

    After one that nobody took the rest waits for the next look: it would take all of the time. One
    that is refused holds nothing up: a bare one goes in its place, and if that is refused as well
    it is owed still, and the next message is tried.
    """

    sent: int
    failed: int = 0


def _notify_people(
    ports: AlarmingPorts,
    memory: Memory,
    sendings: Iterable[notification_state.Sending],
    limits: AlarmLimits,
    now: datetime,
    until: datetime,
    to: Listener = Listener.PEOPLE,
) -> _Delivery:
    """Say to people, or to phones, what is owed, as far as there is time."""
    phones = to is Listener.PHONES
    report = ports.notifier.notify_phones if phones else ports.notifier.notify_people
    sent = failed = 0
    for sending in sendings:
        if ports.clock() >= until:
            break
        if len(sending.incidents) == 1:
            notification = wording.notification(ports.stage, sending.incidents[0], limits, now, to)
        else:
            notification = wording.summary(ports.stage, sending.incidents, now, to)
        bare = wording.bare_notification(ports.stage, notification, sending.incidents)
        try:
            refused = _send(report, notification, bare)
        except MessageRefusedError as error:
            warn(f"a message to {to} was refused, and its bare form as well", error)
            failed += 1
            continue
        except CrawlfleetError as error:
            warn(f"{to} could not be told; the next look tries again", error)
            return _Delivery(sent, failed + 1)
        sent, failed = sent + 1, failed + refused
        before = memory.desk.phones if phones else memory.desk.people
        after = notification_state.after_notification(before, now, sums_up=sending.sums_up)
        memory.desk = replace(memory.desk, **{to.value: after})
        memory.desk_unwritten = True
        _note(memory, sending.incidents, to, lambda owing: notified(owing, now))
    return _Delivery(sent, failed)


def _notify_machines(
    ports: AlarmingPorts,
    memory: Memory,
    bulletins: Iterable[tuple[Incident, ...]],
    now: datetime,
    until: datetime,
) -> _Delivery:
    """Say to machines what is owed, as far as there is time."""
    sent = failed = 0
    made = (each for some in bulletins for each in wording.bulletins(ports.stage, some, now))
    for incidents, bulletin in made:
        if ports.clock() >= until:
            break
        bare = wording.bare_bulletin(ports.stage, bulletin, incidents, now)
        try:
            refused = _send(ports.notifier.notify_machines, bulletin, bare)
        except MessageRefusedError as error:
            warn("a message to machines was refused, and its bare form as well", error)
            failed += 1
            continue
        except CrawlfleetError as error:
            warn("machines could not be told; the next look tries again", error)
            return _Delivery(sent, failed + 1)
        sent, failed = sent + 1, failed + refused
        _note(memory, incidents, Listener.MACHINES, lambda owing: notified(owing, now))
    return _Delivery(sent, failed)


def _send(report: Callable[[M], None], message: M, bare: M) -> bool:
    """Send it, or its bare form where it is refused; returns whether it was.

    Raises:
        MessageRefusedError: the bare form was refused as well.
    """
    try:
        report(message)
    except MessageRefusedError as error:
        warn("a message was refused: its bare form is sent", error)
        report(bare)
        return True
    return False


def _note(
    memory: Memory,
    incidents: Iterable[Incident],
    listener: Listener,
    change: Change,
) -> None:
    """Remember of each incident how far a kind of listener has been told."""
    for each in incidents:
        present = memory.incidents[each.key]
        changed = change(present.notification_state(listener))
        memory.incidents[each.key] = replace(present, **{listener.value: changed})
        memory.unwritten.add(each.key)


def list_incidents(
    book: IncidentBook,
    tree: Tree,
    tenant: str,
    *,
    open_only: bool,
    cursor: str | None,
    limit: int,
) -> Listing[Incident]:
    """Incidents, the newest first; those that are open, or all of the last months."""
    before = None if cursor is None else cursors.decode(cursor)
    found = book.find(
        readable_tenants(tree, tenant), open_only=open_only, before=before, limit=limit + 1
    )
    shown, more = found[:limit], len(found) > limit
    last = shown[-1] if shown else None
    if last is None or last.opened_at is None or not more:
        return Listing(shown, None, more=False)
    return Listing(shown, cursors.encode((to_ms(last.opened_at), last.id)), more=True)
