"""A schedule: a cron line, in a time zone, on what its jobs crawl (SPEC.md B1, C2).

The store of schedules, as their verbs ask for it.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.jobs.spiders.models import Start

#: Versions of a schedule that are kept, the newest one with them.
KEPT_VERSIONS = 50
#: Schedules that a biz may have.
MOST_SCHEDULES = 1_000
#: Ticks that are further apart have not followed one another: no scheduler ran in between.
SCAN_GAP = timedelta(minutes=3)
#: How late a fire time may be for ``missed: skip``, unless the schedule says otherwise.
USUAL_TOLERANCE_SECONDS = 300

Jitter = Annotated[int, Meta(ge=0, le=3_600)]
#: Schedulers come by every minute.
Tolerance = Annotated[int, Meta(ge=60, le=86_400)]


class Missed(StrEnum):
    """What happens to fire times that passed while no scheduler ran.

    ``ALL`` makes up for each of them, ``LATEST`` for the last one, ``SKIP`` only for those that are
    late by no more than the schedule's tolerance. What had to wait since schedulers had too many
    schedules to run is not late.
    """

    ALL = "all"
    LATEST = "latest"
    SKIP = "skip"


class Overlap(StrEnum):
    """What a fire does while an earlier job of its schedule has not ended.

    ``ALLOW`` starts its own beside it, ``SKIP`` starts none, ``QUEUE`` waits until that one has
    ended, ``REPLACE`` has it cancelled and starts its own.
    """

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class OutcomeKind(StrEnum):
    """What became of a fire time. Those that are ``WAITING`` or ``FAILED`` are tried again."""

    STARTED = "started"
    SKIPPED = "skipped"
    WAITING = "waiting"
    FAILED = "failed"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a fire time: the ``job`` it started, or ``why`` it did not, for people."""

    kind: OutcomeKind
    fire_at: datetime
    at: datetime
    job: str | None = None
    why: str = ""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is kept; ``(tenant, biz, name)`` is its key.

    Attributes:
        rule: What reads the pages of ``urls`` or of ``start``; None with a ``spider``.
        spider: The kept spider its jobs are runs of, in ``spider_version``, None being the newest.
        values: What fills the places that the start leaves open.
        priority: Its jobs'; None is the spider's, or the usual one.
        jitter_seconds: A fire comes up to so much later than its line says, the same each time it
            is computed (jobs.schedules.cron.due_at).
        tolerance_seconds: How late a fire may be under ``missed: skip``.
        version: Counts from 1; every change of what a client says makes another one, at ``put_at``.
        fire_at: The next fire time by the cron line that is still to be dealt with; None while the
            schedule is disabled or will never fire again.
        next_at: When that is to be looked at: with its jitter, or later where it has to wait.
    """

    tenant: str
    biz: str
    name: str
    cron: str
    time_zone: str
    rule: str | None = None
    urls: tuple[str, ...] = ()
    start: Start | None = None
    spider: str | None = None
    spider_version: int | None = None
    values: dict[str, str] = {}
    priority: int | None = None
    overlap: Overlap = Overlap.ALLOW
    missed: Missed = Missed.ALL
    tolerance_seconds: int = USUAL_TOLERANCE_SECONDS
    jitter_seconds: int = 0
    enabled: bool = True
    version: int = 1
    put_at: datetime | None = None
    fire_at: datetime | None = None
    next_at: datetime | None = None
    last_fired_at: datetime | None = None
    last_outcome: Outcome | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Tenant, biz and name."""
        return self.tenant, self.biz, self.name

    @property
    def content(self) -> "Schedule":
        """What a client says of it, without what the scheduler keeps of it."""
        return replace(
            self,
            version=1,
            put_at=None,
            fire_at=None,
            next_at=None,
            last_fired_at=None,
            last_outcome=None,
        )


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a schedule that is to come.

    ``fire_at`` is the cron line's time, ``at`` the same with the schedule's jitter, ``local_at``
    that in the schedule's zone. ``shift_seconds`` is by how much clocks there have been put forward
    (or back, below 0) since the run before, or since now.
    """

    fire_at: datetime
    at: datetime
    local_at: datetime
    shift_seconds: int


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

    def begin_scan(self, now: datetime) -> datetime:
        """A tick goes through what is due now; returns since when ticks have not come to its end.

        That is ``now`` where the last one has, or where for ``LOOKS_APART`` there was none.
        """
        ...

    def end_scan(self) -> None:
        """The tick has come to the end of what was due."""
        ...

    def advance(self, read: Schedule, to: Schedule) -> bool:
        """Go on from what was read: to another fire time, a later look, another last outcome.

        Unless somebody has gone on from there, or put it anew, meanwhile; False then.
        """
        ...
