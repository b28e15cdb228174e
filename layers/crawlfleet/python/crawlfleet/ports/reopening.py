"""A job that had ended goes on: dead letters of it are worked on again (SPEC.md D4)."""

from datetime import datetime
from typing import Protocol

from crawlfleet.model.job import Job


class JobReopening(Protocol):
    """The same jobs as JobStore's."""

    def reopen(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """Have a job that is done run again, as if it had not ended.

        One in any other state stays as it is. Returns the job as it stands then, None if none.
        """
        ...
