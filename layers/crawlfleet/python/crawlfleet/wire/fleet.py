"""The platform itself: health, workers, hosts, the whole fleet, incidents."""

from datetime import datetime

import msgspec

from crawlfleet.wire import Page
from crawlfleet.wire.results import Rates


class Headcount(msgspec.Struct, frozen=True, kw_only=True):
    """Workers by the verdict of the failure detector.

    ``present`` counts those that are being started too; ``wanted`` is the autoscaler's standing
    target, null where there is none. Both are 0 and null where only the detector was asked.
    """

    alive: int = 0
    suspected: int = 0
    dead: int = 0
    unwatched: int = 0
    present: int = 0
    wanted: int | None = None


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler's latest tick that ended; ``seconds_ago`` is null where none is known.

    ``faults`` counts failures by the part that failed.
    """

    seconds_ago: float | None = None
    took_seconds: float = 0.0
    faults: dict[str, int] = {}


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The version, stage and configuration that run, as found ten seconds ago at most.

    ``config_digest`` is the same wherever the same documents are in force; ``workers`` and ``tick``
    are null while Redis does not say, or where an older version answers.
    """

    at: datetime
    version: str = ""
    stage: str = ""
    revision: str = ""
    config_digest: str = ""
    config_refused: bool = False
    workers: Headcount | None = None
    tick: Tick | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``ok``, ``degraded`` or ``down``, and each part; ``deep`` where that was asked for."""

    status: str
    parts: dict[str, str] = {}
    deep: Running | None = None


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: alive, suspected or dead. ``held`` counts its leased requests of the biz.

    ``phi`` is how sure the detector is that it is dead, as a power of ten, by its observed silence;
    ``silent_seconds`` is the time since its last heartbeat. ``since`` is when it began, where it
    says so. ``unwatched`` is one that was silent for long while the detector did not run. ``done``
    and ``failed`` are requests of all bizs since it began, finished and of these given up on; they
    are 0 to all but operators. ``version`` is that of its code, empty where an older one runs.
    """

    worker: str
    health: str
    phi: float = 0.0
    silent_seconds: float = 0.0
    since: datetime | None = None
    held: int = 0
    pool: str = "main"
    done: int = 0
    failed: int = 0
    version: str = ""


class WorkersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of the fleet that are known now."""

    workers: tuple[WorkerState, ...]


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """A host over the last one to two minutes, and its present politeness limits.

    ``throttled``: requests to it back off, or did and are not at the full rate again. Shares and
    means are null where nothing was asked. ``asked``, ``failed`` and ``strained`` are counts over
    ``window_seconds`` that operators see.
    """

    host: str
    throttled: bool = False
    backing_off_until: datetime | None = None
    strain: int = 0
    interval_seconds: float = 0.0
    success_share: float | None = None
    latency_seconds: float | None = None
    waiting: int = 0
    window_seconds: float = 0.0
    asked: int = 0
    failed: int = 0
    strained: int = 0
    running: int = 0


class HostsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts, the worst first, then the busiest."""

    hosts: tuple[HostState, ...]


class ProxyHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy as its workers know it, by its address; no user and no password is shown.

    All workers leave one that is ``away`` out until ``until``, and then until a try of one of them
    has succeeded. ``fault`` is its last one, met by the worker ``seen_by``: unreachable,
    credentials (refused), broken (refuses CONNECT), silent, closed (the connection). Shares and
    means are of the last minutes, null where nothing was asked; ``answered`` and ``failed`` are the
    counts, which operators see.
    """

    place: str
    away: bool = False
    until: datetime | None = None
    cool_downs: int = 0
    success_share: float | None = None
    latency_seconds: float | None = None
    answered: int = 0
    failed: int = 0
    fault: str = ""
    seen_by: str = ""
    seen_at: datetime | None = None


class ProxyPoolHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of proxies; of its proxies the 50 worst, those that are away first.

    ``size`` is null where no worker has used the pool within a quarter of an hour.
    """

    name: str
    size: int | None = None
    away: int = 0
    proxies: tuple[ProxyHealth, ...] = ()


class ProxiesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The pools of proxies by which a biz's downloads leave; none where they leave directly."""

    pools: tuple[ProxyPoolHealth, ...]


class PartState(msgspec.Struct, frozen=True, kw_only=True):
    """Redis or a MongoDB node; ``missing`` says of figures why they are not there."""

    part: str
    name: str
    up: bool = True
    problem: str | None = None
    figures: dict[str, float] = {}
    missing: dict[str, str] = {}


class BizState(msgspec.Struct, frozen=True, kw_only=True):
    """A biz of the fleet; null is what could not be read.

    ``finish_seconds`` is how long the backlog lasts at the present rate: null where it never ends.
    ``dead`` and ``expired`` are counted since the biz exists.
    """

    tenant: str
    biz: str
    queued: int | None = None
    leased: int | None = None
    delayed: int | None = None
    oldest_seconds: float = 0.0
    rates: Rates | None = None
    planned_seconds: float | None = None
    finish_seconds: float | None = None
    late: bool = False
    dead: int | None = None
    expired: int | None = None


class FleetTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all bizs; ``late`` is how many of them are late."""

    bizs: int = 0
    queued: int = 0
    leased: int = 0
    delayed: int = 0
    oldest_seconds: float = 0.0
    rates: Rates = Rates()
    finish_seconds: float | None = None
    late: int = 0


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the fleet that could not be read, and why."""

    what: str
    why: str = ""


class PoolWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of one pool, the usual one first; the counts are named as those of all workers.

    ``busy`` of the alive have leased requests, the others are ``idle``. ``kept`` are kept available
    by stated needs, which come to ``stated``. ``done`` and ``failed`` are requests that its known
    workers have finished, and of these given up on, each since it began.
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


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The whole fleet. Of bizs the 200 with most to do are in it, the late ones first.

    ``proxies`` are the stage's pools of them, null where they could not be read.
    """

    at: datetime
    revision: str = ""
    config_refused: str | None = None
    workers: Headcount | None = None
    pools: tuple[PoolWorkers, ...] = ()
    totals: FleetTotals = FleetTotals()
    bizs: tuple[BizState, ...] = ()
    hosts: tuple[HostState, ...] = ()
    hosts_seen: int = 0
    proxies: tuple[ProxyPoolHealth, ...] | None = ()
    parts: tuple[PartState, ...] = ()
    stray_items: int | None = None
    stray_requests: int | None = None
    unread: tuple[Unread, ...] = ()


class CeilingUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a ceiling: ``used`` of ``allowed``, each null where it is not known or there.

    ``limit`` is its setting: ``tenant_redis_ratio`` is the stage's, the others are the tenant's.
    """

    limit: str
    used: float | None = None
    allowed: float | None = None


class TenantShare(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's share of what workers and stores can do, and what it has of it.

    ``part`` is that of the whole, among the tenants that have work; ``ready`` requests could be
    leased now, ``in_flight`` ones are.
    """

    tenant: str
    share: int = 1
    part: float = 0.0
    ready: int = 0
    in_flight: int = 0
    ceilings: tuple[CeilingUse, ...] = ()


class SharesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The tenants that the caller may see, those with most in flight first."""

    tenants: tuple[TenantShare, ...]


class IncidentAcknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledgement: a tenant's word that somebody is at it; nobody is reminded."""

    by: str
    at: datetime
    why: str = ""


class IncidentSilence(msgspec.Struct, frozen=True, kw_only=True):
    """A silence: neither people nor phones are told of it until a time."""

    by: str
    at: datetime
    why: str = ""
    until: datetime


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An incident: something that is or was wrong.

    ``tenant`` and ``biz`` are null where it is the platform's own, ``part`` and ``name`` where it
    is a biz's. ``value`` is how bad it is, ``worst`` how bad it has been, ``threshold`` what it
    must not exceed: all three in the unit that ``said`` names. ``since`` is when it began,
    ``found_at`` when it was seen last. ``returns`` counts how often it has come back, ``told`` is
    the last notification (opened, reminder, recovered), ``owed`` the next one, and ``do`` advises.
    ``acknowledged`` and ``silenced`` say how people handle it, while that holds.
    """

    id: str
    kind: str
    severity: str
    state: str
    tenant: str | None = None
    biz: str | None = None
    part: str | None = None
    name: str | None = None
    title: str = ""
    said: str = ""
    value: float = 0.0
    worst: float = 0.0
    threshold: float = 0.0
    since: datetime
    found_at: datetime
    opened_at: datetime | None = None
    over_at: datetime | None = None
    returns: int = 0
    told: str | None = None
    told_at: datetime | None = None
    owed: str | None = None
    do: str = ""
    acknowledged: IncidentAcknowledgement | None = None
    silenced: IncidentSilence | None = None

    @property
    def place(self) -> str:
        """Its place, in words.

        >>> now = datetime.fromisoformat("2026-01-01T00:00:00Z")
        >>> facts = {"id": "1", "kind": "backlog", "severity": "warning", "state": "open"}
        >>> Incident(**facts, since=now, found_at=now, tenant="acme", biz="docs").place
        'biz acme/docs'
        >>> Incident(**facts, since=now, found_at=now, tenant="acme").place
        'tenant acme'
        """
        if self.tenant is not None:
            return f"tenant {self.tenant}" if self.biz is None else f"biz {self.tenant}/{self.biz}"
        named = self.name is not None and self.name != self.part
        return f"{self.part} {self.name}" if named else f"{self.part}"


class IncidentsPage(Page, frozen=True):
    """A page of incidents; ``cursor`` is where to go on."""

    incidents: tuple[Incident, ...]
