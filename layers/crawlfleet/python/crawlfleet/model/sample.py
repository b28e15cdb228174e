"""What one look of the monitor has seen (SPEC.md A10, A11, C6, H1, H4): the metric journey's noun.

:mod:`crawlfleet.flows.sampling` makes it. Metrics, incidents and the wanted number of workers are
worked out from it and from nothing else, so that all of them speak of the same moment. Whatever
could not be read is None and is named in :attr:`Sample.unread`: a look never fails as a whole.
Times are seconds, sizes bytes, shares between 0 and 1, rates per second.
"""

from datetime import datetime

import msgspec

from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Ledger
from crawlfleet.model.pool import Pool
from crawlfleet.model.staff import Staff
from crawlfleet.model.tick import Ticked
from crawlfleet.model.totals import Depth, Load, NodeHealth, Rates


class LaneSample(msgspec.Struct, frozen=True, kw_only=True):
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
            in every look (policy.auditing).
        records: Records kept now.
        planned_seconds: The time in which the biz wants a backlog finished; None for no wish.
        finish_seconds: How long the backlog lasts at the present rate of processing: 0 for no
            backlog, None where there is one and nothing is processed.
        late: Whether the backlog is older than the stage bears or outlasts the biz's plan.
    """

    lane: Lane
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


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """A host over the last one to two minutes, all workers and tenants together.

    Only the worst and the busiest are in a sample, not every host there is.

    Attributes:
        host: Its name, with the port where that is not the scheme's own.
        window_seconds: The time that the counts are about, 60 to 120.
        answered: Answers that did not ask for less.
        failed: How many of these said that the page could not be had (5xx but 503).
        strained: 429, 503 and failed connections.
        latency_seconds: How long the answers took on average; None where there were none.
        success_share: Of all that was asked for, what was answered and not failed; None where
            nothing was asked.
        throttled: Whether the host is left alone now, or was and is not trusted again yet.
        backing_off_until: Until when it is left alone; None if it is not.
        strain: How many strained answers in a row count.
        interval_seconds: What lies between two turns by adaption alone; 0 for none.
        running: Downloads under way there now.
        parked: Requests that wait for it, of the lanes that were looked at.
        met_by: A tenant that has met it with strain or failures lately, if it is one of those that
            are looked at for that: for sharing the places, and nobody's to read.
    """

    host: str
    window_seconds: float = 60.0
    answered: int = 0
    failed: int = 0
    strained: int = 0
    latency_seconds: float | None = None
    success_share: float | None = None
    throttled: bool = False
    backing_off_until: datetime | None = None
    strain: int = 0
    interval_seconds: float = 0.0
    running: int = 0
    parked: int = 0
    met_by: str = ""

    @property
    def asked(self) -> int:
        """Downloads that ended, whatever came of them."""
        return self.answered + self.strained


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a pool beside the beats of its workers: how many count, what is decided."""

    pool: Pool
    present: int = 0
    staff: Staff | None = None


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

    lanes: int = 0
    queued: int = 0
    leased: int = 0
    delayed: int = 0
    parked: int = 0
    ready: int = 0
    oldest_seconds: float = 0.0
    submitted: Rates = Rates(per_1s=0.0, per_5s=0.0, per_60s=0.0)
    processed: Rates = Rates(per_1s=0.0, per_5s=0.0, per_60s=0.0)
    finish_seconds: float | None = 0.0
    late: int = 0
    ledger: Ledger = Ledger()
    difference: int | None = None


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """What a look could not see, and why: ``what`` is ``workers``, ``hosts``, ``acme/docs`` ..."""

    what: str
    why: str


class UnplacedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that got no worker; ``why`` is its trouble.

    ``since`` is when it came, where it waits still; None where it was given up lately.
    """

    tenant: str
    biz: str
    job: str
    why: str
    since: datetime | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One look at everything.

    Attributes:
        at: When the look began.
        took_seconds: How long it took.
        revision: The configuration in force; empty where there has never been a right one.
        lanes: Every lane of the stage, in a stable order.
        hosts: The worst hosts first, then the busiest; at most ``policy.hosts.SHOWN`` besides those
            that have an incident, which take no place of the others.
        hosts_seen: How many hosts were looked at to find these: ``policy.hosts.LOOKED_AT`` and
            those with incidents at most, of however many there are.
        hosts_throttled: How many of those looked at are throttled, shown or not.
        workers: None where Redis did not say.
        fleet: All lanes together, as far as they were read.
        parts: Redis and each MongoDB node, with figures, what is missing of them, what is wrong.
        config_refused: Why the newest configuration is not in force; None if it is.
        stray_items: Items that wait for bizs that there are not; None where that was not read.
        stray_requests: Requests likewise.
        ticked: The scheduler's latest tick; None where that was not read.
        unplaced: Jobs given up lately as no worker suits them, the newest first, then those that
            wait for one for longer than the stage has patience; None where that was not read.
        unread: What could not be looked at.
    """

    at: datetime
    took_seconds: float = 0.0
    revision: str = ""
    lanes: tuple[LaneSample, ...] = ()
    hosts: tuple[HostSample, ...] = ()
    hosts_seen: int = 0
    hosts_throttled: int = 0
    workers: WorkersSample | None = None
    fleet: FleetSample = FleetSample()
    parts: tuple[NodeHealth, ...] = ()
    config_refused: str | None = None
    stray_items: int | None = None
    stray_requests: int | None = None
    ticked: Ticked | None = None
    unplaced: tuple[UnplacedJob, ...] | None = ()
    unread: tuple[Unread, ...] = ()
