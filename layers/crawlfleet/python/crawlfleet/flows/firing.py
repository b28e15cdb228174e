"""A fire of a schedule (SPEC.md B1, C2): its job is started, unless an earlier one is in the way.

A fire time's job has a name of its own, so whoever fires it again, late or at once, finds it. What
is in its way is counted in one step with keeping it, and cancelled in the same step where the job
takes its place: fires and runs by hand that meet come one after the other.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.errors import ConflictError, NotFoundError, QuotaExceededError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.starting import Others, StartingPorts, in_the_way, start_job
from crawlfleet.model.biz import Tree
from crawlfleet.model.job import Job, JobOrder
from crawlfleet.model.schedule import Outcome, OutcomeKind, Overlap, Schedule
from crawlfleet.model.start import Start
from crawlfleet.policy.job_names import fire_name, run_now_name
from crawlfleet.ports import ScheduleStore

#: Jobs of one schedule that may be open at once, whatever its overlap policy. Where that is
#: ``ALLOW``, those that are started at the same moment may each be one more.
OPEN_JOBS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringPorts:
    """What running schedules needs of the world."""

    schedules: ScheduleStore
    starting: StartingPorts


def fire(
    ports: FiringPorts, tree: Tree, schedule: Schedule, fire_at: datetime, now: datetime
) -> Outcome:
    """Start the job of a fire time, or say why there is none (yet).

    Raises:
        CrawlfleetError: it cannot be started, as its biz, rule or spider is gone, or a part down.
    """
    biz_of(tree, schedule.tenant, schedule.biz)
    name = fire_name(schedule.name, fire_at)

    def outcome(kind: OutcomeKind, why: str = "", job: str | None = None) -> Outcome:
        return Outcome(kind=kind, fire_at=fire_at, at=now, job=job, why=why)

    # How many are open comes first: one that is this fire's own is then found by its name.
    others = _others(ports, schedule)
    job = ports.starting.jobs.get(schedule.tenant, schedule.biz, name)
    if job is None:
        order = _order(schedule, name, "schedule", fire_at)
        try:
            job = _start(ports, tree, schedule, order, now, others)
        except ConflictError as error:
            skips = schedule.overlap is Overlap.SKIP
            return outcome(OutcomeKind.SKIPPED if skips else OutcomeKind.WAITING, str(error))
        except QuotaExceededError as error:
            return outcome(OutcomeKind.WAITING, str(error))
    if job.schedule != schedule.name:
        return outcome(OutcomeKind.SKIPPED, f"a job of others has its name, {name}")
    return outcome(OutcomeKind.STARTED, job=name)


def run_now(
    ports: FiringPorts, tree: Tree, schedule: Schedule, key: str | None, now: datetime
) -> Job:
    """Start a job of a schedule beside its fire times; the one that was under this key before.

    Raises:
        ConflictError: an earlier job has not ended, and the schedule runs none beside another; or
            a job of others has its name.
        CrawlfleetError: it cannot be started.
    """
    biz_of(tree, schedule.tenant, schedule.biz)
    name = run_now_name(schedule.name, key, now)
    others = _others(ports, schedule)
    job = ports.starting.jobs.get(schedule.tenant, schedule.biz, name)
    if job is None:
        order = _order(schedule, name, "run_now", None)
        job = _start(ports, tree, schedule, order, now, others)
    if job.schedule != schedule.name:
        raise ConflictError(f"a job of others has the name {name}")
    return job


def _others(ports: FiringPorts, schedule: Schedule) -> Others:
    alone = schedule.overlap in (Overlap.SKIP, Overlap.QUEUE)
    return Others(
        open=ports.starting.jobs.count_open(schedule.tenant, schedule.biz, schedule.name),
        most=1 if alone else OPEN_JOBS,
        instead=schedule.overlap is Overlap.REPLACE,
    )


def _order(schedule: Schedule, name: str, by: str, fire_at: datetime | None) -> JobOrder:
    return JobOrder(
        tenant=schedule.tenant,
        biz=schedule.biz,
        by=by,
        name=name,
        spider=schedule.spider,
        version=schedule.spider_version,
        rule=schedule.rule,
        start=Start(urls=schedule.urls) if schedule.urls else schedule.start,
        values=schedule.values,
        priority=schedule.priority,
        schedule=schedule.name,
        fire_at=fire_at,
    )


def _start(
    ports: FiringPorts,
    tree: Tree,
    schedule: Schedule,
    order: JobOrder,
    now: datetime,
    others: Others,
) -> Job:
    """Start a job of a schedule, unless others are in its way.

    They are counted once more when it is kept; ``ALLOW``, which leaves no job out for one that came
    at the same moment, is spared that transaction.

    Raises:
        ConflictError: others are in its way.
        CrawlfleetError: it cannot be started.
    """
    if others.open >= others.most:
        key = schedule.tenant, schedule.biz, schedule.name
        raise ConflictError(in_the_way(ports.starting.jobs, *key))
    if order.spider is not None:
        # A version that jobs name may outlive its spider; a schedule must not go on with it.
        newest = ports.starting.spiders.get(schedule.tenant, schedule.biz, order.spider)
        if newest is None:
            raise NotFoundError(f"this biz keeps no spider called {order.spider[:64]!r}")
    counts = schedule.overlap is not Overlap.ALLOW
    return start_job(ports.starting, tree, order, now, others=others if counts else None)
