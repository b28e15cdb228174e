"""Orders of jobs: make a job of an order, and tell whether a job was made by one.

Nothing here asks a store.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import blake2b

from msgspec.structs import asdict, replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.quota import Quota, QuotaUnit, quota_problems
from crawlfleet.crawling.frontier.models import SegmentChoice
from crawlfleet.crawling.frontier.segments import choice_problem
from crawlfleet.fleet.quotas.money import worst_case
from crawlfleet.jobs.models import Job, JobOrder, JobState
from crawlfleet.jobs.spiders.models import (
    NO_START,
    Filling,
    KeptSpider,
    LinkNeeds,
    Start,
    bind,
    problems_with,
    singles,
    size,
)
from crawlfleet.jobs.spiders.service import named_start
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, MAIN_POOL
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.submission.admission import job_name


def key_name(key: str) -> str:
    """Derive the name of a job from the idempotency key it is started under.

    >>> key_name("order-1")
    'key.593377485d555df8c051'
    """
    return f"key.{blake2b(key.encode(), digest_size=10).hexdigest()}"


def is_as_ordered(job: Job, order: JobOrder) -> bool:
    """Tell whether a job was made by the same order; what the order leaves open may be anything."""
    if (job.by, job.spider, _values_of(job)) != (order.by, order.spider, order.values):
        return False
    if (job.schedule, job.fire_at) != (order.schedule, order.fire_at):
        return False
    if order.version not in {None, job.spider_version} or order.rule not in {None, job.rule}:
        return False
    if order.start is not None and bind(order.start, order.values)[0] != job.start:
        return False
    if order.pool not in {None, job.pool or MAIN_POOL}:
        return False
    if order.demand not in {None, job.demand} or _link(order.link, job.link) != job.link:
        return False
    if order.segment not in {None, job.segment}:
        return False
    if (order.quotas, order.user) != (job.quotas, job.user):
        return False
    return order.priority in {None, job.priority}


def _values_of(job: Job) -> dict[str, Filling]:
    """Return what filled the places that the start of its order left open."""
    return {**job.values, **{name: job.start.values[name] for name in job.several}}


def rule_and_start(
    order: JobOrder, kept: KeptSpider | None, biz: Biz
) -> tuple[str, Start, list[Problem]]:
    """Find the rule and the start of an order, and what is wrong with them."""
    if kept is not None:
        problems = [
            Problem(field, "is the spider's own: a job is of a spider, or has both itself")
            for field, given in (("rule", order.rule), ("start", order.start))
            if given is not None
        ]
        own = kept.plan.start
        if own == NO_START and not problems:
            own = named_start(biz, kept.plan.rule)
        return kept.plan.rule, own, problems
    problems = []
    rule = order.rule or (biz.readers[0] if len(biz.readers) == 1 else None)
    if rule is None:
        names = ", ".join(biz.readers[:10])
        problems.append(Problem("rule", f"is missing; this biz has: {names}"))
    start = order.start
    if start is None:
        start = NO_START if rule is None else named_start(biz, rule)
        if rule is not None and start == NO_START:
            why = "is missing, and so is a spider; the rule names no URLs to begin with"
            problems.append(Problem("start", why))
    return rule or "", start, problems or problems_with(start)


def _pinned(order: JobOrder, kept: KeptSpider | None) -> str | None:
    """Return the pool that the order, or else the spider, asks for; None where none does."""
    return order.pool or (None if kept is None else kept.plan.pool)


def pool_of(order: JobOrder, kept: KeptSpider | None) -> str | None:
    """Return the pool whose workers alone do its tasks; None for the usual one."""
    pool = _pinned(order, kept)
    return None if pool == MAIN_POOL else pool


def problems_of(
    order: JobOrder, kept: KeptSpider | None, tree: Tree, biz: Biz
) -> Iterator[Problem]:
    """Find what is wrong with an order beside its rule and its start."""
    pool = pool_of(order, kept)
    if pool is not None and pool not in tree.further_pools:
        known = ", ".join((MAIN_POOL, *tree.further_pools)[:10])
        yield Problem("pool", f"there is no pool {pool[:64]!r}; there is: {known}")
    test_url = None if order.link is None else order.link.test_url
    if test_url is not None and (fault := problem_with(test_url)) is not None:
        yield Problem("link.test_url", fault)
    if order.demand is not None:
        yield from order.demand.problems("demand")
    if (fault := choice_problem(biz.seeds, order.segment)) is not None:
        yield Problem("segment", fault)
    yield from quota_faults(order.quotas, tree, biz)


def quota_faults(quotas: Sequence[Quota], tree: Tree, biz: Biz) -> Iterator[Problem]:
    """Find quotas of a job that are said twice, or are too small for one page of its biz."""
    size, usd = biz.fetch.max_body_bytes, worst_case(tree.stage, biz)
    yield from quota_problems("quotas", quotas, size, usd)
    for index, quota in enumerate(quotas):
        if quota.unit is QuotaUnit.ITEMS:
            yield Problem(f"quotas[{index}].unit", "is items, which streams have, and no job")


def _link(own: LinkNeeds | None, usual: LinkNeeds) -> LinkNeeds:
    """Return what a job needs of the link: its ``own`` fields before the ``usual`` ones."""
    if own is None:
        return usual
    given = {name: value for name, value in asdict(own).items() if value is not None}
    return replace(usual, **given)


def job_of(
    order: JobOrder,
    kept: KeptSpider | None,
    rule: str,
    rule_version: str,
    start: Start,
    segment: SegmentChoice | None,
    now: datetime,
    *,
    waits: bool,
) -> Job:
    """Make the job of an order; it ``waits`` for bids where no pool is asked for."""
    plan = None if kept is None else kept.plan
    pool = pool_of(order, kept)
    usual = DEFAULT_PRIORITY if plan is None else plan.priority
    single = singles(order.values)
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
        values=single,
        several=tuple(name for name in order.values if name not in single),
        priority=usual if order.priority is None else order.priority,
        link=_link(order.link, LinkNeeds() if plan is None else plan.link),
        demand=order.demand,
        caller=order.caller,
        pool=pool,
        segment=segment,
        quotas=order.quotas,
        user=order.user,
    )
