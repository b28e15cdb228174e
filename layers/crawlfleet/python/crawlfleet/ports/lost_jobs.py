"""Open jobs of bizs that are no more (SPEC.md C5)."""

from datetime import datetime
from typing import Protocol


class LostJobs(Protocol):
    """The same jobs as JobStore's."""

    def bizs(self) -> list[tuple[str, str]]:
        """Tenant and biz of every job that has not ended, in order."""
        ...

    def lose(self, tenant: str, biz: str, now: datetime, before: datetime, limit: int) -> int:
        """Their biz is not there: note since when, and end those that have lost it ``before``.

        ``limit`` of them at most, as ``CANCELLED``. Their tasks cannot be counted: ``counts`` are
        what was refused. Returns how many it has ended.
        """
        ...

    def find(self, tenant: str, biz: str) -> None:
        """Their biz is there: none of its jobs has lost it."""
        ...
