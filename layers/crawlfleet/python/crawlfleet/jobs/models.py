"""Jobs and their runs (SPEC.md B2, B3, B10, C2, C3).

A job is one run of a spider, a schedule or a list of URLs, made into tasks: requests that carry its
name. Its ledger says when it has ended, not a queue. A run is what a job took of its workers; what
is learnt from the runs of a spider is its demand.

CPU is an index: frequency in GHz times cores times the part of them that is used.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from crawlfleet.jobs.spiders.models import LinkNeeds, Start
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY
from crawlfleet.kernel.time import from_ms, to_ms

#: Tenant, biz and name of a job.
JobKey: TypeAlias = tuple[str, str, str]


class JobState(StrEnum):
    """The state of a job. ``PLACING`` waits for a suitable worker, where that is wanted."""

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
        rule: What reads its pages, ``rule_version`` fixed for all of its tasks.
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
    def key(self) -> JobKey:
        """Tenant, biz and name."""
        return self.tenant, self.biz, self.name

    def as_created(self) -> "Job":
        """Return the job as a store keeps it: times to the millisecond, due when it is created."""
        created_at = from_ms(to_ms(self.created_at))
        return replace(
            self,
            created_at=created_at,
            fire_at=None if self.fire_at is None else from_ms(to_ms(self.fire_at)),
            due_at=created_at if self.due_at is None else from_ms(to_ms(self.due_at)),
        )


def cancelled(states: Mapping[str, JobState]) -> dict[str, bool]:
    """Select jobs that are cancelled or being cancelled; True once their tasks are swept no more.

    >>> cancelled({"a": JobState.CANCELLING, "b": JobState.CANCELLED, "c": JobState.RUNNING})
    {'a': False, 'b': True}
    """
    return {
        name: state is JobState.CANCELLED
        for name, state in states.items()
        if state in {JobState.CANCELLING, JobState.CANCELLED}
    }


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order to start a job: of a kept spider, or of a rule with a start of its own.

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


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The resource usage of one run or of many: the average over its time, and the highest.

    Memory in bytes, bandwidth in bytes a second, CPU as the index. Nothing is below 0.
    """

    memory: float = 0.0
    memory_max: float = 0.0
    cpu: float = 0.0
    cpu_max: float = 0.0
    bandwidth: float = 0.0
    bandwidth_max: float = 0.0


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The highest that one run took of each resource."""

    memory: float = 0.0
    cpu: float = 0.0
    bandwidth: float = 0.0


class JobDemand(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of a spider, learnt from its runs: ``usage`` is their average, weighted by runs.

    The maxima are those of the latest runs, whose ``peaks`` are kept for that, the newest last
    (jobs.usage). ``runs`` 0 is a spider that never ran, whose demand is nothing: only latency
    and speed decide about it. ``spider`` is what is learnt for: a kept spider's name, or that of a
    rule whose jobs have none.
    """

    tenant: str
    biz: str
    spider: str
    runs: int = 0
    usage: Usage = Usage()
    peaks: tuple[Peak, ...] = ()
    measured_at: datetime | None = None


#: What runs took is kept so long after they ended, as are the ledgers of their jobs.
RUN_LIFE: Final = timedelta(days=30)


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Sums and maxima of one worker's part of a run, or of several parts together.

    Attributes:
        seconds: Time in which some of its tasks were under way, of all workers together.
        memory_seconds: Bytes times those seconds; ``memory_max`` in bytes.
        cpu_seconds: The CPU index times those seconds; ``cpu_max`` is the index.
        bytes: Downloaded, as they travelled; ``bandwidth_max`` of one second.
        requests: Attempts at its tasks. ``errors`` are those that failed.
        records: What it yielded.
        workers: How many took part, each invocation of one by itself.
    """

    seconds: float = 0.0
    memory_seconds: float = 0.0
    memory_max: float = 0.0
    cpu_seconds: float = 0.0
    cpu_max: float = 0.0
    bytes: int = 0
    bandwidth_max: float = 0.0
    requests: int = 0
    records: int = 0
    errors: int = 0
    workers: int = 0
    began_at: datetime | None = None
    ended_at: datetime | None = None


class RunPart(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one worker of a job up to now; they replace its earlier ones.

    ``part`` is the worker's name and a number: one that had forgotten a job and meets it again
    begins with nothing, in another part.
    """

    tenant: str
    biz: str
    job: str
    part: str
    figures: RunFigures


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run, kept for a month.

    Attributes:
        spider: Whose demand it tells of (``JobDemand.spider``); empty while it goes on.
        figures: What it took: of a run that goes on, up to now.
        counts: Its tasks by how they ended.
        is_whole: It came to its own end; from one that was cancelled nothing is learnt.
        ended_at: When its job ended; None while it goes on.
        learnt_at: When what it took became part of the demand; None where it has not, or never
            will as nothing was measured, or it was cancelled.
        retries: The job's, when this end of it was written down.
        closed: Nothing will change any more, unless the job's dead letters are retried.
    """

    tenant: str
    biz: str
    job: str
    spider: str = ""
    figures: RunFigures = RunFigures()
    counts: dict[str, int] = {}
    is_whole: bool = True
    started_at: datetime | None = None
    ended_at: datetime | None = None
    learnt_at: datetime | None = None
    retries: int = 0
    closed: bool = False

    @property
    def was_closed(self) -> bool:
        """Tell whether an earlier end of it was closed: then it has figures, or was learnt from."""
        return self.learnt_at is not None or self.figures != RunFigures()
