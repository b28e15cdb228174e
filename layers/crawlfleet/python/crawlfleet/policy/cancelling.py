"""What cancelling a job takes: for how long it is announced, and when it is over (SPEC.md C2)."""

from datetime import datetime, timedelta
from typing import Final

from crawlfleet.model.job import Job, JobState
from crawlfleet.model.ledger import Ledger

#: An announcement stands for so long; it is made again while the job is being cancelled.
ANNOUNCED_SECONDS: Final = 60.0
#: A worker begins nothing of a job for so long after it has heard of it the last time. Shorter: a
#: dead letter of it that is replayed afterwards is not to be let go for a minute.
HEEDED_SECONDS: Final = 15.0
#: So many jobs are announced at once; of more the latest. What is not heard of ends with the
#: renewal of its leases.
MOST_ANNOUNCED: Final = 5_000
#: From one announcement of a job to the next.
AGAIN: Final = timedelta(seconds=5)


def is_over(job: Job, ledger: Ledger) -> bool:
    """Whether a job that is being cancelled has ended.

    Its ledger is to be read after ``job``: a batch that is still being stored has a task that is in
    no ledger yet, and none is begun any more.
    """
    return job.state is JobState.CANCELLING and job.batch is None and ledger.open == 0


def wants_announcing(job: Job, now: datetime) -> bool:
    """Whether workers are to be told again."""
    return job.looked_at is None or job.looked_at <= now - AGAIN


def counts_of(ledger: Ledger) -> dict[str, int]:
    """How a job's tasks have ended, as it keeps that."""
    return {
        "done": ledger.done,
        "dead": ledger.dead,
        "cancelled": ledger.cancelled,
        "expired": ledger.expired,
    }
