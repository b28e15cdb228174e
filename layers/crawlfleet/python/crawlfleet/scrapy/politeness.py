"""``DOWNLOADER_MIDDLEWARES``: download by the fleet's host slots and robots.txt.

Slots come from the API (``POST /v1/{biz}/slots``), as those of workers come from Redis: a host is
asked at one pace by the whole fleet, and shared fairly. A request waits here for its slot, nearest
to the downloader, so that what a cache answers takes none; a download without one does not happen,
whatever is away. A site that answers 429 or 503 is left alone for as long as it asks.
"""

import asyncio
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakValueDictionary

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, NotConfigured

from crawlfleet.crawling.fetching.models import retry_after_seconds
from crawlfleet.crawling.politeness.models import MAX_BYTES, RobotsCopy
from crawlfleet.crawling.politeness.robots_txt import RulesShelf, SiteRules, kept_seconds
from crawlfleet.kernel.errors import ConfigError, CrawlfleetError
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.scrapy.engine import session_of
from crawlfleet.sdk.address import find_address
from crawlfleet.sdk.client import Client
from crawlfleet.sdk.transport import Retries, Timeouts
from crawlfleet.wire.slots import (
    HOST,
    LONGEST_DELAY_SECONDS,
    MOST_SLOTS,
    GrantedSlots,
    SlotsAnswer,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
_log = logging.getLogger(__name__)

#: Asks of requests that come this close together are one call.
_TOGETHER_SECONDS: Final = 0.02
#: Hosts of one call.
_HOSTS: Final = 100
#: Where requests are in flight the API is asked this often: permits last half a minute.
_KEEP_SECONDS: Final = 10.0
#: A call is short, and repeated here: pages wait for it.
_TIMEOUTS: Final = Timeouts(connect_seconds=2.0, read_seconds=5.0, total_seconds=8.0)
#: A request that begins with no more delay than this after its slot began in time.
_IN_TIME_SECONDS: Final = 0.01
#: An API that is away is asked again after this.
_AWAY_SECONDS: Final = 2.0
#: A site that asks to be left alone and does not say for how long; and how long at most.
_BACK_OFF_SECONDS, _LONGEST_BACK_OFF_SECONDS = 2.0, 3_600.0
_OVERLOADED: Final = frozenset({429, 503})
#: Tries to read a robots.txt that cannot be read, the time of one, and the pause before the next.
_ROBOTS_TRIES: Final = 3
_ROBOTS_SECONDS: Final = 30.0
_ROBOTS_PAUSE_SECONDS: Final = 20.0
#: In the meta of the request of a robots.txt, and Scrapy's own word for what may not ask for one.
_ROBOTS: Final = "crawlfleet_robots"
_FREE: Final = "dont_obey_robotstxt"
_WEB: Final = ("http://", "https://")
_HOST: Final = re.compile(HOST)

#: Ask for slots: of each host its name, the slots wanted, and what runs there.
Ask = Callable[[Sequence[dict[str, Any]]], Awaitable[SlotsAnswer]]


@dataclass(slots=True, eq=False)
class _Host:
    """A host: moments at which a request may begin, and the downloads in flight."""

    slots: deque[float] = field(default_factory=deque)
    waiting: int = 0
    running: int = 0
    permits: int = 1
    interval_seconds: float = 0.0
    #: Nothing begins before: late slots keep their distance, and a site may ask for a pause.
    not_before: float = 0.0
    #: The API is not asked for more before.
    again_at: float = 0.0
    asked_at: float = 0.0
    crawl_delay_seconds: float | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self) -> None:
        """Wake those who wait."""
        self.changed.set()
        self.changed = asyncio.Event()

    def free_in(self, now: float) -> float | None:
        """Return the seconds until the first slot may be used; None where there is none to use."""
        if not self.slots or self.running >= self.permits:
            return None
        return max(self.slots[0], self.not_before) - now


class HostSlots:
    """The slots of one process at all hosts; ``ask`` calls the API."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._now = ask, clock
        self._hosts: dict[str, _Host] = {}
        self._asking: asyncio.Task[None] | None = None
        self._away = False
        self._first = asyncio.Lock()
        #: How the biz reads robots.txt files; None until the first answer.
        self.policy: SlotsAnswer | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    async def take(self, name: str) -> None:
        """Wait for a slot at a host; :meth:`leave` follows."""
        host = self._hosts.setdefault(name, _Host())
        host.waiting += 1
        try:
            while (wait := host.free_in(self._now())) is None or wait > 0:
                self._begin_asking()
                # Whatever changes, or the slot's moment, whichever is first.
                try:
                    async with asyncio.timeout(wait):
                        await host.changed.wait()
                except TimeoutError:
                    continue
            slot, now = host.slots.popleft(), self._now()
            # A slot that is used in time sets the pace, not the timer's little delay.
            begun_at = slot if now - slot <= _IN_TIME_SECONDS else now
            host.not_before = max(begun_at, host.not_before) + host.interval_seconds
            host.running += 1
        finally:
            host.waiting -= 1

    def leave(self, name: str) -> None:
        """End a download at a host."""
        if host := self._hosts.get(name):
            host.running -= 1
            host.change()

    def back_off(self, name: str, seconds: float) -> None:
        """Leave a host alone for so long."""
        host = self._hosts.setdefault(name, _Host())
        host.not_before = max(host.not_before, self._now() + seconds)

    def delay(self, name: str, seconds: float | None) -> None:
        """Keep the distance that a site's robots.txt asks for from the next ask on."""
        bounded = None if seconds is None else min(seconds, LONGEST_DELAY_SECONDS)
        self._hosts.setdefault(name, _Host()).crawl_delay_seconds = bounded

    async def know(self, name: str) -> SlotsAnswer:
        """Return how the biz reads robots.txt files; the first ask for a host brings it."""
        while self.policy is None:
            async with self._first:
                if self.policy is None:
                    await self._call([{"host": name, "count": 0}])
        return self.policy

    def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()

    def _begin_asking(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_while_needed())

    async def _ask_while_needed(self) -> None:
        """Ask for all hosts together, for as long as requests wait or are in flight."""
        while busy := [name for name, host in self._hosts.items() if host.waiting or host.running]:
            await asyncio.sleep(_TOGETHER_SECONDS)
            now = self._now()
            due = [name for name in busy if self._is_due(self._hosts[name], now)][:_HOSTS]
            if due:
                await self._call([self._wish(name) for name in due])
            self._forget_idle()

    def _forget_idle(self) -> None:
        """Forget hosts at which nothing is to be done or waited for."""
        now = self._now()
        for name, host in list(self._hosts.items()):
            is_idle = not host.waiting and not host.running
            if is_idle and max(host.not_before, host.again_at) <= now:
                del self._hosts[name]

    def _is_due(self, host: _Host, now: float) -> bool:
        lacks = host.waiting > len(host.slots) and now >= host.again_at
        return lacks or (host.running > 0 and now - host.asked_at > _KEEP_SECONDS)

    def _wish(self, name: str) -> dict[str, Any]:
        host = self._hosts[name]
        wish = {
            "host": name,
            "count": min(max(0, host.waiting - len(host.slots)), MOST_SLOTS),
            "running": min(host.running + len(host.slots), MOST_SLOTS),
        }
        if host.crawl_delay_seconds is not None:
            wish["crawl_delay_seconds"] = host.crawl_delay_seconds
        return wish

    async def _call(self, wishes: list[dict[str, Any]]) -> None:
        try:
            answer = await self._ask(wishes)
        except CrawlfleetError as error:
            if not self._away:
                _log.warning("no page is downloaded until host slots are granted: %s", error)
            self._away = True
            await asyncio.sleep(_AWAY_SECONDS)
            return
        if self._away:
            self._away = False
            _log.info("host slots are granted again")
        self.policy = answer
        now = self._now()
        for granted in answer.slots:
            if host := self._hosts.get(granted.host):
                _fill(host, granted, now)


def _fill(host: _Host, granted: GrantedSlots, now: float) -> None:
    """Add slots: after the answer, as a late slot harms nobody and an early one may."""
    first, interval = now + granted.wait_seconds, granted.interval_seconds
    host.slots.extend(first + place * interval for place in range(granted.count))
    host.interval_seconds, host.asked_at = interval, now
    host.permits = max(1, granted.permits)
    host.again_at = now + granted.ready_seconds
    host.change()


class PolitenessMiddleware:
    """The middleware of one crawler; the add-on sets it nearest to the downloader."""

    def __init__(self, crawler: "Crawler", slots: HostSlots) -> None:
        self._crawler, self._slots = crawler, slots
        self._hosts: dict[Request, str] = {}
        self._rules = RulesShelf()
        # Each is there while somebody reads a robots.txt or waits for it.
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        crawler.signals.connect(self._left, signal=signals.request_left_downloader)
        crawler.signals.connect(self._closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Make it for a crawler; NotConfigured where no API is known."""
        settings = session_of(crawler).settings
        address = (
            crawler.settings.get("CRAWLFLEET_API_URL"),
            crawler.settings.get("CRAWLFLEET_API_KEY"),
        )
        try:
            find_address(*address)
        except ConfigError as error:
            if any(address):
                raise
            why = "this crawl has no host slots of the fleet, and robots.txt is Scrapy's to obey"
            raise NotConfigured(f"{why}: {error}") from error
        client = Client(*address, timeouts=_TIMEOUTS, retries=Retries(attempts=1))
        process = uuid.uuid4().hex

        async def ask(wishes: Sequence[dict[str, Any]]) -> SlotsAnswer:
            return await asyncio.to_thread(client.reserve_slots, settings.biz, process, wishes)

        return cls(crawler, HostSlots(ask))

    async def process_request(self, request: Request, spider: object = None) -> None:  # noqa: ARG002  of older Scrapy
        """Hold a request back until its slot.

        Raises IgnoreRequest (robots.txt denies it, or no site can have its host's name).
        """
        if not request.url.startswith(_WEB):
            return
        host = host_of(request.url)
        if not _HOST.fullmatch(host):
            # The API would refuse it, together with all hosts that are asked for beside it.
            raise IgnoreRequest(f"no site has the name {host!r}")
        await self._check_robots(request)
        await self._slots.take(host)
        self._hosts[request] = host

    def process_response(
        self,
        request: Request,
        response: "Response",
        spider: object = None,  # noqa: ARG002  as above
    ) -> "Response":
        """Leave a site alone that asks for it."""
        self._left(request)
        if response.status in _OVERLOADED:
            self._slots.back_off(host_of(request.url), _seconds_asked(response))
        return response

    def process_exception(
        self,
        request: Request,
        exception: Exception,  # noqa: ARG002  as above
        spider: object = None,  # noqa: ARG002  as above
    ) -> None:
        """End the slot of a request that a middleware below refused: it never left."""
        self._left(request)

    async def _check_robots(self, request: Request) -> None:
        if request.meta.get(_ROBOTS):
            return
        policy = await self._slots.know(host_of(request.url))
        if not policy.obeys_robots or request.meta.get(_FREE):
            return
        rules = await self._rules_of(origin_of(request.url))
        verdict = rules.verdict(request.url, policy.product)
        if not verdict.allowed:
            stat = "unknown" if verdict.unknown else "forbidden"
            if self._crawler.stats is not None:
                self._crawler.stats.inc_value(f"crawlfleet/robots_{stat}")
            raise IgnoreRequest(verdict.why)
        self._slots.delay(host_of(request.url), rules.crawl_delay(policy.product))

    async def _rules_of(self, origin: str) -> SiteRules:
        """Read a site's robots.txt once, whoever asks meanwhile; again when it is out of date."""
        async with self._reading.setdefault(origin, asyncio.Lock()):
            if (known := self._rules.get(origin, _now_ms())) is not None:
                return known
            for place in range(_ROBOTS_TRIES):
                if place:
                    await asyncio.sleep(_ROBOTS_PAUSE_SECONDS)
                copy = await self._read(origin)
                rules = SiteRules(origin, copy)
                if not rules.verdict(origin + "/", "").unknown:
                    break
            self._rules.put(rules, _now_ms() + round(kept_seconds(copy) * 1000))
            return rules

    async def _read(self, origin: str) -> RobotsCopy:
        # It is repeated here, and pages wait for it.
        bounds = {"dont_retry": True, "download_timeout": _ROBOTS_SECONDS}
        asked = Request(f"{origin}/robots.txt", meta={_ROBOTS: True, _FREE: True, **bounds})
        try:
            response = await _download(self._crawler, asked)
        except Exception as error:  # noqa: BLE001  whatever it is, the file could not be read
            said = f"{type(error).__name__}\n{error}".encode(errors="replace")[:MAX_BYTES]
            return RobotsCopy(status=0, text=said)
        return RobotsCopy(status=response.status, text=response.body[:MAX_BYTES])

    def _left(self, request: Request) -> None:
        if host := self._hosts.pop(request, None):
            self._slots.leave(host)

    def _closed(self) -> None:
        self._slots.close()


def _seconds_asked(response: "Response") -> float:
    header = (response.headers.get("Retry-After") or b"").decode("latin-1")
    asked = retry_after_seconds(header, datetime.now(UTC))
    return min(_BACK_OFF_SECONDS if asked is None else asked, _LONGEST_BACK_OFF_SECONDS)


def _now_ms() -> int:
    return round(time.monotonic() * 1000)


async def _download(crawler: "Crawler", request: Request) -> "Response":
    engine: Any = crawler.engine
    if hasattr(engine, "download_async"):
        return await engine.download_async(request)  # type: ignore[no-any-return]
    from scrapy.utils.defer import maybe_deferred_to_future

    return await maybe_deferred_to_future(engine.download(request))
