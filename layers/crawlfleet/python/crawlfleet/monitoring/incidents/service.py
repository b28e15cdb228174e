"""Follow incidents from evaluation to evaluation and notify of them (SPEC.md A11, B13, H4).

The book on the home node says what was known and sent, so that any environment goes on where
another one ended. What is owed is written down before it is sent, and that it was sent afterwards:
after a death in between it is sent again, never not at all. While the book is away this
environment's memory carries on, so one environment sends nothing twice; one that starts without a
book knows nothing and notifies once more of everything that it finds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.stage import AlarmLimits
from crawlfleet.config.lookup import readable_tenants
from crawlfleet.kernel import metric_names as names
from crawlfleet.kernel import paging
from crawlfleet.kernel.errors import CrawlfleetError, MessageRefusedError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Metric, MetricSink
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.time import Clock, from_ms, to_ms
from crawlfleet.monitoring.incidents import notifications
from crawlfleet.monitoring.incidents.detectors import evaluate, found_kinds, unseen
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
    Evaluation,
    Incident,
    Life,
    Listener,
    Notification,
    NotificationState,
)
from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
from crawlfleet.monitoring.incidents.sns import SnsNotifier
from crawlfleet.monitoring.models import Sample

#: After what a monitor that vanished loses the lock: the next evaluation, a minute later, has it.
TERM: Final = timedelta(seconds=55)
#: The time for messages; the rest is owed to the next evaluation. The monitor has a minute for
#: everything.
PATIENCE: Final = timedelta(seconds=15)

#: A change of what a kind of listener is owed and has been sent.
Change: TypeAlias = Callable[[NotificationState], NotificationState]
M = TypeVar("M", Notification, Bulletin)


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


@dataclass(slots=True, kw_only=True)
class IncidentMonitor:
    """The incidents as one environment follows them.

    Attributes:
        by: The environment's name, for the lock.
        incidents: What is known, by key.
        before: The sample before.
        unwritten: Keys of incidents that the book lacks.
        gone: Incidents that the book is to put away, by key.
    """

    book: MongoIncidentBook
    notifier: SnsNotifier
    metrics: MetricSink
    clock: Clock
    stage: str
    by: str
    room: Room = ROOM
    incidents: dict[str, Incident] = field(default_factory=dict)
    desk: Desk = field(default_factory=Desk)
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
        if booked:
            try:
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
        except CrawlfleetError as error:
            warn("the incidents' book is away: memory carries on", error)
            return False
        mine = [self.incidents[key] for key in self.unwritten if key in self.incidents]
        theirs = [
            each
            for each in present.incidents
            if each.key not in self.gone or each.looked_at > self.gone[each.key].looked_at
        ]
        self.incidents = latest(mine, theirs)
        if not self.desk_unwritten:
            self.desk = present.desk
        return True

    def _go_on(
        self, evaluation: Evaluation, limits: AlarmLimits, now: datetime, *, booked: bool
    ) -> Alarmed:
        """Take one step of every incident, then send the messages."""
        before = self.incidents
        self.incidents = step(before, evaluation, now, limits, self.room)
        if missing := left_out(self.incidents, evaluation):
            warn("more is wrong than can be followed", ValueError(f"{missing:,} are left out"))
        self.gone |= {
            key: let_go(each, now) for key, each in before.items() if key not in self.incidents
        }
        present, desk = self.incidents.values(), self.desk
        owed = notifications.owed_notifications
        people = owed(present, desk.people, now, limits)
        phones = owed(present, desk.phones, now, limits, Listener.PHONES)
        machines = list(notifications.owed_bulletins(present))
        for listener, sendings in (Listener.PEOPLE, people), (Listener.PHONES, phones):
            for sending in sendings:
                self._note(sending.incidents, listener, tried)
        for incidents in machines:
            self._note(incidents, Listener.MACHINES, tried)
        self.unwritten |= self.incidents.keys()
        booked = booked and self._write()
        until = self.clock() + PATIENCE
        deliveries = (
            self._notify_people(people, limits, now, until),
            self._notify_people(phones, limits, now, until, Listener.PHONES),
            self._notify_machines(machines, now, until),
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

    def _notify_people(
        self,
        owed: Iterable[notifications.Sending],
        limits: AlarmLimits,
        now: datetime,
        until: datetime,
        to: Listener = Listener.PEOPLE,
    ) -> _Delivery:
        """Send people, or phones, what is owed, as far as there is time."""
        phones = to is Listener.PHONES
        notify = self.notifier.notify_phones if phones else self.notifier.notify_people
        sent = failed = 0
        for sending in owed:
            if self.clock() >= until:
                break
            if len(sending.incidents) == 1:
                one = sending.incidents[0]
                message = notifications.notification(self.stage, one, limits, now, to)
            else:
                message = notifications.summary(self.stage, sending.incidents, now, to)
            bare = notifications.bare_notification(self.stage, message, sending.incidents)
            try:
                refused = _send(notify, message, bare)
            except MessageRefusedError as error:
                warn(f"a message to {to} was refused, and its bare form as well", error)
                failed += 1
                continue
            except CrawlfleetError as error:
                warn(f"{to} could not be notified; the next evaluation tries again", error)
                return _Delivery(sent, failed + 1)
            sent, failed = sent + 1, failed + refused
            before = self.desk.phones if phones else self.desk.people
            after = notifications.after_notification(before, now, sums_up=sending.sums_up)
            self.desk = replace(self.desk, **{to.value: after})
            self.desk_unwritten = True
            self._note(sending.incidents, to, partial(notified, now=now))
        return _Delivery(sent, failed)

    def _notify_machines(
        self, owed: Iterable[tuple[Incident, ...]], now: datetime, until: datetime
    ) -> _Delivery:
        """Send machines what is owed, as far as there is time."""
        sent = failed = 0
        made = (each for some in owed for each in notifications.bulletins(self.stage, some, now))
        for incidents, bulletin in made:
            if self.clock() >= until:
                break
            bare = notifications.bare_bulletin(self.stage, bulletin, incidents, now)
            try:
                refused = _send(self.notifier.notify_machines, bulletin, bare)
            except MessageRefusedError as error:
                warn("a message to machines was refused, and its bare form as well", error)
                failed += 1
                continue
            except CrawlfleetError as error:
                warn("machines could not be notified; the next evaluation tries again", error)
                return _Delivery(sent, failed + 1)
            sent, failed = sent + 1, failed + refused
            self._note(incidents, Listener.MACHINES, partial(notified, now=now))
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
) -> Listing[Incident]:
    """List incidents that a tenant may read, the newest first; the open ones, or all there are."""
    before = None if cursor is None else paging.decode(cursor)
    found = book.find(
        readable_tenants(tree, tenant), open_only=open_only, before=before, limit=limit + 1
    )
    shown, more = found[:limit], len(found) > limit
    last = shown[-1] if shown else None
    if last is None or last.opened_at is None or not more:
        return Listing(shown, None, more=False)
    return Listing(shown, paging.encode((to_ms(last.opened_at), last.id)), more=True)
