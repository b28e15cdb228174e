"""Politeness: how all workers of all tenants together treat a host (SPEC.md H3)."""

from datetime import datetime

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Stage
from crawlfleet.config.documents.policies import HostLimits


class HostAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's ask for slots at a host.

    ``count`` requests of ``tenant`` wait in this worker; ``running`` others have their slot and
    have not ended. ``interval_seconds`` lies between two slots at least, ``concurrency`` downloads
    at most are in flight at once over the fleet. Each tenant is held to its own limits: between
    slots of two tenants lies the shorter interval, so that none can slow others down by its own.
    """

    host: str
    tenant: str
    count: int
    running: int
    interval_seconds: float
    concurrency: int


class HostGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant of ``count`` slots, the first in ``wait_seconds``, then one an interval.

    The worker may have ``permits`` downloads in flight there, for :data:`PERMIT_SECONDS` or until
    it asks or reports again. Requests without a slot may ask again in ``ready_seconds``; ``why`` is
    what they wait for: ``rate``, ``concurrency``, ``share`` (other tenants), ``back-off`` or
    ``away`` (the host's Redis node is unavailable); empty where all got one.
    """

    host: str
    count: int
    wait_seconds: float
    interval_seconds: float
    permits: int
    ready_seconds: float
    why: str = ""


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report of a host since its last one.

    ``running`` downloads of ``tenant`` are in flight or have a slot; ``answered`` ended with an
    answer that did not ask for less, after ``seconds`` each on average, ``failed`` of them with a
    server fault; ``overloads`` ended with a 429, a 503 or without a connection, the longest wait
    that was asked for being ``retry_after_seconds``. ``limits`` are the host's.
    """

    host: str
    tenant: str
    running: int
    answered: int = 0
    failed: int = 0
    seconds: float = 0.0
    overloads: int = 0
    retry_after_seconds: float = 0.0
    limits: HostLimits = HostLimits()


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a host, for people and for metrics.

    ``interval_seconds`` lies between two slots by adaption alone (0 for none), ``overload`` counts
    overloaded answers in a row, ``back_off_until`` ends the back-off. ``answered``, ``failed`` and
    ``overloads`` are those of the last ``window_seconds`` (60 to 120; 0 where nothing ended),
    ``spent_seconds`` is how long the answers took together. ``intervals`` are the seconds between
    two slots of a tenant, by its last ask: a crawl-delay of the site is in it. Tenants that do not
    count and whose next slot is due are left out.
    """

    host: str
    running: int = 0
    interval_seconds: float = 0.0
    answer_seconds: float = 0.0
    overload: int = 0
    back_off_until: datetime | None = None
    next_at: datetime | None = None
    tenants: tuple[str, ...] = ()
    window_seconds: float = 0.0
    answered: int = 0
    failed: int = 0
    overloads: int = 0
    spent_seconds: float = 0.0
    intervals: dict[str, float] = {}


class RobotsCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A site's robots.txt as it was fetched.

    ``status`` is 0 where there was no answer. ``text`` is empty unless it was a 2xx, or there was
    no connection: then it is the error's kind, a line end and what it says. ``fetched_ms`` is by
    the clock of whoever fetched it.
    """

    status: int
    text: bytes = b""
    fetched_ms: int = 0


#: robots.txt is read up to this length, the least that the standard asks for (RFC 9309, 2.5).
MAX_BYTES = 500 * 1024
#: Slots are granted for this long ahead, so a back-off is obeyed by all within it.
HORIZON_SECONDS = 2.0
#: A worker that is silent for so long has no downloads in flight any more.
PERMIT_SECONDS = 30.0
#: Hosts where a tenant met overload or failures: how many are kept, and for how long.
TROUBLED = 500
TROUBLED_SECONDS = 600.0
#: A tenant that others kept from what it asked for counts at a host for this long.
DEMAND_SECONDS = 10.0


def host_limits(stage: Stage, host: str) -> HostLimits:
    """Get the stage's limits of a host, for any tenant: reports carry them."""
    return stage.host_limits.get(host, stage.hosts)


def limits_for(stage: Stage, biz: Biz, host: str) -> HostLimits:
    """Get the limits of a biz's own requests: the lower ones of stage and biz.

    >>> from crawlfleet.config.documents.policies import Politeness
    >>> from msgspec import structs
    >>> biz = Biz(generations=(), politeness=Politeness(per_second=0.5, concurrency=99))
    >>> limits = limits_for(Stage(), biz, "example.org")
    >>> limits.per_second, limits.concurrency
    (0.5, 8)
    """
    limits, own = host_limits(stage, host), biz.politeness
    if own.per_second is None and own.concurrency is None:
        return limits
    return replace(
        limits,
        per_second=min(limits.per_second, own.per_second or limits.per_second),
        concurrency=min(limits.concurrency, own.concurrency or limits.concurrency),
    )


def interval_of(limits: HostLimits, crawl_delay: float | None = None) -> float:
    """Get the seconds between two slots: by the rate, or a longer crawl-delay within its cap.

    >>> interval_of(HostLimits(per_second=10)), interval_of(HostLimits(per_second=10), 3)
    (0.1, 3.0)
    >>> interval_of(HostLimits(max_crawl_delay_seconds=60), 86_400)
    60.0
    """
    asked = min(crawl_delay or 0.0, limits.max_crawl_delay_seconds)
    return max(1.0 / limits.per_second, float(asked))
