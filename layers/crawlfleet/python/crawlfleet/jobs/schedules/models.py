"""Schedules: a cron line in a time zone, and what its jobs crawl (SPEC.md B1, C2)."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.crawling.frontier.models import SegmentChoice
from crawlfleet.jobs.spiders.models import Filling, Start

#: Versions of a schedule that are kept, the newest one with them.
KEPT_VERSIONS = 50
#: Schedules that a biz may have.
MOST_SCHEDULES = 1_000
#: Ticks further apart than this did not follow one another: no scheduler ran in between.
SCAN_GAP = timedelta(minutes=3)
#: How late a fire time may be for ``missed: skip``, unless the schedule says otherwise.
USUAL_TOLERANCE_SECONDS = 300
#: A fire that waits for so long, by no policy of its schedule, has failed.
LONG_WAIT = timedelta(minutes=5)

Jitter = Annotated[int, Meta(ge=0, le=3_600)]
#: A scheduler ticks each half minute; one tick may take longer.
Tolerance = Annotated[int, Meta(ge=60, le=86_400)]


class Missed(StrEnum):
    """The policy for fire times that passed while no scheduler ran.

    ``ALL`` makes up for each of them, ``LATEST`` for the last one, ``SKIP`` only for those that are
    late by no more than the schedule's tolerance. Waiting for a scheduler that had too many
    schedules to run makes none late.
    """

    ALL = "all"
    LATEST = "latest"
    SKIP = "skip"


class Overlap(StrEnum):
    """The policy for a fire while an earlier job of its schedule has not ended.

    ``ALLOW`` starts its own beside it, ``SKIP`` starts none, ``QUEUE`` waits until that one has
    ended, ``REPLACE`` has it cancelled and starts its own.
    """

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class OutcomeKind(StrEnum):
    """The outcome of a fire time. Those that are ``WAITING`` or ``FAILED`` are tried again."""

    STARTED = "started"
    SKIPPED = "skipped"
    WAITING = "waiting"
    FAILED = "failed"


class ScheduleState(StrEnum):
    """The state of a schedule, for people.

    ``PAUSED`` fires nothing until it is resumed, ``OVER`` never again. Of one that is ``DUE`` the
    next tick starts a job, or has found why it has to wait. While ``RUNNING`` a job of it has not
    ended; ``WAITING`` has none, and waits for its next time.
    """

    PAUSED = "paused"
    OVER = "over"
    DUE = "due"
    RUNNING = "running"
    WAITING = "waiting"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a fire time: the ``job`` it started, or ``why`` it did not, for people.

    ``as_meant`` is where ``overlap`` or ``missed`` have it wait, or be skipped.
    """

    kind: OutcomeKind
    fire_at: datetime
    at: datetime
    job: str | None = None
    why: str = ""
    as_meant: bool = False

    @property
    def has_failed(self) -> bool:
        """Tell whether it has started no job, and that is not as its schedule means it."""
        if self.kind is OutcomeKind.WAITING:
            return not self.as_meant and self.at - self.fire_at >= LONG_WAIT
        return self.kind is OutcomeKind.FAILED or (
            self.kind is OutcomeKind.SKIPPED and not self.as_meant
        )


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is kept; ``(tenant, biz, name)`` is its key.

    Attributes:
        rule: What reads the pages of ``urls`` or of ``start``; None with a ``spider``.
        spider: The kept spider its jobs are runs of, in ``spider_version``, None being the newest.
        values: What fills the places that the start leaves open.
        priority: Its jobs'; None is the spider's, or the usual one.
        segment: The one that the links of its jobs are known in; None is each job's own.
        user: Whom its jobs are for; None is nobody in particular.
        jitter_seconds: A fire comes up to so much later than its line says, the same each time it
            is computed (jobs.schedules.cron.due_at).
        tolerance_seconds: How late a fire may be under ``missed: skip``.
        version: Counts from 1; every change of what a client says makes another one, at ``put_at``.
        fire_at: The next fire time by the cron line that is still to be dealt with; None while the
            schedule is disabled or will never fire again.
        next_at: When that is due: with its jitter, or later where it has to wait.
        last_failure: The last outcome that was a failure, whatever has come after it.
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
    values: dict[str, Filling] = {}
    priority: int | None = None
    segment: SegmentChoice | None = None
    user: str | None = None
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
    last_failure: Outcome | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Tenant, biz and name."""
        return self.tenant, self.biz, self.name

    @property
    def content(self) -> "Schedule":
        """Return what a client has set, without what the scheduler keeps."""
        kept = ("put_at", "fire_at", "next_at", "last_fired_at", "last_outcome", "last_failure")
        return replace(self, version=1, **dict.fromkeys(kept))

    @property
    def is_failing(self) -> bool:
        """Tell whether its last fire has failed, and nobody has paused or changed it since."""
        last = self.last_outcome
        if last is None or not (self.enabled and last.has_failed):
            return False
        return self.put_at is None or last.at >= self.put_at


def state_of(schedule: Schedule, now: datetime, *, runs: bool) -> ScheduleState:
    """Tell the state of a schedule, of which a job ``runs`` or does not."""
    if not schedule.enabled:
        return ScheduleState.PAUSED
    if schedule.fire_at is None:
        return ScheduleState.RUNNING if runs else ScheduleState.OVER
    last = schedule.last_outcome
    if (schedule.next_at or now) <= now or (last is not None and last.fire_at == schedule.fire_at):
        return ScheduleState.DUE
    return ScheduleState.RUNNING if runs else ScheduleState.WAITING


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A future run of a schedule.

    ``fire_at`` is the cron line's time, ``at`` the same with the schedule's jitter, ``local_at``
    that in the schedule's zone. ``shift_seconds`` is by how much clocks there have been put forward
    (or back, below 0) since the run before, or since now.
    """

    fire_at: datetime
    at: datetime
    local_at: datetime
    shift_seconds: int
