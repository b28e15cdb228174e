"""Make jobs go on until they end (SPEC.md C3, C5), and estimate when that is.

A job that has made all of its tasks is done when no request that carries its name is open: its own,
and those that its pages lead to. Its ledger says so, not an empty queue. Links become seeds before
the outcome of their page is stored, so an open seed of the job keeps it from its end.

A job that has ended stays so unless its dead letters are retried as a job's. A single one that is
replayed counts in the ledger; the job's state and counts are those of its end.

Open jobs whose biz is missing are orphaned: nobody can make, find or count their tasks. A biz may
be missing by mistake, so they wait for it for ``KEPT``, then end as cancelled. A biz whose document
is invalid is not missing. An orphaned job that somebody cancels ends in the same way.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.frontier.models import SeedState
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.expansion import (
    Charge,
    JobExpansion,
    backoff_after,
    free_of_charge,
    next_poll_interval,
)
from crawlfleet.jobs.models import ENDED, SUBMITTED, Job, JobState, trouble_of
from crawlfleet.jobs.usage import RunUsage, counts_of
from crawlfleet.kernel import errors
from crawlfleet.kernel.ids import is_final
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock, TimeLeft
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
    from crawlfleet.jobs.mongo.lists import MongoOrphanedJobs
    from crawlfleet.jobs.mongo.store import MongoJobs

#: An estimated end further away than this is none.
FURTHEST: Final = timedelta(days=3_650)
#: Tasks that have ended, and seconds that have passed, before a rate is computed.
LEAST_ENDED: Final = 1
LEAST_SECONDS: Final = 1.0


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a job.

    ``tasks`` are, as far as is known, those of its start that may be asked for, and those that its
    pages have led to. ``expanded_share`` of its start is made into tasks, from 0 to 1.
    ``ended_share`` of ``tasks`` have ended, however they did; 1 where there are none. So many ended
    ``per_second`` since it was created, None while nobody knows; if that goes on the last one does
    at ``ends_at``, None once it has.
    """

    tasks: int
    expanded_share: float
    ended: int
    ended_share: float
    per_second: float | None = None
    ends_at: datetime | None = None


def progress_of(job: Job, ledger: Ledger, now: datetime) -> JobProgress:
    """Compute how far a job is at ``now`` whose tasks are counted by ``ledger``."""
    unmade = 0 if job.state in ENDED else max(0, job.size - job.expanded)
    ended = ledger.ended
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
    """Estimate when so many will have ended; unknown where none is left, yet the job goes on."""
    if rate is None or left <= 0 or left > rate * FURTHEST.total_seconds():
        return None
    try:
        return now + timedelta(seconds=left / rate)
    except OverflowError:
        return None


#: Jobs that are read at once.
JOBS_A_ROUND: Final = 100
#: A tenant's polls in one round before the others' have been done.
SHARE: Final = timedelta(seconds=0.5)
#: Open seeds of a job whose requests are read; one with more has not ended.
SEEDS: Final = 50
#: A job of submissions is ended so long after more was submitted: processes that take submissions
#: note their names again before that (jobs.submitted.NOTED_SECONDS).
REST: Final = timedelta(seconds=60)
#: How long orphaned jobs wait for their biz, and how many of one biz a round ends.
KEPT: Final = timedelta(days=7)
ORPHANS: Final = 1_000
#: Locks: name, interval, and after what a holder that vanished loses it.
LOCK: Final = "expanding"
EVERY: Final = timedelta(milliseconds=500)
TERM: Final = timedelta(seconds=30)
_ORPHAN_LOCK: Final = "lost_jobs"
_ORPHAN_EVERY: Final = timedelta(minutes=10)
_ORPHAN_TERM: Final = timedelta(minutes=2)
_UNREAD: Final = "its ledger cannot be read now; it is looked at again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """Counts what a round did; ``mine`` is False when another process had the lock."""

    mine: bool = True
    batches: int = 0
    tasks: int = 0
    ended: int = 0


def _waited(job: Job) -> timedelta:
    if job.looked_at is None or job.due_at is None:
        return timedelta()
    return job.due_at - job.looked_at


def _counted(ledger: Ledger) -> tuple[int, ...]:
    ends = ledger.done, ledger.dead, ledger.cancelled, ledger.expired
    return ledger.submitted, *ends, ledger.others_ended


def has_open_seeds(
    seeds: "MongoSeeds", store: MongoRequestStore, queue_key: QueueKey, biz: Biz, job: str
) -> bool:
    """Tell whether a page that a job has led to is still to be read."""
    found = seeds.open_of_job(queue_key, biz, job, SEEDS)
    if len(found) >= SEEDS:
        return True
    for seed in found:
        if seed.state is not SeedState.HANDED or seed.request is None:
            return True
        # The seed may not know of its end yet; a request that is not found is still to be stored.
        tracked = store.get(queue_key, biz, seed.request)
        if tracked is None or not is_final(tracked.state):
            return True
    return False


def _rests(job: Job, now: datetime) -> bool:
    """Tell whether more may have been submitted under a job's name than was noted."""
    return job.by == SUBMITTED and now - (job.submitted_at or job.created_at) < REST


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRounds:
    """The service whose rounds make tasks of jobs and end those that are done or orphaned."""

    jobs: "MongoJobs"
    orphaned: "MongoOrphanedJobs"
    expansion: JobExpansion
    ledgers: MongoLedgers
    seeds: "MongoSeeds"
    store: MongoRequestStore
    usage: RunUsage
    detector: RedisFailureDetector

    def advance(
        self,
        tree: Tree,
        by: str,
        clock: Clock,
        time_left: TimeLeft,
        charge: Charge = free_of_charge,
    ) -> Advanced:
        """Do a round, if the lock is free; ``by`` is who does it, ``charge`` as for expansion.

        The lock saves work and decides nothing. Ends come first, in half of the time at most:
        making tasks may take all there is. While Redis is away the round is left out, as new tasks
        would not be queued. Raises StoreUnavailableError (the home node, which keeps the jobs, does
        not answer).
        """
        if not self._acquire(by, LOCK, EVERY, TERM):
            return Advanced(mine=False)
        half = time_left() / 2
        try:
            ended = self.end_jobs(tree, clock, lambda: time_left() - half)
            if self._acquire(by, _ORPHAN_LOCK, _ORPHAN_EVERY, _ORPHAN_TERM):
                try:
                    ended += self.end_orphaned_jobs(tree, clock(), time_left)
                finally:
                    self._release(by, _ORPHAN_LOCK)
            made = self.expansion.expand(tree, clock, time_left, charge)
        finally:
            self._release(by, LOCK)
        return Advanced(batches=made.batches, tasks=made.tasks, ended=ended)

    def can_advance(self, now: datetime) -> bool:
        """Tell whether there is a job that tasks can be made of now."""
        return bool(self.jobs.expandable(1, now))

    def end_jobs(self, tree: Tree, clock: Clock, time_left: TimeLeft) -> int:
        """Poll the running jobs that are due, and end those with nothing open; return how many.

        Where the ledger of a biz cannot be read its other jobs wait as well, so that a timeout
        costs a round once. A tenant that has had ``SHARE`` of a round goes on after the others.
        """
        ended = 0
        away: dict[tuple[str, str], str] = {}
        while time_left() > 0:
            due = self.jobs.watched(JOBS_A_ROUND, clock(), (JobState.RUNNING,))
            spent: defaultdict[str, timedelta] = defaultdict(timedelta)
            waiting: list[Job] = []
            for job in due:
                if time_left() <= 0:
                    return ended
                if spent[job.tenant] >= SHARE:
                    waiting.append(job)
                    continue
                began = clock()
                ended += self._poll(tree, job, began, away)
                spent[job.tenant] += clock() - began
            for job in waiting:
                if time_left() <= 0:
                    return ended
                ended += self._poll(tree, job, clock(), away)
            if len(due) < JOBS_A_ROUND:
                break
        return ended

    def _poll(self, tree: Tree, job: Job, now: datetime, away: dict[tuple[str, str], str]) -> bool:
        trouble, left = away.get(job.key[:2]), None
        if trouble is not None:
            self.jobs.reschedule(job, now, trouble, now + backoff_after(job.troubles))
            return False
        try:
            queue_key, biz = biz_of(tree, job.tenant, job.biz)
            ledger = self.ledgers.totals(queue_key, biz, now, job.name)
            left = ledger.open
            wait = next_poll_interval(left, job.left, _waited(job))
            if left <= 0 and _rests(job, now):
                wait = max(wait, REST)
            elif left <= 0 and not has_open_seeds(self.seeds, self.store, queue_key, biz, job.name):
                # Nodes are read one after another. A seed that became a task meanwhile, on a node
                # that had been read, has been counted since, though it may have ended.
                again = self.ledgers.totals(queue_key, biz, now, job.name)
                if _counted(again) == _counted(ledger):
                    counts = counts_of(job, ledger)
                    self.usage.end_run(job, counts, now)
                    if not self.jobs.end(job, JobState.DONE, counts, now):
                        return False
                    # The end of a job that goes on is forgotten by learn_due: this may have taken
                    # long.
                    self.usage.end_run(job, counts, now)
                    return True
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            trouble, wait = trouble_of(error, _UNREAD, _UNREAD), backoff_after(job.troubles)
            if isinstance(error, errors.StoreError | errors.UnknownBizError | errors.ConfigError):
                away[job.key[:2]] = trouble
            if not isinstance(error, errors.RejectedError):
                warn(f"it is not known whether job {'/'.join(job.key)} has ended", error)
        self.jobs.reschedule(job, now, trouble, now + max(wait, timedelta(seconds=1)), left)
        return False

    def end_orphaned_jobs(self, tree: Tree, now: datetime, time_left: TimeLeft) -> int:
        """End the jobs whose biz has been missing for ``KEPT``; return how many."""
        ended = 0
        for tenant, biz in self.orphaned.bizs():
            if time_left() <= 0:
                break
            if biz in tree.bizs.get(tenant, {}) or (tenant, biz) in tree.refused:
                self.orphaned.clear(tenant, biz)
            else:
                ended += self.orphaned.end(tenant, biz, now, now - KEPT, ORPHANS)
        return ended

    def _acquire(self, by: str, lock: str, every: timedelta, term: timedelta) -> bool:
        try:
            return self.detector.acquire_lock(lock, by, every, term)
        except errors.StoreUnavailableError as error:
            warn(f"the lock {lock} could not be acquired", error)
            return False

    def _release(self, by: str, lock: str) -> None:
        try:
            self.detector.release_lock(lock, by)
        except errors.StoreUnavailableError as error:
            warn(f"the lock {lock} could not be released", error)
