"""A submission (SPEC.md A1-A6): admit, make room, issue ids, route, persist, enqueue, receipt.

MongoDB is the truth. Once it has accepted, the answer is yes: if Redis fails then, recovery queues
the request later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from crawlfleet.errors import (
    BacklogFullError,
    ConflictError,
    InvalidRequestError,
    StoreUnavailableError,
)
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.keying import Keying
from crawlfleet.model.biz import Biz, IntakeLimits, Tree
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Body, Inserted, Request
from crawlfleet.model.submission import Accepted, Receipt, Refused, Submission
from crawlfleet.policy.admission import Admission
from crawlfleet.policy.back_pressure import refusal, retry_after
from crawlfleet.ports import (
    IdSource,
    Intake,
    RequestQueue,
    RequestStore,
    RuleStore,
    SubmissionKeys,
    Waker,
    Workers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPorts:
    """What a submission needs of the world. ``warn`` is told what is wrong but not fatal."""

    ids: IdSource
    store: RequestStore
    queue: RequestQueue
    rules: RuleStore
    keys: SubmissionKeys
    intake: Intake
    workers: Workers
    waker: Waker
    warn: Callable[[str, Exception], None]


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
    lane, biz = biz_of(tree, tenant, biz_name)
    fields = ["" if single else f"requests[{index}]." for index in range(len(submissions))]
    keying = Keying(ports.keys, ports.store, lane, biz, submissions, fields, key)
    keying.look(now)
    receipts: dict[int, Receipt] = {}

    admission = Admission(biz)
    bodies: dict[int, Body] = {}
    for index, submission in enumerate(submissions):
        stored = keying.stored(index)
        if isinstance(submission, InvalidRequestError):
            receipts[index] = Refused(submission)
        elif index in keying.refused or index in keying.twins:
            continue
        elif stored is not None:
            receipts[index] = Accepted(stored, repeated=True)
        else:
            body = admission.admit(submission, fields[index], keying.pin(index))
            late = keying.too_late(index, now)
            if not isinstance(body, Body):
                receipts[index] = Refused(InvalidRequestError(body))
            elif late is not None:
                receipts[index] = Refused(late)
            else:
                bodies[index] = body

    if bodies:
        fresh = sum(keying.pin(index) is None for index in bodies)
        if fresh:
            make_room(ports, tree, lane, fresh, biz.intake, now)
        for name in admission.rules:
            if reader := biz.reader(name):
                ports.rules.freeze(lane, name, reader)
        requests = keying.open(bodies, partial(ports.ids.take, lane, biz.id_kind), now)
        repeatable = frozenset(requests[index].id for index in keying.keyed(requests))
        outcome = persist_and_enqueue(
            ports, lane, biz, list(requests.values()), now, repeatable=repeatable
        )
        receipts.update(zip(requests, outcome, strict=True))
        _close(ports, keying, receipts)
    receipts |= {index: Refused(error) for index, error in keying.refused.items()}
    for twin, first in keying.twins.items():
        receipt = receipts[first]
        receipts[twin] = (
            Accepted(receipt.id, repeated=True) if isinstance(receipt, Accepted) else receipt
        )
    return [receipts[index] for index in range(len(submissions))]


def _close(ports: SubmissionPorts, keying: Keying, receipts: dict[int, Receipt]) -> None:
    accepted = {index for index, receipt in receipts.items() if isinstance(receipt, Accepted)}
    try:
        keying.close(accepted)
    except StoreUnavailableError as error:
        ports.warn("a repeated submission will be looked up again", error)


def make_room(
    ports: SubmissionPorts,
    tree: Tree,
    lane: Lane,
    count: int,
    limits: IntakeLimits,
    now: datetime,
) -> None:
    """Ask whether the lane takes ``count`` more. While Redis is away it does.

    Raises:
        BacklogFullError: it does not; says when it makes sense to come back.
    """
    memory_ratio = tree.stage.redis_memory_ratio
    try:
        pressure = ports.intake.admit(lane, count, limits, memory_ratio, now)
        if pressure.admitted:
            return
        _, processed = ports.queue.rates(lane, now)
    except StoreUnavailableError as error:
        ports.warn("taken without a look at the backlog", error)
        return
    raise BacklogFullError(
        refusal(lane.biz, pressure, limits, memory_ratio),
        retry_after_seconds=retry_after(pressure, limits, processed.per_60s),
    )


def persist_and_enqueue(
    ports: SubmissionPorts,
    lane: Lane,
    biz: Biz,
    requests: Sequence[Request],
    now: datetime,
    *,
    repeatable: frozenset[RequestId] = frozenset(),
) -> list[Receipt]:
    """Persist, then queue what was persisted, then see that somebody works on it.

    Of ``repeatable`` ids those who come again know, because they were written down before: if they
    exist, they are accepted as repeated, and queued again, as whoever stored them may have died
    before that.

    Raises:
        StoreUnavailableError: every request was refused because a node did not answer.
    """
    if not requests:
        return []
    inserted = ports.store.insert(lane, biz, requests, repeatable)
    if inserted.refused and len(inserted.refused) == len(requests):
        raise next(iter(inserted.refused.values()))

    taken = inserted.existing - repeatable
    stored = [r for r in requests if r.id not in inserted.refused and r.id not in taken]
    entries = [request.entry for request in stored]
    try:
        waiting = ports.queue.enqueue(lane, entries, now)
        if entries and waiting <= len(entries):
            # Where others waited before these, somebody works already, or the tick sees to it.
            wake_if_idle(ports.workers, ports.waker, ports.warn)
    except StoreUnavailableError as error:
        ports.warn("persisted, to be queued by recovery", error)
    return [_receipt(r.id, inserted, repeatable) for r in requests]


def wake_if_idle(workers: Workers, waker: Waker, warn: Callable[[str, Exception], None]) -> None:
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
