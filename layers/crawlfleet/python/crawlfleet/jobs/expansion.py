"""Expand jobs into tasks (SPEC.md C3): a batch at a time, each task once.

A batch is stored first, with the ids and the time that its requests will have. Whoever comes
second, or goes on after a crash, however much later, finds it and uses the same ids: the route of a
request depends on them. Only a batch at a time is in memory, whatever the size of the job.

Next is a job of the tenant whose jobs took least time by its share; each has a bounded number of
batches a turn. A job that cannot go on keeps its ``trouble``, backs off, and delays no other. Jobs
stay so far behind the limits of their biz that clients find room.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, IntakeLimits, Tree
from crawlfleet.config.lookup import biz_of, share_of
from crawlfleet.crawling.frontier.segments import segment_of_job
from crawlfleet.jobs.models import MOST_REFUSALS, Job, JobState, TaskBatch, trouble_of
from crawlfleet.jobs.spiders.models import url_at
from crawlfleet.kernel import errors
from crawlfleet.kernel.fairness import TENANT, by_shares
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime, TimeLeft, from_ms, to_ms
from crawlfleet.kernel.tracing import Caller
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.models import Body, Request
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Receipt, Refused
from crawlfleet.requests.submission.service import Submissions

if TYPE_CHECKING:
    from crawlfleet.jobs.mongo.store import MongoJobs

#: Of ``intake.max_backlog`` a job leaves so much to clients.
CLIENTS_PART: Final = 2
#: A biz that processes more than its ``jobs_ahead`` in so long has that many tasks ahead.
AHEAD_SECONDS: Final = 60.0
#: Jobs stop so far before clients are refused for want of memory.
MEMORY_BEFORE: Final = 0.1
#: With fewer open tasks of its own a job goes on while those of clients or other jobs fill the
#: window.
OWN_TASKS: Final = 2 * BATCH_LIMIT


def window(limits: IntakeLimits, processed_per_second: float = 0.0) -> int:
    """Compute how many requests may be open in a biz when tasks of a job are made.

    >>> window(IntakeLimits()), window(IntakeLimits(), 2_000.0), window(IntakeLimits(max_backlog=9))
    (50000, 120000, 4)
    """
    ahead = max(limits.jobs_ahead, int(processed_per_second * AHEAD_SECONDS))
    return max(1, min(ahead, limits.max_backlog // CLIENTS_PART))


def memory_ratio(clients_ratio: float) -> float:
    """Compute the part of Redis' memory up to which tasks of jobs are made.

    >>> round(memory_ratio(0.85), 2), round(memory_ratio(0.1), 2)
    (0.75, 0.05)
    """
    return max(clients_ratio - MEMORY_BEFORE, clients_ratio / 2)


def is_short_of_tasks(own_open: int, count: int, limits: IntakeLimits) -> bool:
    """Tell whether a job with ``own_open`` tasks gets ``count`` more, whatever others have.

    >>> [is_short_of_tasks(own, 1_000, IntakeLimits()) for own in (1_000, 1_001)]
    [True, False]
    """
    return own_open + count <= min(OWN_TASKS, window(limits))


#: The first and the longest back-off of a job in trouble.
SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(minutes=5)
#: The longest back-off of a job whose biz has no room: workers make room all the time.
LONGEST_BACKLOG_BACKOFF: Final = timedelta(seconds=30)
#: Between two polls of a running job's ledger: the more tasks are open, the longer.
SHORTEST_POLL: Final = timedelta(seconds=2)
LONGEST_POLL: Final = timedelta(seconds=30)
#: The same of a stalled job, whose tasks wait for a host, a moment or a worker.
LONGEST_IDLE_POLL: Final = timedelta(minutes=1)
#: Tasks of one job that a quick fleet ends in a second: before that no poll is worth it.
QUICK_PER_SECOND: Final = 1_000


def backoff_after(troubles: int) -> timedelta:
    """Compute the back-off of a job that was in trouble so many times in a row before.

    >>> [backoff_after(count).total_seconds() for count in (0, 1, 5, 1_000)]
    [2.0, 4.0, 64.0, 300.0]
    """
    doubled: int = 2 ** min(max(troubles, 0), 16)
    return min(LONGEST, SHORTEST * doubled)


def backlog_backoff(retry_after_seconds: float) -> timedelta:
    """Compute the back-off of a job whose biz has no room.

    >>> backlog_backoff(300.0).total_seconds()
    30.0
    """
    bounded = min(max(retry_after_seconds, 1.0), LONGEST_BACKLOG_BACKOFF.total_seconds())
    return timedelta(seconds=bounded)


def poll_interval(open_tasks: int) -> timedelta:
    """Compute how long until the ledger of a job with so many open tasks is polled again.

    >>> [poll_interval(count).total_seconds() for count in (1, 10_000, 10**8)]
    [2.0, 10.0, 30.0]
    """
    return min(LONGEST_POLL, max(SHORTEST_POLL, timedelta(seconds=open_tasks / QUICK_PER_SECOND)))


def next_poll_interval(open_tasks: int, before: int | None, waited: timedelta) -> timedelta:
    """Compute the same, where so many were open ``before``, at the poll ``waited`` ago.

    The interval of a stalled job doubles: thousands whose tasks wait for hours must not delay the
    polls of those that end.

    >>> wait = timedelta(seconds=2)
    >>> [next_poll_interval(1, before, wait).total_seconds() for before in (None, 2, 1)]
    [2.0, 2.0, 4.0]
    """
    wait = poll_interval(open_tasks)
    if before != open_tasks:
        return wait
    return max(wait, min(LONGEST_IDLE_POLL, 2 * waited))


#: Jobs that are read at once, and batches that each of them makes before the others.
JOBS_A_ROUND: Final = 20
#: After so long others may be due, whose tenants took less.
ROUND_SECONDS: Final = 2.0
BATCHES_A_TURN: Final = 5
#: What is quoted of a URL that is refused.
_QUOTED: Final = 200


#: Called with a tenant, and seconds that its work took of whoever does it.
Charge: TypeAlias = Callable[[str, float], None]


def free_of_charge(_tenant: str, _seconds: float) -> None:
    """Charge nobody: who does this has no other work of tenants."""


class _AheadError(errors.BacklogFullError):
    """The biz has enough work ahead: as it should be, and no trouble."""


@dataclass(slots=True)
class Expanded:
    """Counts the batches closed, and their tasks that are stored, by this call or earlier."""

    batches: int = 0
    tasks: int = 0


def _trouble(error: Exception) -> str:
    away = "a part that stores its tasks does not answer; it is tried again"
    why = "its tasks cannot be made, for a reason that nobody foresaw; it is tried again"
    if isinstance(error, errors.CrawlfleetError):
        why = f"its tasks cannot be made now ({type(error).__name__}); it is tried again"
    return trouble_of(error, away, why)


def _request(job: Job, batch: TaskBatch, index: int, an_id: RequestId) -> Request:
    """Make task ``index`` of a job, the same one each time."""
    return Request(
        id=an_id,
        tenant=job.tenant,
        biz=job.biz,
        queued_at=batch.queued_at,
        body=Body(
            url=url_at(job.start, index),
            rule=job.rule,
            rule_version=job.rule_version,
            segment=segment_of_job(job.segment, job.name, job.created_at),
        ),
        job=job.name,
        priority=job.priority,
        pool=job.pool,
        user=job.user,
    )


def _reason(request: Request, fault: str) -> str:
    return f"{request.body.url[:_QUOTED]}: {fault}"


def _no_rule(job: Job) -> errors.UnknownRuleError:
    return errors.UnknownRuleError(f"this biz has no rule called {job.rule[:64]!r} any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExpansion:
    """The service that makes tasks of jobs; a batch has at most ``batch`` of them."""

    jobs: "MongoJobs"
    ledgers: MongoLedgers
    submission: Submissions
    batch: int = BATCH_LIMIT
    steady: SteadyTime = STEADY

    def expand(
        self, tree: Tree, clock: Clock, time_left: TimeLeft, charge: Charge = free_of_charge
    ) -> Expanded:
        """Make tasks of the due jobs until there is none, or no time left.

        Any number may do this at once, and any of them may die: a task is made once. ``charge`` is
        called with a tenant and the seconds that a turn of its job took. Raises
        StoreUnavailableError (the home node, which keeps the jobs, does not answer).
        """
        done, taken, now = Expanded(), dict[str, float](), self.steady.now
        while time_left() > 0:
            due = self.jobs.expandable(JOBS_A_ROUND, clock())
            ends = now() + ROUND_SECONDS
            for job in by_shares(due, TENANT, partial(share_of, tree), now, taken):
                if time_left() <= 0 or now() > ends:
                    break
                began = now()
                try:
                    self._expand_some(tree, job, clock, time_left, done)
                finally:
                    charge(job.tenant, now() - began)
            if not due:
                break
        return done

    def _expand_some(
        self, tree: Tree, job: Job, clock: Clock, time_left: TimeLeft, done: Expanded
    ) -> None:
        """Make some tasks of a job, or store what keeps it from going on."""
        trouble, wait = None, timedelta()
        try:
            self._make_batches(tree, job, clock, time_left, done)
        except _AheadError as error:
            wait = backlog_backoff(error.retry_after_seconds)
        except errors.BacklogFullError as error:
            trouble, wait = str(error), backlog_backoff(error.retry_after_seconds)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            trouble, wait = _trouble(error), backoff_after(job.troubles)
            if not isinstance(error, errors.RejectedError):
                name = "/".join(job.key)
                warn(f"job {name} makes no tasks for now", error)
        now = clock()
        self.jobs.reschedule(job, now, trouble, now + wait)

    def _make_batches(
        self, tree: Tree, brief: Job, clock: Clock, time_left: TimeLeft, done: Expanded
    ) -> None:
        job = self.jobs.get(*brief.key)
        try:
            queue_key, biz = biz_of(tree, brief.tenant, brief.biz)
        except errors.UnknownBizError:
            if job is not None and job.batch is not None and job.state is JobState.CANCELLING:
                # Nobody can store these tasks any more.
                self.jobs.close_batch(job, job.batch, clock())
                return
            raise
        for _ in range(BATCHES_A_TURN):
            if job is None or time_left() <= 0:
                break
            if job.batch is None:
                if job.state is not JobState.EXPANDING:
                    break
                job = self._open(tree, queue_key, biz, job, clock())
            elif job.state is JobState.EXPANDING:
                self._make_room(tree, queue_key, biz, job, len(job.batch.ids), clock())
            if job is not None and job.batch is not None:
                tasks, refused, reasons = self._store(queue_key, biz, job, job.batch, clock())
                job = self.jobs.close_batch(job, job.batch, clock(), refused, reasons)
                done.batches += 1
                done.tasks += tasks

    def _open(
        self, tree: Tree, queue_key: QueueKey, biz: Biz, job: Job, now: datetime
    ) -> Job | None:
        """Open the next batch; return the job as it stands, maybe with the batch of another."""
        reader = biz.reader(job.rule)
        if reader is None:
            raise _no_rule(job)
        # A biz that takes little at once gets little at once.
        count = min(self.batch, job.size - job.expanded, window(biz.intake))
        self._make_room(tree, queue_key, biz, job, count, now)
        if reader.version == job.rule_version:
            self.submission.rules.keep_version(queue_key, job.rule, reader)
        ids = tuple(self.submission.ids.take(queue_key, biz.id_kind, count))
        batch = TaskBatch(first=job.expanded, ids=ids, queued_at=from_ms(to_ms(now)))
        return self.jobs.open_batch(job, batch)

    def _make_room(
        self, tree: Tree, queue_key: QueueKey, biz: Biz, job: Job, count: int, now: datetime
    ) -> None:
        """Check that a job leaves room to clients, to its pages' links, and to other tenants.

        Raises:
            _AheadError: the biz has enough work ahead.
            BacklogFullError: the requests of clients, or of all tenants together, leave no room.
        """
        # The rate is the clients': a job is one call, whatever it becomes.
        limits = replace(biz.intake, per_second=None)
        ratio = memory_ratio(tree.stage.redis_memory_ratio)
        tree = replace(tree, stage=replace(tree.stage, redis_memory_ratio=ratio))

        def ask(most: int) -> None:
            fitting = max(1, min(count, most))
            self.submission.make_room(
                tree, queue_key, fitting, replace(limits, max_backlog=most), now
            )

        usual = window(limits)
        try:
            ask(usual)
        except errors.BacklogFullError as full:
            # By the clients' own bound: where that fails, they or all tenants have filled it.
            ask(limits.max_backlog)
            _, processed = self.submission.queue.rates(queue_key, now)
            if (wide := window(limits, processed.per_60s)) > usual:
                with suppress(errors.BacklogFullError):
                    ask(wide)
                    return
            own = self.ledgers.totals(queue_key, biz, now, job.name).open
            if not is_short_of_tasks(own, count, limits):
                raise _AheadError(str(full), retry_after_seconds=full.retry_after_seconds) from None

    def _store(
        self, queue_key: QueueKey, biz: Biz, job: Job, batch: TaskBatch, now: datetime
    ) -> tuple[int, int, list[str]]:
        """Store a batch; count the tasks stored and refused, with reasons of some of the latter.

        Raises CrawlfleetError (some are still to be stored: the batch stays open).
        """
        if biz.reader(job.rule) is None and job.state is JobState.EXPANDING:
            raise _no_rule(job)
        requests, reasons = [], []
        for index, an_id in enumerate(batch.ids, batch.first):
            request = _request(job, batch, index, an_id)
            fault = problem_with(request.body.url)
            if fault is None:
                requests.append(request)
            else:
                reasons.append(_reason(request, fault))
        if (now - batch.queued_at).total_seconds() >= biz.ttl_seconds:
            # A request that is not found may have expired by its TTL: none is made twice.
            get = self.submission.store.get
            found = [one for one in requests if get(queue_key, biz, one.id) is not None]
            known = {one.id for one in found}
            why = "its batch stood open for longer than the biz's ttl_seconds"
            reasons += [_reason(one, why) for one in requests if one.id not in known]
            requests = found
        for request, receipt in zip(
            requests, self._persist(queue_key, biz, job.caller, requests, now), strict=True
        ):
            if isinstance(receipt, Refused):
                if receipt.error.retryable or not isinstance(receipt.error, errors.StoreError):
                    raise receipt.error
                reasons.append(_reason(request, "cannot be stored"))
        return len(batch.ids) - len(reasons), len(reasons), reasons[:MOST_REFUSALS]

    def _persist(
        self,
        queue_key: QueueKey,
        biz: Biz,
        caller: Caller | None,
        requests: Sequence[Request],
        now: datetime,
    ) -> list[Receipt]:
        ids = frozenset(request.id for request in requests)
        callers = {} if caller is None else dict.fromkeys(ids, caller)
        try:
            return self.submission.persist_and_enqueue(
                queue_key, biz, requests, now, repeatable=ids, callers=callers
            )
        except errors.StoreError as error:
            if error.retryable:
                raise
            if len(requests) == 1:
                return [Refused(error)]
            # Repeating will not help, and not one was stored: find the one at fault.
            half = len(requests) // 2
            parts = (requests[:half], requests[half:])
            return [
                receipt
                for part in parts
                for receipt in self._persist(queue_key, biz, caller, part, now)
            ]
