"""How far a job is, and when it will end (SPEC.md C3): from the job, its ledger and the time.

How a job ends (SPEC.md C5): its ledger says so, never an empty queue.

A job that has made all of its tasks is done when none of those that carry its name is open: its
own, and those that its pages lead to. Links are seeds before the outcome of their page is stored,
so what is yet to become a task is known when the last one ends: an open seed of the job's keeps it.

What has ended stays so unless its dead letters are tried again as a job's. A single one that is
replayed is worked on, and the job's ledger shows it; its state and counts are those of the end.

Jobs whose biz was removed end (SPEC.md C5): nobody can make, find or count their tasks any more.

A biz may be missing by mistake, so they wait for it for ``KEPT``; then they end as cancelled, and a
biz that has its name a year later has nothing to do with them. One whose document is not valid is
there. Whoever cancels such a job keeps it from going on; it ends then as well.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.frontier.models import SeedState
from crawlfleet.jobs.expansion import backoff_after, next_poll_interval
from crawlfleet.jobs.models import ENDED, Job, JobState
from crawlfleet.jobs.ports import JobStore, OrphanedJobs
from crawlfleet.jobs.usage_averages import LearningPorts, learn_run
from crawlfleet.kernel.errors import ConfigError, RejectedError, StoreError, UnknownBizError
from crawlfleet.kernel.ids import FINAL_STATES
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.mongo.store import MongoSeeds

#: An end further away than this is none that anybody knows.
FURTHEST: Final = timedelta(days=3_650)
#: So many tasks have ended, and so much time has passed, before a rate says anything.
LEAST_ENDED: Final = 1
LEAST_SECONDS: Final = 1.0


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job is.

    Attributes:
        tasks: How many tasks it has as far as is known: those of its start that may be asked for,
            and those that its pages have led to.
        expanded_share: The part of its start that is made into tasks, from 0 to 1.
        ended: Tasks that have ended, however they did.
        ended_share: The same as a part of ``tasks``; 1 where there are none.
        per_second: Tasks that ended in a second, since it was created; None while nobody knows.
        ends_at: When the last one ends if that goes on; None while nobody knows, and once it has.
    """

    tasks: int
    expanded_share: float
    ended: int
    ended_share: float
    per_second: float | None = None
    ends_at: datetime | None = None


def progress_of(job: Job, ledger: Ledger, now: datetime) -> JobProgress:
    """How far a job is at ``now`` whose tasks are counted by ``ledger``."""
    unmade = 0 if job.state in ENDED else max(0, job.size - job.expanded)
    ended = ledger.done + ledger.dead + ledger.cancelled + ledger.expired
    tasks = max(ledger.submitted, ended) + unmade
    expanded_share = min(1.0, job.expanded / job.size) if job.size > 0 else 1.0
    ended_share = ended / tasks if tasks else 1.0
    until = now if job.ended_at is None else job.ended_at
    seconds = (until - job.created_at).total_seconds()
    rate = ended / seconds if seconds >= LEAST_SECONDS and ended >= LEAST_ENDED else None
    return JobProgress(
        tasks=tasks,
        expanded_share=expanded_share,
        ended=ended,
        ended_share=ended_share,
        per_second=rate,
        ends_at=None if job.state in ENDED else _end(tasks - ended, rate, now),
    )


def _end(left: int, rate: float | None, now: datetime) -> datetime | None:
    """When so many will have ended; nobody knows of what nothing is left and yet has not ended."""
    if rate is None or left <= 0 or left > rate * FURTHEST.total_seconds():
        return None
    try:
        return now + timedelta(seconds=left / rate)
    except OverflowError:
        return None


#: Jobs that are looked up at once.
JOBS_A_ROUND: Final = 100
#: A tenant's looks in one round before the others' have been had.
SHARE: Final = timedelta(seconds=0.5)
#: Open seeds of a job whose requests are looked at; one with more has not ended.
SEEDS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingPorts:
    """What ending jobs needs of the world."""

    jobs: JobStore
    ledgers: MongoLedgers
    seeds: "MongoSeeds"
    store: MongoRequestStore
    learning: LearningPorts


def end_jobs(
    ports: EndingPorts,
    tree: Tree,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> int:
    """End every job that runs and has nothing open, of those that are due; how many.

    Where the ledger of a biz cannot be read its other jobs wait as well, unasked: what hangs costs
    a round once. Whoever has had ``SHARE`` of a round goes on after the others.

    Raises:
        StoreUnavailableError: the home node, which keeps the jobs, does not answer.
    """
    ended = 0
    away: dict[tuple[str, str], str] = {}
    while time_left() > 0:
        due = ports.jobs.watched(JOBS_A_ROUND, clock(), (JobState.RUNNING,))
        spent: defaultdict[str, timedelta] = defaultdict(timedelta)
        waiting: list[Job] = []
        for job in due:
            if time_left() <= 0:
                return ended
            if spent[job.tenant] >= SHARE:
                waiting.append(job)
                continue
            began = clock()
            ended += _look(ports, tree, job, began, away)
            spent[job.tenant] += clock() - began
        for job in waiting:
            if time_left() <= 0:
                return ended
            ended += _look(ports, tree, job, clock(), away)
        if len(due) < JOBS_A_ROUND:
            break
    return ended


def _look(
    ports: EndingPorts, tree: Tree, job: Job, now: datetime, away: dict[tuple[str, str], str]
) -> bool:
    trouble, left = away.get(job.key[:2]), None
    if trouble is not None:
        ports.jobs.look(job, now, trouble, now + backoff_after(job.troubles))
        return False
    try:
        queue_key, biz = biz_of(tree, job.tenant, job.biz)
        ledger = ports.ledgers.totals(queue_key, biz, now, job.name)
        left = ledger.open
        wait = next_poll_interval(left, job.left, _waited(job))
        if left <= 0 and not _leads_on(ports, queue_key, biz, job):
            # Homes are read one after another. Whatever became a task meanwhile, and led on to
            # where had been looked already, has been counted since, though it may have ended.
            again = ports.ledgers.totals(queue_key, biz, now, job.name)
            if _counted(again) == _counted(ledger):
                counts = counts_of(job, ledger)
                learn_run(ports.learning, job, counts, now)
                if not ports.jobs.end(job, JobState.DONE, counts, now):
                    return False
                # Whoever learns forgets the end of a job that goes on: this may have taken long.
                learn_run(ports.learning, job, counts, now)
                return True
    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
        trouble, wait = _trouble(error), backoff_after(job.troubles)
        if isinstance(error, StoreError | UnknownBizError | ConfigError):
            away[job.key[:2]] = trouble
        if not isinstance(error, RejectedError):
            warn(f"it is not known whether job {'/'.join(job.key)} has ended", error)
    ports.jobs.look(job, now, trouble, now + max(wait, timedelta(seconds=1)), left)
    return False


def _waited(job: Job) -> timedelta:
    if job.looked_at is None or job.due_at is None:
        return timedelta()
    return job.due_at - job.looked_at


def _counted(ledger: Ledger) -> tuple[int, ...]:
    terms = ledger.done, ledger.dead, ledger.cancelled, ledger.expired
    return ledger.submitted, *terms


def counts_of(job: Job, ledger: Ledger) -> dict[str, int]:
    """How the tasks of a job ended, as it keeps it."""
    return {
        "done": ledger.done,
        "dead": ledger.dead,
        "cancelled": ledger.cancelled,
        "expired": ledger.expired,
        "refused": job.refused,
    }


def _leads_on(ports: EndingPorts, queue_key: QueueKey, biz: Biz, job: Job) -> bool:
    """Whether there are seeds of it that are no ended tasks yet."""
    seeds = ports.seeds.open_of_job(queue_key, biz, job.name, SEEDS)
    if len(seeds) >= SEEDS:
        return True
    for seed in seeds:
        if seed.state is not SeedState.HANDED or seed.request is None:
            return True
        # Its end may not have been told to the seed; a request that is not there is stored yet.
        tracked = ports.store.get(queue_key, biz, seed.request)
        if tracked is None or tracked.state not in FINAL_STATES:
            return True
    return False


def _trouble(error: Exception) -> str:
    if isinstance(error, UnknownBizError):
        return str(error)
    if isinstance(error, ConfigError):
        return "the biz has no valid document"
    return "its ledger cannot be read now; it is looked at again"


#: Jobs wait so long for a biz that was removed.
KEPT: Final = timedelta(days=7)
#: The turn's name, how often it comes round, and after what a holder that vanished loses it.
LOCK: Final = "lost_jobs"
EVERY: Final = timedelta(minutes=10)
TERM: Final = timedelta(minutes=2)
#: Jobs of one biz that one round ends.
BATCH: Final = 1_000


def end_orphaned_jobs(
    lost: OrphanedJobs, tree: Tree, now: datetime, time_left: Callable[[], float]
) -> int:
    """End the jobs whose biz has not been there for ``KEPT``; how many.

    Raises:
        StoreUnavailableError: the home node, which keeps the jobs, does not answer.
    """
    ended = 0
    for tenant, biz in lost.bizs():
        if time_left() <= 0:
            break
        if biz in tree.bizs.get(tenant, {}) or (tenant, biz) in tree.refused:
            lost.find(tenant, biz)
        else:
            ended += lost.lose(tenant, biz, now, now - KEPT, BATCH)
    return ended
