"""How many workers there are to be (SPEC.md A12, H4): what lies ahead of them, what was decided.

Workers: the numbers under which ids are issued, and what one consumer invocation did.

One round of the scheduler, as others hear of it (SPEC.md B1, B13).
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.kernel.queue_key import MAIN_POOL, Pool, QueueKey
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.queue.stats import Depth, Load, Rates

#: What decisions on the usual pool are kept under, of which there was one before there were others.
FLEET_POOL: Final = "fleet"


def target_name(pool: str) -> str:
    """What decisions on a pool are kept under.

    >>> staffed_as("main"), staffed_as("large")
    ('fleet', 'large')
    """
    return FLEET_POOL if pool == MAIN_POOL else pool


class QueueDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What a lane asks of the workers.

    Attributes:
        backlog: Requests to be dealt with; 0 where nothing can go on.
        seconds_left: Until its plan ends, below 0 when it has; None where it has no plan.
        polite_per_second: What its hosts may be asked for; infinite where nothing is known that
            would hold it up.
        pace: Requests of it that a worker can deal with in a second; None where none has shown it.
        leased: Requests of it that workers hold.
        drained: Requests of it that were dealt with in a second lately; None where nobody looked.
    """

    backlog: int
    seconds_left: float | None = None
    polite_per_second: float = math.inf
    throughput: float | None = None
    leased: int = 0
    drained: float | None = None


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What all lanes ask of a pool.

    Lanes share hosts, so ``polite_per_second`` may be less than all theirs together. ``at_work``
    names the bizs of which anything is queued, held or waits, as ``tenant/biz``.
    """

    queues: tuple[QueueDemand, ...] = ()
    polite_per_second: float = math.inf
    at_work: frozenset[str] = frozenset()

    @property
    def backlog(self) -> int:
        """Requests to be dealt with."""
        return sum(queue_key.backlog for queue_key in self.queues)


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has shown to be able to do.

    Attributes:
        per_second: Requests in a second.
        is_least: Whether that is only the least, as the worker had little to do.
    """

    per_second: float
    is_least: bool = False


class ThroughputReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told that has said what it can do.

    Attributes:
        leaves: Whether it is one too many, and is to leave.
        others: How many others live and are not told to.
        floor: How many are to be there though there is nothing to do, by stated needs.
    """

    leaves: bool
    others: int
    floor: int = 0


class ScalingTarget(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers a pool is to have.

    Between ``needed`` and ``kept`` nothing is done: that keeps it from flapping.

    Attributes:
        needed: Whoever is missing of these is started.
        kept: Whoever is there beyond these is told to leave.
        at_ms: When it was decided, by the server's clock; 0 if it never was.
        quiet_ms: Since when fewer than are kept would do; 0 while they would not.
        peak: The most that would have done since then.
        allowed: How many invocations there may be at once; None where that is not known.
        floor: How many of the needed are kept available by stated needs, whatever there is to do.
        stated: How many stated needs come to, what nobody can be given included.
    """

    needed: int = 0
    kept: int = 0
    at_ms: int = 0
    quiet_ms: int = 0
    peak: int = 0
    allowed: int | None = None
    floor: int = 0
    stated: int = 0

    @property
    def startable(self) -> int:
        """How many of those that are needed can be started."""
        return self.needed if self.allowed is None else min(self.needed, self.allowed)


class ScalingState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pool at one moment: the standing decision, and what workers have shown.

    Attributes:
        staff: The standing decision.
        version: Which one it is, for whoever wants to replace it.
        now_ms: The moment, by the server's clock.
        pace: Requests a second that a worker can deal with; None before any has shown it.
        leaving: Workers that are told to leave and have not left yet.
    """

    target: ScalingTarget = ScalingTarget()
    version: int = 0
    now_ms: int = 0
    throughput: float | None = None
    leaving: int = 0


#: Beyond this age a decision is nobody's order any more: two ticks have not come.
FRESH_MS: Final = 150_000


def is_fresh(scaling_state: ScalingState) -> bool:
    """Whether the standing decision still is one to act by."""
    at_ms = scaling_state.target.at_ms
    return at_ms > 0 and abs(scaling_state.now_ms - at_ms) <= FRESH_MS


class WorkReport(msgspec.Struct, kw_only=True):
    """Counts of one consumer invocation and where its time went, phase by phase in seconds.

    ``deferred`` had no slot at their host yet, ``saved`` were answered with 304, ``links`` is how
    many new ones were found to go on with, ``items`` how many came from data queues, ``tasks`` how
    many it made of jobs. ``lost`` were another's before their outcome could be written, ``left``
    could not be begun or written for want of their node; both are done again. ``cancelled`` were
    let go with their job. ``buried`` are other workers that it found dead. Phases overlap: a worker
    fetches many pages at once, so ``fetch`` is the sum over pages.
    """

    worker: str
    leased: int = 0
    done: int = 0
    retried: int = 0
    dead: int = 0
    skipped: int = 0
    handed_back: int = 0
    deferred: int = msgspec.field(name="put_aside", default=0)
    saved: int = 0
    links: int = 0
    items: int = 0
    tasks: int = 0
    lost: int = 0
    left: int = 0
    cancelled: int = 0
    buried: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    phases: dict[str, float] = msgspec.field(default_factory=dict)
    stopped_because: str = ""


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself with each beat; ``held`` is requests by ``tenant/biz``.

    ``hosts`` are some hosts, each with the tenant, at which it has something under way: what it may
    do there is given to others when it is dead. ``failed`` are those that it gave up on. A card
    without a pool is of a version that knew of none: of the usual one.
    """

    started_ms: int = 0
    held: dict[str, int] = {}
    done: int = 0
    failed: int = 0
    pool: str = MAIN_POOL
    hosts: tuple[tuple[str, str], ...] = ()


class WorkerHeartbeats(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the watch sees it.

    ``silent_ms`` is the time since its last beat, of which only what was watched counts: while
    Redis did not answer nobody could beat. ``beat_ms`` is all of that time. ``intervals`` are the
    latest pauses between its beats, in milliseconds, the newest last.
    """

    worker: str
    silent_ms: int
    beat_ms: int = 0
    intervals: tuple[int, ...] = ()
    worker_status: WorkerStatus = WorkerStatus()


class Health(StrEnum):
    """What the detector makes of a worker.

    One is ``UNWATCHED`` that was not heard of for longer than the living are silent, while nobody
    watched: it may be dead or cut off from Redis as all were, and the next looks will tell.
    """

    ALIVE = "alive"
    UNWATCHED = "unwatched"
    SUSPECTED = "suspected"
    DEAD = "dead"


class WorkerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as people see it.

    ``phi`` is how unlikely it is that it still lives, as a power of ten: of suspicions at 8, one in
    100 million is wrong. It counts ``silent_ms``, the silence that was watched; ``beat_ms`` is the
    time since its last beat, whoever watched.
    """

    worker: str
    health: Health
    phi: float
    silent_ms: int
    beat_ms: int = 0
    worker_status: WorkerStatus


#: So long what failed between two ticks is told of with the latest one: those who look once a
#: minute, and believe it when they have seen it three times, do find it.
BETWEEN_SECONDS: Final = 240.0
#: Of so many of them at most, the latest.
MOST_BETWEEN: Final = 1_000


class TickPart(StrEnum):
    """What a tick is made of; each part fails by itself."""

    SCHEDULES = "schedules"
    JOBS = "jobs"
    PAGES = "pages"
    SEEDS = "seeds"
    CANCELLING = "cancelling"
    BIZS = "bizs"
    WATCH = "watch"
    RECOVERY = "recovery"
    SCALING = "scaling"
    #: Starts by events, which come between ticks.
    STARTS = "starts"


class Ticked(msgspec.Struct, frozen=True, kw_only=True):
    """The latest tick that came to its end.

    Attributes:
        seconds_ago: When that was; None where no tick is known, as none has ended yet or Redis has
            lost it.
        awaited_seconds: Where none is known: how long ago it was first asked for.
        took_seconds: How long it took.
        faults: Of each part that failed how often it did: once for as a whole, and once for each
            schedule or biz that it could not serve. What failed shortly before or after it, of
            parts that come between ticks, is counted too.
    """

    seconds_ago: float | None = None
    awaited_seconds: float = 0.0
    took_seconds: float = 0.0
    faults: Mapping[str, int] = {}


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has left, from real readings; None is what this machine does not tell.

    Attributes:
        memory: Bytes until the function's memory, or the control group's, is full.
        cpu: The index of what is not used: GHz times cores times the idle part.
        bandwidth: Bytes a second that it has been seen to move and does not move now; None unless
            it moves half of that or more, as what it could is not known otherwise.
    """

    memory: float | None = None
    cpu: float | None = None
    bandwidth: float | None = None


class QueueSample(msgspec.Struct, frozen=True, kw_only=True):
    """A lane at one moment.

    ``depth``, ``load``, ``submitted`` and ``processed`` come from Redis and are None together;
    ``ledger``, ``difference`` and ``records`` from MongoDB.

    Attributes:
        lane: The biz and its queue.
        depth: Entries queued, leased, delayed, parked.
        load: What a worker that asks now would find, and what workers hold.
        oldest_seconds: How long the next entry to be served has waited; 0 where none waits.
        submitted: Rates of generation over the last full 1, 5 and 60 seconds.
        processed: Rates of processing over the same.
        submitted_seconds: Submitted requests by epoch second, for the last 90 full seconds.
        processed_seconds: Processed requests by epoch second, likewise.
        ledger: Requests by state since the biz exists: pending, leased, waiting, done, dead,
            cancelled, expired, and those of the biz's own.
        retries: Requests that wait for their next try.
        difference: Submitted and in no state (above 0: lost, below: made up), as the audit finds
            it; None where it was not read. Where a node holds very many open requests that is not
            in every look (monitoring.gathering).
        records: Records kept now.
        planned_seconds: The time in which the biz wants a backlog finished; None for no wish.
        finish_seconds: How long the backlog lasts at the present rate of processing: 0 for no
            backlog, None where there is one and nothing is processed.
        late: Whether the backlog is older than the stage bears or outlasts the biz's plan.
    """

    queue_key: QueueKey
    depth: Depth | None = None
    load: Load | None = None
    oldest_seconds: float = 0.0
    submitted: Rates | None = None
    processed: Rates | None = None
    submitted_seconds: dict[int, int] = {}
    processed_seconds: dict[int, int] = {}
    ledger: Ledger | None = None
    retries: int | None = None
    difference: int | None = None
    records: int | None = None
    planned_seconds: float | None = None
    finish_seconds: float | None = None
    late: bool = False


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pool beside the beats of its workers: how many count, what is decided."""

    pool: Pool
    present: int = 0
    target: ScalingTarget | None = None


class PoolSample(msgspec.Struct, frozen=True, kw_only=True):
    """How the workers of one pool are (SPEC.md C6), in the words of :class:`WorkersSample`.

    Attributes:
        name: Of the pool, ``main`` for the usual one.
        memory_mb: Of each worker; None where that was not told.
        region: Where they run, for people; empty where that was not told.
        network: What downloads leave through, likewise.
        busy: Of the alive, those that hold something; the others are ``idle``.
        kept: Workers that are kept available by stated needs.
        stated: What these come to, more than is kept where it does not fit.
        done: Requests that its known workers have dealt with, each since it began.
        failed: Of these, those that were given up on.
    """

    name: str
    memory_mb: int | None = None
    region: str = ""
    network: str = ""
    alive: int = 0
    busy: int = 0
    idle: int = 0
    suspected: int = 0
    dead: int = 0
    unwatched: int = 0
    present: int = 0
    wanted: int | None = None
    allowed: int | None = None
    kept: int = 0
    stated: int = 0
    done: int = 0
    failed: int = 0


class WorkersSample(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers there are, as the failure detector sees them (SPEC.md C5, C6).

    ``present`` is what counts when workers are started: the living and the wake-ups that have not
    become workers yet. ``unwatched`` were not heard of while nobody watched. ``wanted`` is the
    standing decision, and ``allowed`` how many may run at once; None where there is none, or it was
    not read. All are of all ``pools`` together, of which the usual one comes first.
    """

    alive: int = 0
    suspected: int = 0
    dead: int = 0
    unwatched: int = 0
    present: int = 0
    wanted: int | None = None
    allowed: int | None = None
    pools: tuple[PoolSample, ...] = ()

    def of(self, pool: str) -> "PoolSample | WorkersSample":
        """What is known of one pool; of all where nothing tells them apart."""
        return next((one for one in self.pools if one.name == pool), self)


class FleetSample(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read of all lanes, summed; the greatest of the waits.

    ``oldest_seconds`` is of the lane that waits longest. ``finish_seconds`` is the whole backlog at
    the whole rate: None where there is a backlog and nothing is processed. ``late`` counts lanes.
    ``difference`` sums the audits' differences without their signs, so that one lane's loss is not
    another's surplus; None where no audit could be read. ``ledger`` sums the states.
    """

    queues: int = 0
    queued: int = 0
    leased: int = 0
    delayed: int = 0
    deferred: int = 0
    ready: int = 0
    oldest_seconds: float = 0.0
    submitted: Rates = Rates(per_1s=0.0, per_5s=0.0, per_60s=0.0)
    processed: Rates = Rates(per_1s=0.0, per_5s=0.0, per_60s=0.0)
    finish_seconds: float | None = 0.0
    late: int = 0
    ledger: Ledger = Ledger()
    difference: int | None = None
