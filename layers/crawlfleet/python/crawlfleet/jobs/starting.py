"""Whether a job is what somebody orders: under one name there is one (SPEC.md C2).

Starting a job (SPEC.md C2): find what it is a run of, check it, freeze its rule, keep it.

A name makes it one job, however often it is asked for: a fire of a schedule, a retried call.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisWorkers
from crawlfleet.jobs.bidding.auction import list_for_bids
from crawlfleet.jobs.bidding.ports import JobBoard
from crawlfleet.jobs.models import ENDED, Job, JobOrder, JobState
from crawlfleet.jobs.ports import JobStore
from crawlfleet.jobs.spiders.models import KeptSpider, LinkNeeds, Start
from crawlfleet.jobs.spiders.service import SpiderStore
from crawlfleet.jobs.spiders.starts import bind, problems_with, refused, size
from crawlfleet.kernel.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    Problem,
    QuotaExceededError,
    StoreUnavailableError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, MAIN_POOL
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.submission.admission import job_name
from crawlfleet.requests.submission.mongo import MongoRules
from crawlfleet.requests.submission.service import Waker, wake_if_idle


def key_name(key: str) -> str:
    """The name of a job that is started under an idempotency key and has no other.

    >>> key_name("order-1")
    'key.593377485d555df8c051'
    """
    return f"key.{blake2b(key.encode(), digest_size=10).hexdigest()}"


def is_as_ordered(job: Job, order: JobOrder) -> bool:
    """Whether a job that stands under the order's name was made by the same order.

    What the order leaves open may be anything: a retried call leaves open what the first one did.
    """
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


_OPEN: Final = tuple(state for state in JobState if state not in ENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPorts:
    """What starting a job needs of the world.

    Without a ``board`` jobs that wait for a worker are put there by whoever looks next.
    """

    jobs: JobStore
    spiders: SpiderStore
    rules: MongoRules
    board: JobBoard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapLimit:
    """The open jobs of a schedule, beside which, or ``instead`` of which, another is started.

    So many were ``open`` a moment ago; ``most`` may be, the new one among them.
    """

    open: int
    most: int
    instead: bool = False


def start_job(
    ports: StartingPorts,
    tree: Tree,
    order: JobOrder,
    now: datetime,
    *,
    others: OverlapLimit | None = None,
) -> Job:
    """Keep a job as ordered, or return the one that was started under its name before.

    With ``others`` those of its schedule are counted in one step with keeping it, and cancelled in
    that step where it is instead of them: it may then be one too many for the biz.

    The biz's jobs are counted before: of those that are started at the same moment each may be one
    too many, so a biz has as many open jobs as it may and as calls that met, less one, at most.

    Raises:
        ConflictError: as many others are open as may be.
        UnknownBizError: the tenant has no such biz.
        QuotaExceededError: the biz has as many open jobs as it may.
        NotFoundError: the biz keeps no such spider, or not that version of it.
        InvalidRequestError: every mistake, with its field; nothing is kept.
    """
    queue_key, biz = biz_of(tree, order.tenant, order.biz)
    if order.name is not None:
        standing = ports.jobs.get(order.tenant, order.biz, order.name)
        if standing is not None:
            return standing
    replaces = others is not None and others.instead and others.open > 0
    _must_have_room(ports.jobs, biz, order, spare=1 if replaces else 0)
    kept = _spider(ports.spiders, order)
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
    ports.rules.freeze(queue_key, rule, reader)
    if kept is not None:
        ports.spiders.hold(kept, now)
    waits = tree.stage.bidding is not None
    made = _job(order, kept, rule, reader.version, start, now, waits=waits)
    job = ports.jobs.create(made) if others is None else _beside(ports.jobs, made, others)
    if ports.board is not None and tree.stage.bidding is not None:
        _offer(ports.board, tree.stage.bidding, biz, job, now)
    return job


def _beside(jobs: JobStore, made: Job, others: OverlapLimit) -> Job:
    job = jobs.create_limited(made, others.most, instead=others.instead)
    if job is None:
        raise ConflictError(overlap_reason(jobs, made.tenant, made.biz, made.schedule))
    return job


def overlap_reason(jobs: JobStore, tenant: str, biz: str, schedule: str | None) -> str:
    """Why another job of a schedule is not started, for people."""
    found = jobs.of_biz(
        tenant, biz, states=_OPEN, spider=None, schedule=schedule, after=None, limit=1
    )
    return f"{found[0].name if found else 'an earlier job'} has not ended"


def _offer(board: JobBoard, terms: BiddingTerms, biz: Biz, job: Job, now: datetime) -> None:
    """Put a job on the board that waits for a worker. It is kept: what fails here is made good."""
    if job.state is JobState.PLACING:
        with suppress(StoreUnavailableError):
            list_for_bids(board, terms, biz, job, now)


def wake_for(job: Job, workers: RedisWorkers, waker: Waker) -> None:
    """Have a job begun at once, where no worker lives that would; else by the next tick."""
    if job.state not in {JobState.EXPANDING, JobState.PLACING}:
        return
    try:
        wake_if_idle(workers, waker)
    except StoreUnavailableError as error:
        warn("a job is kept, and begun by the next tick", error)


def _must_have_room(jobs: JobStore, biz: Biz, order: JobOrder, spare: int) -> None:
    if jobs.count_open(order.tenant, order.biz) >= biz.open_jobs + spare:
        raise QuotaExceededError(
            f"the biz has {biz.open_jobs:,} open jobs, as many as it may: wait until some end,"
            " or cancel some"
        )


def _spider(spiders: SpiderStore, order: JobOrder) -> KeptSpider | None:
    if order.spider is None:
        return None
    kept = spiders.get(order.tenant, order.biz, order.spider, order.version)
    if kept is None:
        which = "" if order.version is None else f", version {order.version}"
        raise NotFoundError(f"this biz keeps no spider called {order.spider[:64]!r}{which}")
    return kept


def _what(order: JobOrder, kept: KeptSpider | None, biz: Biz) -> tuple[str, Start, list[Problem]]:
    """The rule and the start that a job of this order has."""
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
    """The pool that is asked for, by the order before the spider; None where none is."""
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
        # What is pinned to a pool, the usual one too, is for whoever of it comes.
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
