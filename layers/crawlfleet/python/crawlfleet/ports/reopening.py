"""Small questions about jobs, and a job that had ended and goes on (SPEC.md C2, D4)."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from crawlfleet.model.job import Job, JobState


class JobReopening(Protocol):
    """The same jobs as JobStore's."""

    def begin_retry(self, tenant: str, biz: str, name: str) -> Job | None:
        """Its dead letters are about to be worked on again: who read its ledger ends it no more.

        Returns the job as it stands then, None if none; unchanged where it is not ``RETRIABLE``.
        """
        ...

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """Have a job that is done run again, as if it had not ended.

        It does so beside whatever else is open of its schedule, whose next jobs it is in the way
        of. One in any other state stays as it is. Returns the job as it stands then, None if none.
        """
        ...


class CancelledJobs(Protocol):
    """Jobs that get no more tasks."""

    def cancelled(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, bool]:
        """Those of these jobs that are cancelled or being cancelled.

        False while the open tasks of the job are still being swept, True once nobody does.
        """
        ...


class JobStates(CancelledJobs, Protocol):
    """The same jobs as JobStore's."""

    def states(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, JobState]:
        """The states of those of these names that are jobs; nothing else of them is read."""
        ...
