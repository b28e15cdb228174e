"""How the API shows jobs."""

from datetime import datetime
from typing import Any

from crawlfleet.edge.views import View, at, maybe_at
from crawlfleet.model.job import Job
from crawlfleet.model.ledger import Ledger
from crawlfleet.policy.job_progress import progress_of


class JobView(View, frozen=True, kw_only=True):
    """A job: one run of a spider, a schedule or a list of URLs.

    ``size`` is how many tasks it has; ``expanded`` so many of them are made, of which ``refused``
    have a URL that may not be asked for. ``counts`` are how its tasks ended, once it has;
    ``trouble`` is why it does not go on. Where jobs wait for a worker, ``worker`` has won it at
    ``placed_at``, its demand ``lowered`` so often until one did; ``pool`` is then the winner's,
    null for the usual one.
    """

    name: str
    state: str
    by: str
    rule: str
    rule_version: str
    spider: str | None
    spider_version: int | None
    schedule: str | None
    fire_at: str | None
    values: dict[str, str]
    priority: int
    pool: str | None
    worker: str | None
    placed_at: str | None
    lowered: int
    size: int
    expanded: int
    refused: int
    created_at: str
    expanded_at: str | None
    cancelled_at: str | None
    ended_at: str | None
    counts: dict[str, int]
    trouble: str | None


class JobLedgerView(View, frozen=True, kw_only=True):
    """Where its tasks are: ``submitted`` is the sum of the others."""

    submitted: int
    pending: int
    leased: int
    waiting: int
    done: int
    dead: int
    cancelled: int
    expired: int
    others: int


class JobProgressView(View, frozen=True, kw_only=True):
    """How far it is: ``ended`` of ``tasks``, those its pages led to among them; shares are 0 to 1.

    ``per_second`` is since it began, ``ends_at`` when it will have ended at that rate; null where
    nothing tells.
    """

    tasks: int
    expanded_share: float
    ended: int
    ended_share: float
    per_second: float | None
    ends_at: str | None


class WholeJobView(JobView, frozen=True, kw_only=True):
    """A job with its ledger and its progress; ``pattern`` makes its URLs where they are no list."""

    pattern: str | None
    refusals: list[str]
    ledger: JobLedgerView
    progress: JobProgressView


class JobsView(View, frozen=True, kw_only=True):
    """A page of jobs, the newest first."""

    jobs: list[JobView]
    cursor: str | None
    more: bool


class RetriedView(View, frozen=True, kw_only=True):
    """So many failed tasks are worked on again; ``skipped`` are past their biz's time to live.

    ``more`` says that the call's time was up before all were: call again.
    """

    retried: int
    skipped: int
    more: bool
    job: JobView


def job_view(job: Job) -> JobView:
    """A job as lists show it."""
    return JobView(**_facts(job))


def whole_job_view(job: Job, ledger: Ledger, now: datetime) -> WholeJobView:
    """A job with where its tasks are."""
    pace = progress_of(job, ledger, now)
    return WholeJobView(
        **_facts(job),
        pattern=job.start.pattern,
        refusals=list(job.refusals),
        ledger=JobLedgerView(
            submitted=ledger.submitted,
            pending=ledger.pending,
            leased=ledger.leased,
            waiting=ledger.waiting,
            done=ledger.done,
            dead=ledger.dead,
            cancelled=ledger.cancelled,
            expired=ledger.expired,
            others=ledger.others,
        ),
        progress=JobProgressView(
            tasks=pace.tasks,
            expanded_share=round(pace.expanded_share, 6),
            ended=pace.ended,
            ended_share=round(pace.ended_share, 6),
            per_second=None if pace.per_second is None else round(pace.per_second, 3),
            ends_at=maybe_at(pace.ends_at),
        ),
    )


def _facts(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "state": job.state.value,
        "by": job.by,
        "rule": job.rule,
        "rule_version": job.rule_version,
        "spider": job.spider,
        "spider_version": job.spider_version,
        "schedule": job.schedule,
        "fire_at": maybe_at(job.fire_at),
        "values": job.values,
        "priority": job.priority,
        "pool": job.pool,
        "worker": job.worker,
        "placed_at": maybe_at(job.placed_at),
        "lowered": job.lowered,
        "size": job.size,
        "expanded": job.expanded,
        "refused": job.refused,
        "created_at": at(job.created_at),
        "expanded_at": maybe_at(job.expanded_at),
        "cancelled_at": maybe_at(job.cancelled_at),
        "ended_at": maybe_at(job.ended_at),
        "counts": job.counts,
        "trouble": job.trouble,
    }
