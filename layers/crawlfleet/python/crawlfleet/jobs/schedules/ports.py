"""The store of schedules, as their verbs ask for it."""

from datetime import datetime
from typing import Protocol

from crawlfleet.jobs.schedules.models import Schedule


class ScheduleStore(Protocol):
    """Schedules, and the last versions of what clients said of them."""

    def put(self, schedule: Schedule, over: Schedule | None) -> bool:
        """Keep a schedule where ``over`` stands, or none does; False where something else does.

        What stands is told by its version and its fire time. The version is kept beside the
        ``KEPT_VERSIONS`` last ones.
        """
        ...

    def get(self, tenant: str, biz: str, name: str) -> Schedule | None:
        """One schedule, or None."""
        ...

    def of_biz(self, tenant: str, biz: str) -> list[Schedule]:
        """Every schedule of a biz, by name."""
        ...

    def count(self, tenant: str, biz: str) -> int:
        """How many a biz has."""
        ...

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[Schedule]:
        """Versions of a schedule that stands, the newest first, as they were put."""
        ...

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """Remove it with its versions; True if there was one."""
        ...

    def due(self, now: datetime, limit: int) -> list[Schedule]:
        """Schedules whose ``next_at`` is not after ``now``: tenants in turns, oldest first of each.

        First comes the tenant whose has been due for longest.
        """
        ...

    def begin_look(self, now: datetime) -> datetime:
        """A tick goes through what is due now; returns since when ticks have not come to its end.

        That is ``now`` where the last one has, or where for ``LOOKS_APART`` there was none.
        """
        ...

    def end_look(self) -> None:
        """The tick has come to the end of what was due."""
        ...

    def advance(self, read: Schedule, to: Schedule) -> bool:
        """Go on from what was read: to another fire time, a later look, another last outcome.

        Unless somebody has gone on from there, or put it anew, meanwhile; False then.
        """
        ...
