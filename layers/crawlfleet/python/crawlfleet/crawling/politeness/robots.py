"""Look up robots.txt before anything else is asked of a site (SPEC.md H3, RFC 9309).

A worker learns a site's robots.txt with its first request there, from the fleet's cache or the
site. Requests of that site wait for it, others do not. It takes a slot at its host as any page
does, and at each host that a redirect leads to.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, FetchLimits
from crawlfleet.config.documents.policies import Politeness, Robots
from crawlfleet.crawling.fetching.models import Fetcher, HeldUpError, HopGuard
from crawlfleet.crawling.politeness.models import MAX_BYTES, RobotsCopy
from crawlfleet.crawling.politeness.robots_txt import (
    RulesShelf,
    SiteRules,
    kept_copy,
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
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Body
from crawlfleet.requests.outcomes import reason_of

if TYPE_CHECKING:
    from crawlfleet.crawling.politeness.redis import RedisRobotsCache

#: Hosts whose sites a worker remembers.
REMEMBERED: Final = 2_000
#: Sites of one host, by port, that are remembered.
MOST_PORTS: Final = 16
#: A robots.txt that takes longer is not read this time; nor is one that redirects lead from host to
#: host and that waits there for longer.
FETCH_SECONDS: Final = 10.0
ON_THE_WAY_SECONDS: Final = 330.0
#: A site whose address is refused is asked again after this.
REFUSED_SECONDS: Final = 60.0
_MAX_HOPS: Final = 5
#: Pages that wait for their site's rules may use all of the biz's connections to that host: a
#: robots.txt must not wait for one of them.
_SLOTS: Final = 1 << 30
_NONE: Final = 404
#: Errors of connecting. The pages of such a site fail for that reason too, and not because its
#: robots.txt is unknown: no page of it could be had.
_UNREACHED: Final[dict[str, type[FetchError]]] = {
    reason_of(kind("")): kind for kind in (ConnectFailedError, FetchTimeoutError)
}
_LONGEST_CAUSE: Final = 300
#: The limits of asking for robots.txt, for any tenant.
_FLEET: Final = FetchLimits(
    first_byte_seconds=FETCH_SECONDS,
    total_seconds=FETCH_SECONDS,
    max_body_bytes=10 * MAX_BYTES,
    max_redirects=_MAX_HOPS,
    per_host=_SLOTS,
)


#: Wait for the slot of a request at an origin, to which a redirect may have ``led``; raise if none
#: is free soon. Called with ``(request, origin, led=...)``.
WaitForSlot: TypeAlias = Callable[..., Awaitable[None]]


#: Have a function called in a thread, for a tenant.
Parse: TypeAlias = Callable[..., Awaitable[Any]]


@dataclass(slots=True, eq=False)
class RobotsBook:
    """Remember the rules of sites for one worker.

    ``agent`` is the fleet's user agent: the copy of a robots.txt serves all tenants, so no tenant's
    own name, headers or limits of time may decide what it says. ``parse`` has it read for a tenant,
    in its turn; without it at once.
    """

    fetcher: Fetcher
    cache: "RedisRobotsCache"
    clock: Clock
    threaded: Callable[..., Awaitable[Any]]
    wait_for_slot: WaitForSlot
    agent: Callable[[], str] = lambda: _FLEET.user_agent
    remembered: int = REMEMBERED
    on_the_way_seconds: float = ON_THE_WAY_SECONDS
    parse: Parse | None = None
    _shelf: RulesShelf = field(default_factory=RulesShelf, init=False)
    # Sites by host, of those on the shelf and some that were: each port has its own rules.
    _sites: OrderedDict[str, set[str]] = field(default_factory=OrderedDict, init=False)
    # Why the last attempt at each failed.
    _causes: OrderedDict[str, str] = field(default_factory=OrderedDict, init=False)
    # Threads that lease ask, too.
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _learning: dict[str, asyncio.Task[SiteRules]] = field(default_factory=dict, init=False)

    def knows(self, leased: LeasedRequest) -> bool:
        """Check that the site of a request need not be asked for its rules first."""
        biz = leased.biz
        if biz.politeness.robots is Robots.IGNORE:
            return True
        product = product_of(biz.politeness, biz.fetch)
        return self._rules(leased.origin, product) is not None

    def crawl_delay(self, host: str, biz: Biz) -> float | None:
        """Get the crawl-delay that the host's sites ask for, in seconds. Safe in any thread."""
        if biz.politeness.robots is Robots.IGNORE:
            return None
        with self._lock:
            origins = tuple(self._sites.get(host, ()))
        product = product_of(biz.politeness, biz.fetch)
        known = [rules for origin in origins if (rules := self._rules(origin, product)) is not None]
        delays = [rules.crawl_delay(product) for rules in known]
        return max((delay for delay in delays if delay is not None), default=None)

    async def learn(self, leased: LeasedRequest) -> None:
        """Learn the rules of a request's site, if a slot for that is free soon."""
        with suppress(FetchError, StoreError):  # the next request with a slot there asks then
            await self._learn(leased.origin, leased)

    async def close(self) -> None:
        """Cancel what is being looked up: nobody waits for it any longer."""
        tasks = list(self._learning.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def check(self, leased: LeasedRequest, url: str, *, led: bool = False) -> None:
        """Check that a page may be asked for; a redirect may have ``led`` there.

        Raises RobotsDeniedError if robots.txt denies it, quoting the line; RobotsUnknownError if
        its rules cannot be read now; ConnectFailedError or FetchTimeoutError if the site cannot be
        connected to; ThrottledError, which says nothing of the site, if no slot to read them is
        free soon; StoreError if slots cannot be granted now.
        """
        if leased.biz.politeness.robots is Robots.IGNORE:
            return
        origin, product = origin_of(url), product_of(leased.biz.politeness, leased.biz.fetch)
        rules = self._rules(origin, product)
        while rules is None or not rules.covers(product):  # what is learnt may be for another biz
            rules = await self._learn(origin, leased, led=led)
        verdict = rules.verdict(url, product)
        if verdict.unknown:
            kind, message = verdict.unreached or ("", "")
            if kind in _UNREACHED:
                message = f"while asking for robots.txt: {message}"
                raise _UNREACHED[kind](message) from RobotsUnknownError(verdict.why)
            cause = self._causes.get(origin)
            raise RobotsUnknownError(f"{verdict.why} ({cause})" if cause else verdict.why, status=0)
        if not verdict.allowed:
            raise RobotsDeniedError(verdict.why)

    def _rules(self, origin: str, product: str) -> SiteRules | None:
        now_ms = to_ms(self.clock())
        with self._lock:
            found = self._shelf.get(origin, now_ms)
        return found if found is not None and found.covers(product) else None

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
            task.exception()  # raised in those who wait for it, if any are left

    async def _look_up(self, origin: str, leased: LeasedRequest, *, led: bool) -> SiteRules:
        copy, before = None, (product_of(Politeness(), FetchLimits(user_agent=self.agent())),)
        product = product_of(leased.biz.politeness, leased.biz.fetch)
        try:
            copy = await self.threaded(self.cache.load, origin)
        except StoreError as error:
            warn("robots.txt could not be read from the cache", error)
        if copy is not None and not copy.covers(product):
            before, copy = (*copy.products, *before), None
        seconds = 0.0
        if copy is not None:
            seconds = kept_seconds(copy) - (to_ms(self.clock()) - copy.fetched_ms) / 1000
        if copy is None or seconds <= 0:
            try:
                await self.wait_for_slot(leased, origin, led=led)
            except StoreError as error:
                warn("no slot for robots.txt could be reserved", error)
                raise
            try:
                copy = await self._fetch(origin, leased)
            except AddressRefusedError:
                # The page itself fails so. For others this says nothing of the site.
                copy = RobotsCopy(status=_NONE, fetched_ms=to_ms(self.clock()))
                seconds = REFUSED_SECONDS
            else:
                seconds = kept_seconds(copy)
                copy = await self._parsed(leased, kept_copy, copy, product, before)
                await self._announce(origin, copy, seconds, leased.queue_key.tenant)
        rules = SiteRules(origin, copy)
        # Parsing a large file takes long enough to stop the event loop.
        await self._parsed(leased, rules.crawl_delay, product)
        self._keep(rules, to_ms(self.clock()) + int(seconds * 1000))
        return rules

    async def _parsed(
        self, leased: LeasedRequest, function: Callable[..., Any], *args: object
    ) -> Any:
        if self.parse is None:
            return await self.threaded(function, *args)
        return await self.parse(leased.queue_key.tenant, function, *args)

    async def _announce(self, origin: str, copy: RobotsCopy, seconds: float, tenant: str) -> None:
        try:
            await self.threaded(self.cache.save, origin, copy, seconds, tenant)
        except StoreError as error:
            warn("robots.txt could not be saved to the cache", error)

    def _keep(self, rules: SiteRules, until_ms: int) -> None:
        host = host_of(rules.origin)
        with self._lock:
            self._shelf.put(rules, until_ms)
            origins = self._sites.setdefault(host, set())
            origins.add(rules.origin)
            if len(origins) > MOST_PORTS:
                origins.pop()
            self._sites.move_to_end(host)
            while len(self._sites) > self.remembered:
                self._sites.popitem(last=False)

    async def _fetch(self, origin: str, leased: LeasedRequest) -> RobotsCopy:
        body = Body(url=f"{origin}/robots.txt", rule="", rule_version="")
        asked = replace(_FLEET, user_agent=self.agent())
        status, text = 0, b""
        try:
            async with asyncio.timeout(self.on_the_way_seconds):
                page = await self.fetcher.fetch(body, asked, self._guard(leased))
            status, text = page.status, page.body[:MAX_BYTES]
        except (AddressRefusedError, RobotsUnknownError, HeldUpError):
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
            warn("robots.txt could not be fetched", error)
        return RobotsCopy(status=status, text=text, fetched_ms=to_ms(self.clock()))

    def _guard(self, leased: LeasedRequest) -> HopGuard:
        """Make the guard of a robots.txt: each hop after the first one needs a slot."""
        begun = False

        async def hop_guard(url: str) -> None:
            nonlocal begun
            if begun:
                try:
                    await self.wait_for_slot(leased, origin_of(url), led=True)
                except (FetchError, StoreError) as error:
                    # Not kept: it says nothing of either site.
                    why = f"the site's robots.txt leads to {host_of(url)}: {error}"
                    raise RobotsUnknownError(why) from error
            begun = True

        return hop_guard

    def _blame(self, origin: str, error: Exception) -> None:
        self._causes[origin] = str(error) or type(error).__name__
        self._causes.move_to_end(origin)
        if len(self._causes) > self.remembered:
            self._causes.popitem(last=False)
