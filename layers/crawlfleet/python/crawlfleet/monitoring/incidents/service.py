"""Follow incidents from evaluation to evaluation and notify of them (SPEC.md A11, B13, H4).

The book on the home node says what was known and sent, so that any environment goes on where
another one ended. What is owed is written down before it is sent, and that it was sent afterwards:
after a death in between it is sent again, never not at all. While the book is away this
environment's memory carries on, so one environment sends nothing twice; one that starts without a
book knows nothing and notifies once more of everything that it finds.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.stage import AlarmLimits
from crawlfleet.config.lookup import readable_tenants
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel import paging
from crawlfleet.kernel.errors import (
    ConflictError,
    CrawlfleetError,
    MessageRefusedError,
    NotFoundError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Metric, MetricSink
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.time import Clock, from_ms, to_ms
from crawlfleet.monitoring.incidents import handling, lifecycle, models, notifications
from crawlfleet.monitoring.incidents.detectors import evaluate, found_kinds, unseen
from crawlfleet.monitoring.incidents.models import Incident, Life, Listener
from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
from crawlfleet.monitoring.incidents.sns import SnsNotifier
from crawlfleet.monitoring.models import Sample

#: After what a monitor that vanished loses the lock: the next evaluation, a minute later, has it.
TERM: Final = timedelta(seconds=55)
#: The time for messages; the rest is owed to the next evaluation. The monitor has a minute for
#: everything.
PATIENCE: Final = timedelta(seconds=15)

#: A change of what a kind of listener is owed and has been sent.
Change: TypeAlias = Callable[[models.NotificationState], models.NotificationState]
M = TypeVar("M", models.Notification, models.Bulletin)


class Alarmed(NamedTuple):
    """The result of one evaluation: open incidents; messages sent, failed and still owed.

    Failed are also those that were refused, whether or not a bare one went in their place.
    ``mine`` is False when another monitor had the lock.
    """

    mine: bool = True
    open: int = 0
    sent: int = 0
    failed: int = 0
    owed: int = 0


class _Delivery(NamedTuple):
    """Messages that went out, and those that did not: refused, or the one that nobody took.

    After one that nobody took the rest waits for the next evaluation: it would take all of the
    time. One that is refused holds nothing up: a bare one goes in its place, and if that is refused
    as well it is owed still, and the next message is tried.
    """

    sent: int
    failed: int = 0


class _Message(NamedTuple, Generic[M]):
    """A message about incidents, and the bare one that replaces it where it is refused."""

    incidents: tuple[Incident, ...]
    text: M
    bare: M
    sums_up: bool = False


@dataclass(slots=True, kw_only=True)
class IncidentMonitor:
    """The incidents as one environment, called ``by``, follows them.

    ``incidents`` is what is known, ``handlings`` how people handle it, by key;
    ``unwritten`` has the keys that the book lacks, ``gone`` the incidents to be put away.
    """

    book: MongoIncidentBook
    notifier: SnsNotifier
    metrics: MetricSink
    clock: Clock
    stage: str
    by: str
    room: lifecycle.Room = lifecycle.ROOM
    incidents: dict[str, Incident] = field(default_factory=dict)
    handlings: dict[str, handling.Handling] = field(default_factory=dict)
    desk: models.Desk = field(default_factory=models.Desk)
    before: Sample | None = None
    unwritten: set[str] = field(default_factory=set)
    gone: dict[str, Incident] = field(default_factory=dict)
    desk_unwritten: bool = False

    def update(self, sample: Sample, tree: Tree) -> Alarmed:
        """Follow all incidents by what a sample shows, and send what is owed.

        Emits 0 or 1 of each kind of finding, under the stage alone. A book or a notifier that is
        away is no error.
        """
        evaluation = evaluate(sample, self.before, tree)
        self.before = sample
        now = from_ms(to_ms(self.clock()))
        booked = self._open_book(now)
        known = self.incidents.values()
        hidden = unseen(known, sample, evaluation)
        evaluation = replace(evaluation, unknown=evaluation.unknown | hidden)
        kinds = found_kinds(evaluation, known).items()
        self.metrics.put(
            [Metric(names.finding(kind), int(on)) for kind, on in kinds], {}, sample.at
        )
        if booked is None:
            return Alarmed(mine=False)
        alarmed = self._go_on(evaluation, tree.stage.alarms, now, booked=booked)
        try:
            if booked:
                self.book.release_lock(self.by)
        except CrawlfleetError as error:
            warn("the lock of the incidents could not be released", error)
        delivered = [
            Metric(names.INCIDENTS_OPEN, alarmed.open),
            Metric(names.MESSAGES_FAILED, alarmed.failed),
            Metric(names.MESSAGES_OWED, alarmed.owed),
        ]
        self.metrics.put(delivered, {}, sample.at)
        return alarmed

    def _open_book(self, now: datetime) -> bool | None:
        """Take the lock and read the book; None if another has the lock, False without a book."""
        try:
            if not self.book.acquire_lock(self.by, now, TERM):
                return None
            present = self.book.read()
            self.handlings = self.book.handlings([each.key for each in present.incidents])
        except CrawlfleetError as error:
            warn("the incidents' book is away: memory carries on", error)
            return False
        mine = [self.incidents[key] for key in self.unwritten if key in self.incidents]
        theirs = [
            each
            for each in present.incidents
            if each.key not in self.gone or each.looked_at > self.gone[each.key].looked_at
        ]
        self.incidents = lifecycle.latest(mine, theirs)
        if not self.desk_unwritten:
            self.desk = present.desk
        return True

    def _go_on(
        self, evaluation: models.Evaluation, limits: AlarmLimits, now: datetime, *, booked: bool
    ) -> Alarmed:
        """Take one step of every incident, then send the messages."""
        before = self.incidents
        stepped = lifecycle.step(before, evaluation, now, limits, self.room)
        self.incidents = handling.handled(stepped, self.handlings, now)
        if missing := lifecycle.left_out(self.incidents, evaluation):
            warn("more is wrong than can be followed", ValueError(f"{missing:,} are left out"))
        self.gone |= {
            key: lifecycle.let_go(each, now)
            for key, each in before.items()
            if key not in self.incidents
        }
        present, desk = self.incidents.values(), self.desk
        owed = notifications.owed_notifications
        people = owed(present, desk.people, now, limits)
        phones = owed(present, desk.phones, now, limits, Listener.PHONES)
        machines = list(notifications.owed_bulletins(present))
        for listener, sendings in ((Listener.PEOPLE, people), (Listener.PHONES, phones)):
            for sending in sendings:
                self._note(sending.incidents, listener, lifecycle.tried)
        for incidents in machines:
            self._note(incidents, Listener.MACHINES, lifecycle.tried)
        self.unwritten |= self.incidents.keys()
        booked = booked and self._write()
        until = self.clock() + PATIENCE
        to_people = self._to_people(people, limits, now)
        to_phones = self._to_people(phones, limits, now, Listener.PHONES)
        to_machines, send = self._to_machines(machines, now), self.notifier
        deliveries = (
            self._deliver(to_people, send.notify_people, Listener.PEOPLE, now, until),
            self._deliver(to_phones, send.notify_phones, Listener.PHONES, now, until),
            self._deliver(to_machines, send.notify_machines, Listener.MACHINES, now, until),
        )
        sent = sum(each.sent for each in deliveries)
        if sent and booked:
            self._write()
        return Alarmed(
            open=sum(each.life is Life.OPEN for each in self.incidents.values()),
            sent=sent,
            failed=sum(each.failed for each in deliveries),
            owed=sum(each.owed for each in self.incidents.values()),
        )

    def _write(self) -> bool:
        """Put into the book what it lacks; False when it is away."""
        changed = [self.incidents[key] for key in self.unwritten if key in self.incidents]
        try:
            self.book.write(changed, self.desk, self.gone.values())
        except CrawlfleetError as error:
            warn("the incidents could not be written down", error)
            return False
        self.unwritten.clear()
        self.gone.clear()
        self.desk_unwritten = False
        return True

    def _to_people(
        self,
        owed: Iterable[notifications.Sending],
        limits: AlarmLimits,
        now: datetime,
        to: Listener = Listener.PEOPLE,
    ) -> Iterator[_Message[models.Notification]]:
        """Write what people, or phones, are owed."""
        for each, sums_up in owed:
            if len(each) == 1:
                text = notifications.notification(self.stage, each[0], limits, now, to)
            else:
                text = notifications.summary(self.stage, each, now, to)
            bare = notifications.bare_notification(self.stage, text, each)
            yield _Message(each, text, bare, sums_up)

    def _to_machines(
        self, owed: Iterable[tuple[Incident, ...]], now: datetime
    ) -> Iterator[_Message[models.Bulletin]]:
        """Write what machines are owed."""
        for some in owed:
            for each, text in notifications.bulletins(self.stage, some, now):
                bare = notifications.bare_bulletin(self.stage, text, each, now)
                yield _Message(each, text, bare)

    def _deliver(
        self,
        messages: Iterable[_Message[M]],
        notify: Callable[[M], None],
        to: Listener,
        now: datetime,
        until: datetime,
    ) -> _Delivery:
        """Send a kind of listener what is owed, as far as there is time."""
        sent = failed = 0
        for message in messages:
            if self.clock() >= until:
                break
            try:
                refused = _send(notify, message.text, message.bare)
            except MessageRefusedError as error:
                warn(f"a message to {to} was refused, and its bare form as well", error)
                failed += 1
                continue
            except CrawlfleetError as error:
                warn(f"{to} could not be notified; the next evaluation tries again", error)
                return _Delivery(sent, failed + 1)
            sent, failed = sent + 1, failed + refused
            if to is not Listener.MACHINES:
                before = getattr(self.desk, to.value)
                after = notifications.after_notification(before, now, sums_up=message.sums_up)
                self.desk = replace(self.desk, **{to.value: after})
                self.desk_unwritten = True
            self._note(message.incidents, to, partial(lifecycle.notified, now=now))
        return _Delivery(sent, failed)

    def _note(self, incidents: Iterable[Incident], listener: Listener, change: Change) -> None:
        """Change what a kind of listener is owed of each incident."""
        for each in incidents:
            present = self.incidents[each.key]
            changed = change(present.notification_state(listener))
            self.incidents[each.key] = replace(present, **{listener.value: changed})
            self.unwritten.add(each.key)


def _send(notify: Callable[[M], None], message: M, bare: M) -> bool:
    """Send it, or its bare form where it is refused; returns whether it was.

    Raises:
        MessageRefusedError: the bare form was refused as well.
    """
    try:
        notify(message)
    except MessageRefusedError as error:
        warn("a message was refused: its bare form is sent", error)
        notify(bare)
        return True
    return False


def list_incidents(
    book: MongoIncidentBook,
    tree: Tree,
    tenant: str,
    *,
    open_only: bool,
    cursor: str | None,
    limit: int,
) -> Listing[handling.HandledIncident]:
    """List incidents that a tenant may read, the newest first; the open ones, or all there are."""
    before = None if cursor is None else paging.decode(cursor)
    found = book.find(
        readable_tenants(tree, tenant), open_only=open_only, before=before, limit=limit + 1
    )
    more, handlings = len(found) > limit, book.handlings([each.key for each in found[:limit]])
    shown = [handling.HandledIncident(each, handlings.get(each.key)) for each in found[:limit]]
    if not more or not shown or (opened_at := found[limit - 1].opened_at) is None:
        return Listing(shown, None, more=False)
    return Listing(shown, paging.encode((to_ms(opened_at), found[limit - 1].id)), more=True)


def acknowledge(
    book: MongoIncidentBook, tree: Tree, tenant: str, name: str, *, why: str, now: datetime
) -> handling.HandledIncident:
    """Acknowledge an incident: people and phones are reminded of it no more.

    Raises:
        NotFoundError: there is no such incident that the tenant may read.
        ConflictError: it is over.
    """
    incident = _open_one(book, tree, tenant, name)
    said = handling.Acknowledgement(
        by=tenant, at=now, why=why, incident=incident.id, returns=incident.returns
    )
    return handling.HandledIncident(incident, book.handle(incident, said))


def silence(
    book: MongoIncidentBook,
    tree: Tree,
    tenant: str,
    name: str,
    *,
    why: str,
    now: datetime,
    until: datetime,
) -> handling.HandledIncident:
    """Silence what is wrong until a time: people and phones are told nothing of it.

    Raises:
        NotFoundError: there is no such incident that the tenant may read.
        ConflictError: it is over.
    """
    incident = _open_one(book, tree, tenant, name)
    said = handling.Silence(by=tenant, at=now, why=why, until=until)
    return handling.HandledIncident(incident, book.handle(incident, said))


def unsilence(
    book: MongoIncidentBook, tree: Tree, tenant: str, name: str, now: datetime
) -> handling.HandledIncident:
    """Take back an acknowledgement and a silence; what is open is told of again.

    Raises:
        NotFoundError: there is no such incident that the tenant may read.
        ConflictError: it is over.
    """
    incident = _open_one(book, tree, tenant, name)
    return handling.HandledIncident(incident, book.unsilence(incident, now))


def _open_one(book: MongoIncidentBook, tree: Tree, tenant: str, name: str) -> Incident:
    incident = book.open_one(readable_tenants(tree, tenant), name)
    if incident is None:
        raise NotFoundError(f"there is no incident {name!r} that is or was lately open")
    if incident.life is not Life.OPEN:
        raise ConflictError("the incident is over: there is nothing to acknowledge or to silence")
    return incident
