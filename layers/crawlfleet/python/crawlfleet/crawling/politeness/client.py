"""A worker's manners at hosts: it asks for turns before it begins, and tells what it has seen.

Whose turn it is, the fleet decides (ports.Hosts); what of a site may be fetched, the site does
(crawling.politeness.robots).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urljoin

from crawlfleet.config.documents.biz import Biz, Stage, Tree
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.crawling.politeness.local_scheduler import HostKey, LocalScheduler
from crawlfleet.crawling.politeness.models import (
    PERMIT_SECONDS,
    HostAsk,
    HostReport,
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

#: What could not be told is kept of so many hosts; the oldest beyond are let go: permits end by
#: themselves, and a host that is strained says so again.
MOST_UNREPORTED: Final = 2_000
#: A host at which something is under way is told of at least this often.
_KEEP_SECONDS: Final = PERMIT_SECONDS / 3


class _Seen:
    """``alone_until`` is until when a host that could not be told of wants to be left alone."""

    __slots__ = ("alone_until", "answered", "failed", "retry_after", "seconds", "strained")

    def __init__(self) -> None:
        self.answered = self.failed = self.strained = 0
        self.seconds = self.retry_after = self.alone_until = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests that got no turn: which, until when they wait, and for what.

    ``said`` is what their timelines say, where that is no matter of turns.
    """

    host: str
    held: Sequence[LeasedRequest]
    until: datetime
    why: str
    said: str | None = None


class PolitenessClient:
    """The manners of one worker.

    Args:
        hosts: The fleet's turns.
        config: Says how hosts are treated.
        robots: What sites have said.
        scheduler: What of this worker is in flight.
        worker: Its id.
        clock: The time.
        steady: What turns and back-offs go by.
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
        # When each host at which something was under way was told of last.
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
        """Turns at hosts, as many as there are up to what is wanted.

        A request that is ``under_way`` and asks for its next turn does not count beside itself.

        Raises:
            StoreUnavailableError: nobody can say whose turn it is.
        """
        if not wanted:
            return {}
        asks = [
            self._ask(tree.stage, queue_key, biz, host, count, under_way)
            for host, count in wanted.items()
        ]
        grants = self._hosts.reserve(asks, self._worker)
        # After the answer: a turn that is late harms nobody, one that is early may.
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

    def _ask(
        self,
        stage: Stage,
        queue_key: QueueKey,
        biz: Biz,
        host: str,
        count: int,
        under_way: LeasedRequest | None,
    ) -> HostAsk:
        limits = limits_for(stage, biz, host)
        return HostAsk(
            host=host,
            tenant=queue_key.tenant,
            count=count,
            running=self._scheduler.running((host, queue_key.tenant), under_way),
            interval_seconds=interval_of(limits, self._robots.crawl_delay(host, biz)),
            concurrency=limits.concurrency,
        )

    def share_out(
        self, tree: Tree, queue_key: QueueKey, biz: Biz, held: Sequence[LeasedRequest]
    ) -> tuple[list[LeasedRequest], list[Waiting]]:
        """Give each its turn, in order; and those for which there is none yet, by host."""
        by_host: dict[str, list[LeasedRequest]] = defaultdict(list)
        for one in held:
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

    def go_on(self, held: LeasedRequest, host: str) -> None:
        """A redirect leads there, and its turn there has come."""
        self._scheduler.go_on(held, (host, held.queue_key.tenant))

    def saw(self, key: HostKey, seconds: float, error: CrawlfleetError | None) -> None:
        """A download that began at a host ended after ``seconds``, with an answer or this error."""
        if error is not None and not isinstance(error, FetchError):
            return
        if error is not None and isinstance(error.__cause__, RobotsUnknownError):
            return  # of the page nothing was asked
        silent = isinstance(error, ConnectFailedError | FetchTimeoutError)
        if error is not None and not error.status and not silent:
            return  # nothing was asked for, or nothing about the host was learnt
        strained = silent or isinstance(error, ThrottledError)
        seen = self._seen[key if error is None else (_failed_at(error) or key[0], key[1])]
        if strained:
            seen.strained += 1
            after = getattr(error, "retry_after_seconds", None) or 0.0
            seen.retry_after = max(seen.retry_after, after)
        else:
            seen.answered += 1
            seen.failed += isinstance(error, ServerFaultError)
            seen.seconds += seconds

    def take_reports(self, *, last: bool = False) -> list[HostReport]:
        """What is to be told now; the ``last`` time, that nothing is under way any more."""
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
                    strained=seen.strained,
                    retry_after_seconds=max(seen.retry_after, seen.alone_until - now),
                    limits=stage.host_limits.get(key[0], stage.hosts),
                )
            )
        return reports

    def keep(self, reports: Sequence[HostReport]) -> None:
        """Reports that could not be sent: what they say is told with the next ones.

        Some may have arrived. Told twice, an answer weighs a little more, and a strained host is
        being left alone already.
        """
        now = self._now()
        for one in reports:
            key = one.host, one.tenant
            seen = self._seen[key]
            seen.answered += one.answered
            seen.failed += one.failed
            seen.seconds += one.seconds * one.answered
            seen.strained += one.strained
            seen.alone_until = max(seen.alone_until, now + one.retry_after_seconds)
        while len(self._seen) > MOST_UNREPORTED:
            del self._seen[next(iter(self._seen))]

    def report(self, reports: Sequence[HostReport]) -> list[HostReport]:
        """Tell the fleet; returns what could not be told of some hosts. Blocks."""
        return self._hosts.report(reports, self._worker) if reports else []


def _failed_at(error: FetchError) -> str:
    """The host that a failure is of, where the way may have led beyond the first; "" if not known.

    The last answer tells: a redirect is the host's whose place was not reached after it.
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
    """What the fleet gives of a host: ``count`` turns, an interval apart."""

    count: int
    first_at: float
    interval_seconds: float
    permits: int
    again_at: datetime
    again_seconds: float
    why: str

    def give(self, held: Sequence[LeasedRequest]) -> None:
        """The turns to the first ones."""
        for place, one in enumerate(held[: self.count]):
            one.slot_at = self.first_at + place * self.interval_seconds
            one.permits = self.permits
            one.interval_seconds = self.interval_seconds


#: What a request waits for, as its timeline tells it.
_WHY: Final = {
    "rate": "its host is asked for pages at its rate",
    "concurrency": "as many pages of its host are being fetched as may be",
    "share": "other tenants have their turn at its host",
    "back-off": "its host asked for fewer requests",
    "away": "the part of Redis that knows of its host is away",
    "robots": "its site's robots.txt is read first",
}


def reason(why: str) -> str:
    """Why a request was put aside, for its timeline, by a grant's ``why``.

    >>> reason("rate")
    'put aside until its turn: its host is asked for pages at its rate'
    """
    return f"put aside until its turn: {_WHY.get(why, 'its host has none')}"
