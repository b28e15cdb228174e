"""How a job ends (SPEC.md C5): its ledger says so, never an empty queue.

A job that has made all of its tasks is done when none of those that carry its name is open: its
own, and those that its pages lead to. Links are seeds before the outcome of their page is stored,
so what is yet to become a task is known when the last one ends: an open seed of the job's keeps it.

What has ended stays so unless its dead letters are tried again as a job's. A single one that is
replayed is worked on, and the job's ledger shows it; its state and counts are those of the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.errors import ConfigError, RejectedError, UnknownBizError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.learning import LearningPorts, learn_run
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.job import Job, JobState
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Ledger
from crawlfleet.model.request import FINAL_STATES
from crawlfleet.model.seed import SeedState
from crawlfleet.policy.job_turns import after_trouble, until_look
from crawlfleet.ports import JobStore, Ledgers, RequestStore, SeedStore

#: Jobs that are looked up at once.
JOBS_A_ROUND: Final = 100
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

    Raises:
        StoreUnavailableError: the home node, which keeps the jobs, does not answer.
    """
    ended = 0
    while time_left() > 0:
        due = ports.jobs.watched(JOBS_A_ROUND, clock(), (JobState.RUNNING,))
        for job in due:
            if time_left() <= 0:
                break
            ended += _look(ports, tree, job, clock())
        if len(due) < JOBS_A_ROUND:
            break
    return ended


def _look(ports: EndingPorts, tree: Tree, job: Job, now: datetime) -> bool:
    trouble: str | None = None
    try:
        lane, biz = biz_of(tree, job.tenant, job.biz)
        ledger = ports.ledgers.totals(lane, biz, now, job.name)
        wait = until_look(ledger.open)
        if ledger.open <= 0 and not _leads_on(ports, lane, biz, job):
            # Seeds may have become tasks, and those have ended, since it was read.
            ledger = ports.ledgers.totals(lane, biz, now, job.name)
            if ledger.open <= 0:
                counts = counts_of(job, ledger)
                learn_run(ports.learning, job, counts, now)
                return ports.jobs.end(job, JobState.DONE, counts, now)
    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
        trouble, wait = _trouble(error), after_trouble(job.troubles)
        if not isinstance(error, RejectedError):
            ports.warn(f"it is not known whether job {'/'.join(job.key)} has ended", error)
    ports.jobs.look(job, now, trouble, now + max(wait, timedelta(seconds=1)))
    return False


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
