"""What the API asks of whoever wires it about schedules."""

from typing import Protocol

from crawlfleet.model.job import Job
from crawlfleet.model.schedule import Run, Schedule


class ScheduleOperations(Protocol):
    """What can be done with schedules, each for the tenant of the call's API key."""

    def put_schedule(self, schedule: Schedule) -> Schedule:
        """Create or replace a schedule."""
        ...

    def get_schedule(self, tenant: str, biz: str, name: str) -> Schedule:
        """One schedule."""
        ...

    def list_schedules(self, tenant: str, biz: str) -> list[Schedule]:
        """Every schedule of a biz."""
        ...

    def delete_schedule(self, tenant: str, biz: str, name: str) -> None:
        """Delete a schedule."""
        ...

    def schedule_versions(self, tenant: str, biz: str, name: str, limit: int) -> list[Schedule]:
        """The last versions of a schedule, the newest first."""
        ...

    def enable_schedule(self, tenant: str, biz: str, name: str, *, enabled: bool) -> Schedule:
        """Resume a schedule, or pause it."""
        ...

    def preview_schedule(self, schedule: Schedule, count: int) -> list[Run]:
        """The next runs of a schedule, whether it is kept or not."""
        ...

    def run_schedule(self, tenant: str, biz: str, name: str, key: str | None) -> Job:
        """Start a job of a schedule now, once for all calls under one ``key``."""
        ...
