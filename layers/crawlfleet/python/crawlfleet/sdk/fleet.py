"""What the API answers about the platform itself, typed: health, the fleet, hosts."""

from datetime import datetime

import msgspec

from crawlfleet.sdk.results import Rates


class Headcount(msgspec.Struct, frozen=True, kw_only=True):
    """Workers by what the failure detector makes of them.

    ``present`` counts those that are being started too; ``wanted`` is the standing decision.
    """

    alive: int = 0
    suspected: int = 0
    dead: int = 0
    unwatched: int = 0
    present: int = 0
    wanted: int | None = None


class PoolWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of one pool: of the alive ``busy`` hold something, the others are ``idle``.

    ``kept`` are kept available by stated needs, which come to ``stated``. ``done`` and ``failed``
    are requests that its known workers have dealt with, and of these given up on.
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


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler's latest tick that ended; ``seconds_ago`` is None where none is known.

    ``faults`` has of each part that failed how often it did.
    """

    seconds_ago: float | None = None
    took_seconds: float = 0.0
    faults: dict[str, int] = {}


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What answers and what it runs, as it was found ten seconds ago at most.

    ``tick`` is None where that is not known: Redis is away, or an older version answers.
    """

    at: datetime
    version: str = ""
    stage: str = ""
    revision: str = ""
    config_digest: str = ""
    config_refused: bool = False
    workers: Headcount | None = None
    tick: Tick | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``, ``degraded`` or ``down``, and each part; ``deep`` where that was asked for."""

    status: str
    parts: dict[str, str] = {}
    deep: Running | None = None


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """A host over the last one to two minutes, and how it is treated now.

    ``throttled``: it is left alone, or was and is not trusted again yet. Shares and means are None
    where nothing was asked. Counts are operators' to see.
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


class PartState(msgspec.Struct, frozen=True, kw_only=True):
    """Redis or a MongoDB node; ``missing`` says of figures why they are not there."""

    part: str
    name: str
    up: bool = True
    problem: str | None = None
    figures: dict[str, float] = {}
    missing: dict[str, str] = {}


class BizState(msgspec.Struct, frozen=True, kw_only=True):
    """A biz of the fleet; None is what could not be read."""

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
    """All bizs together; ``late`` is how many of them are."""

    bizs: int = 0
    queued: int = 0
    leased: int = 0
    delayed: int = 0
    oldest_seconds: float = 0.0
    rates: Rates = Rates()
    finish_seconds: float | None = None
    late: int = 0


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be looked at, and why."""

    what: str
    why: str = ""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the fleet, for operators: the worst and the latest come first."""

    at: datetime
    revision: str = ""
    config_refused: str | None = None
    workers: Headcount | None = None
    pools: tuple[PoolWorkers, ...] = ()
    totals: FleetTotals = FleetTotals()
    bizs: tuple[BizState, ...] = ()
    hosts: tuple[HostState, ...] = ()
    hosts_seen: int = 0
    parts: tuple[PartState, ...] = ()
    stray_items: int | None = None
    stray_requests: int | None = None
    unread: tuple[Unread, ...] = ()


class HostsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts, as they travel."""

    hosts: tuple[HostState, ...]
