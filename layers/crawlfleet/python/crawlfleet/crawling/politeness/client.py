"""Ask for host slots before a request begins; report how hosts answered (SPEC.md H3).

Redis grants the slots (crawling.politeness.redis); robots.txt says what may be fetched
(crawling.politeness.robots), and ``local_scheduler`` begins the leased requests.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.lookup import share_of
from crawlfleet.crawling.politeness import models
from crawlfleet.crawling.politeness.local_scheduler import HostKey, LocalScheduler
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import host_of, origin_of, site_of
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime
from crawlfleet.requests.leased import LeasedRequest

if TYPE_CHECKING:
    from crawlfleet.crawling.politeness.redis import RedisHosts

#: Unsent reports are kept of so many hosts, the oldest beyond dropped: permits end by themselves,
#: and an overloaded host says so again.
MOST_UNREPORTED: Final = 2_000
#: A host with requests in flight is reported at least this often.
_KEEP_SECONDS: Final = models.PERMIT_SECONDS / 3


class _Answers:
    """``back_off_until`` ends the back-off that a host asked for and that could not be reported."""

    __slots__ = ("answered", "back_off_until", "overloads", "retry_after", "seconds")

    def __init__(self) -> None:
        self.answered = self.overloads = 0
        self.seconds = self.retry_after = self.back_off_until = 0.0

    def keep(self, seen: models.HostReport | models.OwnAnswers, now: float) -> None:
        """Add what could not be reported."""
        self.answered += seen.answered
        self.seconds += seen.seconds * seen.answered
        self.overloads += seen.overloads
        self.back_off_until = max(self.back_off_until, now + seen.retry_after_seconds)

    def retry_after_seconds(self, now: float) -> float:
        """Return how long the host asked to be left alone from now on."""
        return max(self.retry_after, self.back_off_until - now)


class _Seen:
    """Answers of the host itself, and the ends of the tenant's ``own`` downloads."""

    __slots__ = ("failed", "host", "own")

    def __init__(self) -> None:
        self.failed, self.host, self.own = 0, _Answers(), _Answers()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests of a site that got no slot: until when they wait, for what (a grant's ``why``).

    ``said`` is the reason in their timelines where it is not the host's.
    """

    site: str
    leased: Sequence[LeasedRequest]
    until: datetime
    why: str
    said: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PolitenessClient:
    """The politeness of one worker; ``steady`` measures slots and back-offs."""

    hosts: "RedisHosts"
    config: SsmConfig
    robots: RobotsBook
    scheduler: LocalScheduler
    worker: str
    clock: Clock
    steady: SteadyTime = STEADY
    # By origin and tenant.
    _seen: dict[HostKey, _Seen] = field(default_factory=lambda: defaultdict(_Seen), init=False)
    # When each host with requests in flight was reported last.
    _reported: dict[HostKey, float] = field(default_factory=dict, init=False)

    # ---- from the threads that lease -----------------------------------------------------------

    def ask(
        self,
        tree: Tree,
        queue_key: QueueKey,
        biz: Biz,
        wanted: Mapping[str, int],
        under_way: LeasedRequest | None = None,
    ) -> dict[str, "GrantedSlots"]:
        """Reserve slots for origins, as many as their hosts have up to what is wanted.

        A request that is ``under_way`` and asks for its next slot does not count beside itself.
        Raises StoreUnavailableError if slots cannot be granted now.
        """
        if not wanted:
            return {}
        asks = []
        for origin, number in wanted.items():
            host = host_of(origin)
            ask = models.HostAsk(
                host=host,
                origin=origin,
                tenant=queue_key.tenant,
                count=number,
                running=self.scheduler.running((host, queue_key.tenant), under_way),
                interval_seconds=self._interval(tree, biz, host),
                concurrency=models.limits_for(tree.stage, biz, host).concurrency,
                share=share_of(tree, queue_key.tenant),
            )
            asks.append(ask)
        grants = self.hosts.reserve(asks, self.worker)
        # After the answer: a late slot harms nobody, an early one may.
        at, now = self.steady.now(), self.clock()
        slots = {}
        for origin, grant in zip(wanted, grants, strict=True):
            self._reported[grant.host, queue_key.tenant] = at
            slots[origin] = GrantedSlots(
                count=grant.count,
                first_at=at + grant.wait_seconds,
                interval_seconds=grant.interval_seconds,
                permits=grant.permits,
                again_at=now + timedelta(seconds=grant.ready_seconds),
                again_seconds=grant.ready_seconds,
                why=grant.why,
            )
        return slots

    def _interval(self, tree: Tree, biz: Biz, host: str) -> float:
        limits = models.limits_for(tree.stage, biz, host)
        return models.interval_of(limits, self.robots.crawl_delay(host, biz))

    def share_out(
        self,
        tree: Tree,
        queue_key: QueueKey,
        biz: Biz,
        leased: Sequence[LeasedRequest],
        is_left: Callable[[str, float], bool] = lambda _site, _seconds: False,
    ) -> tuple[list[LeasedRequest], list[Waiting]]:
        """Give requests their slots, in order; return those with one, and by site those without.

        ``is_left`` tells whether requests of a site are left to another worker, by the seconds
        between the first and the last slot of them; no slots are asked for these.
        """
        by_origin: dict[str, list[LeasedRequest]] = defaultdict(list)
        for one in leased:
            by_origin[one.origin].append(one)
        granted: list[LeasedRequest] = []
        waiting: list[Waiting] = []
        for origin, part in list(by_origin.items()):
            interval = self._interval(tree, biz, host_of(origin))
            if is_left(site_of(origin), (len(part) - 1) * interval):
                left = by_origin.pop(origin)
                waiting.append(Waiting(site_of(origin), left, self.clock(), models.OWNER))
        wanted = {origin: len(part) for origin, part in by_origin.items()}
        slots = self.ask(tree, queue_key, biz, wanted)
        for origin, part in by_origin.items():
            given = slots[origin]
            given.give(part)
            granted += part[: given.count]
            if given.count < len(part):
                rest = part[given.count :]
                waiting.append(Waiting(site_of(origin), rest, given.again_at, given.why))
        return granted, waiting

    # ---- from the event loop -------------------------------------------------------------------

    def go_on(self, leased: LeasedRequest, host: str) -> None:
        """Follow a redirect to a host whose slot has come."""
        self.scheduler.go_on(leased, (host, leased.queue_key.tenant))

    def saw(
        self,
        origin: str,
        tenant: str,
        seconds: float,
        error: errors.CrawlfleetError | None = None,
        *,
        proxied: bool = False,
    ) -> None:
        """Count a download that ended after ``seconds``, with an answer or this error."""
        found = observed(origin, seconds, error, proxied=proxied)
        if found is None:
            return
        seen = self._seen[found.origin, tenant]
        part = seen.own if found.own else seen.host
        if found.overloaded:
            part.overloads += 1
            part.retry_after = max(part.retry_after, found.retry_after_seconds)
        else:
            part.answered += 1
            part.seconds += seconds
            seen.failed += found.failed

    def take_reports(self, *, last: bool = False) -> list[models.HostReport]:
        """Take the reports that are due; the ``last`` time, that nothing is in flight any more."""
        now, busy, stage = self.steady.now(), self.scheduler.busy(), self.config.current().stage
        by_host: dict[HostKey, dict[str, _Seen]] = defaultdict(dict)
        for origin, tenant in tuple(self._seen):
            seen = self._seen.pop((origin, tenant))
            by_host[host_of(origin), tenant][origin] = seen
        for key, reported in list(self._reported.items()):
            if key not in by_host and (last or key not in busy or now - reported > _KEEP_SECONDS):
                by_host[key][""] = _Seen()
        reports = []
        for key, origins in by_host.items():
            running = 0 if last else busy.get(key, 0)
            if running:
                self._reported[key] = now
            else:
                self._reported.pop(key, None)
            for origin, seen in origins.items():
                host, own = seen.host, seen.own
                reports.append(
                    models.HostReport(
                        host=key[0],
                        origin=origin,
                        tenant=key[1],
                        running=running,
                        answered=host.answered,
                        failed=seen.failed,
                        seconds=host.seconds / max(1, host.answered),
                        overloads=host.overloads,
                        retry_after_seconds=host.retry_after_seconds(now),
                        own=models.OwnAnswers(
                            answered=own.answered,
                            seconds=own.seconds / max(1, own.answered),
                            overloads=own.overloads,
                            retry_after_seconds=own.retry_after_seconds(now),
                        ),
                        limits=models.host_limits(stage, key[0]),
                    )
                )
        return reports

    def keep(self, reports: Sequence[models.HostReport]) -> None:
        """Keep reports that could not be sent, for the next ones.

        Some may have arrived. Reported twice, an answer weighs a little more, and an overloaded
        host is backing off already.
        """
        now = self.steady.now()
        for one in reports:
            # Of one without an origin it is said again that nothing is in flight.
            seen = self._seen[one.origin or f"https://{one.host}", one.tenant]
            seen.failed += one.failed
            seen.host.keep(one, now)
            seen.own.keep(one.own, now)
        while len(self._seen) > MOST_UNREPORTED:
            del self._seen[next(iter(self._seen))]

    def report(self, reports: Sequence[models.HostReport]) -> list[models.HostReport]:
        """Report to the fleet; return what could not be reported. Blocks."""
        return self.hosts.report(reports, self.worker) if reports else []


def observed(
    origin: str,
    seconds: float,
    error: errors.CrawlfleetError | None = None,
    *,
    proxied: bool = False,
) -> models.Observation | None:
    """Return what a download tells of a host that ended so; None where it tells nothing.

    What a proxy said, and that there was no connection, only its tenant goes by: anybody can have a
    proxy that answers 429, and ask a host at a port where nobody listens.
    """
    if error is not None and not isinstance(error, errors.FetchError):
        return None
    if error is not None and isinstance(error.__cause__, errors.RobotsUnknownError):
        return None  # the page was not asked for
    silent = isinstance(error, errors.ConnectFailedError | errors.FetchTimeoutError)
    if error is not None and not error.status and not silent:
        return None  # nothing was asked for, or nothing about the host was learnt
    at = "" if error is None else _failed_at(error)
    return models.Observation(
        origin=at or origin,
        seconds=seconds,
        own=silent or proxied,
        overloaded=silent or isinstance(error, errors.ThrottledError),
        failed=isinstance(error, errors.ServerFaultError),
        retry_after_seconds=getattr(error, "retry_after_seconds", None) or 0.0,
    )


def _failed_at(error: errors.FetchError) -> str:
    """Get the origin that failed, which redirects may have led to; "" if unknown.

    A failure after a redirect is that of the host that was not reached.
    """
    answer = error.answer
    if answer is None:
        return ""
    if error.status or not 300 <= answer.status < 400:
        return origin_of(answer.url)
    try:
        return origin_of(urljoin(answer.url, answer.headers.get("location", "")))
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
