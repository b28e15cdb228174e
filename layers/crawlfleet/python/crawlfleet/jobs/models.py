"""Jobs and their runs (SPEC.md B2, B3, B10, C2, C3).

A job is one run of a spider, a schedule or a list of URLs, made into tasks: requests that carry its
name. Its ledger says when it has ended, not a queue. A run is what a job took of its workers; what
is learnt from the runs of a spider is its demand.

CPU is an index: frequency in GHz times cores times the part of them that is used.
"""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.config.documents.quota import Quota
from crawlfleet.crawling.frontier.models import SegmentChoice
from crawlfleet.fleet.prices import Measured
from crawlfleet.jobs.spiders.models import Filling, LinkNeeds, Start
from crawlfleet.kernel import errors
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.tracing import Caller
from crawlfleet.kernel.validation import Document

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
#: What a job says of who started it where it is of what clients submit under its name
#: (jobs.submitted).
SUBMITTED: Final = "submission"
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


#: An amount of a resource that a job states: memory in bytes, CPU as the index, bytes a second.
_Stated = Annotated[float, Meta(ge=0, le=1e15)]


class StatedAmount(Document, frozen=True, kw_only=True):
    """The demand of one resource that a job states; of ``average`` and ``maximum`` one suffices."""

    average: _Stated | None = None
    maximum: _Stated | None = None


class StatedDemand(Document, frozen=True, kw_only=True):
    """The demand that a job states itself (SPEC.md B2).

    It stands in the place of what runs of its spider took; a resource that it leaves out does not.
    """

    memory: StatedAmount | None = None
    cpu: StatedAmount | None = None
    bandwidth: StatedAmount | None = None

    def problems(self, field: str) -> list[errors.Problem]:
        """Name each maximum that is below its average."""
        return [
            errors.Problem(f"{field}.{name}.maximum", f"is below the average, {amount.average:g}")
            for name in self.__struct_fields__
            if (amount := getattr(self, name)) is not None
            and amount.maximum is not None
            and amount.average is not None
            and amount.maximum < amount.average
        ]


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A range that eight of ten runs are in, and what is likely."""

    low: float
    likely: float
    high: float


class JobForecast(msgspec.Struct, frozen=True, kw_only=True):
    """A forecast of a run (jobs.costs.forecast).

    ``pages`` are attempts at pages, ``seconds`` go from its start to its end. It rests on so many
    ``runs`` of the same spider, whose money was missed by ``error``, a part of it, in the middle;
    ``why`` says for people what else it rests on.
    """

    pages: Band
    bytes: Band
    seconds: Band
    usd: Band
    runs: int = 0
    error: float | None = None
    why: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is kept; ``(tenant, biz, name)`` is its key.

    Attributes:
        spider: The kept spider it is a run of, ``spider_version`` its version; None without one.
        schedule: The schedule that fired it, at ``fire_at``; None otherwise.
        by: Who started it: ``api``, ``schedule``, ``run_now``, ``event``; ``submission`` where
            clients submit under its name, the last time at ``submitted_at``.
        rule: What reads its pages, ``rule_version`` fixed for all of its tasks.
        start: Its tasks, every place filled; ``size`` how many they are.
        values: What fills the places that its order found open, with one value; ``several`` are
            those that it gave more, which are in the start.
        priority: Its tasks' (requests.queue.ageing).
        caller: The trace that its tasks are in, of whoever started it; None where that is not
            recorded.
        link: What a worker's way to the site must be like.
        demand: What it states that it takes of a worker; None is what was learnt of its spider.
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
        segment: The segment that its links are known in; None is the biz's.
        quotas: The most that it may use; ``user`` is whom it is for, None being nobody in
            particular.
        known_links: So many pages that its links lead to were not read, as others had made them
            known in its segment, ``known_in`` being that; each counts once a worker.
        forecast: What was forecast of it at its start; None of what clients submit.
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
    several: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY
    caller: Caller | None = None
    link: LinkNeeds = LinkNeeds()
    demand: StatedDemand | None = None
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
    submitted_at: datetime | None = None
    segment: SegmentChoice | None = None
    quotas: tuple[Quota, ...] = ()
    user: str | None = None
    known_links: int = 0
    known_in: str | None = None
    forecast: JobForecast | None = None
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
    both = {JobState.CANCELLING, JobState.CANCELLED}
    return {name: state is JobState.CANCELLED for name, state in states.items() if state in both}


def trouble_of(error: Exception, away: str, otherwise: str) -> str:
    """Describe an error to a job's owner, without hosts and other tenants.

    ``away`` is of a store that does not answer, ``otherwise`` of all else that is ours.
    """
    if isinstance(error, errors.UnknownBizError | errors.UnknownRuleError):
        return str(error)
    if isinstance(error, errors.ConfigError):
        return "the biz has no valid document"
    return away if isinstance(error, errors.StoreUnavailableError) else otherwise


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order to start a job: of a kept spider, or of a rule with a start of its own.

    ``version`` is a version of the spider, None the newest. ``values`` fill the start's open
    places; ``pool``, and each field of ``link``, come before the spider's. ``segment`` is the one
    that its links are known in, None its own. It is for the ``user``, whose quotas it is under, and
    under ``quotas`` of its own. Its tasks are in the trace of the ``caller``, where
    that is recorded. Under one ``name`` a job is started once, whoever asks again; None makes up a
    new one.
    """

    tenant: str
    biz: str
    by: str
    name: str | None = None
    spider: str | None = None
    version: int | None = None
    rule: str | None = None
    start: Start | None = None
    values: dict[str, Filling] = {}
    priority: int | None = None
    pool: str | None = None
    link: LinkNeeds | None = None
    demand: StatedDemand | None = None
    segment: SegmentChoice | None = None
    quotas: tuple[Quota, ...] = ()
    user: str | None = None
    caller: Caller | None = None
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


class RunFigures(Measured, frozen=True, kw_only=True):
    """Sums and maxima of one worker's part of a run, or of several parts together.

    Some of its tasks were under way for ``seconds``, of all workers together; memory in bytes and
    CPU as the index are times those. ``bytes`` were downloaded, as they travelled, and
    ``bandwidth_max`` of them in one second. ``requests`` are attempts at its tasks, ``errors``
    those that failed. Of ``workers`` each invocation counts by itself.

    What is paid for (fleet.prices): the time of workers by their memory in GB (``gb_seconds``),
    each second shared by all that was under way in it; ``proxied_bytes`` of the bytes came through
    proxies, for ``proxy_usd``; ``stored_bytes`` are those of records.
    """

    seconds: float = 0.0
    memory_seconds: float = 0.0
    memory_max: float = 0.0
    cpu_seconds: float = 0.0
    cpu_max: float = 0.0
    bandwidth_max: float = 0.0
    records: int = 0
    began_at: datetime | None = None
    ended_at: datetime | None = None
    proxied_bytes: int = 0


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


#: Begins the name of a biz's account of a day.
DAY: Final = "/"


def day_name(day: date) -> str:
    """Name the account of a biz in one day of UTC, where runs have a job: no job is called so.

    >>> day_name(date(2026, 11, 23))
    '/2026-11-23'
    """
    return f"{DAY}{day:%Y-%m-%d}"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run, kept for a month: what it took (``figures``), and its tasks by how they ended.

    While it goes on ``spider`` is empty, whose demand it tells of (``JobDemand.spider``), and
    ``ended_at`` None. One that ``is_whole`` came to its own end; from one that was cancelled
    nothing is learnt. At ``learnt_at`` what it took became part of the demand; None where it has
    not, or never will. ``retries`` are the job's, when this end of it was written down. A
    ``closed`` one does not change any more, unless the job's dead letters are retried.
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
