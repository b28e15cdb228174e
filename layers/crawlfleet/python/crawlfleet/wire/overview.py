"""The overview of the fleet, for people who watch it."""

from datetime import datetime

import msgspec

from crawlfleet.wire.costs import Cost
from crawlfleet.wire.fleet import BizState, FleetTotals, Headcount, Incident, PoolWorkers, Unread


class LateItem(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that is late: a biz's backlog, a fire of a schedule, a job that waits for a worker.

    ``name`` is the schedule's or the job's, empty of a biz; ``since`` is null where it is not
    known.
    """

    kind: str
    tenant: str
    biz: str
    name: str = ""
    since: datetime | None = None
    why: str = ""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The overview, some seconds old at most: of the fleet to operators, else of one's own bizs.

    ``bizs`` are 50, the late ones first, then those with most to do; ``totals`` are of all. Of
    ``late`` there are 100, of ``incidents`` the 20 newest that are open; ``late_count`` and
    ``incident_counts``, by severity, count all. ``cost`` is of the work since the day of UTC began.
    What could not be read is null, and named in ``unread``. What workers do is shown to operators.
    """

    at: datetime
    of_fleet: bool = False
    revision: str = ""
    config_refused: str | None = None
    workers: Headcount | None = None
    pools: tuple[PoolWorkers, ...] = ()
    totals: FleetTotals = FleetTotals()
    bizs: tuple[BizState, ...] = ()
    late: tuple[LateItem, ...] | None = ()
    late_count: int | None = 0
    incidents: tuple[Incident, ...] | None = ()
    incident_counts: dict[str, int] | None = {}
    cost: Cost | None = None
    unread: tuple[Unread, ...] = ()
