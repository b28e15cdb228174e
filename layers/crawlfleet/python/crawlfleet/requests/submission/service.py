"""A submission (SPEC.md A1-A6): admit, make room, issue ids, route, persist, enqueue, receipt.

MongoDB is the truth. Once it has accepted, the answer is yes: if Redis fails then, recovery queues
the request later.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

from crawlfleet.config.documents.biz import Biz, IntakeLimits, Tree
from crawlfleet.config.lookup import biz_of, queue_key_of, queues_beside
from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConflictError,
    InvalidRequestError,
    StoreUnavailableError,
)
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.ids.issuer import IdSource
from crawlfleet.requests.models import Body, Entry, Inserted, Request
from crawlfleet.requests.ports import RequestStore, RuleStore, Waker, WakeReservations
from crawlfleet.requests.queue.ports import RequestQueue
from crawlfleet.requests.submission.admission import Admission, refusal, retry_after
from crawlfleet.requests.submission.idempotency import IdempotencyKeys
from crawlfleet.requests.submission.models import (
    Accepted,
    Intake,
    Receipt,
    Refused,
    Submission,
    SubmissionKeys,
)


class PoolStarter(NamedTuple):
    """Who does the work of a pool: how many live, and what starts one."""

    workers: WakeReservations
    waker: Waker


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPorts:
    """What a submission needs of the world.

    ``workers`` and ``waker`` are of the usual pool, ``crews`` of the others.
    """

    ids: IdSource
    store: RequestStore
    queue: RequestQueue
    rules: RuleStore
    keys: SubmissionKeys
    intake: Intake
    workers: WakeReservations
    waker: Waker
    starters: Mapping[str, PoolStarter] = field(default_factory=dict)


def submit(
    ports: SubmissionPorts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    submissions: Sequence[Submission | InvalidRequestError],
    now: datetime,
    *,
    single: bool = False,
    key: str | None = None,
) -> list[Receipt]:
    """Submit a batch; the answer has one receipt an entry, in order.

    An entry that could not be read comes as its error and goes back as its receipt. Mistakes name
    their fields as ``requests[3].url``, or as ``url`` where the caller sent a ``single`` entry.

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
    keys = IdempotencyKeys(ports.keys, ports.store, queue_key, biz, submissions, fields, key)
    keys.look(now)
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
            make_room(ports, tree, queue_key, fresh, biz.intake, now)
        for name in admission.rules:
            if reader := biz.reader(name):
                ports.rules.freeze(queue_key, name, reader)
        requests = keys.open(bodies, partial(ports.ids.take, queue_key, biz.id_kind), now)
        repeatable = frozenset(requests[index].id for index in keys.keyed(requests))
        outcome = persist_and_enqueue(
            ports, queue_key, biz, list(requests.values()), now, repeatable=repeatable
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


def _close(keys: IdempotencyKeys, receipts: dict[int, Receipt]) -> None:
    accepted = {index for index, receipt in receipts.items() if isinstance(receipt, Accepted)}
    try:
        keys.close(accepted)
    except StoreUnavailableError as error:
        warn("a repeated submission will be looked up again", error)


def make_room(
    ports: SubmissionPorts,
    tree: Tree,
    queue_key: QueueKey,
    count: int,
    limits: IntakeLimits,
    now: datetime,
) -> None:
    """Ask whether the biz takes ``count`` more, whatever pool that is bound for.

    What waits in all of its lanes counts. While Redis is away it does.

    Raises:
        BacklogFullError: it does not; says when it makes sense to come back.
    """
    memory_ratio = tree.stage.redis_memory_ratio
    try:
        usual = queue_key_of(queue_key, None)
        beside = queues_beside(tree, usual)
        pressure = ports.intake.admit(usual, count, limits, memory_ratio, now, beside)
        if pressure.admitted:
            return
        _, processed = ports.queue.rates(queue_key, now)
    except StoreUnavailableError as error:
        warn("taken without a look at the backlog", error)
        return
    raise BacklogFullError(
        refusal(queue_key.biz, pressure, limits, memory_ratio),
        retry_after_seconds=retry_after(pressure, limits, processed.per_60s),
    )


def persist_and_enqueue(
    ports: SubmissionPorts,
    queue_key: QueueKey,
    biz: Biz,
    requests: Sequence[Request],
    now: datetime,
    *,
    repeatable: frozenset[RequestId] = frozenset(),
) -> list[Receipt]:
    """Persist, then queue what was persisted, then see that somebody works on it.

    Each request is queued where its pool is served, and its pool's workers are woken.

    Of ``repeatable`` ids those who come again know, because they were written down before: if they
    exist, they are accepted as repeated, and queued again, as whoever stored them may have died
    before that.

    Raises:
        StoreUnavailableError: every request was refused because a node did not answer.
    """
    if not requests:
        return []
    inserted = ports.store.insert(queue_key, biz, requests, repeatable)
    if inserted.refused and len(inserted.refused) == len(requests):
        raise next(iter(inserted.refused.values()))

    taken = inserted.existing - repeatable
    stored = [r for r in requests if r.id not in inserted.refused and r.id not in taken]
    by_pool: dict[str | None, list[Entry]] = defaultdict(list)
    for request in stored:
        by_pool[request.pool].append(request.entry)
    try:
        for pool, entries in by_pool.items():
            waiting = ports.queue.enqueue(queue_key_of(queue_key, pool), entries, now)
            if waiting <= len(entries):
                # Where others waited before these, somebody works already, or the tick sees to it.
                wake_for(ports, pool)
    except StoreUnavailableError as error:
        warn("persisted, to be queued by recovery", error)
    return [_receipt(r.id, inserted, repeatable) for r in requests]


def wake_for(ports: SubmissionPorts, pool: str | None) -> None:
    """Start a worker of a pool if none lives; of a pool that is not known here the tick does."""
    starter = PoolStarter(ports.workers, ports.waker) if pool is None else ports.starters.get(pool)
    if starter is not None:
        wake_if_idle(starter.workers, starter.waker)


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
