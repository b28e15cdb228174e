"""Politeness: how all workers of all tenants together treat a host (SPEC.md H3)."""

import zlib
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, TypeAlias, TypedDict

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Stage
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.kernel.time import from_ms

#: Seconds that somebody else says: no more than anything lasts.
Figure: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]


class HostAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's ask for slots at a host.

    ``count`` requests of ``tenant`` wait in this worker; ``running`` others have their slot and
    have not ended. ``interval_seconds`` lies between two slots at least, ``concurrency`` downloads
    at most are in flight at once over the fleet. Each tenant is held to its own limits: between
    slots of two tenants lies the shorter interval, so that none can slow others down by its own.
    While several want more than there is, each has slots by its ``share``.
    ``origin`` is the scheme, host and port that are asked for, whose back-off counts; of one that
    is not named, the longest back-off of the host's origins does.
    """

    host: str
    origin: str = ""
    tenant: str
    count: int
    running: int
    interval_seconds: float
    concurrency: int
    share: int = 1


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


class OwnAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Downloads that say something of a host to their own tenant alone.

    ``answered`` came through a proxy, after ``seconds`` each on average; ``overloads`` were a 429
    or 503 through a proxy, a proxy's fault, or no connection.
    """

    answered: int = 0
    seconds: float = 0.0
    overloads: int = 0
    retry_after_seconds: float = 0.0


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report of an origin of a host since its last one.

    ``running`` downloads of ``tenant`` are in flight at the host or have a slot; ``answered`` ended
    with an answer of the host itself that did not ask for less, after ``seconds`` each on average;
    ``overloads`` ended with its own 429 or 503, the longest wait that was asked for being
    ``retry_after_seconds``. All tenants go by these. ``own`` are those that only this tenant goes
    by, ``failed`` server faults among both. ``limits`` are the host's. Without an ``origin``
    nothing was seen.
    """

    host: str
    origin: str = ""
    tenant: str
    running: int
    answered: int = 0
    failed: int = 0
    seconds: float = 0.0
    overloads: int = 0
    retry_after_seconds: float = 0.0
    own: OwnAnswers = OwnAnswers()
    limits: HostLimits = HostLimits()


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a host, for people and for metrics.

    ``interval_seconds`` lies between two slots by adaption alone (0 for none), ``overload`` counts
    overloaded answers in a row, ``back_off_until`` ends the back-off, both of the worse of http and
    https at their usual ports; ``back_offs`` ends that of each origin, and of "" for the whole host
    (older versions). What one tenant alone goes by is in it where it is asked for. ``answered``,
    ``failed`` and
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
    back_offs: dict[str, datetime] = {}
    next_at: datetime | None = None
    tenants: tuple[str, ...] = ()
    window_seconds: float = 0.0
    answered: int = 0
    failed: int = 0
    overloads: int = 0
    spent_seconds: float = 0.0
    intervals: dict[str, float] = {}


class BackOffs(TypedDict):
    """The overload that a host's state has noted."""

    overload: int
    back_off_until: datetime | None
    back_offs: dict[str, datetime]


def back_off_of(host: str, strains: Iterable[tuple[str, int, int]], now: int) -> BackOffs:
    """Sum up what is known of a host's origins: each until when, in us, and how often.

    What another port says is no reason to think less of the usual ones.
    """
    overload, ends = 0, dict[str, int]()
    for origin, until_us, count in strains:
        ends[origin] = max(until_us, ends.get(origin, 0))
        if origin in _usual(host):
            overload = max(overload, count)
    ends = {origin: until_us for origin, until_us in sorted(ends.items()) if until_us > now}
    until = max((ends.get(origin, 0) for origin in _usual(host)), default=0)
    return BackOffs(
        overload=overload,
        back_off_until=from_ms(until // 1_000) if until else None,
        back_offs={origin: from_ms(at // 1_000) for origin, at in ends.items()},
    )


def _usual(host: str) -> tuple[str, ...]:
    return "", f"http://{host}", f"https://{host}"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one download as a fact about its origin, after ``seconds``.

    ``own``: only its tenant goes by it. ``overloaded``: it asked for fewer requests, or did not
    answer at all; ``failed``: by a server fault.
    """

    origin: str
    seconds: Figure = 0.0
    own: bool = False
    overloaded: bool = False
    failed: bool = False
    retry_after_seconds: Figure = 0.0

    def report(self, host: str, tenant: str, limits: HostLimits) -> HostReport:
        """Return the report of it by somebody who has nothing else in flight there."""
        answered, overloads = int(not self.overloaded), int(self.overloaded)
        whole = OwnAnswers(
            answered=answered,
            seconds=self.seconds * answered,
            overloads=overloads,
            retry_after_seconds=self.retry_after_seconds * overloads,
        )
        shared = OwnAnswers() if self.own else whole
        return HostReport(
            host=host,
            origin=self.origin,
            tenant=tenant,
            running=0,
            answered=shared.answered,
            failed=int(self.failed),
            seconds=shared.seconds,
            overloads=shared.overloads,
            retry_after_seconds=shared.retry_after_seconds,
            own=whole if self.own else OwnAnswers(),
            limits=limits,
        )


class RobotsCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A site's robots.txt as it was fetched, or what is kept of a long one.

    ``status`` is 0 where there was no answer. ``text`` is empty unless it was a 2xx, or there was
    no connection: then it is the error's kind, a line end and what it says. ``fetched_ms`` is by
    the clock of whoever fetched it. Of a long file ``text`` has the groups of these ``products``
    and those for all; the groups of ``too_long`` (``*``: those for all) were longer than what is
    kept. Without products it is the whole file.
    """

    status: int
    text: bytes = b""
    fetched_ms: int = 0
    products: tuple[str, ...] = ()
    too_long: tuple[str, ...] = ()

    def covers(self, product: str) -> bool:
        """Tell whether it has what the file says to this product."""
        return not self.products or product.lower() in self.products


#: robots.txt is read up to this length, the least that the standard asks for (RFC 9309, 2.5).
MAX_BYTES = 500 * 1024
#: So much of it is kept for all workers, compressed.
MAX_KEPT_BYTES = 16 * 1024
#: Slots are granted for this long ahead, so a back-off is obeyed by all within it.
HORIZON_SECONDS = 2.0
#: A worker that is silent for so long has no downloads in flight any more.
PERMIT_SECONDS = 30.0
#: Origins of a host whose overload is remembered, and for one tenant: those that end first go.
STRAINED_ORIGINS = 16
#: Hosts where a tenant met overload or failures: how many are kept, and for how long.
TROUBLED = 500
TROUBLED_SECONDS = 600.0
#: A host that nothing slows is forgotten so long after its latest slot: nothing is to be known of
#: it but its counts of two minutes.
FLEETING_SECONDS = 150.0
#: A tenant that others kept from what it asked for counts at a host for this long.
DEMAND_SECONDS = 10.0


def packed(text: bytes) -> bytes:
    """Compress a text as it is kept: files compress five to one at this level as at any other."""
    return zlib.compress(text[:MAX_BYTES], 1)


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


#: Why requests wait that are left to the worker whose host theirs is, as a grant's ``why``.
OWNER: Final = "owner"
#: Why a request waits, for its timeline.
_WHY: Final = {
    "rate": "its host is asked for pages at its rate",
    "concurrency": "as many pages of its host are being fetched as may be",
    "share": "other tenants use the slots of its host",
    "back-off": "its host asked for fewer requests",
    "away": "the Redis node of its host is unavailable",
    "robots": "its site's robots.txt is read first",
    OWNER: "the worker that has connections to its host takes it",
}


def reason(why: str) -> str:
    """Explain why a request was deferred, by a grant's ``why``.

    >>> reason("rate")
    'deferred until its host slot: its host is asked for pages at its rate'
    """
    return f"deferred until its host slot: {_WHY.get(why, 'its host has none')}"
