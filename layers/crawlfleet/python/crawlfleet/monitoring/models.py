"""The monitor's values: a sample of everything, figures of its parts (SPEC.md A10, A11, C6, D11).

:mod:`crawlfleet.monitoring.sampler` makes a sample. Metrics, incidents and the wanted number of
workers are worked out from it alone, so that all speak of the same moment. Whatever could not be
read is None and named in :attr:`Sample.unread`: sampling never fails as a whole. Times are seconds,
sizes bytes, shares between 0 and 1, rates per second.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.crawling.fetching.proxy_health import ProxyPoolState
from crawlfleet.fleet.models import FleetSample, QueueSample, Ticked, WorkersSample
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import HourCoverage
from crawlfleet.requests.queue.stats import NodeHealth


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """A host over the last one to two minutes, all workers and tenants together.

    Only the worst and the busiest are in a sample, not every host there is.

    Attributes:
        host: Its name, with the port where that is not the scheme's own.
        window_seconds: The time that the counts are about, 60 to 120.
        answered: Answers that did not ask for less; ``failed`` of them were 5xx but 503.
        strained: 429, 503 and failed connections.
        success_share: Of all that was asked for, what was answered and not failed; None where
            nothing was asked.
        throttled: Whether the host is left alone now, or was and is not trusted again yet.
        strain: How many overloaded answers in a row count.
        interval_seconds: The time between two host slots by adaption alone; 0 for none.
        running: Downloads under way there now.
        deferred: Requests that wait for it, of the queues that were looked at.
        met_by: A tenant that met overload or failures there lately, if it is one of those that
            are asked for that: for sharing the places, and shown to no one.
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
    deferred: int = 0
    met_by: str = ""

    @property
    def asked(self) -> int:
        """Downloads that ended, whatever came of them."""
        return self.answered + self.strained


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a sample that could not be read: ``what`` is ``workers``, ``acme/docs`` ..."""

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


class FailedFire(msgspec.Struct, frozen=True, kw_only=True):
    """A fire of a schedule that has started no job; ``why`` is said to people."""

    tenant: str
    biz: str
    schedule: str
    fire_at: datetime
    why: str


class UsedUpQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A quota that is used up, of a ``biz`` or of its tenant and its users; ``said`` is of it."""

    tenant: str
    biz: str = ""
    said: str


class StreamSample(msgspec.Struct, frozen=True, kw_only=True):
    """A channel as it is read: when it brought items, when it is silent without more, its lag."""

    name: str
    item_at: datetime | None = None
    silent_at: datetime | None = None
    lag_p95_seconds: float | None = None
    refused: bool = False
    last_fault: str = ""


class ReceiverSample(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver of a tenant that takes nothing."""

    tenant: str
    target: str
    failing_since: datetime
    error: str = ""


class StreamsSample(msgspec.Struct, frozen=True, kw_only=True):
    """The streams that are read, feeds that are silent, and receivers that take nothing."""

    sources: tuple[StreamSample, ...] = ()
    silent_feeds: tuple[str, ...] = ()
    receivers: tuple[ReceiverSample, ...] = ()


class BizCoverage(msgspec.Struct, frozen=True):
    """The field coverage of a biz's rules in the last hours, the oldest first."""

    queue_key: QueueKey
    hours: tuple[HourCoverage, ...]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of everything. None is what could not be read; ``unread`` names it.

    Attributes:
        revision: The configuration in force; empty where there has never been a right one.
        queues: Every queue of the stage, in a stable order.
        hosts: The worst hosts first, then the busiest; at most ``monitoring.gathering.SHOWN``
            besides those that have an incident, which take no place of the others.
        hosts_seen: How many hosts were looked at to find these: ``monitoring.gathering.LOOKED_AT``
            and those with incidents at most, of however many there are.
        hosts_throttled: How many of those are throttled, shown or not.
        fleet: All queues together, as far as they were read.
        parts: Redis and each MongoDB node, with figures, what is missing of them, what is wrong.
        config_refused: Why the newest configuration is not in force; None if it is.
        stray_items: Items that wait for bizs that there are not; ``stray_requests`` likewise.
        ticked: The scheduler's latest tick.
        unplaced: Jobs given up lately as no worker suits them, the newest first, then those that
            wait for one for longer than the stage has patience.
        coverage: What was counted in the last hours of bizs that are at work; of others nothing.
        proxies: The stage's pools of proxies, as their workers know them.
        used_up: The quotas of tenants, users, bizs and open jobs that are used up.
        failed_fires: The last fires of schedules, where they have failed.
        streams: Channels that are read, silent feeds, and receivers that take nothing.
    """

    at: datetime
    took_seconds: float = 0.0
    revision: str = ""
    queues: tuple[QueueSample, ...] = ()
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
    coverage: tuple[BizCoverage, ...] = ()
    proxies: tuple[ProxyPoolState, ...] | None = ()
    used_up: tuple[UsedUpQuota, ...] | None = None
    failed_fires: tuple[FailedFire, ...] | None = None
    streams: StreamsSample | None = None
    unread: tuple[Unread, ...] = ()


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a deep health check. Nothing of it is secret: no address, no tenant.

    ``at`` is when it was found, which callers compare with their own clock; ``version`` is the
    answering code's. ``config_digest`` is of the documents in force (config.validation),
    ``config_refused`` says that newer ones are not; ``parts`` are ``ok`` or what is wrong. None is
    what Redis does not say.
    """

    at: datetime
    version: str
    stage: str
    revision: str = ""
    config_digest: str = ""
    config_refused: bool = False
    parts: dict[str, str] = {}
    workers: WorkersSample | None = None
    ticked: Ticked | None = None


class HasNoneError(CrawlfleetError):
    """The server has nothing of the kind that it was asked for."""


class Figures:
    """Figures of a part by name, and why others are missing.

    ``unread`` are the missing ones that the server may well have: it did not let us see them, did
    not answer, or answered nonsense.
    """

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        self.unread: set[str] = set()

    def put(self, name: str, value: object) -> None:
        """Take a value if it is a number that can be one: finite and not below 0."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.missing[name] = "the server does not say" if value is None else "is no number"
            self.unread |= set() if value is None else {name}
        elif not math.isfinite(value) or value < 0:
            self.missing[name] = f"{value!r} cannot be"
            self.unread.add(name)
        else:
            self.found[name] = float(value)

    def share(self, name: str, part: object, whole: object) -> None:
        """Take a share; of a whole that is 0 or unknown there is none."""
        numbers = (part, whole)
        if any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
            self.missing[name] = "the server does not say"
        elif not whole:
            self.missing[name] = "the server has no limit"
        else:
            self.put(name, part / whole)  # type: ignore[operator]  # both are numbers

    def ask(self, names: Iterable[str], question: Callable[[], None]) -> None:
        """Ask for some figures by themselves; where that fails, those not put are missing.

        An answer of another shape than the server's own is a failure like any other.
        """
        failed = True
        try:
            question()
        except HasNoneError as error:
            reason, failed = str(error), False
        except CrawlfleetError as error:
            reason = str(error)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            reason = "the answer is not what such a server answers"
        else:
            reason, failed = "the server does not say", False
        for name in names:
            if name not in self.found and name not in self.missing:
                self.missing[name] = reason
                self.unread |= {name} if failed else set()


def number(answer: object, *path: str) -> Any:
    """Return what is below ``path`` in an answer; None where there is nothing.

    >>> number({"mem": {"resident": 5}}, "mem", "resident"), number({}, "mem", "resident")
    (5, None)
    """
    for step in path:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(step)
    return answer
