"""How far a job is, and when it will end (SPEC.md C3): from the job, its ledger and the time."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.model.job import ENDED, Job
from crawlfleet.model.ledger import Ledger

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
