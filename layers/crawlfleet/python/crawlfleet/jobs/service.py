"""Start jobs, and list, get and retry them for clients (SPEC.md C2, D4).

A job is one under its name, however often it is asked for: by a fire of a schedule, by a retried
call. To start one is to find what it is a run of, check it, store its rule version, and keep it.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.quota import Quota
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.lookup import biz_of, must_be_active, queue_key_of
from crawlfleet.crawling.frontier.segments import choice_in_force
from crawlfleet.crawling.records.falls import covered
from crawlfleet.fleet.prices import prices_of
from crawlfleet.fleet.quotas.models import own_places
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.jobs import orders
from crawlfleet.jobs.bidding.auction import list_for_bids
from crawlfleet.jobs.costs.forecast import Known, forecast, hosts_of
from crawlfleet.jobs.models import (
    ENDED,
    RETRIABLE,
    SUBMITTED,
    Job,
    JobForecast,
    JobKey,
    JobOrder,
    JobState,
)
from crawlfleet.jobs.redis import RedisCancellations
from crawlfleet.jobs.spiders.models import KeptSpider, bind
from crawlfleet.jobs.spiders.service import refused
from crawlfleet.jobs.submitted import CountedJob, SubmittedJobs
from crawlfleet.jobs.usage import spider_of
from crawlfleet.kernel import paging
from crawlfleet.kernel.errors import (
    ConflictError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    QuotaExceededError,
    StoreUnavailableError,
    UnknownBizError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.requests.submission.waking import Waker, wake_if_idle

if TYPE_CHECKING:
    from crawlfleet.jobs.bidding.redis import RedisBoard
    from crawlfleet.jobs.costs.mongo import MongoHistories
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
class Retried:
    """Counts the tasks that are retried; ``skipped`` are past their time to live.

    ``more`` says that the time was up before all were; another call goes on.
    """

    count: int
    skipped: int
    more: bool
    job: Job


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


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"there is no job {name[:64]!r}")


def _submitted_under(name: str) -> ConflictError:
    message = f"requests were submitted under the job name {name!r}"
    return ConflictError(f"{message}: choose another name")


def _as_ordered(job: Job, order: JobOrder, *, named: bool) -> Job:
    if orders.is_as_ordered(job, order):
        return job
    if job.by == SUBMITTED:
        raise _submitted_under(job.name)
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
    histories: "MongoHistories | None" = None

    def forecast(self, tree: Tree, order: JobOrder, now: datetime) -> JobForecast:
        """Forecast the job of an order, which is not kept; it raises as :meth:`start` does."""
        _, biz, _, job = self._made(tree, order, now)
        return self._forecast(tree, biz, job)

    def _forecast(self, tree: Tree, biz: Biz, job: Job) -> JobForecast:
        hosts, known = hosts_of(job.start), Known()
        if self.histories is not None:
            known = self.histories.known(job.tenant, job.biz, spider_of(job), hosts)
        limits = [tree.stage.host_limits.get(host, tree.stage.hosts) for host in hosts]
        reader = biz.reader(job.rule)
        return forecast(
            job.size,
            known,
            prices_of(tree.stage.prices),
            follows=not isinstance(reader, Rule) or bool(reader.follow),
            seconds_a_page=1 / sum(one.per_second for one in limits or [tree.stage.hosts]),
        )

    def _made(
        self, tree: Tree, order: JobOrder, now: datetime
    ) -> tuple[QueueKey, Biz, KeptSpider | None, Job]:
        """Make the job of an order, if it can be one; nothing is kept."""
        queue_key, biz = biz_of(tree, order.tenant, order.biz)
        kept = _spider(self.spiders, order)
        rule, start, problems = orders.rule_and_start(order, kept, biz)
        start, unbound = bind(start, order.values)
        problems += unbound
        problems += [] if problems else refused(biz, rule, start)
        problems += orders.problems_of(order, kept, tree, biz)
        if problems:
            raise InvalidRequestError(dict.fromkeys(problems))
        reader = biz.reader(rule)
        assert reader is not None  # noqa: S101  admission has looked
        waits = tree.stage.bidding is not None
        segment = choice_in_force(order.segment, reader)
        made = orders.job_of(order, kept, rule, reader.version, start, segment, now, waits=waits)
        return queue_key, biz, kept, made

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
            TenantSuspendedError: the tenant is suspended.
            NotFoundError: the biz keeps no such spider, or not that version of it.
            InvalidRequestError: every problem, with its field; nothing is kept.
        """
        queue_key, biz = biz_of(tree, order.tenant, order.biz)
        if order.name is not None:
            standing = self.jobs.get(order.tenant, order.biz, order.name)
            if standing is not None:
                return standing
        must_be_active(tree, order.tenant)
        replaces = limit is not None and limit.instead and limit.open > 0
        _check_room(self.jobs, biz, order, spare=1 if replaces else 0)
        queue_key, biz, kept, made = self._made(tree, order, now)
        reader = biz.reader(made.rule)
        assert reader is not None  # noqa: S101  admission has looked
        self.rules.keep_version(queue_key, made.rule, reader)
        if kept is not None:
            self.spiders.hold(kept, now)
        if self.histories is not None:
            made = replace(made, forecast=self._forecast(tree, biz, made))
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
    submitted: SubmittedJobs
    ledgers: MongoLedgers
    workers: RedisWorkers
    waker: Waker
    retries: int = RETRIES
    retry_seconds: float = RETRY_SECONDS

    def start(
        self,
        tree: Tree,
        order: JobOrder,
        key: str | None,
        now: datetime,
        *,
        wakes: bool = True,
    ) -> Started:
        """Start a job, or find the one that the same order has started before.

        Without a name an idempotency key gives one. Unless it ``wakes`` a worker the next tick
        finds out when one is needed.

        Raises:
            ConflictError: the name stands for another job, or for requests that no job has made.
            KeyReusedError: the key stands for another order.
            QuotaExceededError: the biz has as many open jobs as it may.
            UnknownBizError, NotFoundError, InvalidRequestError: as of :meth:`JobStarter.start`.
        """
        queue_key, biz = biz_of(tree, order.tenant, order.biz)
        named = order.name is not None
        if not named and key is not None:
            order = replace(order, name=orders.key_name(key))
        if order.name is not None:
            standing = self.starter.jobs.get(order.tenant, order.biz, order.name)
            if standing is not None:
                return Started(_as_ordered(standing, order, named=named), is_new=False)
            if self.ledgers.totals(queue_key, biz, now, order.name).submitted:
                # Requests stand under the name: those of a job that another call has just started,
                # or that clients submitted; its ledger would count both.
                standing = self.starter.jobs.get(order.tenant, order.biz, order.name)
                if standing is None:
                    raise _submitted_under(order.name)
                return Started(_as_ordered(standing, order, named=named), is_new=False)
        job = self.starter.start(tree, order, now)
        if wakes:
            wake_for(job, self.workers, self.waker)
        # Another call may have been quicker, with another order.
        return Started(_as_ordered(job, order, named=named), is_new=True)

    def get(self, tree: Tree, key: JobKey, now: datetime) -> CountedJob:
        """Get a job and its ledger. Raises NotFoundError (there is no such job)."""
        queue_key, biz = biz_of(tree, key[0], key[1])
        if (found := self.submitted.find(queue_key, biz, key[2], now)) is None:
            raise _unknown(key[2])
        read = self.ledgers.coverage(queue_key, biz, key[2])
        return CountedJob(found.job, found.ledger, tuple(covered(biz, read)))

    def set_quotas(
        self,
        tree: Tree,
        key: JobKey,
        quotas: Sequence[Quota],
        redis: tuple[RedisQueue, RedisCancellations],
        now: datetime,
    ) -> CountedJob:
        """Have other quotas be in force for a job that has not ended.

        Workers hear of it within seconds, and what waits for a quota of its own is looked at now;
        where Redis does not answer, within ten minutes and in one.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: it has ended.
            InvalidRequestError: names each quota that cannot be.
        """
        queue_key, biz = biz_of(tree, key[0], key[1])
        if problems := tuple(orders.quota_faults(quotas, tree, biz)):
            raise InvalidRequestError(problems)
        found = self.get(tree, key, now)
        if found.job.state in ENDED:
            raise ConflictError(f"the job is {found.job.state}: it has ended")
        if not self.starter.jobs.set_quotas(key, quotas):
            raise ConflictError("its requests were submitted under the name: it has no quotas")
        parked = own_places(key, (*found.job.quotas, *quotas))
        queue, announcements = redis
        try:
            announcements.announce_quotas(key)
            queue.look_at(queue_key_of(queue_key, found.job.pool), parked, now)
        except StoreUnavailableError as error:
            warn("quotas of a job are in force later", error)
        return self.get(tree, key, now)

    def check_open(self, tree: Tree, key: JobKey, now: datetime) -> None:
        """Check that a job may be cancelled: what was submitted under a name is one from now on.

        Raises:
            ConflictError: all that was submitted under the name has ended.
        """
        with suppress(UnknownBizError):  # a job whose biz was removed may be cancelled, too
            queue_key, biz = biz_of(tree, key[0], key[1])
            found = self.submitted.find(queue_key, biz, key[2], now)
            if found is not None and found.job.by == SUBMITTED and found.job.state is JobState.DONE:
                raise ConflictError("the job is done: it has ended")

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
        now: datetime,
    ) -> Listing[CountedJob]:
        """List jobs, the newest first, with the ledgers of those that go on."""
        queue_key, biz = biz_of(tree, tenant, biz_name)
        found = self.starter.jobs.of_biz(
            tenant,
            biz_name,
            states=states,
            spider=spider,
            schedule=schedule,
            after=None if cursor is None else paging.decode_job(cursor),
            limit=limit + 1,
        )
        last = None if len(found) <= limit else found[limit - 1]
        cursor = None if last is None else paging.encode_job(last.created_at, last.name)
        counted = self.submitted.counted(queue_key, biz, found[:limit], states, now)
        return Listing(counted, cursor, more=last is not None)

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
        if self.submitted.find(queue_key, biz, name, now) is None:
            raise _unknown(name)
        job = reopening.begin_retry(tenant, biz_name, name)
        if job is None:
            raise _unknown(name)
        if job.state not in RETRIABLE:
            raise ConflictError(f"the job is {job.state.value}: nothing of it is retried")
        meant, began = (tree, tenant, biz_name, DeadLetterFilter(job=name)), time.monotonic()
        count = skipped = 0
        cursor: str | None = None
        while True:
            done = dead_letters.replay(
                *meant, current_rule=current_rule, by=by, limit=self.retries, now=now, cursor=cursor
            )
            count, skipped, cursor = count + done.count, skipped + done.skipped, done.cursor
            if cursor is None or time.monotonic() - began > self.retry_seconds:
                break
        # It may have ended before letters were replayed; replayed ones may have ended since.
        if self.ledgers.totals(queue_key, biz, now, name).open or count:
            job = reopening.reopen(tenant, biz_name, name, now) or job
        return Retried(count, skipped, cursor is not None, job)
