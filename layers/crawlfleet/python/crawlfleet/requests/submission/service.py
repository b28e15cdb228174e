"""Submission, and tracking of what was submitted (SPEC.md A1-A6, A8).

A submission is admitted, finds room, gets ids, is routed, persisted, enqueued and receipted. Once
MongoDB has accepted, the answer is yes: if Redis fails then, recovery queues the request later.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, Protocol

from crawlfleet.config.documents.biz import Biz, IntakeLimits, Tree
from crawlfleet.config.lookup import biz_of, queue_key_of, queues_beside
from crawlfleet.kernel import paging as cursors
from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StoreUnavailableError,
)
from crawlfleet.kernel.ids import RequestId, State, parse_id
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.paging import Listing, T
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.ids.issuer import IdSource
from crawlfleet.requests.models import Body, Entry, Inserted, Ledger, Record, Request, Tracked
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.stats import Stats, together
from crawlfleet.requests.submission.admission import (
    Accepted,
    Admission,
    Intake,
    Receipt,
    Refused,
    Submission,
    refusal,
    retry_after,
)
from crawlfleet.requests.submission.idempotency import IdempotencyKeys
from crawlfleet.requests.submission.mongo import MongoRules, MongoSubmissionKeys


class Waker(Protocol):
    """Start consumers."""

    def wake(self, count: int) -> None:
        """Start ``count`` consumer invocations, without waiting for them."""
        ...


class WakeReservations(Protocol):
    """Reserve the start of a pool's workers."""

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """Return how many workers the caller shall start so that ``wanted`` live.

        Atomic over callers. ``now`` is None for the server's clock, which workers go by. No more
        than ``most``, if that is said: the caller asks again when these are started. Each is
        counted as live for a few seconds, so that no two callers start the same one.
        """
        ...


class PoolStarter(NamedTuple):
    """Count a pool's live workers, and start one."""

    workers: WakeReservations
    waker: Waker


@dataclass(frozen=True, slots=True, kw_only=True)
class Submissions:
    """Take submissions: persist, enqueue, and wake a worker.

    ``workers`` and ``waker`` are of the usual pool, ``starters`` of the others.
    """

    ids: IdSource
    store: MongoRequestStore
    queue: RedisQueue
    rules: MongoRules
    keys: MongoSubmissionKeys
    intake: Intake
    workers: WakeReservations
    waker: Waker
    starters: Mapping[str, PoolStarter] = field(default_factory=dict)

    def submit(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        submissions: Sequence[Submission | InvalidRequestError],
        now: datetime,
        *,
        single: bool = False,
        key: str | None = None,
    ) -> list[Receipt]:
        """Submit a batch; return one receipt an entry, in order.

        An entry that could not be read comes as its error and goes back as its receipt. Validation
        errors name their fields as ``requests[3].url``, or as ``url`` where the caller sent a
        ``single`` entry.

        Under one ``key`` the whole call is one submission, and an entry with a ``client_id`` is one
        whatever call it comes in: repeated, they get the ids they have (SPEC.md D13).

        Raises:
            UnknownBizError: the tenant has no such biz; nothing is stored.
            KeyReusedError: the key stands for another call; nothing is stored.
            BacklogFullError: the biz takes no more for now; nothing is stored.
            StoreUnavailableError: not one entry could be persisted for want of MongoDB.
            IdsError: no ids can be issued; nothing is stored.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        fields = ["" if single else f"requests[{index}]." for index in range(len(submissions))]
        keys = IdempotencyKeys(self.keys, self.store, queue_key, biz, submissions, fields, key)
        keys.find(now)
        receipts: dict[int, Receipt] = {}

        admission = Admission(biz)
        bodies: dict[int, Body] = {}
        for index, submission in enumerate(submissions):
            stored = keys.stored(index)
            if isinstance(submission, InvalidRequestError):
                receipts[index] = Refused(submission)
            elif index in keys.refused or index in keys.duplicates:
                continue
            elif stored is not None:
                receipts[index] = Accepted(stored, repeated=True)
            else:
                body = admission.admit(submission, fields[index], keys.admitted(index))
                late = keys.too_late(index, now)
                if not isinstance(body, Body):
                    receipts[index] = Refused(InvalidRequestError(body))
                elif late is not None:
                    receipts[index] = Refused(late)
                else:
                    bodies[index] = body

        if bodies:
            fresh = sum(keys.admitted(index) is None for index in bodies)
            if fresh:
                self.make_room(tree, queue_key, fresh, biz.intake, now)
            for name in admission.rules:
                if reader := biz.reader(name):
                    self.rules.keep_version(queue_key, name, reader)
            requests = keys.open(bodies, partial(self.ids.take, queue_key, biz.id_kind), now)
            repeatable = frozenset(requests[index].id for index in keys.keyed(requests))
            outcome = self.persist_and_enqueue(
                queue_key, biz, list(requests.values()), now, repeatable=repeatable
            )
            receipts.update(zip(requests, outcome, strict=True))
            _close(keys, receipts)
        receipts |= {index: Refused(error) for index, error in keys.refused.items()}
        for duplicate, first in keys.duplicates.items():
            receipt = receipts[first]
            receipts[duplicate] = (
                Accepted(receipt.id, repeated=True) if isinstance(receipt, Accepted) else receipt
            )
        return [receipts[index] for index in range(len(submissions))]

    def make_room(
        self, tree: Tree, queue_key: QueueKey, count: int, limits: IntakeLimits, now: datetime
    ) -> None:
        """Ask whether the biz takes ``count`` more, whatever pool that is bound for.

        The backlog is that of all its queues. While Redis is away there is room.

        Raises:
            BacklogFullError: it does not; says when it makes sense to come back.
        """
        memory_ratio = tree.stage.redis_memory_ratio
        try:
            usual = queue_key_of(queue_key, None)
            beside = queues_beside(tree, usual)
            pressure = self.intake.admit(usual, count, limits, memory_ratio, now, beside)
            if pressure.admitted:
                return
            _, processed = self.queue.rates(queue_key, now)
        except StoreUnavailableError as error:
            warn("admitted without knowing the backlog", error)
            return
        raise BacklogFullError(
            refusal(queue_key.biz, pressure, limits, memory_ratio),
            retry_after_seconds=retry_after(pressure, limits, processed.per_60s),
        )

    def persist_and_enqueue(
        self,
        queue_key: QueueKey,
        biz: Biz,
        requests: Sequence[Request],
        now: datetime,
        *,
        repeatable: frozenset[RequestId] = frozenset(),
    ) -> list[Receipt]:
        """Persist, then queue what was persisted, then see that a worker of each pool lives.

        Of ``repeatable`` ids those who repeat them know, because they were written down before: if
        they exist, they are accepted as repeated, and queued again, as whoever stored them may have
        died before that.

        Raises:
            StoreUnavailableError: every request was refused because a node did not answer.
        """
        if not requests:
            return []
        inserted = self.store.insert(queue_key, biz, requests, repeatable)
        if inserted.refused and len(inserted.refused) == len(requests):
            raise next(iter(inserted.refused.values()))

        taken = inserted.existing - repeatable
        stored = [r for r in requests if r.id not in inserted.refused and r.id not in taken]
        by_pool: dict[str | None, list[Entry]] = defaultdict(list)
        for request in stored:
            by_pool[request.pool].append(request.entry)
        try:
            for pool, entries in by_pool.items():
                waiting = self.queue.enqueue(queue_key_of(queue_key, pool), entries, now)
                if waiting <= len(entries):
                    # Where others waited before these, a worker lives, or the tick starts one.
                    self.wake_for(pool)
        except StoreUnavailableError as error:
            warn("persisted, to be queued by recovery", error)
        return [_receipt(r.id, inserted, repeatable) for r in requests]

    def wake_for(self, pool: str | None) -> None:
        """Start a worker of a pool if none lives; the tick does for a pool unknown here."""
        starter = PoolStarter(self.workers, self.waker) if pool is None else self.starters.get(pool)
        if starter is not None:
            wake_if_idle(starter.workers, starter.waker)


def _close(keys: IdempotencyKeys, receipts: dict[int, Receipt]) -> None:
    accepted = {index for index, receipt in receipts.items() if isinstance(receipt, Accepted)}
    try:
        keys.close(accepted)
    except StoreUnavailableError as error:
        warn("a repeated submission will be looked up again", error)


def wake_if_idle(workers: WakeReservations, waker: Waker) -> None:
    """Start one consumer if none lives. If that fails, the scheduler's next tick does it."""
    # Who lives is judged by the clock that workers go by, and not by this machine's.
    wanted = workers.reserve_wake(None, 1)
    if wanted:
        try:
            waker.wake(wanted)
        except StoreUnavailableError as error:
            warn("no consumer could be woken", error)


def _receipt(
    request_id: RequestId, inserted: Inserted, repeatable: frozenset[RequestId]
) -> Receipt:
    if request_id in inserted.refused:
        return Refused(inserted.refused[request_id])
    if request_id not in inserted.existing:
        return Accepted(request_id)
    if request_id in repeatable:
        return Accepted(request_id, repeated=True)
    return Refused(ConflictError(f"id {request_id} is taken"))


_LABELS: Final = {int(state): state.label for state in State}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """Read and cancel requests, list records, and sum them up (SPEC.md A8)."""

    store: MongoRequestStore
    ledgers: MongoLedgers
    queue: RedisQueue

    def look_up(self, tree: Tree, tenant: str, biz_name: str, text: str) -> Tracked:
        """Get everything about one request.

        Raises:
            NotFoundError: this tenant's biz has none of that id.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        request_id = parse_id(text)
        found = self.store.get(queue_key, biz, request_id)
        if found is None:
            raise _unknown(request_id)
        return found

    def cancel(self, tree: Tree, tenant: str, biz_name: str, text: str, now: datetime) -> Tracked:
        """Cancel a request that is not leased; cancelling twice is cancelling once.

        Raises:
            NotFoundError: there is none of that id.
            ConflictError: it is being worked on, or has ended.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        request_id = parse_id(text)
        found = self.store.cancel(queue_key, biz, request_id, f"api:{tenant}", now)
        if found is None:
            raise _unknown(request_id)
        if found.state != State.CANCELLED:
            message = (
                f"the request is {state_label(biz, found.state)}: only pending ones are cancelled"
            )
            raise ConflictError(message)
        return found

    def list_requests(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        *,
        state: str | None,
        since: datetime | None,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> Listing[Tracked]:
        """List requests by time of queueing, oldest first."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        before = None if cursor is None else cursors.decode(cursor)
        found = self.store.find(
            queue_key,
            biz,
            state=None if state is None else _flag(biz, state),
            since=since,
            after=before,
            limit=limit + 1,
            now=now,
        )
        positions = [(to_ms(t.request.queued_at), str(t.request.id)) for t in found[:limit]]
        return _listing(found, positions, before, limit, now)

    def list_records(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        *,
        request: str | None,
        cursor: str | None,
        limit: int,
        now: datetime,
    ) -> Listing[Record]:
        """List records by time of storing, oldest first."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        before = None if cursor is None else cursors.decode(cursor, records=True)
        found = self.store.records(
            queue_key,
            biz,
            request_id=None if request is None else parse_id(request, "request_id"),
            after=before,
            limit=limit + 1,
        )
        positions = [(to_ms(record.stored_at), record.id) for record in found[:limit]]
        return _listing(found, positions, before, limit, now)

    def stats(self, tree: Tree, tenant: str, biz_name: str, now: datetime) -> Stats:
        """Sum up states, the queues' depth, rates, and where workers spent their time."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        ledger = self.ledgers.totals(queue_key, biz, now)
        submitted, processed = self.queue.rates(queue_key, now)
        return Stats(
            states=_by_label(biz, ledger),
            ledger=ledger,
            records=self.store.record_count(queue_key, biz),
            depth=together(
                [self.queue.depth(one) for one in (queue_key, *queues_beside(tree, queue_key))]
            ),
            submitted=submitted,
            processed=processed,
            phases=self.queue.phases(queue_key),
        )

    def audit(
        self, tree: Tree, tenant: str, biz_name: str, job: str | None, now: datetime
    ) -> Ledger:
        """Count every term of the ledger by itself, of the biz or of one job (SPEC.md H1).

        Raises:
            NotFoundError: nothing was ever submitted under this job, or its ledger has gone.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        ledger = self.ledgers.audit(queue_key, biz, now, job)
        if job is not None and ledger == Ledger(own=ledger.own) and not ledger.others:
            raise NotFoundError(f"there is no job {job}")
        return ledger


def _by_label(biz: Biz, ledger: Ledger) -> dict[str, int]:
    counts = {int(state): getattr(ledger, state.label) for state in State} | ledger.own
    return {state_label(biz, flag): count for flag, count in sorted(counts.items())}


def state_label(biz: Biz, flag: int) -> str:
    """Return a state as clients write it; the biz's own states included."""
    if flag in _LABELS:
        return _LABELS[flag]
    return next((name for name, value in biz.states.items() if value == flag), str(flag))


def _flag(biz: Biz, label: str) -> int:
    known = {state.label: int(state) for state in State} | dict(biz.states)
    if label not in known:
        raise InvalidRequestError.of("state", f"must be one of {', '.join(known)}")
    return known[label]


def _listing(
    found: list[T],
    positions: list[cursors.Position],
    before: cursors.Position | None,
    limit: int,
    now: datetime,
) -> Listing[T]:
    more = len(found) > limit
    last = positions[-1] if positions else None
    resume = last if more else cursors.resume_from(last, before, now)
    return Listing(found[:limit], None if resume is None else cursors.encode(resume), more)


def _unknown(request_id: RequestId) -> NotFoundError:
    return NotFoundError(f"there is no request {request_id}")
