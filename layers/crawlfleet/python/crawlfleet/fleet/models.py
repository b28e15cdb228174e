"""Values of the fleet: demand and targets, workers and their status, ticks, samples."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.kernel.queue_key import MAIN_POOL, Pool, QueueKey
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.queue.stats import Depth, Load, Rates

#: The name of the usual pool's target, which there was before there were other pools.
FLEET_POOL: Final = "fleet"


def target_name(pool: str) -> str:
    """Name the target of a pool, as it is kept.

    >>> target_name("main"), target_name("large")
    ('fleet', 'large')
    """
    return FLEET_POOL if pool == MAIN_POOL else pool


class QueueDemand(msgspec.Struct, frozen=True, kw_only=True):
    """Demand of a queue on the workers; ``leased`` requests of it are in flight.

    ``backlog`` is 0 where nothing can go on. ``seconds_left`` until its plan ends are below 0 when
    it has, None where it has no plan. Its hosts may be asked for ``polite_per_second``, infinite
    where nothing is known that would bound them. A worker does ``throughput`` requests of it in a
    second, and ``drained`` were processed in a second lately; None where that is unknown.
    """

    backlog: int
    seconds_left: float | None = None
    polite_per_second: float = math.inf
    throughput: float | None = None
    leased: int = 0
    drained: float | None = None


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Demand of all queues on a pool.

    Queues share hosts, so ``polite_per_second`` may be less than all theirs together. ``at_work``
    names the bizs of which anything is queued, in flight or waits, as ``tenant/biz``.
    """

    queues: tuple[QueueDemand, ...] = ()
    polite_per_second: float = math.inf
    at_work: frozenset[str] = frozenset()

    @property
    def backlog(self) -> int:
        """Requests to be processed."""
        return sum(queue.backlog for queue in self.queues)


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of a worker, as measured: a lower bound only (``is_least``) of an idle one."""

    per_second: float
    is_least: bool = False


class ThroughputReply(msgspec.Struct, frozen=True, kw_only=True):
    """Reply to a worker that has reported its throughput: it ``leaves`` if it is one too many.

    ``others`` live and are not told to leave. Stated needs keep ``floor`` workers, though there be
    nothing to do.
    """

    leaves: bool
    others: int
    floor: int = 0


class ScalingTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Target of the autoscaler for a pool.

    Between ``needed`` and ``kept`` nothing is done: that keeps it from flapping.

    Attributes:
        needed: Workers that are missing of these are started.
        kept: Workers beyond these are told to leave.
        at_ms: When it was set, by the server's clock; 0 if it never was.
        quiet_ms: Since when fewer than are kept would do; 0 while they would not.
        peak: The most that would have done since then.
        allowed: Invocations that there may be at once; None where that is not known.
        floor: Of the needed, those that stated needs keep, whatever there is to do.
        stated: Workers that stated needs come to, what nobody can be given included.
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
        """Workers of the needed that can be started."""
        return self.needed if self.allowed is None else min(self.needed, self.allowed)


class ScalingState(msgspec.Struct, frozen=True, kw_only=True):
    """The standing target of a pool, and what is known of its workers at ``now_ms``.

    ``version`` is the target's, for a caller that wants to replace it. ``throughput`` is learnt,
    None before any was reported; ``leaving`` workers are told to leave and have not left yet.
    """

    target: ScalingTarget = ScalingTarget()
    version: int = 0
    now_ms: int = 0
    throughput: float | None = None
    leaving: int = 0


#: A target that is older is not followed any more: two ticks have not come.
FRESH_MS: Final = 150_000


def is_fresh(scaling_state: ScalingState) -> bool:
    """Tell whether the standing target still is one to follow."""
    at_ms = scaling_state.target.at_ms
    return at_ms > 0 and abs(scaling_state.now_ms - at_ms) <= FRESH_MS


class WorkReport(msgspec.Struct, kw_only=True):
    """Counts of one consumer invocation, and its time by phase in seconds.

    ``put_aside`` are deferred requests, whose host had no slot yet, ``saved`` were answered with
    304, ``links`` are new ones that were found to follow, ``items`` came from data queues,
    ``tasks`` were made of jobs. The leases of ``lost`` were another worker's before their outcome
    could be written; ``left`` could not be begun or written for want of their node; both are done
    again. ``cancelled`` were let go with their job. ``buried`` are other workers that it reaped.
    Phases overlap: a worker fetches many pages at once, so ``fetch`` is the sum over pages.
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
    """Status of a worker, sent with each beat; ``held`` is in-flight requests by ``tenant/biz``.

    ``hosts`` are some hosts, each with the tenant, at which it has something under way: its slots
    there are given to others when it is dead. ``failed`` are requests that it gave up on. A status
    without a pool is of a version that knew of none: of the usual one. ``version`` is that of its
    code, empty where that did not say. ``ends_ms`` is when it leaves at the latest, 0 where nobody
    knows.
    """

    started_ms: int = 0
    ends_ms: int = 0
    held: dict[str, int] = {}
    done: int = 0
    failed: int = 0
    pool: str = MAIN_POOL
    hosts: tuple[tuple[str, str], ...] = ()
    version: str = ""


class WorkerHeartbeats(msgspec.Struct, frozen=True, kw_only=True):
    """Heartbeats of a worker, as the failure detector sees them.

    ``silent_ms`` is the time since its last beat, of which only what was observed counts: while
    Redis did not answer nobody could beat. ``beat_ms`` is all of that time. ``intervals`` are the
    latest pauses between its beats, in milliseconds, the newest last.
    """

    worker: str
    silent_ms: int
    beat_ms: int = 0
    intervals: tuple[int, ...] = ()
    worker_status: WorkerStatus = WorkerStatus()


class Health(StrEnum):
    """Health of a worker, as the failure detector judges it.

    ``UNWATCHED`` is a worker that was silent for longer than the living are, while nobody observed
    the fleet: it may be dead or cut off from Redis as all were, and the next reads will tell.
    """

    ALIVE = "alive"
    UNWATCHED = "unwatched"
    SUSPECTED = "suspected"
    DEAD = "dead"


class WorkerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and its health, as people see it.

    ``phi`` is how unlikely it is that it still lives, as a power of ten: of suspicions at 8, one in
    100 million is wrong. It counts ``silent_ms``, the silence that was observed; ``beat_ms`` is the
    time since its last beat.
    """

    worker: str
    health: Health
    phi: float
    silent_ms: int
    beat_ms: int = 0
    worker_status: WorkerStatus


#: Faults between ticks are reported with the latest one for so long: a check that comes once a
#: minute, and believes what it has seen three times, does find them.
BETWEEN_SECONDS: Final = 240.0
#: Of so many of them at most, the latest.
MOST_BETWEEN: Final = 1_000


class TickPart(StrEnum):
    """Parts of a tick; each fails by itself."""

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
    STREAMS = "streams"


class Ticked(msgspec.Struct, frozen=True, kw_only=True):
    """The latest tick that ended.

    ``seconds_ago`` is None where no tick is known, as none has ended yet or Redis has lost it; it
    was first asked for ``awaited_seconds`` ago then. ``faults`` are by part how often it failed:
    once as a whole, and once for each schedule or biz that it could not serve. Faults of parts that
    come between ticks, shortly before or after it, are counted too.
    """

    seconds_ago: float | None = None
    awaited_seconds: float = 0.0
    took_seconds: float = 0.0
    faults: Mapping[str, int] = {}


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that a worker has left, from real readings; None is what the machine does not tell.

    ``memory`` is bytes until the function's memory, or the control group's, is full. ``cpu`` is the
    index of what is not used: GHz times cores times the idle part. ``bandwidth`` is bytes a second
    that it was seen to move and does not move now; None unless it moves half of that or more, as
    what it could is not known otherwise.
    """

    memory: float | None = None
    cpu: float | None = None
    bandwidth: float | None = None


class QueueSample(msgspec.Struct, frozen=True, kw_only=True):
    """Sample of a queue at one moment.

    ``depth``, ``load``, ``submitted`` and ``processed`` come from Redis and are None together;
    ``ledger``, ``difference`` and ``records`` from MongoDB.

    Attributes:
        load: Entries that a worker that leases now would find, and leased ones.
        oldest_seconds: How long the next entry to be served has waited; 0 where none waits.
        submitted: Rates of generation over the last full 1, 5 and 60 seconds; ``processed``, too.
        submitted_seconds: Submitted requests by epoch second, for the last 90 full seconds, as
            ``processed_seconds``.
        ledger: Requests by state since the biz exists, and those of the biz's own.
        retries: Requests that wait for their next try.
        difference: Submitted and in no state (above 0: lost, below: made up), as the audit finds
            it; None where it was not read. Where a node holds very many open requests it is not
            read in every sample (monitoring.gathering).
        planned_seconds: The time in which the biz wants a backlog finished; None for no wish.
        finish_seconds: How long the backlog lasts at the present rate of processing: 0 for no
            backlog, None where there is one and nothing is processed.
        late: True where the backlog is older than the stage bears or outlasts the biz's plan.
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
    """A pool beside the beats of its workers: how many count, and its target."""

    pool: Pool
    present: int = 0
    target: ScalingTarget | None = None


class PoolSample(msgspec.Struct, frozen=True, kw_only=True):
    """Sample of one pool's workers (SPEC.md C6), in the terms of :class:`WorkersSample`.

    ``memory_mb`` is each worker's, ``region`` where they run and ``network`` the egress of
    downloads, for people; None and empty where that is unknown. Of the alive ``busy`` ones have
    requests in flight. ``kept`` are kept available by stated needs, which come to ``stated``, more
    where that does not fit. Its known workers, each since it began, have ``done`` so many requests,
    and ``failed`` to do so many of these.
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
    """Workers by health, as the failure detector judges them (SPEC.md C5, C6).

    ``present`` counts when workers are started: the living and the wake-ups that have not become
    workers yet. ``unwatched`` were silent while nobody observed the fleet. ``wanted`` is the
    standing target, and ``allowed`` how many may run at once; None where there is none, or it was
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
        """Return the sample of one pool; of all where nothing tells them apart."""
        return next((one for one in self.pools if one.name == pool), self)


class FleetSample(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of all queues, summed; the greatest of the waits.

    ``oldest_seconds`` is of the queue that waits longest. ``finish_seconds`` is the whole backlog
    at the whole rate: None where there is a backlog and nothing is processed. ``late`` counts
    queues. ``difference`` sums the audits' differences without their signs, so that one queue's
    loss is not another's surplus; None where no audit could be read. ``ledger`` sums the states.
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
