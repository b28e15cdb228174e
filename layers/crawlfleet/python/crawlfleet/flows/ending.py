"""How a job ends (SPEC.md C5): its ledger says so, never an empty queue.

A job that has made all of its tasks is done when none of those that carry its name is open: its
own, and those that its pages lead to. Links are seeds before the outcome of their page is stored,
so what is yet to become a task is known when the last one ends: an open seed of the job's keeps it.

What has ended stays so unless its dead letters are tried again as a job's. A single one that is
replayed is worked on, and the job's ledger shows it; its state and counts are those of the end.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.errors import ConfigError, RejectedError, StoreError, UnknownBizError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.learning import LearningPorts, learn_run
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.job import Job, JobState
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Ledger
from crawlfleet.model.request import FINAL_STATES
from crawlfleet.model.seed import SeedState
from crawlfleet.policy.job_turns import after_trouble, until_look_again
from crawlfleet.ports import JobStore, Ledgers, RequestStore, SeedStore

#: Jobs that are looked up at once.
JOBS_A_ROUND: Final = 100
#: A tenant's looks in one round before the others' have been had.
SHARE: Final = timedelta(seconds=0.5)
#: Open seeds of a job whose requests are looked at; one with more has not ended.
SEEDS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingPorts:
    """What ending jobs needs of the world; ``warn`` is told what is wrong but not fatal."""

    jobs: JobStore
    ledgers: Ledgers
    seeds: SeedStore
    store: RequestStore
    learning: LearningPorts
    warn: Callable[[str, Exception], None]


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
        ports.jobs.look(job, now, trouble, now + after_trouble(job.troubles))
        return False
    try:
        lane, biz = biz_of(tree, job.tenant, job.biz)
        ledger = ports.ledgers.totals(lane, biz, now, job.name)
        left = ledger.open
        wait = until_look_again(left, job.left, _waited(job))
        if left <= 0 and not _leads_on(ports, lane, biz, job):
            # Homes are read one after another. Whatever became a task meanwhile, and led on to
            # where had been looked already, has been counted since, though it may have ended.
            again = ports.ledgers.totals(lane, biz, now, job.name)
            if _counted(again) == _counted(ledger):
                counts = counts_of(job, ledger)
                learn_run(ports.learning, job, counts, now)
                if not ports.jobs.end(job, JobState.DONE, counts, now):
                    return False
                # Whoever learns forgets the end of a job that goes on: this may have taken long.
                learn_run(ports.learning, job, counts, now)
                return True
    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
        trouble, wait = _trouble(error), after_trouble(job.troubles)
        if isinstance(error, StoreError | UnknownBizError | ConfigError):
            away[job.key[:2]] = trouble
        if not isinstance(error, RejectedError):
            ports.warn(f"it is not known whether job {'/'.join(job.key)} has ended", error)
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


def _leads_on(ports: EndingPorts, lane: Lane, biz: Biz, job: Job) -> bool:
    """Whether there are seeds of it that are no ended tasks yet."""
    seeds = ports.seeds.open_of_job(lane, biz, job.name, SEEDS)
    if len(seeds) >= SEEDS:
        return True
    for seed in seeds:
        if seed.state is not SeedState.HANDED or seed.request is None:
            return True
        # Its end may not have been told to the seed; a request that is not there is stored yet.
        tracked = ports.store.get(lane, biz, seed.request)
        if tracked is None or tracked.state not in FINAL_STATES:
            return True
    return False


def _trouble(error: Exception) -> str:
    if isinstance(error, UnknownBizError):
        return str(error)
    if isinstance(error, ConfigError):
        return "the biz has no valid document"
    return "its ledger cannot be read now; it is looked at again"
