"""What cancelling a job takes: for how long it is announced, and when it is over (SPEC.md C2)."""

from collections.abc import Mapping
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


def is_over(job: Job, ledger: Ledger) -> bool:
    """Whether a job that is being cancelled has ended.

    Its ledger is to be read after ``job``: a batch that is still being stored has tasks that are in
    no ledger yet, and none is begun any more.
    """
    return job.state is JobState.CANCELLING and job.batch is None and ledger.open <= 0


def cancelled(states: Mapping[str, JobState]) -> dict[str, bool]:
    """The jobs that are cancelled or being cancelled; True once their tasks are swept no more.

    >>> cancelled({"a": JobState.CANCELLING, "b": JobState.CANCELLED, "c": JobState.RUNNING})
    {'a': False, 'b': True}
    """
    return {
        name: state is JobState.CANCELLED
        for name, state in states.items()
        if state in {JobState.CANCELLING, JobState.CANCELLED}
    }


def counts_of(job: Job, ledger: Ledger) -> dict[str, int]:
    """How the tasks of a job have ended, as it keeps that."""
    return {
        "done": ledger.done,
        "dead": ledger.dead,
        "cancelled": ledger.cancelled,
        "expired": ledger.expired,
        "refused": job.refused,
    }
