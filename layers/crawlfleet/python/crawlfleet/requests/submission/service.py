"""Submission of requests (SPEC.md A1-A6).

A submission is admitted, finds room, gets ids, is routed, persisted, enqueued and receipted. Once
MongoDB has accepted, the answer is yes: if Redis fails then, recovery queues the request later.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, IntakeLimits, Tree
from crawlfleet.config.lookup import biz_of, must_be_active, queue_key_of, queues_beside
from crawlfleet.kernel import errors
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.tracing import NO_TRACER, Caller, Span, Tracer, sampled, trace_of
from crawlfleet.requests.ceilings.service import TenantCeilings
from crawlfleet.requests.ids.issuer import IdSource
from crawlfleet.requests.models import Body, Entry, Inserted, Request
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.submission import admission
from crawlfleet.requests.submission.admission import Accepted
from crawlfleet.requests.submission.idempotency import IdempotencyKeys
from crawlfleet.requests.submission.mongo import MongoRules, MongoSubmissionKeys
from crawlfleet.requests.submission.waking import (
    LivenessChecks,
    PoolStarter,
    Waker,
    WakeReservations,
    wake_if_idle,
)

_NOBODY: Final[Mapping[RequestId, Caller]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Submissions:
    """Take submissions: persist, enqueue, and wake a worker.

    ``workers`` and ``waker`` are of the usual pool, ``starters`` of the others. Without ``wakes``
    none is started: what is submitted has to wait for something else.
    """

    ids: IdSource
    store: MongoRequestStore
    queue: RedisQueue
    rules: MongoRules
    keys: MongoSubmissionKeys
    intake: admission.Intake
    ceilings: TenantCeilings
    workers: WakeReservations
    waker: Waker
    starters: Mapping[str, PoolStarter] = field(default_factory=dict)
    liveness: LivenessChecks = field(default_factory=LivenessChecks)
    tracer: Tracer = NO_TRACER
    wakes: bool = True

    def submit(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        submissions: Sequence[admission.Submission | errors.InvalidRequestError],
        now: datetime,
        *,
        single: bool = False,
        key: str | None = None,
        caller: Caller | None = None,
    ) -> list[admission.Receipt]:
        """Submit a batch; return one receipt an entry, in order.

        An entry that could not be read comes as its error and goes back as its receipt. Validation
        errors name their fields as ``requests[3].url``, or as ``url`` where the caller sent a
        ``single`` entry.

        Under one ``key`` the whole call is one submission, and an entry with a ``client_id`` is one
        whatever call it comes in: repeated, they get the ids they have (SPEC.md D13).

        What is submitted by a ``caller`` whose trace is recorded is in that one, but where the biz
        traces nothing.

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
        receipts: dict[int, admission.Receipt] = {}

        admitting = admission.Admission(biz)
        bodies: dict[int, Body] = {}
        for index, submission in enumerate(submissions):
            stored = keys.stored(index)
            if isinstance(submission, errors.InvalidRequestError):
                receipts[index] = admission.Refused(submission)
            elif index in keys.refused or index in keys.duplicates:
                continue
            elif stored is not None:
                receipts[index] = Accepted(stored, repeated=True)
            else:
                body = admitting.admit(submission, fields[index], keys.admitted(index))
                late = keys.too_late(index, now)
                if not isinstance(body, Body):
                    receipts[index] = admission.Refused(errors.InvalidRequestError(body))
                elif late is not None:
                    receipts[index] = admission.Refused(late)
                else:
                    bodies[index] = body

        if bodies:
            if fresh := sum(keys.admitted(index) is None for index in bodies):
                self.ceilings.admit_rate(tree, tenant, fresh)
                self.make_room(tree, queue_key, fresh, biz.intake, now)
            for name in admitting.rules:
                if reader := biz.reader(name):
                    self.rules.keep_version(queue_key, name, reader)
            requests = keys.open(bodies, partial(self.ids.take, queue_key, biz.id_kind), now)
            repeatable = frozenset(requests[index].id for index in keys.keyed(requests))
            new = list(requests.values())
            outcome = self.persist_and_enqueue(
                *(queue_key, biz, new, now),
                repeatable=repeatable,
                callers={} if caller is None else {one.id: caller for one in new},
            )
            receipts.update(zip(requests, outcome, strict=True))
            _close(keys, receipts)
        receipts |= {index: admission.Refused(error) for index, error in keys.refused.items()}
        for duplicate, first in keys.duplicates.items():
            receipt = receipts[first]
            if isinstance(receipt, Accepted):
                receipt = Accepted(receipt.id, repeated=True)
            receipts[duplicate] = receipt
        return [receipts[index] for index in range(len(submissions))]

    def make_room(
        self, tree: Tree, queue_key: QueueKey, count: int, limits: IntakeLimits, now: datetime
    ) -> None:
        """Ask whether the biz takes ``count`` more, whatever pool that is bound for.

        The backlog is that of all its queues. While Redis is away there is room.

        Raises:
            TenantSuspendedError: the tenant is suspended.
            BacklogFullError: it does not, or its tenant has reached a ceiling; says when it makes
                sense to come back.
        """
        must_be_active(tree, queue_key.tenant)
        memory_ratio = tree.stage.redis_memory_ratio
        self.ceilings.admit(tree, queue_key.tenant, count)
        try:
            usual = queue_key_of(queue_key, None)
            beside = queues_beside(tree, usual)
            pressure = self.intake.admit(usual, count, limits, memory_ratio, now, beside)
            if pressure.admitted:
                return
            _, processed = self.queue.rates(queue_key, now)
        except errors.StoreUnavailableError as error:
            warn("admitted without knowing the backlog", error)
            return
        limit, used, allowed = admission.limit_of(pressure, count, limits, memory_ratio)
        raise errors.BacklogFullError(
            admission.refusal(queue_key.biz, pressure, limits, memory_ratio),
            retry_after_seconds=admission.retry_after(pressure, limits, processed.per_60s),
            limit=limit,
            used=used,
            allowed=allowed,
        )

    def persist_and_enqueue(
        self,
        queue_key: QueueKey,
        biz: Biz,
        requests: Sequence[Request],
        now: datetime,
        *,
        repeatable: frozenset[RequestId] = frozenset(),
        callers: Mapping[RequestId, Caller] = _NOBODY,
    ) -> list[admission.Receipt]:
        """Persist, then queue what was persisted, then see that a worker of each pool lives.

        Of ``repeatable`` ids those who repeat them know, because they were written down before: if
        they exist, they are accepted as repeated, and queued again, as whoever stored them may have
        died before that. Requests of ``callers`` whose traces are recorded are in these.

        Raises:
            StoreUnavailableError: every request was refused because a node did not answer.
        """
        if not requests:
            return []
        began = time.time()
        requests = _traced(requests, biz.trace_share, callers)
        # Should this process die before it has queued them, recovery looks there.
        with suppress(errors.StoreUnavailableError):
            pools = {request.pool for request in requests}
            self.queue.announce({queue_key_of(queue_key, pool) for pool in pools})
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
                # Where others waited before these, a worker lives as a rule. Should all have died,
                # this is not to wait for a tick.
                if waiting <= len(entries) or self.liveness.is_due(pool):
                    self.wake_for(pool)
        except errors.StoreUnavailableError as error:
            warn("persisted, to be queued by recovery", error)
            self.store.note_unqueued(queue_key, now)
        if self.tracer.sends:
            traced = [r for r in stored if r.trace is not None]
            self.tracer.send([_span(r, began, callers.get(r.id)) for r in traced])
        return [_receipt(r.id, inserted, repeatable) for r in requests]

    def wake_for(self, pool: str | None) -> None:
        """Start a worker of a pool if none lives; the tick does for a pool unknown here."""
        starter = PoolStarter(self.workers, self.waker) if pool is None else self.starters.get(pool)
        if starter is not None and self.wakes:
            wake_if_idle(starter.workers, starter.waker)


def _traced(
    requests: Sequence[Request], share: float, callers: Mapping[RequestId, Caller]
) -> list[Request]:
    """Return requests with their traces: the caller's, or one of its own for each of the share."""
    chosen = sampled([request.id for request in requests], share)
    if share > 0.0:
        chosen |= callers.keys()
    return [
        replace(request, trace=_trace(request, callers.get(request.id)))
        if request.id in chosen
        else request
        for request in requests
    ]


def _trace(request: Request, caller: Caller | None) -> str:
    if caller is not None:
        return caller.trace
    owner = f"{request.tenant}/{request.biz}"
    return trace_of(owner, request.id, request.queued_at.timestamp())


def submission_part(request_id: RequestId) -> str:
    """Return the part of a trace that a request's submission is.

    A caller's trace may have many requests.
    """
    return f"{request_id} submission"


def _span(request: Request, began: float, caller: Caller | None) -> Span:
    """Return the first span of a request's trace: it is persisted and queued."""
    facts = {"request": str(request.id), "biz": f"{request.tenant}/{request.biz}"}
    return Span(
        trace=request.trace or "",
        part=submission_part(request.id),
        within=None if caller is None else caller.span,
        name="submission",
        begun=began,
        ended=time.time(),
        facts={**facts, "url": request.body.url, "rule": request.body.rule},
    )


def _close(keys: IdempotencyKeys, receipts: dict[int, admission.Receipt]) -> None:
    accepted = {index for index, receipt in receipts.items() if isinstance(receipt, Accepted)}
    try:
        keys.close(accepted)
    except errors.StoreUnavailableError as error:
        warn("a repeated submission will be looked up again", error)


def _receipt(
    request_id: RequestId, inserted: Inserted, repeatable: frozenset[RequestId]
) -> admission.Receipt:
    if request_id in inserted.refused:
        return admission.Refused(inserted.refused[request_id])
    if request_id not in inserted.existing:
        return Accepted(request_id)
    if request_id in repeatable:
        return Accepted(request_id, repeated=True)
    return admission.Refused(errors.ConflictError(f"id {request_id} is taken"))
