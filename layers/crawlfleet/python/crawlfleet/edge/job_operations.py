"""What the API asks of whoever wires it about jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.model.job import Job, JobOrder, JobState
from crawlfleet.model.ledger import Ledger


class StartedJob(Protocol):
    """A job, and whether the call has made it."""

    @property
    def job(self) -> Job:
        """The job."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether the call has made it."""
        ...


class SeenJob(Protocol):
    """A job, and where its tasks are."""

    @property
    def job(self) -> Job:
        """The job."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Where its tasks are."""
        ...


class RetriedJob(Protocol):
    """What retrying a job's failed tasks did."""

    @property
    def job(self) -> Job:
        """The job as it stands then."""
        ...

    @property
    def count(self) -> int:
        """So many are worked on again."""
        ...

    @property
    def skipped(self) -> int:
        """So many are past their time to live."""
        ...

    @property
    def more(self) -> bool:
        """Whether the time was up before all were."""
        ...


class JobPage(Protocol):
    """A page of jobs."""

    @property
    def items(self) -> list[Job]:
        """Its jobs."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class JobOperations(Protocol):
    """What can be done with jobs, each for the tenant of the call's API key."""

    def start_job(self, order: JobOrder, key: str | None) -> StartedJob:
        """Start a job, or find the one that the same order has started."""
        ...

    def list_jobs(
        self,
        tenant: str,
        biz: str,
        *,
        states: Sequence[JobState],
        spider: str | None,
        schedule: str | None,
        cursor: str | None,
        limit: int,
    ) -> JobPage:
        """A page of jobs."""
        ...

    def get_job(self, tenant: str, biz: str, name: str) -> SeenJob:
        """One job and its ledger."""
        ...

    def cancel_job(self, tenant: str, biz: str, name: str) -> SeenJob:
        """Cancel a job; as it stands a moment later."""
        ...

    def retry_job(self, tenant: str, biz: str, name: str, *, current_rule: bool) -> RetriedJob:
        """Have its failed tasks worked on again."""
        ...

    def moment(self) -> datetime:
        """Now."""
        ...
