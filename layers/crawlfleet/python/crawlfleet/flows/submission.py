"""A submission (SPEC.md A1-A6): admit, issue ids, route, persist, enqueue, receipt.

MongoDB is the truth. Once it has accepted, the answer is yes: if Redis fails then, recovery queues
the request later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from crawlfleet.errors import (
    ConflictError,
    InvalidRequestError,
    StoreError,
    StoreUnavailableError,
)
from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Body, Entry, Request
from crawlfleet.model.submission import Accepted, Receipt, Refused, Submission
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.admission import Admission
from crawlfleet.ports import (
    IdSource,
    RequestQueue,
    RequestStore,
    RuleStore,
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
) -> list[Receipt]:
    """Submit a batch; the answer has one receipt an entry, in order.

    An entry that could not be read comes as its error and goes back as its receipt. Mistakes name
    their fields as ``requests[3].url``, or as ``url`` where the caller sent a ``single`` entry.

    Raises:
        UnknownBizError: the tenant has no such biz; nothing is stored.
        StoreUnavailableError: not one entry could be persisted for want of MongoDB.
        IdsError: no ids can be issued; nothing is stored.
    """
    lane, biz = biz_of(tree, tenant, biz_name)
    receipts: list[Receipt | None] = [None] * len(submissions)

    admission = Admission(biz)
    admitted: list[tuple[int, Body]] = []
    for index, submission in enumerate(submissions):
        if isinstance(submission, InvalidRequestError):
            receipts[index] = Refused(submission)
            continue
        body = admission.admit(submission, "" if single else f"requests[{index}].")
        if isinstance(body, Body):
            admitted.append((index, body))
        else:
            receipts[index] = Refused(InvalidRequestError(body))

    if admitted:
        for name in admission.rules:
            ports.rules.freeze(lane, name, biz.rules[name])
        ids = ports.ids.take(lane, biz.id_kind, len(admitted))
        queued_at = from_ms(to_ms(now))
        requests = [
            Request(id=an_id, tenant=tenant, biz=biz_name, queued_at=queued_at, body=body)
            for an_id, (_, body) in zip(ids, admitted, strict=True)
        ]
        outcome = persist_and_enqueue(ports, lane, biz, requests, now)
        for (index, _), receipt in zip(admitted, outcome, strict=True):
            receipts[index] = receipt
    return [receipt for receipt in receipts if receipt is not None]


def persist_and_enqueue(
    ports: SubmissionPorts, lane: Lane, biz: Biz, requests: Sequence[Request], now: datetime
) -> list[Receipt]:
    """Persist, then queue what was persisted, then see that somebody works on it.

    Raises:
        StoreUnavailableError: every request was refused because a node did not answer.
    """
    inserted = ports.store.insert(lane, biz, requests)
    if inserted.refused and len(inserted.refused) == len(requests):
        raise next(iter(inserted.refused.values()))

    stored = [r for r in requests if r.id not in inserted.refused and r.id not in inserted.existing]
    entries = [Entry(r.id, r.biz, to_ms(r.queued_at)) for r in stored]
    try:
        waiting = ports.queue.enqueue(lane, entries, now)
        if entries and waiting <= len(entries):
            # Where others waited before these, somebody works already, or the tick sees to it.
            wake_if_idle(ports.workers, ports.waker, ports.warn, now)
    except StoreUnavailableError as error:
        ports.warn("persisted, to be queued by recovery", error)
    return [_receipt(r.id, inserted.existing, inserted.refused) for r in requests]


def wake_if_idle(
    workers: Workers, waker: Waker, warn: Callable[[str, Exception], None], now: datetime
) -> None:
    """Start one consumer if none lives. If that fails, the scheduler's next tick does it."""
    wanted = workers.reserve_wake(now, 1)
    if wanted:
        try:
            waker.wake(wanted)
        except StoreUnavailableError as error:
            warn("no consumer could be woken", error)


def _receipt(
    request_id: RequestId,
    existing: frozenset[RequestId],
    refused: dict[RequestId, StoreError],
) -> Receipt:
    if request_id in refused:
        return Refused(refused[request_id])
    if request_id in existing:
        return Refused(ConflictError(f"id {request_id} is taken"))
    return Accepted(request_id)
