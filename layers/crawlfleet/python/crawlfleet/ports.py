"""What the flows ask of the world. Adapters answer; ``adapters.memory`` is the twin that ships.

Unless a method says otherwise it may raise :class:`StoreUnavailableError` when the part behind it
does not answer in time, and then nothing is known of the effect: every method may be called again.
Every method takes the tenant, alone or inside a :class:`Lane`; nothing of another tenant is ever
returned.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias

from crawlfleet.model.biz import Biz, FetchLimits, IntakeLimits, Tree
from crawlfleet.model.ids import IdKind, RequestId
from crawlfleet.model.journal import JournalLine
from crawlfleet.model.keyed import Keyed, KeyName
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Correction, Ledger
from crawlfleet.model.letter import LetterFilter, LetterPage
from crawlfleet.model.metric import Metric
from crawlfleet.model.outcome import Outcome, Page
from crawlfleet.model.record import Record
from crawlfleet.model.request import Body, Claim, Entry, Inserted, Mark, Request, Tracked
from crawlfleet.model.rule import Rule
from crawlfleet.model.schedule import Fire, Schedule
from crawlfleet.model.totals import Depth, Load, NodeHealth, Pressure, Rates
from crawlfleet.model.worker import Card, HeldNumber, Pulse

_NO_CARD: Final = Card()


class Clock(Protocol):
    """Now, as an aware UTC datetime."""

    def __call__(self) -> datetime:
        """The present moment."""
        ...


class ConfigCentre(Protocol):
    """The configuration in force."""

    def current(self) -> Tree:
        """The newest valid tree, at most a few seconds old; no read per call.

        Raises:
            ConfigError: there has never been a valid one.
        """
        ...


class IdSource(Protocol):
    """Where a submission gets its ids."""

    def take(self, lane: Lane, kind: IdKind, count: int) -> list[RequestId]:
        """``count`` ids never given before, roughly in time order.

        Raises:
            IdsError: none can be issued now.
        """
        ...


class WorkerNumbers(Protocol):
    """Leases of Snowflake worker numbers, with a fence and a mark (see policy.snowflake)."""

    def lease(self, holder: str, now_ms: int, term_ms: int) -> HeldNumber:
        """A free worker number, for ``term_ms``; the one that has been free for longest.

        Raises:
            WorkerNumbersExhaustedError: all are leased.
        """
        ...

    def advance(self, held: HeldNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """Spend the positions below ``mark`` and renew the lease, in one step.

        False, and no effect, when the lease has ended, is another's, or its mark is not ``held``'s.
        """
        ...


class RequestQueue(Protocol):
    """The index of what is to be done. Entries may repeat; the claim in the store decides."""

    def enqueue(self, lane: Lane, entries: Sequence[Entry], now: datetime) -> int:
        """Append, and count towards the lane's submission rate.

        Returns how many wait in the queue now, these included.
        """
        ...

    def requeue(self, lane: Lane, entries: Sequence[Entry]) -> None:
        """Put recovered entries where they are served next; not counted as submissions."""
        ...

    def lease(
        self, lane: Lane, token: str, count: int, now: datetime, until: datetime
    ) -> list[Entry]:
        """Move up to ``count`` entries, oldest first, to the token's lease. Empty when none wait.

        Due retries come first, then entries of leases that have ended, then the queue.
        """
        ...

    def renew(
        self, lane: Lane, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[Entry]:
        """Extend the lease of ``entries``; returns those that the token no longer holds."""
        ...

    def finish(
        self, lane: Lane, token: str, entries: Sequence[Entry], processed: int, now: datetime
    ) -> int:
        """Drop the token's entries, add ``processed`` to the rate; returns how many it held."""
        ...

    def give_back(self, lane: Lane, token: str, entries: Sequence[Entry]) -> int:
        """Return entries still held by the token to where they are served next."""
        ...

    def delay(self, lane: Lane, token: str, entries: Sequence[tuple[Entry, datetime]]) -> int:
        """Move entries still held by the token to the waiting set, each until its time."""
        ...

    def depth(self, lane: Lane) -> Depth:
        """How much is queued, leased and delayed, and the ``ts`` of the next entry to be served."""
        ...

    def depths(self, lanes: Sequence[Lane]) -> list[Depth]:
        """:meth:`depth` of many lanes in one round trip."""
        ...

    def loads(self, lanes: Sequence[Lane], now: datetime) -> list[Load]:
        """What many lanes have for whoever asks now, in one round trip."""
        ...

    def rates(self, lane: Lane, now: datetime) -> tuple[Rates, Rates]:
        """Submitted and processed requests per second over the last full 1, 5 and 60 seconds."""
        ...

    def per_second(self, lane: Lane, now: datetime) -> tuple[dict[int, int], dict[int, int]]:
        """Submitted and processed counts by epoch second, for the last full 60 seconds."""
        ...

    def add_phases(self, lane: Lane, seconds: Mapping[str, float]) -> None:
        """Add to the lane's account of where workers spend their time."""
        ...

    def phases(self, lane: Lane) -> dict[str, float]:
        """That account, in seconds by phase."""
        ...


class Workers(Protocol):
    """Which workers live, over all lanes of the stage."""

    def beat(self, worker: str, now: datetime, card: Card = _NO_CARD) -> bool:
        """The worker lives, and is taken to for the adapter's liveness span.

        True if it was known. False: it is new, or it was buried or forgotten meanwhile.
        """
        ...

    def leave(self, worker: str) -> None:
        """The worker ends of its own will."""
        ...

    def live(self, now: datetime) -> list[str]:
        """Ids of the workers that live, and of wake-ups that have not become workers yet."""
        ...

    def reserve_wake(self, now: datetime, wanted: int) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers.

        Each is counted as live for a few seconds, so that no two callers start the same one.
        """
        ...


class LeaseBook(Protocol):
    """Who holds what of a lane, as the queue knows it. Costs grow with what is leased, not queued.

    A token begins with its worker's id (policy.tokens).
    """

    def leases(self, lane: Lane, worker: str | None = None) -> list[tuple[str, Entry]]:
        """Leased entries with their tokens: of one worker, or of all."""
        ...

    def relist(self, lane: Lane, token: str, entries: Sequence[Entry], until: datetime) -> None:
        """List as leased what the store says the token owns and the queue has forgotten."""
        ...


class QueueFilling(Protocol):
    """Filling a lane's queue from the truth after Redis has lost some or all of it."""

    def mark(self, lane: Lane) -> Mark:
        """Which server holds the queue now, and what was written there when it was filled."""
        ...

    def clear(self, lane: Lane, nonce: str) -> None:
        """Drop what is queued and delayed (not what is leased), and begin a filling."""
        ...

    def fill(self, lane: Lane, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first, and note how far this has come. False: another has begun anew."""
        ...

    def fill_delayed(
        self, lane: Lane, nonce: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> bool:
        """The same for what waits for its time."""
        ...

    def filled(self, lane: Lane, nonce: str) -> bool:
        """The queue is complete; True also if this nonce had completed it before."""
        ...


class Intake(Protocol):
    """Back-pressure: whether a lane takes more now."""

    def admit(
        self, lane: Lane, count: int, limits: IntakeLimits, memory_ratio: float, now: datetime
    ) -> Pressure:
        """Ask for ``count`` more, and count them towards the rate if there is room.

        Time is the server's where it has one: callers' clocks (``now``) may differ by an hour.
        """
        ...


class Watch(Protocol):
    """The accrual failure detector's view of the workers, over all lanes of the stage.

    Time is the server's, so that a worker's clock does not make it look dead.
    """

    def take_turn(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Whether the holder is to do ``name`` now.

        True for one at a time, and at most once ``every``. A holder that does not come back loses
        its turn after ``term``.
        """
        ...

    def end_turn(self, name: str, holder: str) -> None:
        """The holder is done; no effect if the turn is another's now."""
        ...

    def pulses(self, silent_for: timedelta | None = None) -> list[Pulse]:
        """Known workers; only those silent for at least ``silent_for`` where that is given.

        Calling it is watching, and so is every beat that arrives: either shows that the others
        could have beaten. What was silent while Redis was away, or while nothing was heard of the
        fleet for some seconds, is not held against a worker: it takes a second look, soon after, to
        find anybody dead then.
        """
        ...

    def watched_for(self) -> timedelta:
        """How long somebody has looked or beaten without a lapse: who lives is known by then.

        Nearly nothing after Redis was away or emptied. Counts as a look itself.
        """
        ...

    def bury(self, worker: str) -> bool:
        """The worker is dead; False if it was not known any more. If it beats again it is new."""
        ...


class Waker(Protocol):
    """Starts consumers."""

    def wake(self, count: int) -> None:
        """Start ``count`` consumer invocations, without waiting for them."""
        ...


class RequestStore(Protocol):
    """The truth: requests and records. ``biz`` is the configuration in force for ``lane``."""

    def insert(
        self,
        lane: Lane,
        biz: Biz,
        requests: Sequence[Request],
        kept: frozenset[RequestId] = frozenset(),
    ) -> Inserted:
        """Persist with majority write concern.

        A node that does not answer refuses its own requests only: nothing of those is left behind
        as far as that can be had, and the others stand. Of ``kept`` ids nothing is taken back: who
        comes again with the same ids finds what is left.
        """
        ...

    def claim(
        self,
        lane: Lane,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        now: datetime,
        until: datetime,
        token: str,
    ) -> list[Claim]:
        """Own each request that matches id, biz, ts and a claimable state, atomically.

        Claimable: pending, waiting until ``now`` at most, or leased with a lease that has ended.
        Entries that are gone, final, not due or owned by another are missing from the answer.
        """
        ...

    def due(self, lane: Lane, biz: Biz, entries: Sequence[Entry]) -> list[tuple[Entry, datetime]]:
        """Those that are leased or wait for an attempt, and when they may be claimed again."""
        ...

    def renew(
        self, lane: Lane, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        """Extend the leases; returns the ids that the token no longer owns."""
        ...

    def settle(
        self,
        lane: Lane,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        worker: str,
        now: datetime,
    ) -> set[RequestId]:
        """Store records and write each outcome, on the condition that the token still owns it.

        Returns the ids whose lease was lost: of those nothing is written.
        """
        ...

    def release(
        self, lane: Lane, biz: Biz, claims: Sequence[Claim], worker: str, why: str, now: datetime
    ) -> None:
        """Make claimed requests pending again, without an attempt counted."""
        ...

    def get(self, lane: Lane, biz: Biz, request_id: RequestId) -> Tracked | None:
        """Everything about one request, or None."""
        ...

    def find(
        self,
        lane: Lane,
        biz: Biz,
        *,
        state: int | None,
        since: datetime | None,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> list[Tracked]:
        """Requests by time of queueing, oldest first, after the position ``(ts, id)``."""
        ...

    def cancel(
        self, lane: Lane, biz: Biz, request_id: RequestId, by: str, now: datetime
    ) -> Tracked | None:
        """Cancel a pending or waiting request; returns it as it then stands, None if unknown."""
        ...

    def records(
        self,
        lane: Lane,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """Records by time of storing, oldest first, after the position ``(ms, record id)``."""
        ...

    def record_count(self, lane: Lane, biz: Biz) -> int:
        """About how many records there are; exact unless a node has just come back from a crash."""
        ...

    def unqueued(
        self, lane: Lane, biz: Biz, *, before: datetime, now: datetime, limit: int
    ) -> list[Entry]:
        """Entries that recovery shall queue again, oldest first.

        Pending ones with ``ts`` below ``before``; waiting and leased ones overdue at ``now``.
        """
        ...

    def expire(self, lane: Lane, biz: Biz, now: datetime) -> int:
        """Mark, and count for ever, what passed its TTL unprocessed; returns how many."""
        ...


class Ledgers(Protocol):
    """The ledgers of bizs and jobs."""

    def totals(self, lane: Lane, biz: Biz, now: datetime, job: str | None = None) -> Ledger:
        """O(1): counters, and an index count of what is in flight.

        ``pending`` is what remains, so that the difference is always 0.
        """
        ...

    def audit(self, lane: Lane, biz: Biz, now: datetime, job: str | None = None) -> Ledger:
        """Every term counted by itself, of each node at one moment."""
        ...

    def reconcile(self, lane: Lane, biz: Biz, now: datetime) -> list[Correction]:
        """Book what MongoDB may have removed uncounted while no recovery ran; then note this one.

        To be called after :meth:`RequestStore.expire`. Nothing is booked unless the time since the
        last call is longer than the grace that expired requests have.
        """
        ...


class Disowning(Protocol):
    """What recovery takes from whom, and what it fills queues from."""

    def disown(
        self,
        lane: Lane,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        by: str,
        why: str,
        now: datetime,
    ) -> int:
        """Make pending what ``worker`` owns of these; its tokens are worth nothing from then on."""
        ...

    def pending(
        self, lane: Lane, biz: Biz, *, since: int, before: datetime, now: datetime, limit: int
    ) -> list[Entry]:
        """Pending entries with ``ts`` from ``since`` (epoch ms) on, oldest first.

        A page has about ``limit`` entries and all of the last one's millisecond, so the next begins
        one after it. Only an empty page is the last one.
        """
        ...

    def waiting(
        self, lane: Lane, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[Entry, datetime]]:
        """Entries that wait for their next attempt, and when it is due; soonest first."""
        ...

    def held(self, lane: Lane, biz: Biz, *, now: datetime, limit: int) -> list[tuple[str, Entry]]:
        """What is leased and its lease not over, with its worker."""
        ...

    def remembered_mark(self, lane: Lane, biz: Biz) -> Mark | None:
        """Which Redis held the lane's whole queue when that was last looked at."""
        ...

    def remember_mark(self, lane: Lane, biz: Biz, mark: Mark) -> None:
        """Keep that."""
        ...


class Journal(Protocol):
    """What happened to a lane as a whole, for people who ask why."""

    def note(self, lane: Lane, line: JournalLine) -> None:
        """Keep a line, for a month."""
        ...

    def lines(self, lane: Lane, since: datetime, until: datetime, limit: int) -> list[JournalLine]:
        """The lines of a span that includes ``since`` and not ``until``, oldest first."""
        ...


class DeadLetters(Protocol):
    """Requests that were given up on."""

    def find(
        self,
        lane: Lane,
        biz: Biz,
        letters: LetterFilter,
        *,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> LetterPage:
        """Up to ``limit`` dead letters by time of queueing, oldest first, each with its answer.

        One look goes through a bounded number of them. Where it ends before all were looked at, or
        there are more than asked for, the page says from where to go on.
        """
        ...

    def replay(
        self,
        lane: Lane,
        biz: Biz,
        ids: Sequence[RequestId],
        rule_version: Mapping[str, str],
        by: str,
        now: datetime,
    ) -> list[Entry]:
        """Make dead letters pending, as if never tried; returns those that were dead.

        Two callers at once never both get one; in the ledger it is dead no more.
        ``rule_version`` has, by rule's name, the version they are to be read with; a rule that is
        not in it keeps the version it had.
        """
        ...

    def purge(self, lane: Lane, biz: Biz, ids: Sequence[RequestId], by: str, now: datetime) -> int:
        """Remove dead letters; in the ledger they stay dead. Returns how many were removed."""
        ...


class SubmissionKeys(Protocol):
    """What makes a repeated submission one (SPEC.md D13)."""

    def find(self, lane: Lane, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        """Those that are kept."""
        ...

    def open(self, lane: Lane, keyed: Sequence[Keyed], until: datetime) -> list[Keyed]:
        """Keep each under its key, until then at least; returns what stands, in the same order.

        A key that is kept already answers with what it was first given.
        """
        ...

    def close(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """All requests of these are stored. No effect on what has taken the place of one."""
        ...

    def forget(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """Keep these no longer; no effect on one that is closed, or has been replaced."""
        ...


class RuleStore(Protocol):
    """Rules as they were when a request was accepted."""

    def freeze(self, lane: Lane, name: str, rule: Rule) -> None:
        """Keep this version. No effect when it is kept already."""
        ...

    def frozen(self, lane: Lane, name: str, version: str) -> Rule | None:
        """The rule of that version, or None if it was never frozen."""
        ...


class ScheduleStore(Protocol):
    """Schedules and their fire times."""

    def put(self, schedule: Schedule) -> None:
        """Create or replace by ``(tenant, biz, name)``."""
        ...

    def get(self, tenant: str, biz: str, name: str) -> Schedule | None:
        """One schedule, or None."""
        ...

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        """Every schedule of a biz, by name."""
        ...

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """True if there was one."""
        ...

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        """Schedules of all tenants whose ``next_at`` is not after ``now``, oldest first."""
        ...

    def open_fire(self, fire: Fire) -> Fire:
        """Store the fire unless its schedule has one of that time; returns the one that stands."""
        ...

    def close_fire(self, fire: Fire) -> None:
        """All requests of the fire are stored."""
        ...

    def advance(self, schedule: Schedule, fired_at: datetime, next_at: datetime | None) -> bool:
        """Move ``next_at`` on, unless another scheduler has; False then."""
        ...


#: Whether what is about to be done is still this worker's to do.
Ours: TypeAlias = Callable[[], Awaitable[bool]]


class Fetcher(Protocol):
    """Downloads."""

    async def fetch(self, body: Body, limits: FetchLimits, ours: Ours | None = None) -> Page:
        """Download one page.

        ``ours`` is asked when it is the request's turn at its host, right before anything is sent.

        Raises:
            LeaseLostError: the request is not ours any more; nothing was sent.
            FetchError: one of its kinds, for anything that is no 2xx answer within the limits.
        """
        ...


class Extractor(Protocol):
    """Applies rules."""

    def extract(self, rule: Rule, page: Page) -> list[dict[str, object]]:
        """The records' fields, one mapping per record.

        Raises:
            ExtractError: names the field that could not be read.
        """
        ...


class Health(Protocol):
    """Looks at the parts."""

    def look(self) -> Iterator[NodeHealth]:
        """One entry per part and node. Never raises: a part that is down has an entry too."""
        ...


class MetricSink(Protocol):
    """Where metrics go."""

    def put(self, metrics: Sequence[Metric], dimensions: Mapping[str, str], at: datetime) -> None:
        """Emit values of one moment under the same dimensions; the stage is always one of them."""
        ...
