"""A job: one run of a spider, a schedule or a list of URLs, made into tasks (SPEC.md B2, C2, C3).

Its tasks are requests that carry its name, and its end is read from their ledger, not from a queue.
"""

from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from crawlfleet.jobs.spiders.models import LinkNeeds, Start
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY
from crawlfleet.kernel.time import from_ms, to_ms


class JobState(StrEnum):
    """Where a job is. ``PLACING`` waits for a worker that it suits, where that is wanted."""

    PLACING = "placing"
    EXPANDING = "expanding"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    CANCELLED = "cancelled"
    UNPLACED = "unplaced"


#: Nothing more will happen to a job in these.
ENDED = frozenset({JobState.DONE, JobState.CANCELLED, JobState.UNPLACED})
#: These wait for a worker.
PLACEABLE = frozenset({JobState.PLACING})
#: These still make tasks.
EXPANDABLE = frozenset({JobState.EXPANDING})
#: Their dead letters may be retried: what was cancelled is not to go on behind one's back.
RETRIABLE = frozenset({JobState.EXPANDING, JobState.RUNNING, JobState.DONE})
#: Their ledger is looked at.
WATCHED = frozenset({JobState.RUNNING, JobState.CANCELLING})
#: Sentences that a job keeps of why URLs of it were refused, and their longest.
MOST_REFUSALS = 10
LONGEST_REFUSAL = 500


class TaskBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks ``first`` up to, and without, ``first + len(ids)``; written before they are stored.

    Whoever finds a batch that stands goes on with its ids, so no task is made twice.
    """

    first: int
    ids: tuple[RequestId, ...]
    queued_at: datetime


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is kept; ``(tenant, biz, name)`` is its key.

    Attributes:
        spider: The kept spider it is a run of, ``spider_version`` its version; None without one.
        schedule: The schedule that fired it, at ``fire_at``; None otherwise.
        by: Who started it: ``api``, ``schedule``, ``run_now``, ``event``.
        rule: What reads its pages, ``rule_version`` frozen for all of its tasks.
        start: Its tasks, every place filled; ``size`` how many they are.
        priority: Its tasks' (requests.queue.ageing).
        link: What a worker's way to the site must be like.
        pool: The workers whose queue its tasks go to; None is any.
        lowered: How often its demand was lowered while it waited for a worker.
        worker: Who has won it, with the ``award`` of that number, at ``placed_at``; None where it
            waited for nobody.
        expanded: So many tasks are stored, or refused.
        batch: Tasks that are being stored.
        refused: So many of those expanded have a URL that may not be asked for, and are no
            request; ``refusals`` are the first reasons, ``MOST_REFUSALS`` at most.
        looked_at: When somebody last made tasks of it, or looked at its ledger.
        due_at: When that is to be done again; jobs take turns by it.
        sweep_at: When what is open of a job that is being cancelled is swept again.
        left: So many of its tasks were open when its ledger was looked at; None before that.
        retries: So often was it asked to work on its dead letters again.
        counts: Tasks by how they ended, once it has: done, dead, cancelled, expired, refused.
        trouble: Why it does not go on, for people; None while it does. ``troubles`` counts the
            looks in a row that found some.
    """

    tenant: str
    biz: str
    name: str
    state: JobState
    rule: str
    rule_version: str
    start: Start
    size: int
    created_at: datetime
    by: str
    spider: str | None = None
    spider_version: int | None = None
    schedule: str | None = None
    fire_at: datetime | None = None
    values: dict[str, str] = {}
    priority: int = DEFAULT_PRIORITY
    link: LinkNeeds = LinkNeeds()
    pool: str | None = None
    lowered: int = 0
    worker: str | None = None
    award: int | None = None
    placed_at: datetime | None = None
    expanded: int = 0
    batch: TaskBatch | None = None
    refused: int = 0
    refusals: tuple[str, ...] = ()
    expanded_at: datetime | None = None
    cancelled_at: datetime | None = None
    looked_at: datetime | None = None
    due_at: datetime | None = None
    sweep_at: datetime | None = None
    left: int | None = None
    retries: int = 0
    ended_at: datetime | None = None
    counts: dict[str, int] = {}
    trouble: str | None = None
    troubles: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """Tenant, biz and name."""
        return self.tenant, self.biz, self.name

    def as_created(self) -> "Job":
        """As a store keeps it: times to the millisecond, due as soon as it is there."""
        created_at = from_ms(to_ms(self.created_at))
        return replace(
            self,
            created_at=created_at,
            fire_at=None if self.fire_at is None else from_ms(to_ms(self.fire_at)),
            due_at=created_at if self.due_at is None else from_ms(to_ms(self.due_at)),
        )


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants started: a kept spider, or a rule with a start of its own.

    ``version`` is a version of the spider, None the newest. ``values`` fill the start's open
    places; ``pool`` comes before the spider's. Under one ``name`` a job is started once, whoever
    asks again; None makes up a new one.
    """

    tenant: str
    biz: str
    by: str
    name: str | None = None
    spider: str | None = None
    version: int | None = None
    rule: str | None = None
    start: Start | None = None
    values: dict[str, str] = {}
    priority: int | None = None
    pool: str | None = None
    schedule: str | None = None
    fire_at: datetime | None = None
