"""A fire of a schedule (SPEC.md B1, C2): its job is started, unless an earlier one is in the way.

A fire time's job has a name of its own, so whoever fires it again, late or at once, finds it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.errors import ConflictError, NotFoundError, QuotaExceededError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.starting import StartingPorts, start_job
from crawlfleet.model.biz import Tree
from crawlfleet.model.job import ENDED, Job, JobOrder, JobState
from crawlfleet.model.schedule import Outcome, OutcomeKind, Overlap, Schedule
from crawlfleet.model.start import Start
from crawlfleet.policy.job_names import fire_name, run_now_name
from crawlfleet.ports import ScheduleStore

#: Jobs of one schedule that may be open at once, whatever its overlap policy.
OPEN_JOBS: Final = 100
_OPEN: Final = tuple(state for state in JobState if state not in ENDED)


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
    count = ports.starting.jobs.count_open(schedule.tenant, schedule.biz, schedule.name)
    job = ports.starting.jobs.get(schedule.tenant, schedule.biz, name)
    if job is None:
        if count and schedule.overlap is Overlap.SKIP:
            return outcome(OutcomeKind.SKIPPED, _in_the_way(ports, schedule))
        if count >= (1 if schedule.overlap is Overlap.QUEUE else OPEN_JOBS):
            return outcome(OutcomeKind.WAITING, _in_the_way(ports, schedule))
        earlier = _replaced(ports, schedule, count)
        order = _order(schedule, name, "schedule", fire_at)
        try:
            job = _start(ports, tree, schedule, order, now, replaces=bool(earlier))
        except QuotaExceededError as error:
            return outcome(OutcomeKind.WAITING, str(error))
    else:
        earlier = _before(_replaced(ports, schedule, count), job)
    if job.schedule != schedule.name:
        return outcome(OutcomeKind.SKIPPED, f"a job of others has its name, {name}")
    _cancel(ports, earlier, job, now)
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
    count = ports.starting.jobs.count_open(schedule.tenant, schedule.biz, schedule.name)
    job = ports.starting.jobs.get(schedule.tenant, schedule.biz, name)
    if job is None:
        alone = schedule.overlap in (Overlap.SKIP, Overlap.QUEUE)
        if count >= (1 if alone else OPEN_JOBS):
            raise ConflictError(_in_the_way(ports, schedule))
        earlier = _replaced(ports, schedule, count)
        order = _order(schedule, name, "run_now", None)
        job = _start(ports, tree, schedule, order, now, replaces=bool(earlier))
    else:
        earlier = _before(_replaced(ports, schedule, count), job)
    if job.schedule != schedule.name:
        raise ConflictError(f"a job of others has the name {name}")
    _cancel(ports, earlier, job, now)
    return job


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
    *,
    replaces: bool,
) -> Job:
    if order.spider is not None:
        # A version that jobs name may outlive its spider; a schedule must not go on with it.
        newest = ports.starting.spiders.get(schedule.tenant, schedule.biz, order.spider)
        if newest is None:
            raise NotFoundError(f"this biz keeps no spider called {order.spider[:64]!r}")
    return start_job(ports.starting, tree, order, now, replaces=replaces)


def _open_jobs(ports: FiringPorts, schedule: Schedule, limit: int) -> list[Job]:
    return ports.starting.jobs.of_biz(
        schedule.tenant,
        schedule.biz,
        states=_OPEN,
        spider=None,
        schedule=schedule.name,
        after=None,
        limit=limit,
    )


def _in_the_way(ports: FiringPorts, schedule: Schedule) -> str:
    names = [job.name for job in _open_jobs(ports, schedule, 1)]
    return f"{names[0] if names else 'an earlier job'} has not ended"


def _replaced(ports: FiringPorts, schedule: Schedule, count: int) -> list[Job]:
    """The open jobs whose place a new one takes."""
    if not count or schedule.overlap is not Overlap.REPLACE:
        return []
    return _open_jobs(ports, schedule, OPEN_JOBS + 1)


def _before(jobs: list[Job], mine: Job) -> list[Job]:
    return [job for job in jobs if job.created_at < mine.created_at]


def _cancel(ports: FiringPorts, jobs: list[Job], mine: Job, now: datetime) -> None:
    """Have jobs cancelled whose place one has taken that stands, but for those of later fires.

    That one stands first: if it could not, the others would be lost with it. Whoever dies in
    between has it done by the next who finds the job standing.
    """
    for job in jobs:
        later = bool(mine.fire_at and job.fire_at and job.fire_at >= mine.fire_at)
        if job.state is not JobState.CANCELLING and not later:
            ports.starting.jobs.cancel(job.tenant, job.biz, job.name, now)
