"""Dispatch seeds: from the seed to the request that is made of it, and to its end (SPEC.md F4, F5).

A seed is stored as dispatched, with the id of its request, before the request is stored: whoever
finds it later knows which request to look for, and stores that very one if it never was.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias

from crawlfleet.config.documents.biz import Biz, IntakeLimits, Tree
from crawlfleet.config.lookup import queue_key_of, queues_beside
from crawlfleet.crawling.frontier.adding import Frontier
from crawlfleet.crawling.frontier.models import Seed
from crawlfleet.kernel.errors import StoreError, StoreUnavailableError
from crawlfleet.kernel.ids import OWN_FINAL, RequestId, State, is_final
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.tracing import Caller
from crawlfleet.requests.models import Body, Claim, Request, Tracked
from crawlfleet.requests.outcomes import Dead, Outcome, Retry
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Receipt, Refused
from crawlfleet.requests.submission.service import Submissions

#: Seeds that one call dispatches, and rechecks, at most: other queue keys are waiting.
DISPATCHED_A_CALL: Final = 10_000
#: So many may be dispatched at a time where the backlog is not of seeds.
BESIDE: Final = 1_000
RECHECKED_A_CALL: Final = 500
#: A seed whose node does not answer is rechecked so much later.
NODE_AWAY_RETRY: Final = timedelta(seconds=60)


class SeededJobs(Protocol):
    """The jobs that pages are of; a Protocol, as jobs stand above crawling."""

    def cancelled(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, bool]:
        """Return the jobs of these that are cancelled or being cancelled.

        False while the open tasks of the job are still being swept, True once nobody does.
        """
        ...

    def note_known(self, tenant: str, biz: str, known: Mapping[str, Mapping[str, int]]) -> None:
        """Count links that were not followed, by job and by the segment that knew them."""
        ...


#: By seed, its request, and why it failed or nothing.
_Ends: TypeAlias = dict[str, tuple[RequestId, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedDispatcher(Frontier):
    """Makes requests of seeds, and ends the seeds with them.

    ``jobs`` keeps what the pages of a cancelled job have led to from becoming its tasks, and counts
    what they led to in vain; None where there are no jobs. ``beside`` seeds are dispatched at a
    time where the backlog is not of seeds.
    """

    submission: Submissions
    jobs: SeededJobs | None = None
    beside: int = BESIDE

    def dispatch(
        self,
        tree: Tree,
        queue_key: QueueKey,
        biz: Biz,
        now: datetime,
        most: int = DISPATCHED_A_CALL,
    ) -> int:
        """Make requests of due seeds until as many are queued as the biz wants ahead; how many.

        Where others' requests are queued instead, some seeds are dispatched beside them. None are
        while Redis is nearly full, or their tenant has reached a ceiling. A tick and workers may do
        this at once: a seed becomes one request, though more may be queued than wanted then.

        Raises IdsError where no ids can be issued, StoreUnavailableError where a part is away:
        :meth:`recheck` takes up what was not queued.
        """
        submission, now = self.submission, from_ms(to_ms(now))
        limits = IntakeLimits(max_backlog=biz.seeds.ahead)
        queue_key = queue_key_of(queue_key, None)
        beside = queues_beside(tree, queue_key)
        pressure = submission.intake.admit(
            queue_key, 1, limits, tree.stage.redis_memory_ratio, now, beside
        )
        if pressure.memory_full or submission.ceilings.standing_against(tree, queue_key.tenant):
            return 0
        room = min(most, self._room(queue_key, biz, pressure.backlog, now))
        until = now + recheck_interval(biz)
        made = 0
        while room > 0:
            # Ids come from elsewhere and cost something: none are taken to be wasted.
            ready = self.seeds.ready(queue_key, biz, now, min(room, BATCH_LIMIT))
            if not ready:
                break
            ids = submission.ids.take(queue_key, biz.id_kind, ready)
            seeds = self.seeds.dispatch(queue_key, biz, ids, now, until)
            if not seeds:
                break
            made += len(self._send(queue_key, biz, seeds, now))
            room -= len(seeds)
        return made

    def _room(self, queue_key: QueueKey, biz: Biz, backlog: int, now: datetime) -> int:
        """Count the seeds that may be dispatched, a few of them whatever else is queued.

        A large job's own tasks, or clients', may be ahead for hours: links are followed meanwhile.
        """
        left, beside = biz.seeds.ahead - backlog, min(self.beside, biz.seeds.ahead)
        if left >= beside or not self.seeds.ready(queue_key, biz, now, 1):
            return left
        return max(left, beside - self.seeds.handed(queue_key, biz, beside))

    def _send(
        self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed], now: datetime
    ) -> list[Seed]:
        """Store and queue the requests of dispatched seeds; return the seeds whose requests stand.

        A request that is there already is queued again: whoever stored it may have died before
        that. What cannot be stored now is rechecked at once, not when its time is up in an hour.
        """
        requests: dict[str, Request] = {}
        ends: _Ends = {}
        jobs = {seed.spec.job for seed in seeds if seed.spec.job is not None}
        try:
            stopped = self._cancelled(queue_key, jobs)
        except StoreUnavailableError:
            with suppress(StoreUnavailableError):
                self.seeds.extend(queue_key, biz, seeds, now)
            raise
        for seed in seeds:
            request = _request(queue_key, biz, seed)
            if seed.spec.job in stopped:
                request = f"job {seed.spec.job} was cancelled"
            if isinstance(request, Request):
                requests[seed.id] = request
            elif seed.request is not None:
                ends[seed.id] = seed.request, request
        sent = [seed for seed in seeds if seed.id in requests]
        try:
            callers = _callers(sent)
            receipts = _store(
                *(self.submission, queue_key, biz, list(requests.values()), now), callers=callers
            )
        except StoreUnavailableError:
            with suppress(StoreUnavailableError):
                self.seeds.extend(queue_key, biz, sent, now)
            raise
        # A job that is being cancelled sweeps these itself. Of one that has ended meanwhile nobody
        # would.
        late = self._cancelled(queue_key, jobs - stopped.keys())
        for job in (name for name, is_swept in late.items() if is_swept):
            cancel = self.submission.store.cancel_job
            while cancel(queue_key, biz, job, BATCH_LIMIT, "seeding", now):
                pass

        back: list[Seed] = []
        standing: list[Seed] = []
        for seed, receipt in zip(sent, receipts, strict=True):
            if not isinstance(receipt, Refused):
                standing.append(seed)
            elif receipt.error.retryable or seed.request is None:
                back.append(seed)
            else:
                ends[seed.id] = seed.request, f"not stored: {receipt.error}"
        if back:
            self.seeds.extend(queue_key, biz, back, now)
        if ends:
            self.seeds.ended(queue_key, biz, ends, now)
        return standing

    def _cancelled(self, queue_key: QueueKey, jobs: set[str]) -> dict[str, bool]:
        """Return the cancelled ones of the jobs; True where nobody sweeps their tasks any more."""
        if self.jobs is None or not jobs:
            return {}
        return self.jobs.cancelled(queue_key.tenant, queue_key.biz, jobs)

    def recheck(self, queue_key: QueueKey, biz: Biz, now: datetime) -> int:
        """Recheck seeds that have not ended in time; how many.

        The request counts: it has ended, and the seed with it; it is unfinished, and gets more
        time; it was never stored, because whoever dispatched the seed died, and is stored now. One
        that expired was not worked on, and its seed is ready again; so is that of one that may have
        been there and gone, as the biz's TTL has passed, since nobody has reported it finished.
        """
        overdue = self.seeds.overdue(queue_key, biz, now, RECHECKED_A_CALL)
        ends: _Ends = {}
        expired: _Ends = {}
        unfinished: list[Seed] = []
        missing: list[Seed] = []
        unknown: list[Seed] = []
        for seed in overdue:
            if seed.request is None:
                continue
            try:
                tracked = self.submission.store.get(queue_key, biz, seed.request)
            except StoreUnavailableError as error:
                if not unknown:
                    warn("seeds whose node is away are rechecked later", error)
                unknown.append(seed)
                continue
            why = _end(tracked) if tracked else None
            if lost := _expired(tracked, biz, seed, now):
                expired[seed.id] = seed.request, f"{lost}; it is dispatched again"
            elif why is not None:
                ends[seed.id] = seed.request, why
            elif tracked:
                unfinished.append(seed)
            else:
                missing.append(seed)
        if ends:
            self.seeds.ended(queue_key, biz, ends, now)
        if expired:
            self.seeds.requeue(queue_key, biz, expired, now)
        more = now + recheck_interval(biz)
        if missing:
            unfinished += self._send(queue_key, biz, missing, now)
        for seeds, until in ((unfinished, more), (unknown, now + NODE_AWAY_RETRY)):
            if seeds:
                self.seeds.extend(queue_key, biz, seeds, until)
        return len(overdue)

    def end(
        self,
        queue_key: QueueKey,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        now: datetime,
    ) -> int:
        """End the seeds of requests whose outcomes were just stored; how many.

        The outcomes are those that the token still owned. Where it fails, or the caller dies before
        it, the seed is rechecked when its time is up.
        """
        ends: _Ends = {}
        for claim, outcome in outcomes:
            seed = claim.request.body.seed
            if seed is None or isinstance(outcome, Retry):
                continue
            ends[seed] = claim.request.id, why_dead(claim.request.id, outcome)
        if not ends:
            return 0
        try:
            return self.seeds.ended(queue_key, biz, ends, now)
        except StoreUnavailableError as error:
            warn("seeds have ended, which is found out later", error)
            return 0


def why_dead(an_id: RequestId, outcome: Outcome) -> str:
    """Return why a request's seed failed; nothing unless the request is dead."""
    return f"request {an_id} is dead: {outcome.error}" if isinstance(outcome, Dead) else ""


def _store(
    submissions: Submissions,
    queue_key: QueueKey,
    biz: Biz,
    requests: Sequence[Request],
    now: datetime,
    *,
    callers: Mapping[RequestId, Caller],
) -> list[Receipt]:
    """Store the rule versions, store the requests under ids that are known, queue them."""
    for name in {request.body.rule for request in requests}:
        if reader := biz.reader(name):
            submissions.rules.keep_version(queue_key, name, reader)
    ids = frozenset(request.id for request in requests)
    try:
        return submissions.persist_and_enqueue(
            queue_key, biz, requests, now, repeatable=ids, callers=callers
        )
    except StoreError as error:
        if error.retryable:
            raise
        if len(requests) == 1:
            return [Refused(error)]
        # Not one was stored, and of one another try will not help: is it so with each?
        return [
            receipt
            for one in requests
            for receipt in _store(submissions, queue_key, biz, [one], now, callers=callers)
        ]


def _callers(seeds: Sequence[Seed]) -> dict[RequestId, Caller]:
    """Return whose traces the requests of dispatched seeds are in, by request."""
    return {
        seed.request: seed.spec.caller
        for seed in seeds
        if seed.request is not None and seed.spec.caller is not None
    }


def _request(queue_key: QueueKey, biz: Biz, seed: Seed) -> Request | str:
    """Return the request of a dispatched seed, always the same one; or why there is none.

    It is queued as of the dispatch: that time is a part of where it is stored.
    """
    reader = biz.reader(seed.spec.rule)
    if reader is None:
        return f"this biz has no rule called {seed.spec.rule[:64]!r} any more"
    if seed.request is None or seed.handed_at is None:
        return "it was not dispatched"
    return Request(
        id=seed.request,
        tenant=queue_key.tenant,
        biz=queue_key.biz,
        queued_at=seed.handed_at,
        body=Body(
            url=seed.spec.url,
            rule=seed.spec.rule,
            rule_version=reader.version,
            method=seed.spec.method,
            headers=seed.spec.headers,
            body=seed.spec.body,
            meta=seed.spec.meta,
            depth=seed.spec.depth,
            seed=seed.id,
            segment=seed.spec.segment,
        ),
        job=seed.spec.job,
        priority=seed.spec.priority,
        pool=seed.spec.pool,
        user=seed.spec.user,
    )


def _end(tracked: Tracked) -> str | None:
    """Return why the seed failed, "" if it did not, or None where its request has not ended."""
    if not is_final(tracked.state):
        return None
    # In a final state of the biz's own its owner is done with it.
    if tracked.state == State.DONE or tracked.state >= OWN_FINAL:
        return ""
    if tracked.state == State.DEAD:
        return f"request {tracked.request.id} is dead: {tracked.error}"
    return f"request {tracked.request.id} was cancelled"


def _expired(tracked: Tracked | None, biz: Biz, seed: Seed, now: datetime) -> str | None:
    """Return how a request ended without anybody who worked on it, or reported it; None if not."""
    if tracked is not None:
        if tracked.state != State.EXPIRED:
            return None
        return f"request {seed.request} expired: nobody worked on it within the TTL"
    if seed.handed_at and (now - seed.handed_at).total_seconds() < biz.ttl_seconds:
        return None
    return f"request {seed.request} is gone, with the biz's TTL"


def recheck_interval(biz: Biz) -> timedelta:
    """Compute how long a dispatched seed is not rechecked: no longer than its request may live."""
    return timedelta(seconds=min(biz.seeds.lease_seconds, biz.ttl_seconds))
