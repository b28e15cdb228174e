"""Start jobs, and list, get and retry them for clients (SPEC.md C2, D4).

A job is one under its name, however often it is asked for: by a fire of a schedule, by a retried
call. To start one is to find what it is a run of, check it, store its rule version, and keep it.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.jobs.bidding.auction import list_for_bids
from crawlfleet.jobs.models import ENDED, RETRIABLE, Job, JobKey, JobOrder, JobState
from crawlfleet.jobs.spiders.models import KeptSpider, LinkNeeds, Start, bind, problems_with, size
from crawlfleet.jobs.spiders.service import refused
from crawlfleet.kernel import paging
from crawlfleet.kernel.errors import (
    ConflictError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    Problem,
    QuotaExceededError,
    StoreUnavailableError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, MAIN_POOL
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.submission.admission import job_name
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.requests.submission.service import Waker, wake_if_idle

if TYPE_CHECKING:
    from crawlfleet.jobs.bidding.redis import RedisBoard
    from crawlfleet.jobs.mongo.lists import MongoJobReopening
    from crawlfleet.jobs.mongo.store import MongoJobs
    from crawlfleet.jobs.spiders.mongo import MongoSpiders
    from crawlfleet.requests.dead_letters.service import DeadLetters

#: A call that retries goes on for so long; then it says that there is more.
RETRY_SECONDS: Final = 10.0
#: Dead letters replayed between two checks of the time.
RETRIES: Final = 500
_OPEN: Final = tuple(state for state in JobState if state not in ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapLimit:
    """The open jobs of a schedule, beside which, or ``instead`` of which, another is started.

    So many were ``open`` a moment ago; ``most`` may be, the new one among them.
    """

    open: int
    most: int
    instead: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """A job, and whether this call has started it."""

    job: Job
    is_new: bool


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A job and its ledger."""

    job: Job
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Retried:
    """Counts the tasks that are retried; ``skipped`` are past their time to live.

    ``more`` says that the time was up before all were; another call goes on.
    """

    count: int
    skipped: int
    more: bool
    job: Job


def key_name(key: str) -> str:
    """Derive the name of a job from the idempotency key it is started under.

    >>> key_name("order-1")
    'key.593377485d555df8c051'
    """
    return f"key.{blake2b(key.encode(), digest_size=10).hexdigest()}"


def is_as_ordered(job: Job, order: JobOrder) -> bool:
    """Tell whether a job was made by the same order; what the order leaves open may be anything."""
    if (job.by, job.spider, job.values) != (order.by, order.spider, order.values):
        return False
    if (job.schedule, job.fire_at) != (order.schedule, order.fire_at):
        return False
    if order.version not in {None, job.spider_version} or order.rule not in {None, job.rule}:
        return False
    if order.start is not None and bind(order.start, order.values)[0] != job.start:
        return False
    if order.pool not in {None, job.pool or MAIN_POOL}:
        return False
    return order.priority in {None, job.priority}


def wake_for(job: Job, workers: RedisWorkers, waker: Waker) -> None:
    """Start a worker for a new job where none lives; the next tick does it otherwise."""
    if job.state not in {JobState.EXPANDING, JobState.PLACING}:
        return
    try:
        wake_if_idle(workers, waker)
    except StoreUnavailableError as error:
        warn("a job is kept, and begun by the next tick", error)


def _check_room(jobs: "MongoJobs", biz: Biz, order: JobOrder, spare: int) -> None:
    if jobs.count_open(order.tenant, order.biz) >= biz.open_jobs + spare:
        raise QuotaExceededError(
            f"the biz has {biz.open_jobs:,} open jobs, as many as it may: wait until some end,"
            " or cancel some"
        )


def _spider(spiders: "MongoSpiders", order: JobOrder) -> KeptSpider | None:
    if order.spider is None:
        return None
    kept = spiders.get(order.tenant, order.biz, order.spider, order.version)
    if kept is None:
        which = "" if order.version is None else f", version {order.version}"
        raise NotFoundError(f"this biz keeps no spider called {order.spider[:64]!r}{which}")
    return kept


def _what(order: JobOrder, kept: KeptSpider | None, biz: Biz) -> tuple[str, Start, list[Problem]]:
    """Find the rule and the start of an order, and what is wrong with them."""
    if kept is not None:
        problems = [
            Problem(field, "is the spider's own: a job is of a spider, or has both itself")
            for field, given in (("rule", order.rule), ("start", order.start))
            if given is not None
        ]
        return kept.plan.rule, kept.plan.start, problems
    problems = []
    rule = order.rule or (biz.readers[0] if len(biz.readers) == 1 else None)
    if rule is None:
        names = ", ".join(biz.readers[:10])
        problems.append(Problem("rule", f"is missing; this biz has: {names}"))
    if order.start is None:
        problems.append(Problem("start", "is missing, and so is a spider"))
    start = order.start or Start()
    return rule or "", start, problems or problems_with(start)


def _pinned(order: JobOrder, kept: KeptSpider | None) -> str | None:
    """Return the pool that the order, or else the spider, asks for; None where none does."""
    return order.pool or (None if kept is None else kept.plan.pool)


def _pool(order: JobOrder, kept: KeptSpider | None) -> str | None:
    """The pool whose workers alone do its tasks; None for the usual one, however that is said."""
    pool = _pinned(order, kept)
    return None if pool == MAIN_POOL else pool


def _job(
    order: JobOrder,
    kept: KeptSpider | None,
    rule: str,
    rule_version: str,
    start: Start,
    now: datetime,
    *,
    waits: bool,
) -> Job:
    plan = None if kept is None else kept.plan
    pool = _pool(order, kept)
    usual = DEFAULT_PRIORITY if plan is None else plan.priority
    return Job(
        tenant=order.tenant,
        biz=order.biz,
        name=order.name or job_name(order.spider or rule, now),
        # A job that is pinned to a pool, the main one too, waits for no bids.
        state=JobState.PLACING if waits and _pinned(order, kept) is None else JobState.EXPANDING,
        rule=rule,
        rule_version=rule_version,
        start=start,
        size=size(start),
        created_at=from_ms(to_ms(now)),
        by=order.by,
        spider=order.spider,
        spider_version=None if kept is None else kept.version,
        schedule=order.schedule,
        fire_at=order.fire_at,
        values=order.values,
        priority=usual if order.priority is None else order.priority,
        link=LinkNeeds() if plan is None else plan.link,
        pool=pool,
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarter:
    """The service that starts jobs.

    Without a ``board`` jobs that wait for a worker are listed for bids by the next round.
    """

    jobs: "MongoJobs"
    spiders: "MongoSpiders"
    rules: MongoRules
    board: "RedisBoard | None" = None

    def start(
        self, tree: Tree, order: JobOrder, now: datetime, *, limit: OverlapLimit | None = None
    ) -> Job:
        """Keep a job as ordered, or return the one that was started under its name before.

        With ``limit`` the jobs of its schedule are counted in one transaction with keeping it, and
        cancelled in that where it replaces them: it may then be one too many for the biz. The biz's
        jobs are counted before: each of several that are started at once may be one too many.

        Raises:
            ConflictError: the schedule has as many open jobs as it may.
            UnknownBizError: the tenant has no such biz.
            QuotaExceededError: the biz has as many open jobs as it may.
            NotFoundError: the biz keeps no such spider, or not that version of it.
            InvalidRequestError: every problem, with its field; nothing is kept.
        """
        queue_key, biz = biz_of(tree, order.tenant, order.biz)
        if order.name is not None:
            standing = self.jobs.get(order.tenant, order.biz, order.name)
            if standing is not None:
                return standing
        replaces = limit is not None and limit.instead and limit.open > 0
        _check_room(self.jobs, biz, order, spare=1 if replaces else 0)
        kept = _spider(self.spiders, order)
        rule, start, problems = _what(order, kept, biz)
        start, unbound = bind(start, order.values)
        problems += unbound
        problems += [] if problems else refused(biz, rule, start)
        pool = _pool(order, kept)
        if pool is not None and pool not in tree.further_pools:
            known = ", ".join((MAIN_POOL, *tree.further_pools)[:10])
            problems.append(Problem("pool", f"there is no pool {pool[:64]!r}; there is: {known}"))
        if problems:
            raise InvalidRequestError(dict.fromkeys(problems))
        reader = biz.reader(rule)
        assert reader is not None  # noqa: S101  admission has looked
        self.rules.keep_version(queue_key, rule, reader)
        if kept is not None:
            self.spiders.hold(kept, now)
        waits = tree.stage.bidding is not None
        made = _job(order, kept, rule, reader.version, start, now, waits=waits)
        if limit is None:
            job = self.jobs.create(made)
        else:
            found = self.jobs.create_limited(made, limit.most, instead=limit.instead)
            if found is None:
                raise ConflictError(self.overlap_reason(made.tenant, made.biz, made.schedule))
            job = found
        terms = tree.stage.bidding
        if self.board is not None and terms is not None and job.state is JobState.PLACING:
            with suppress(StoreUnavailableError):  # rounds list what is missing on the board
                list_for_bids(self.board, terms, biz, job, now)
        return job

    def overlap_reason(self, tenant: str, biz: str, schedule: str | None) -> str:
        """Say why another job of a schedule is not started, for people."""
        found = self.jobs.of_biz(
            tenant, biz, states=_OPEN, spider=None, schedule=schedule, after=None, limit=1
        )
        return f"{found[0].name if found else 'an earlier job'} has not ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobService:
    """The service that clients' calls on jobs go through.

    ``retries`` and ``retry_seconds`` bound what is retried between two checks of the time, and by a
    call.
    """

    starter: JobStarter
    ledgers: MongoLedgers
    workers: RedisWorkers
    waker: Waker
    retries: int = RETRIES
    retry_seconds: float = RETRY_SECONDS

    def start(self, tree: Tree, order: JobOrder, key: str | None, now: datetime) -> Started:
        """Start a job, or find the one that the same order has started before.

        Without a name an idempotency key gives one.

        Raises:
            ConflictError: the name stands for another job, or for requests that no job has made.
            KeyReusedError: the key stands for another order.
            QuotaExceededError: the biz has as many open jobs as it may.
            UnknownBizError, NotFoundError, InvalidRequestError: as of :meth:`JobStarter.start`.
        """
        queue_key, biz = biz_of(tree, order.tenant, order.biz)
        named = order.name is not None
        if not named and key is not None:
            order = replace(order, name=key_name(key))
        if order.name is not None:
            standing = self.starter.jobs.get(order.tenant, order.biz, order.name)
            if standing is not None:
                return Started(_as_ordered(standing, order, named=named), is_new=False)
            if self.ledgers.totals(queue_key, biz, now, order.name).submitted:
                # Requests stand under the name: those of a job that another call has just started,
                # or of no job; its ledger would count both.
                standing = self.starter.jobs.get(order.tenant, order.biz, order.name)
                if standing is None:
                    message = f"requests were submitted under the job name {order.name!r}"
                    raise ConflictError(f"{message}: choose another name")
                return Started(_as_ordered(standing, order, named=named), is_new=False)
        job = self.starter.start(tree, order, now)
        wake_for(job, self.workers, self.waker)
        # Another call may have been quicker, with another order.
        return Started(_as_ordered(job, order, named=named), is_new=True)

    def get(self, tree: Tree, key: JobKey, now: datetime) -> CountedJob:
        """Get a job and its ledger.

        Raises:
            NotFoundError: there is no such job.
        """
        queue_key, biz = biz_of(tree, key[0], key[1])
        job = _there(self.starter.jobs.get(*key), key[2])
        return CountedJob(job, self.ledgers.totals(queue_key, biz, now, job.name))

    def list_jobs(
        self,
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
        """List jobs, the newest first; at the end the cursor is None.

        A name that clients merely submit requests under is no job here.
        """
        biz_of(tree, tenant, biz_name)
        found = self.starter.jobs.of_biz(
            tenant,
            biz_name,
            states=states,
            spider=spider,
            schedule=schedule,
            after=None if cursor is None else paging.decode_job(cursor),
            limit=limit + 1,
        )
        if len(found) <= limit:
            return Listing(found, None, more=False)
        last = found[limit - 1]
        return Listing(found[:limit], paging.encode_job(last.created_at, last.name), more=True)

    def retry_failed(
        self,
        dead_letters: "DeadLetters",
        reopening: "MongoJobReopening",
        tree: Tree,
        key: JobKey,
        *,
        current_rule: bool,
        by: str,
        now: datetime,
    ) -> Retried:
        """Retry the dead letters of a job (SPEC.md D4); a job that was done runs again.

        It may be repeated after a failure: letters are replayed first, and the job runs as long as
        its ledger has anything open. It runs beside a later job of its schedule; fires then wait
        for, skip, or replace both.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: it was cancelled, or is being cancelled, or was never begun.
            UnknownRuleError: they are to be read with the present rule, and there is none.
        """
        from crawlfleet.requests.dead_letters.models import DeadLetterFilter

        tenant, biz_name, name = key
        queue_key, biz = biz_of(tree, tenant, biz_name)
        # A process that is about to end it has read an older ledger, and fails by this.
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
                limit=self.retries,
                now=now,
                cursor=cursor,
            )
            count, skipped, cursor = count + done.count, skipped + done.skipped, done.cursor
            if cursor is None or time.monotonic() - began > self.retry_seconds:
                break
        # It may have ended before letters were replayed; replayed ones may have ended since.
        if self.ledgers.totals(queue_key, biz, now, name).open or count:
            job = reopening.reopen(tenant, biz_name, name, now) or job
        return Retried(count, skipped, cursor is not None, job)
