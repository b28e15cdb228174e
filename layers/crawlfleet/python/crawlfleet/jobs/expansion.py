"""How far ahead of its workers a job is made into tasks, so that others find room (SPEC.md C3).

When a job has its next turn: after trouble, and while it runs (SPEC.md C3, C5).

Expansion (SPEC.md C3): a job becomes tasks, a batch at a time, each of them once.

A batch is written down first, with the ids and the time that its requests will have. Whoever comes
second, or comes back after a crash, however much later, finds it and goes on with the same ids: the
route of a request depends on them, so it is found where it would have been stored. Only a batch at
a time is in memory, whatever the size of the job.

Jobs take turns, tenants among themselves first, and each turn has a bounded number of batches. What
does not go on says why (``trouble``), waits longer and longer, and holds up nobody else.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, IntakeLimits, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.jobs.models import MOST_REFUSALS, Job, JobState, TaskBatch
from crawlfleet.jobs.ports import JobStore
from crawlfleet.jobs.spiders.starts import url_at
from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConfigError,
    CrawlfleetError,
    RejectedError,
    StoreError,
    StoreUnavailableError,
    UnknownBizError,
    UnknownRuleError,
)
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.models import Body, Request
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Receipt, Refused
from crawlfleet.requests.submission.service import Submissions

#: Of ``intake.max_backlog`` a job leaves so much to clients.
CLIENTS_PART: Final = 2
#: Of a biz that works off more than its ``jobs_ahead`` in so long, as much as that is ahead.
AHEAD_SECONDS: Final = 60.0
#: Jobs stop so far before clients are refused for want of memory.
MEMORY_BEFORE: Final = 0.1
#: With fewer tasks of its own open a job goes on while others' fill the window: a backlog of
#: clients' or of another job's is worked off at its own time.
OWN_TASKS: Final = 2 * BATCH_LIMIT


def window(limits: IntakeLimits, processed_per_second: float = 0.0) -> int:
    """So many requests may be ahead in a biz when tasks of a job are made.

    >>> window(IntakeLimits()), window(IntakeLimits(), 2_000.0), window(IntakeLimits(max_backlog=9))
    (50000, 120000, 4)
    """
    ahead = max(limits.jobs_ahead, int(processed_per_second * AHEAD_SECONDS))
    return max(1, min(ahead, limits.max_backlog // CLIENTS_PART))


def memory_ratio(clients_ratio: float) -> float:
    """The part of Redis' memory up to which tasks of jobs are made.

    >>> round(memory_ratio(0.85), 2), round(memory_ratio(0.1), 2)
    (0.75, 0.05)
    """
    return max(clients_ratio - MEMORY_BEFORE, clients_ratio / 2)


def is_short_of_tasks(own_open: int, count: int, limits: IntakeLimits) -> bool:
    """Whether a job with so many tasks open gets ``count`` more, however many others' there are.

    >>> [is_short_of_tasks(own, 1_000, IntakeLimits()) for own in (1_000, 1_001)]
    [True, False]
    """
    return own_open + count <= min(OWN_TASKS, window(limits))


#: After the first trouble in a row, and at most.
SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(minutes=5)
#: A biz without room is looked at again at the latest after this: workers make room all the time.
LONGEST_BACKLOG_BACKOFF: Final = timedelta(seconds=30)
#: Between two looks at the ledger of a job that runs; the longer, the more it has left to do.
SHORTEST_POLL: Final = timedelta(seconds=2)
LONGEST_POLL: Final = timedelta(seconds=30)
#: The same of one that does not move: its tasks wait for a host, for a moment, for a worker.
LONGEST_IDLE_POLL: Final = timedelta(minutes=1)
#: A fleet that is quick deals with so many tasks in a second: before that no job can have ended.
QUICK_PER_SECOND: Final = 1_000


def backoff_after(troubles: int) -> timedelta:
    """How long a job waits that has been in trouble so many times in a row before.

    >>> [after_trouble(count).total_seconds() for count in (0, 1, 5, 1_000)]
    [2.0, 4.0, 64.0, 300.0]
    """
    doubled: int = 2 ** min(max(troubles, 0), 16)
    return min(LONGEST, SHORTEST * doubled)


def backlog_backoff(retry_after_seconds: float) -> timedelta:
    """How long it waits for room in its biz.

    >>> when_crowded(300.0).total_seconds()
    30.0
    """
    bounded = min(max(retry_after_seconds, 1.0), LONGEST_BACKLOG_BACKOFF.total_seconds())
    return timedelta(seconds=bounded)


def poll_interval(open_tasks: int) -> timedelta:
    """How long until the ledger of a job is looked at again that has so many tasks open.

    >>> [until_look(count).total_seconds() for count in (1, 10_000, 10**8)]
    [2.0, 10.0, 30.0]
    """
    return min(LONGEST_POLL, max(SHORTEST_POLL, timedelta(seconds=open_tasks / QUICK_PER_SECOND)))


def next_poll_interval(open_tasks: int, before: int | None, waited: timedelta) -> timedelta:
    """The same where at the last look, ``waited`` ago, so many were open ``before``.

    As long as nothing moves the wait doubles: thousands of jobs whose tasks wait for hours are not
    to keep those from being looked at that end.

    >>> wait = timedelta(seconds=2)
    >>> [until_look_again(1, before, wait).total_seconds() for before in (None, 2, 1)]
    [2.0, 2.0, 4.0]
    """
    wait = poll_interval(open_tasks)
    if before != open_tasks:
        return wait
    return max(wait, min(LONGEST_IDLE_POLL, 2 * waited))


def shares(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many of ``limit`` are whose, where one after another takes one of what it has."""
    taken: Counter[str] = Counter()
    while limit > 0:
        takers = [name for name, count in counts.items() if taken[name] < count][:limit]
        if not takers:
            break
        taken.update(takers)
        limit -= len(takers)
    return taken


#: Jobs that are looked up at once, and batches that each of them makes before others have a turn.
JOBS_A_ROUND: Final = 20
BATCHES_A_TURN: Final = 5
#: What is quoted of a URL that is refused.
_QUOTED: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandingPorts:
    """The world, as making tasks needs it; a batch has at most ``batch`` of them."""

    jobs: JobStore
    ledgers: MongoLedgers
    submission: Submissions
    batch: int = BATCH_LIMIT


class _AheadError(BacklogFullError):
    """There is work ahead for a while: as it should be, and no trouble."""


@dataclass(slots=True)
class Expanded:
    """What came of it: batches closed, and tasks of them that are stored, by this or earlier."""

    batches: int = 0
    tasks: int = 0


def expand(
    ports: ExpandingPorts,
    tree: Tree,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> Expanded:
    """Make tasks of whatever job is due until there is none, or no time left.

    Any number may do this at once, and any of them may die: a task is made once.

    Raises:
        StoreUnavailableError: the home node, which keeps the jobs, does not answer.
    """
    done = Expanded()
    while time_left() > 0:
        due = ports.jobs.expandable(JOBS_A_ROUND, clock())
        for job in due:
            if time_left() <= 0:
                break
            _acquire_lock(ports, tree, job, clock, time_left, done)
        if not due:
            break
    return done


def _acquire_lock(
    ports: ExpandingPorts,
    tree: Tree,
    job: Job,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    done: Expanded,
) -> None:
    """A job's turn; whatever keeps it from going on is kept with it, for people."""
    trouble, wait = None, timedelta()
    try:
        _make_some(ports, tree, job, clock, time_left, done)
    except _AheadError as error:
        wait = backlog_backoff(error.retry_after_seconds)
    except BacklogFullError as error:
        trouble, wait = str(error), backlog_backoff(error.retry_after_seconds)
    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
        trouble, wait = _trouble(error), backoff_after(job.troubles)
        if not isinstance(error, RejectedError):
            name = "/".join(job.key)
            warn(f"job {name} makes no tasks for now", error)
    now = clock()
    ports.jobs.look(job, now, trouble, now + wait)


def _trouble(error: Exception) -> str:
    """What is said of it to the job's owner: nothing of hosts, and of other tenants."""
    if isinstance(error, UnknownBizError | UnknownRuleError):
        return str(error)
    if isinstance(error, ConfigError):
        return "the biz has no valid document"
    if isinstance(error, StoreUnavailableError):
        return "a part that stores its tasks does not answer; it is tried again"
    if isinstance(error, CrawlfleetError):
        return f"its tasks cannot be made now ({type(error).__name__}); it is tried again"
    return "its tasks cannot be made, for a reason that nobody foresaw; it is tried again"


def _make_some(
    ports: ExpandingPorts,
    tree: Tree,
    brief: Job,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    done: Expanded,
) -> None:
    job = ports.jobs.get(*brief.key)
    try:
        queue_key, biz = biz_of(tree, brief.tenant, brief.biz)
    except UnknownBizError:
        if job is not None and job.batch is not None and job.state is JobState.CANCELLING:
            # Nobody can store these any more, and nobody wants them.
            ports.jobs.close_batch(job, job.batch, clock())
            return
        raise
    for _ in range(BATCHES_A_TURN):
        if job is None or time_left() <= 0:
            break
        if job.batch is None:
            if job.state is not JobState.EXPANDING:
                break
            job = _open(ports, tree, queue_key, biz, job, clock())
        elif job.state is JobState.EXPANDING:
            _room_for(ports, tree, queue_key, biz, job, len(job.batch.ids), clock())
        if job is not None and job.batch is not None:
            tasks, refused, reasons = _store(
                ports.submission, queue_key, biz, job, job.batch, clock()
            )
            job = ports.jobs.close_batch(job, job.batch, clock(), refused, reasons)
            done.batches += 1
            done.tasks += tasks


def _open(
    ports: ExpandingPorts, tree: Tree, queue_key: QueueKey, biz: Biz, job: Job, now: datetime
) -> Job | None:
    """Write the next batch down; the job as it stands, perhaps with a batch of another's."""
    reader = biz.reader(job.rule)
    if reader is None:
        raise _no_rule(job)
    # A biz that takes little at once gets little at once.
    count = min(ports.batch, job.size - job.expanded, window(biz.intake))
    _room_for(ports, tree, queue_key, biz, job, count, now)
    if reader.version == job.rule_version:
        ports.submission.rules.freeze(queue_key, job.rule, reader)
    batch = TaskBatch(
        first=job.expanded,
        ids=tuple(ports.submission.ids.take(queue_key, biz.id_kind, count)),
        queued_at=from_ms(to_ms(now)),
    )
    return ports.jobs.open_batch(job, batch)


def _room_for(
    ports: ExpandingPorts,
    tree: Tree,
    queue_key: QueueKey,
    biz: Biz,
    job: Job,
    count: int,
    now: datetime,
) -> None:
    """See that a job leaves room to clients, to what its pages lead to, and to other tenants.

    Raises:
        _AheadError: there is work ahead for a while.
        BacklogFullError: others', or all tenants' together, leave none.
    """
    # The rate is the clients': a job is one call, whatever it becomes.
    limits = replace(biz.intake, per_second=None)
    ratio = memory_ratio(tree.stage.redis_memory_ratio)
    tree = replace(tree, stage=replace(tree.stage, redis_memory_ratio=ratio))

    def ask(most: int) -> None:
        fitting = max(1, min(count, most))
        ports.submission.make_room(tree, queue_key, fitting, replace(limits, max_backlog=most), now)

    usual = window(limits)
    try:
        ask(usual)
    except BacklogFullError as full:
        # By the clients' own bound: what it says is then of the clients' making, or of all memory.
        ask(limits.max_backlog)
        _, processed = ports.submission.queue.rates(queue_key, now)
        if (wide := window(limits, processed.per_60s)) > usual:
            with suppress(BacklogFullError):
                ask(wide)
                return
        own = ports.ledgers.totals(queue_key, biz, now, job.name).open
        if not is_short_of_tasks(own, count, limits):
            raise _AheadError(str(full), retry_after_seconds=full.retry_after_seconds) from None


def _store(
    ports: Submissions, queue_key: QueueKey, biz: Biz, job: Job, batch: TaskBatch, now: datetime
) -> tuple[int, int, list[str]]:
    """Store a batch; how many tasks are, how many are not to be, and why some of those are not.

    Raises:
        CrawlfleetError: some are not stored and shall be: the batch stays open.
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
        # What is not there may have been, and have gone with the TTL: none is made twice.
        found = [one for one in requests if ports.store.get(queue_key, biz, one.id) is not None]
        known = {one.id for one in found}
        why = "its batch stood open for longer than the biz's ttl_seconds"
        reasons += [_reason(one, why) for one in requests if one.id not in known]
        requests = found
    for request, receipt in zip(
        requests, _persist(ports, queue_key, biz, requests, now), strict=True
    ):
        if isinstance(receipt, Refused):
            if receipt.error.retryable or not isinstance(receipt.error, StoreError):
                raise receipt.error
            reasons.append(_reason(request, "cannot be stored"))
    return len(batch.ids) - len(reasons), len(reasons), reasons[:MOST_REFUSALS]


def _persist(
    ports: Submissions,
    queue_key: QueueKey,
    biz: Biz,
    requests: Sequence[Request],
    now: datetime,
) -> list[Receipt]:
    ids = frozenset(request.id for request in requests)
    try:
        return ports.persist_and_enqueue(queue_key, biz, requests, now, repeatable=ids)
    except StoreError as error:
        if error.retryable:
            raise
        if len(requests) == 1:
            return [Refused(error)]
        # Of one another try will not help, and not one was stored: which is it?
        half = len(requests) // 2
        parts = (requests[:half], requests[half:])
        return [receipt for part in parts for receipt in _persist(ports, queue_key, biz, part, now)]


def _request(job: Job, batch: TaskBatch, index: int, an_id: RequestId) -> Request:
    """Task ``index`` of the job, ever the same one."""
    return Request(
        id=an_id,
        tenant=job.tenant,
        biz=job.biz,
        queued_at=batch.queued_at,
        body=Body(url=url_at(job.start, index), rule=job.rule, rule_version=job.rule_version),
        job=job.name,
        priority=job.priority,
        pool=job.pool,
    )


def _reason(request: Request, fault: str) -> str:
    return f"{request.body.url[:_QUOTED]}: {fault}"


def _no_rule(job: Job) -> UnknownRuleError:
    return UnknownRuleError(f"this biz has no rule called {job.rule[:64]!r} any more")
