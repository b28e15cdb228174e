"""Jobs as clients see them: started, listed, looked at, cancelled, their failed tasks retried."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.jobs.cancellation import JobKey
from crawlfleet.jobs.models import RETRIABLE, Job, JobOrder, JobState
from crawlfleet.jobs.ports import JobReopening, JobStore
from crawlfleet.jobs.starting import StartingPorts, is_as_ordered, key_name, start_job, wake_for
from crawlfleet.kernel import paging as job_cursor
from crawlfleet.kernel.errors import ConflictError, KeyReusedError, NotFoundError
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.dead_letters.models import DeadLetterFilter
from crawlfleet.requests.dead_letters.service import DeadLetters
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.submission.service import Waker

#: A call that retries goes on for so long; then it says that there is more.
RETRY_SECONDS: Final = 10.0
#: Dead letters replayed between two looks at the time.
RETRIES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPorts:
    """The world, as starting and looking need it.

    ``retries`` and ``retry_seconds`` bound what is retried between two looks at the time, and by a
    call.
    """

    starting: StartingPorts
    ledgers: MongoLedgers
    workers: RedisWorkers
    waker: Waker
    retries: int = RETRIES
    retry_seconds: float = RETRY_SECONDS

    @property
    def jobs(self) -> JobStore:
        """The jobs themselves."""
        return self.starting.jobs


@dataclass(frozen=True, slots=True)
class Started:
    """A job, and whether this call has made it."""

    job: Job
    is_new: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A job, and where its tasks are."""

    job: Job
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Retried:
    """So many tasks are worked on again; ``skipped`` are past their time to live.

    ``more`` says that the time was up before all were; another call goes on.
    """

    count: int
    skipped: int
    more: bool
    job: Job


def start(ports: JobPorts, tree: Tree, order: JobOrder, key: str | None, now: datetime) -> Started:
    """Start a job, or find the one that the same order has started before.

    Without a name an idempotency key gives one.

    Raises:
        ConflictError: the name stands for another job, or for requests that no job has made.
        KeyReusedError: the key stands for another order.
        QuotaExceededError: the biz has as many open jobs as it may.
        UnknownBizError, NotFoundError, InvalidRequestError: as of jobs.starting.
    """
    queue_key, biz = biz_of(tree, order.tenant, order.biz)
    named = order.name is not None
    if not named and key is not None:
        order = replace(order, name=key_name(key))
    if order.name is not None:
        standing = ports.jobs.get(order.tenant, order.biz, order.name)
        if standing is not None:
            return Started(_as_ordered(standing, order, named=named), is_new=False)
        if not _is_unused(ports, queue_key, biz, order.name, now):
            # The tasks may be those of a job that another call has started meanwhile.
            standing = ports.jobs.get(order.tenant, order.biz, order.name)
            if standing is None:
                message = f"requests were submitted under the job name {order.name!r}"
                raise ConflictError(f"{message}: choose another name")
            return Started(_as_ordered(standing, order, named=named), is_new=False)
    job = start_job(ports.starting, tree, order, now)
    wake_for(job, ports.workers, ports.waker)
    # Another call may have been quicker, with another order.
    return Started(_as_ordered(job, order, named=named), is_new=True)


def get_job(ports: JobPorts, tree: Tree, key: JobKey, now: datetime) -> Seen:
    """One job and its ledger.

    Raises:
        NotFoundError: there is no such job.
    """
    queue_key, biz = biz_of(tree, key[0], key[1])
    job = _known(ports.jobs, key)
    return Seen(job, ports.ledgers.totals(queue_key, biz, now, job.name))


def list_jobs(
    ports: JobPorts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    *,
    states: Sequence[JobState],
    spider: str | None,
    schedule: str | None,
    cursor: str | None,
    limit: int,
) -> Listing[Job]:
    """Jobs, the newest first; at the end the cursor is None.

    Those alone that were started as such: a name that clients merely submit under is no job here.
    """
    biz_of(tree, tenant, biz_name)
    found = ports.jobs.of_biz(
        tenant,
        biz_name,
        states=states,
        spider=spider,
        schedule=schedule,
        after=None if cursor is None else job_cursor.decode_job(cursor),
        limit=limit + 1,
    )
    if len(found) <= limit:
        return Listing(found, None, more=False)
    last = found[limit - 1]
    return Listing(found[:limit], job_cursor.encode_job(last.created_at, last.name), more=True)


def retry_failed(
    ports: JobPorts,
    dead_letters: DeadLetters,
    reopening: JobReopening,
    tree: Tree,
    key: JobKey,
    *,
    current_rule: bool,
    by: str,
    now: datetime,
) -> Retried:
    """Have the dead letters of a job worked on again (SPEC.md D4); a job that was done runs again.

    Whoever repeats it after a failure brings both to their end: letters are replayed first, and the
    job runs as long as its ledger has anything open. Its schedule's overlap policy is about fires:
    it runs beside a later job of that schedule, and fires then wait for, or skip, or replace both.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: it was cancelled, or is being cancelled, or was never begun.
        UnknownRuleError: they are to be read with the present rule, and there is none.
    """
    tenant, biz_name, name = key
    queue_key, biz = biz_of(tree, tenant, biz_name)
    # Whoever is about to end it has read a ledger that will not be true: it ends no more by that.
    job = _there(reopening.begin_retry(tenant, biz_name, name), name)
    if job.state not in RETRIABLE:
        raise ConflictError(f"the job is {job.state.value}: nothing of it is retried")
    meant, began = DeadLetterFilter(job=name), time.monotonic()
    count = skipped = 0
    cursor: str | None = None
    while True:
        done = dead_letters.replay(
            tree,
            tenant,
            biz_name,
            meant,
            current_rule=current_rule,
            by=by,
            limit=ports.retries,
            now=now,
            cursor=cursor,
        )
        count, skipped, cursor = count + done.count, skipped + done.skipped, done.cursor
        if cursor is None or time.monotonic() - began > ports.retry_seconds:
            break
    # It may have ended before the letters were replayed; what was, may have ended again since.
    if ports.ledgers.totals(queue_key, biz, now, name).open or count:
        job = reopening.reopen(tenant, biz_name, name, now) or job
    return Retried(count, skipped, cursor is not None, job)


def _known(jobs: JobStore, key: JobKey) -> Job:
    return _there(jobs.get(*key), key[2])


def _there(job: Job | None, name: str) -> Job:
    if job is None:
        raise NotFoundError(f"there is no job {name[:64]!r}")
    return job


def _as_ordered(job: Job, order: JobOrder, *, named: bool) -> Job:
    if is_as_ordered(job, order):
        return job
    if named:
        raise ConflictError(f"the name {job.name!r} stands for another job: choose another name")
    raise KeyReusedError("the idempotency key stands for another job")


def _is_unused(ports: JobPorts, queue_key: QueueKey, biz: Biz, name: str, now: datetime) -> bool:
    """Whether nobody has submitted under a name: its ledger would be two things' in one."""
    return not ports.ledgers.totals(queue_key, biz, now, name).submitted
