"""What sites ask of robots, looked up before anything else is asked of them (SPEC.md H3, RFC 9309).

A worker knows a site's robots.txt from its first request there on: from the fleet's cache, or by
fetching it. Requests of that site wait for it; others do not. It takes a turn at its host as any
page does, and at each host that a redirect leads it to.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, FetchLimits
from crawlfleet.config.documents.policies import Robots
from crawlfleet.crawling.fetching.models import Fetcher, HopGuard
from crawlfleet.crawling.politeness.models import MAX_BYTES, RobotsCopy
from crawlfleet.crawling.politeness.redis import RedisRobotsCache
from crawlfleet.crawling.politeness.robots_txt import (
    RulesShelf,
    SiteRules,
    kept_seconds,
    product_of,
)
from crawlfleet.kernel.errors import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    RobotsDeniedError,
    RobotsUnknownError,
    StoreError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.kernel.urls import host_of, origin_of
from crawlfleet.requests.models import Body
from crawlfleet.requests.outcomes import LeasedRequest, reason_of

#: Hosts whose sites a worker remembers.
REMEMBERED: Final = 2_000
#: Sites of one host, on ports of their own, of which that is so.
MOST_PORTS: Final = 16
#: A robots.txt that takes longer is not read this time; nor is one that is led from host to host
#: and waits there for longer.
FETCH_SECONDS: Final = 10.0
ON_THE_WAY_SECONDS: Final = 330.0
#: A site whose address is refused is looked at again after this.
REFUSED_SECONDS: Final = 60.0
_MAX_HOPS: Final = 5
#: Pages that wait for their site's rules may have all of the biz's slots of that host in hand: a
#: robots.txt must not wait for one of those.
_SLOTS: Final = 1 << 30
_NONE: Final = 404
#: What keeps a site from being connected to. Its pages have that for their reason too, and not that
#: its robots.txt is unknown: no page of it could be had.
_UNREACHED: Final[dict[str, type[FetchError]]] = {
    reason_of(kind("")): kind for kind in (ConnectFailedError, FetchTimeoutError)
}
_LONGEST_CAUSE: Final = 300
#: What the fleet asks with, for whichever tenant.
_FLEET: Final = FetchLimits(
    first_byte_seconds=FETCH_SECONDS,
    total_seconds=FETCH_SECONDS,
    max_body_bytes=10 * MAX_BYTES,
    max_redirects=_MAX_HOPS,
    per_host=_SLOTS,
)


class WaitForSlot(Protocol):
    """Waits for a request's turn at a host, to which a redirect may have ``led``."""

    async def __call__(self, leased: LeasedRequest, host: str, *, led: bool) -> None:
        """Returns when it has come, or raises why it does not come soon."""
        ...


class RobotsBook:
    """The rules of sites as one worker knows them.

    Args:
        fetcher: Fetches what is in no cache.
        cache: The fleet's copies.
        clock: The time.
        threaded: Calls a part without stopping the event loop.
        turn_at: Waits for a turn at a host, for a request: its robots.txt is a page like others.
        agent: The fleet's user agent: the copy of a robots.txt serves all tenants, so no tenant's
            own name, headers or limits of time may decide what it says.
        remembered: Hosts whose sites a worker remembers.
        on_the_way_seconds: A robots.txt that is led from host to host and waits there for longer
            is not read this time.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        cache: RedisRobotsCache,
        clock: Clock,
        threaded: Callable[..., Awaitable[Any]],
        slot_at: WaitForSlot,
        agent: Callable[[], str] = lambda: _FLEET.user_agent,
        remembered: int = REMEMBERED,
        on_the_way_seconds: float = ON_THE_WAY_SECONDS,
    ) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._agent = agent
        self._clock = clock
        self._threaded = threaded
        self._wait_for_slot = slot_at
        self._remembered = remembered
        self._on_the_way_seconds = on_the_way_seconds
        self._shelf = RulesShelf()
        # Sites by host, of those on the shelf and some that were: ports have rules of their own.
        self._sites: OrderedDict[str, set[str]] = OrderedDict()
        # Why the last attempt at each was in vain.
        self._causes: OrderedDict[str, str] = OrderedDict()
        # Threads that lease ask, too.
        self._lock = threading.Lock()
        self._learning: dict[str, asyncio.Task[SiteRules]] = {}

    def knows(self, leased: LeasedRequest) -> bool:
        """Whether the site of a request need not be asked for its rules first."""
        biz = leased.biz
        if biz.politeness.robots is Robots.IGNORE:
            return True
        return self._rules(origin_of(leased.claim.request.body.url)) is not None

    def crawl_delay(self, host: str, biz: Biz) -> float | None:
        """What the host's site asks to wait between two requests. May be called from any thread."""
        if biz.politeness.robots is Robots.IGNORE:
            return None
        with self._lock:
            origins = tuple(self._sites.get(host, ()))
        product = product_of(biz.politeness, biz.fetch)
        known = [rules for origin in origins if (rules := self._rules(origin)) is not None]
        delays = [rules.crawl_delay(product) for rules in known]
        return max((delay for delay in delays if delay is not None), default=None)

    async def learn(self, leased: LeasedRequest) -> None:
        """Come to know the rules of a request's site, if there is a turn for that soon."""
        with suppress(FetchError, StoreError):  # whoever has a turn there asks then
            await self._learn(origin_of(leased.claim.request.body.url), leased)

    async def close(self) -> None:
        """Look up nothing more: nobody waits for it any longer."""
        tasks = list(self._learning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def check(self, leased: LeasedRequest, url: str, *, led: bool = False) -> None:
        """Whether a page may be asked for; a redirect may have ``led`` there.

        Raises:
            RobotsDeniedError: the site does not want that, and which of its lines says so.
            RobotsUnknownError: its rules cannot be read now.
            ConnectFailedError, FetchTimeoutError: nor can anything of it, for want of a connection.
            ThrottledError: there is no turn to read them soon. That says nothing of the site.
            StoreError: nobody can say whose turn it is.
        """
        if leased.biz.politeness.robots is Robots.IGNORE:
            return
        origin = origin_of(url)
        rules = self._rules(origin)
        if rules is None:
            rules = await self._learn(origin, leased, led=led)
        product = product_of(leased.biz.politeness, leased.biz.fetch)
        verdict = rules.verdict(url, product)
        if verdict.unknown:
            kind, message = verdict.unreached or ("", "")
            if kind in _UNREACHED:
                reported = f"while asking for robots.txt: {message}"
                raise _UNREACHED[kind](reported) from RobotsUnknownError(verdict.why)
            cause = self._causes.get(origin)
            raise RobotsUnknownError(f"{verdict.why} ({cause})" if cause else verdict.why, status=0)
        if not verdict.allowed:
            raise RobotsDeniedError(verdict.why)

    def _rules(self, origin: str) -> SiteRules | None:
        now_ms = to_ms(self._clock())
        with self._lock:
            return self._shelf.get(origin, now_ms)

    async def _learn(self, origin: str, leased: LeasedRequest, *, led: bool = False) -> SiteRules:
        task = self._learning.get(origin)
        if task is None:
            task = asyncio.create_task(self._look_up(origin, leased, led=led))
            self._learning[origin] = task
            task.add_done_callback(partial(self._learnt, origin))
        # One that is cancelled while it waits must not take the answer from the others.
        return await asyncio.shield(task)

    def _learnt(self, origin: str, task: asyncio.Task[SiteRules]) -> None:
        self._learning.pop(origin, None)
        if not task.cancelled():
            task.exception()  # those who wait for it are told, if there are any left

    async def _look_up(self, origin: str, leased: LeasedRequest, *, led: bool) -> SiteRules:
        copy = None
        try:
            copy = await self._threaded(self._cache.load, origin)
        except StoreError as error:
            warn("a robots.txt could not be looked up in the cache", error)
        seconds = 0.0
        if copy is not None:
            seconds = kept_seconds(copy) - (to_ms(self._clock()) - copy.fetched_ms) / 1000
        if copy is None or seconds <= 0:
            try:
                await self._wait_for_slot(leased, host_of(origin), led=led)
            except StoreError as error:
                warn("no turn for a robots.txt could be had", error)
                raise
            try:
                copy = await self._fetch(origin, leased)
            except AddressRefusedError:
                # The page itself will be told so. For the others this says nothing of the site.
                copy = RobotsCopy(status=_NONE, fetched_ms=to_ms(self._clock()))
                seconds = REFUSED_SECONDS
            else:
                seconds = kept_seconds(copy)
                await self._announce(origin, copy, seconds)
        rules = SiteRules(origin, copy)
        # Reading a large file takes long enough to keep the event loop from all else.
        product = product_of(leased.biz.politeness, leased.biz.fetch)
        await self._threaded(rules.crawl_delay, product)
        self._keep(rules, to_ms(self._clock()) + int(seconds * 1000))
        return rules

    async def _announce(self, origin: str, copy: RobotsCopy, seconds: float) -> None:
        try:
            await self._threaded(self._cache.save, origin, copy, seconds)
        except StoreError as error:
            warn("a robots.txt could not be kept for the others", error)

    def _keep(self, rules: SiteRules, until_ms: int) -> None:
        host = host_of(rules.origin)
        with self._lock:
            self._shelf.put(rules, until_ms)
            origins = self._sites.setdefault(host, set())
            origins.add(rules.origin)
            if len(origins) > MOST_PORTS:
                origins.pop()
            self._sites.move_to_end(host)
            while len(self._sites) > self._remembered:
                self._sites.popitem(last=False)

    async def _fetch(self, origin: str, leased: LeasedRequest) -> RobotsCopy:
        body = Body(url=f"{origin}/robots.txt", rule="", rule_version="")
        asked = replace(_FLEET, user_agent=self._agent())
        status, text = 0, b""
        try:
            async with asyncio.timeout(self._on_the_way_seconds):
                page = await self._fetcher.fetch(body, asked, self._way(leased))
            status, text = page.status, page.body[:MAX_BYTES]
        except (AddressRefusedError, RobotsUnknownError):
            raise
        except FetchError as error:
            status, kind = error.status, reason_of(error)
            if kind in _UNREACHED and not status and error.answer is None:
                text = f"{kind}\n{str(error)[:_LONGEST_CAUSE]}".encode(errors="replace")
            else:
                self._blame(origin, error)
        except TimeoutError as error:
            self._blame(origin, error)
        except Exception as error:  # noqa: BLE001  those who wait for it must not wait for ever
            warn("a robots.txt could not be fetched", error)
        return RobotsCopy(status=status, text=text, fetched_ms=to_ms(self._clock()))

    def _way(self, leased: LeasedRequest) -> HopGuard:
        """The turn for the first request is there; each further one needs its own."""
        begun = False

        async def hop_guard(url: str) -> None:
            nonlocal begun
            if begun:
                host = host_of(url)
                try:
                    await self._wait_for_slot(leased, host, led=True)
                except (FetchError, StoreError) as error:
                    # Kept nowhere: it says nothing of either site.
                    why = f"the site's robots.txt leads to {host}: {error}"
                    raise RobotsUnknownError(why) from error
            begun = True

        return hop_guard

    def _blame(self, origin: str, error: Exception) -> None:
        self._causes[origin] = str(error) or type(error).__name__
        self._causes.move_to_end(origin)
        if len(self._causes) > self._remembered:
            self._causes.popitem(last=False)
