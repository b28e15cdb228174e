"""Ask for host slots before a request begins; report how hosts answered (SPEC.md H3).

Redis grants the slots (crawling.politeness.redis); robots.txt says what may be fetched
(crawling.politeness.robots). :class:`LocalScheduler` begins the leased requests when their slots
have come and a permit is free, which costs nothing while none has to wait.
"""

import asyncio
import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Final, TypeAlias
from urllib.parse import urljoin

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.crawling.politeness.models import (
    PERMIT_SECONDS,
    HostAsk,
    HostReport,
    host_limits,
    interval_of,
    limits_for,
)
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.kernel.errors import (
    ConnectFailedError,
    CrawlfleetError,
    FetchError,
    FetchTimeoutError,
    RobotsUnknownError,
    ServerFaultError,
    ThrottledError,
)
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.leased import LeasedRequest

#: A host and a tenant.
HostKey: TypeAlias = tuple[str, str]
#: Timers are not exact: a slot this near has come.
_NEAR_SECONDS: Final = 0.002
#: A request that begins with no more delay than this began in time.
_IN_TIME_SECONDS: Final = 0.01


class _Host:
    __slots__ = ("blocked", "next_at", "permits", "running", "slots")

    def __init__(self) -> None:
        self.permits, self.running = 1, 0
        #: Nothing begins before: late slots keep their distance.
        self.next_at = 0.0
        #: Requests that have a slot and have not begun.
        self.slots = 0
        self.blocked: deque[LeasedRequest] = deque()


class LocalScheduler:
    """Order the leased requests of a worker by their slots. Used from the event loop only.

    Runners take from ``ready``; for each request that they take, :meth:`end` follows.
    """

    def __init__(self, steady: SteadyTime = STEADY) -> None:
        self._now = steady.now
        self.ready: asyncio.Queue[LeasedRequest | None] = asyncio.Queue()
        self._hosts: dict[HostKey, _Host] = {}
        self._timed: list[tuple[float, int, LeasedRequest]] = []
        # The host of each request in flight: redirects lead to other hosts.
        self._places: dict[LeasedRequest, HostKey] = {}
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    @property
    def waiting(self) -> int:
        """Count the requests that could begin now and have no runner."""
        return self.ready.qsize()

    def running(self, key: HostKey, but: LeasedRequest | None = None) -> int:
        """Count the requests in flight or with a slot; ``but`` one. Safe in any thread.

        A request that goes on at its host needs no second permit there: it would wait for itself.
        """
        host = self._hosts.get(key)
        if host is None:
            return 0
        own = but is not None and self._places.get(but) == key
        return max(0, host.running + host.slots - own)

    def busy(self) -> dict[HostKey, int]:
        """:meth:`running` of every host that has any."""
        return {key: host.running + host.slots for key, host in self._hosts.items()}

    def hosts(self, most: int) -> tuple[HostKey, ...]:
        """Get up to so many hosts of :meth:`busy`. Safe in any thread."""
        return tuple(self._hosts)[:most]

    def add(self, leased: LeasedRequest) -> None:
        """Add a request that has a slot, or needs none."""
        host = self._hosts.get(leased.host)
        if host is None:
            host = self._hosts[leased.host] = _Host()
        host.permits = max(1, leased.permits)
        host.slots += 1
        if leased.slot_at is None or leased.slot_at <= self._now() + _NEAR_SECONDS:
            self._come(host, leased)
        else:
            self._wait(leased, leased.slot_at)

    def end(self, leased: LeasedRequest) -> None:
        """End a request that a runner took, however it ended."""
        key = self._places.pop(leased)
        host = self._hosts[key]
        host.running -= 1
        for _ in range(min(len(host.blocked), host.permits - host.running)):
            self._come(host, host.blocked.popleft())
        if not host.running and not host.slots:
            del self._hosts[key]

    def go_on(self, leased: LeasedRequest, key: HostKey) -> None:
        """Move a request in flight to a host where it has a slot; it leaves the last one."""
        if self._places.get(leased, key) == key:
            return
        self.end(leased)
        self._hosts.setdefault(key, _Host()).running += 1
        self._places[leased] = key

    def close(self, runners: int) -> None:
        """End each runner once it has nothing left to take."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _ in range(runners):
            self.ready.put_nowait(None)

    def _come(self, host: _Host, leased: LeasedRequest) -> None:
        if host.running >= host.permits:
            host.blocked.append(leased)
            return
        now = self._now()
        if host.next_at > now + _NEAR_SECONDS:
            self._wait(leased, host.next_at)
            return
        # A slot that comes in time sets the pace, not the timer's little delay.
        slot_at = leased.slot_at
        begun_at = now if slot_at is None or now - slot_at > _IN_TIME_SECONDS else slot_at
        host.next_at = begun_at + leased.interval_seconds
        host.slots -= 1
        host.running += 1
        self._places[leased] = leased.host
        self.ready.put_nowait(leased)

    def _wait(self, leased: LeasedRequest, until: float) -> None:
        heapq.heappush(self._timed, (until, next(self._order), leased))
        self._set_timer()

    def _set_timer(self) -> None:
        first = self._timed[0][0]
        if self._timer is not None:
            if self._rings_at <= first:
                return
            self._timer.cancel()
        self._rings_at = first
        delay = max(0.0, first - self._now())
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._now() + _NEAR_SECONDS
        come = []
        while self._timed and self._timed[0][0] <= now:
            come.append(heapq.heappop(self._timed)[2])
        for leased in come:
            self._come(self._hosts[leased.host], leased)
        if self._timed:
            self._set_timer()


#: Unsent reports are kept of so many hosts, the oldest beyond dropped: permits end by themselves,
#: and an overloaded host says so again.
MOST_UNREPORTED: Final = 2_000
#: A host with requests in flight is reported at least this often.
_KEEP_SECONDS: Final = PERMIT_SECONDS / 3


class _Seen:
    """``back_off_until`` ends the back-off that a host asked for and that could not be reported."""

    __slots__ = ("answered", "back_off_until", "failed", "overloads", "retry_after", "seconds")

    def __init__(self) -> None:
        self.answered = self.failed = self.overloads = 0
        self.seconds = self.retry_after = self.back_off_until = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests that got no slot: until when they wait, and for what (a grant's ``why``).

    ``said`` is the reason in their timelines where it is not the host's.
    """

    host: str
    leased: Sequence[LeasedRequest]
    until: datetime
    why: str
    said: str | None = None


class PolitenessClient:
    """The politeness of one worker.

    Args:
        hosts: The fleet's slots.
        config: How hosts are treated.
        robots: The crawl-delays of sites.
        scheduler: The worker's requests in flight.
        worker: Its id.
        clock: The time.
        steady: Measures slots and back-offs.
    """

    def __init__(
        self,
        hosts: RedisHosts,
        config: ConfigCentre,
        robots: RobotsBook,
        scheduler: LocalScheduler,
        worker: str,
        clock: Callable[[], datetime],
        steady: SteadyTime = STEADY,
    ) -> None:
        self._hosts = hosts
        self._config = config
        self._robots = robots
        self._scheduler = scheduler
        self._worker = worker
        self._clock = clock
        self._now = steady.now
        self._seen: dict[HostKey, _Seen] = defaultdict(_Seen)
        # When each host with requests in flight was reported last.
        self._reported: dict[HostKey, float] = {}

    # ---- from the threads that lease -----------------------------------------------------------

    def ask(
        self,
        tree: Tree,
        queue_key: QueueKey,
        biz: Biz,
        wanted: Mapping[str, int],
        under_way: LeasedRequest | None = None,
    ) -> dict[str, "GrantedSlots"]:
        """Reserve slots at hosts, as many as there are up to what is wanted.

        A request that is ``under_way`` and asks for its next slot does not count beside itself.

        Raises:
            StoreUnavailableError: slots cannot be granted now.
        """
        if not wanted:
            return {}
        asks = []
        for host, number in wanted.items():
            limits = limits_for(tree.stage, biz, host)
            ask = HostAsk(
                host=host,
                tenant=queue_key.tenant,
                count=number,
                running=self._scheduler.running((host, queue_key.tenant), under_way),
                interval_seconds=interval_of(limits, self._robots.crawl_delay(host, biz)),
                concurrency=limits.concurrency,
            )
            asks.append(ask)
        grants = self._hosts.reserve(asks, self._worker)
        # After the answer: a late slot harms nobody, an early one may.
        at, now = self._now(), self._clock()
        slots = {}
        for grant in grants:
            self._reported[grant.host, queue_key.tenant] = at
            slots[grant.host] = GrantedSlots(
                count=grant.count,
                first_at=at + grant.wait_seconds,
                interval_seconds=grant.interval_seconds,
                permits=grant.permits,
                again_at=now + timedelta(seconds=grant.ready_seconds),
                again_seconds=grant.ready_seconds,
                why=grant.why,
            )
        return slots

    def share_out(
        self, tree: Tree, queue_key: QueueKey, biz: Biz, leased: Sequence[LeasedRequest]
    ) -> tuple[list[LeasedRequest], list[Waiting]]:
        """Give requests their slots, in order; return those with one, and by host those without."""
        by_host: dict[str, list[LeasedRequest]] = defaultdict(list)
        for one in leased:
            by_host[one.host[0]].append(one)
        wanted = {host: len(part) for host, part in by_host.items()}
        slots = self.ask(tree, queue_key, biz, wanted)
        granted: list[LeasedRequest] = []
        waiting: list[Waiting] = []
        for host, part in by_host.items():
            given = slots[host]
            given.give(part)
            granted += part[: given.count]
            if given.count < len(part):
                waiting.append(Waiting(host, part[given.count :], given.again_at, given.why))
        return granted, waiting

    # ---- from the event loop -------------------------------------------------------------------

    def go_on(self, leased: LeasedRequest, host: str) -> None:
        """Follow a redirect to a host whose slot has come."""
        self._scheduler.go_on(leased, (host, leased.queue_key.tenant))

    def saw(self, key: HostKey, seconds: float, error: CrawlfleetError | None) -> None:
        """Count a download that ended after ``seconds``, with an answer or this error."""
        if error is not None and not isinstance(error, FetchError):
            return
        if error is not None and isinstance(error.__cause__, RobotsUnknownError):
            return  # the page was not asked for
        silent = isinstance(error, ConnectFailedError | FetchTimeoutError)
        if error is not None and not error.status and not silent:
            return  # nothing was asked for, or nothing about the host was learnt
        overloads = silent or isinstance(error, ThrottledError)
        seen = self._seen[key if error is None else (_failed_at(error) or key[0], key[1])]
        if overloads:
            seen.overloads += 1
            after = getattr(error, "retry_after_seconds", None) or 0.0
            seen.retry_after = max(seen.retry_after, after)
        else:
            seen.answered += 1
            seen.failed += isinstance(error, ServerFaultError)
            seen.seconds += seconds

    def take_reports(self, *, last: bool = False) -> list[HostReport]:
        """Take the reports that are due; the ``last`` time, that nothing is in flight any more."""
        now, busy, stage = self._now(), self._scheduler.busy(), self._config.current().stage
        keys = set(self._seen)
        for key, reported in list(self._reported.items()):
            if last or key not in busy or now - reported > _KEEP_SECONDS:
                keys.add(key)
        reports = []
        for key in keys:
            seen = self._seen.pop(key, None) or _Seen()
            running = 0 if last else busy.get(key, 0)
            if running:
                self._reported[key] = now
            else:
                self._reported.pop(key, None)
            reports.append(
                HostReport(
                    host=key[0],
                    tenant=key[1],
                    running=running,
                    answered=seen.answered,
                    failed=seen.failed,
                    seconds=seen.seconds / max(1, seen.answered),
                    overloads=seen.overloads,
                    retry_after_seconds=max(seen.retry_after, seen.back_off_until - now),
                    limits=host_limits(stage, key[0]),
                )
            )
        return reports

    def keep(self, reports: Sequence[HostReport]) -> None:
        """Keep reports that could not be sent, for the next ones.

        Some may have arrived. Reported twice, an answer weighs a little more, and an overloaded
        host is backing off already.
        """
        now = self._now()
        for one in reports:
            key = one.host, one.tenant
            seen = self._seen[key]
            seen.answered += one.answered
            seen.failed += one.failed
            seen.seconds += one.seconds * one.answered
            seen.overloads += one.overloads
            seen.back_off_until = max(seen.back_off_until, now + one.retry_after_seconds)
        while len(self._seen) > MOST_UNREPORTED:
            del self._seen[next(iter(self._seen))]

    def report(self, reports: Sequence[HostReport]) -> list[HostReport]:
        """Report to the fleet; return what could not be reported. Blocks."""
        return self._hosts.report(reports, self._worker) if reports else []


def _failed_at(error: FetchError) -> str:
    """Get the host that failed, which redirects may have led to; "" if unknown.

    A failure after a redirect is that of the host that was not reached.
    """
    answer = error.answer
    if answer is None:
        return ""
    if error.status or not 300 <= answer.status < 400:
        return host_of(answer.url)
    try:
        return host_of(urljoin(answer.url, answer.headers.get("location", "")))
    except ValueError:  # a site may send us anywhere
        return ""


@dataclass(slots=True)
class GrantedSlots:
    """Slots that the fleet grants at a host: ``count`` of them, an interval apart."""

    count: int
    first_at: float
    interval_seconds: float
    permits: int
    again_at: datetime
    again_seconds: float
    why: str

    def give(self, leased: Sequence[LeasedRequest]) -> None:
        """Give the slots to the first ones."""
        for place, one in enumerate(leased[: self.count]):
            one.slot_at = self.first_at + place * self.interval_seconds
            one.permits = self.permits
            one.interval_seconds = self.interval_seconds


#: Why a request waits, for its timeline.
_WHY: Final = {
    "rate": "its host is asked for pages at its rate",
    "concurrency": "as many pages of its host are being fetched as may be",
    "share": "other tenants use the slots of its host",
    "back-off": "its host asked for fewer requests",
    "away": "the Redis node of its host is unavailable",
    "robots": "its site's robots.txt is read first",
}


def reason(why: str) -> str:
    """Explain why a request was deferred, by a grant's ``why``.

    >>> reason("rate")
    'deferred until its host slot: its host is asked for pages at its rate'
    """
    return f"deferred until its host slot: {_WHY.get(why, 'its host has none')}"
