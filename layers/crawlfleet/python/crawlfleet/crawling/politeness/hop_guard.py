"""Guard each hop of a download, right before anything is sent.

A guard checks that the request is still leased, that robots.txt allows the page (RFC 9309) and that
the host has a slot for it (SPEC.md H3). The slot at the first host came with the request; redirects
need slots of their own. Where the site's rules are unknown, the request's slot goes to robots.txt,
and the page waits for the next one: for a little while here, else deferred, nothing being sent yet.

:class:`HopGuards` serve a worker's downloads, :class:`SingleRequest` one trial or link probe.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.crawling.fetching.models import FetchContext, Fetcher, HopGuard
from crawlfleet.crawling.politeness.client import (
    GrantedSlots,
    LocalScheduler,
    PolitenessClient,
    reason,
)
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.politeness.robots import ON_THE_WAY_SECONDS, RobotsBook
from crawlfleet.kernel.errors import (
    CrawlfleetError,
    FetchError,
    FetchTimeoutError,
    LeaseLostError,
    StoreError,
    ThrottledError,
)
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime, Threaded
from crawlfleet.requests.leased import LeasedRequest

#: A redirect waits for up to this much of the host's interval besides: the request that a host has
#: just redirected gets its next slot no sooner, and would never get there by coming again.
LONGEST_INTERVAL_SECONDS: Final = 300.0
#: Slots that Redis cannot grant now are asked for again after this.
UNREPORTED_SECONDS: Final = 5.0
_SHORTEST_PAUSE_SECONDS: Final = 0.05

P = ParamSpec("P")
R = TypeVar("R")


class NoSlotError(CrawlfleetError):
    """No host slot is free for the page now; defer it without counting an attempt."""

    def __init__(self, message: str, *, again_seconds: float) -> None:
        self.again_seconds = again_seconds
        super().__init__(message)


async def _wait_for_slot(
    ask: Callable[[], Awaitable[GrantedSlots]],
    steady: SteadyTime,
    give_up: Callable[[GrantedSlots, float], ThrottledError | None],
) -> None:
    """Ask for a slot until one is granted, and wait for it, or raise what ``give_up`` returns."""
    while True:
        granted, now = await ask(), steady.now()
        if granted.count:
            if granted.first_at > now:
                await steady.sleep(granted.first_at - now)
            return
        if (error := give_up(granted, now)) is not None:
            raise error
        await steady.sleep(max(_SHORTEST_PAUSE_SECONDS, granted.again_seconds))


class HopGuards:
    """Make the hop guard of each download of a worker; wait ``patience_seconds`` for slots.

    Attributes:
        scheduler: Orders the requests that have slots.
        robots: The rules of sites.
        client: Asks the fleet for slots and reports how hosts answered.
    """

    def __init__(
        self,
        config: ConfigCentre,
        hosts: RedisHosts,
        robots: RedisRobotsCache,
        fetcher: Fetcher,
        clock: Clock,
        worker: str,
        threaded: Threaded,
        patience_seconds: float,
        steady: SteadyTime = STEADY,
        on_the_way_seconds: float = ON_THE_WAY_SECONDS,
    ) -> None:
        self._config = config
        self._threaded = threaded
        self._patience_seconds = patience_seconds
        self._steady = steady
        self.scheduler = LocalScheduler(steady)
        self.robots = RobotsBook(
            fetcher,
            robots,
            clock,
            threaded,
            self.wait_for_robots_slot,
            lambda: config.current().stage.user_agent,
            on_the_way_seconds=on_the_way_seconds,
        )
        self.client = PolitenessClient(
            hosts, config, self.robots, self.scheduler, worker, clock, steady
        )

    def of(
        self, leased: LeasedRequest, ours: Callable[[LeasedRequest], Awaitable[bool]]
    ) -> HopGuard:
        """Make the guard of one request; ``ours`` checks that this worker still has its lease."""
        begun = False

        async def hop_guard(url: str) -> None:
            nonlocal begun
            if begun:
                host = host_of(url)
                await self.robots.check(leased, url, led=True)
                await self.wait_for_slot(leased, host, led=True)
                self.client.go_on(leased, host)
            else:
                await self._begin(leased, url)
                begun = True
            if not await ours(leased):
                raise LeaseLostError("another worker owns it")

        return hop_guard

    async def _begin(self, leased: LeasedRequest, url: str) -> None:
        """Guard the first hop with the slot that the request came with.

        Raises:
            NoSlotError: robots.txt used that slot, or gets none itself.
        """
        try:
            await self.robots.check(leased, url)
            if leased.slot_at is None:
                await self.wait_for_slot(leased, host_of(url))
        except (ThrottledError, StoreError) as error:
            again = getattr(error, "retry_after_seconds", None)
            raise NoSlotError(
                str(error), again_seconds=UNREPORTED_SECONDS if again is None else again
            ) from error
        leased.slot_at = None

    async def wait_for_robots_slot(self, leased: LeasedRequest, host: str, *, led: bool) -> None:
        """Wait for the slot of a robots.txt: the request's own if it has not begun with it.

        Raises:
            ThrottledError: no slot is free soon.
        """
        slot_at = leased.slot_at
        if slot_at is None or host != leased.host[0]:
            await self.wait_for_slot(leased, host, led=led)
            return
        leased.slot_at = None
        await self._steady.sleep(max(0.0, slot_at - self._steady.now()))

    async def wait_for_slot(self, leased: LeasedRequest, host: str, *, led: bool = False) -> None:
        """Wait for a slot that the request did not come with; a redirect may have ``led`` there.

        Raises:
            ThrottledError: no slot is free soon.
        """
        begun_at = self._steady.now()

        async def ask() -> GrantedSlots:
            tree = self._config.current()
            slots = await self._threaded(
                self.client.ask, tree, leased.queue_key, leased.biz, {host: 1}, leased
            )
            return slots[host]

        def give_up(granted: GrantedSlots, now: float) -> ThrottledError | None:
            patience = self._patience_seconds
            if led:
                patience += min(granted.interval_seconds, LONGEST_INTERVAL_SECONDS)
            if now + granted.again_seconds <= begun_at + patience:
                return None
            return ThrottledError(
                f"{'leads to ' if led else ''}{host}, which has no free slot now",
                status=0,
                retry_after_seconds=granted.again_seconds,
            )

        await _wait_for_slot(ask, self._steady, give_up)


async def threaded(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function without stopping the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


def fetch_context_of(tree: Tree, leased: LeasedRequest) -> FetchContext:
    """Get the proxies by which the biz's downloads leave."""
    pool = leased.biz.fetch.proxies or tree.stage.default_proxies
    proxies = None if pool is None else tree.stage.proxies.get(pool)
    return FetchContext(queue_key=leased.queue_key, pool=pool, proxies=proxies)


class SingleRequest:
    """Send one polite request that no store knows of, for a trial or a link probe.

    Args:
        config: How hosts are treated.
        hosts: The fleet's slots.
        robots: The fleet's copies of robots.txt.
        fetcher: Fetches robots.txt where there is no copy.
        clock: The time.
        leased: The request as a lease.
        who: The name by which slots are asked for.
        seconds: The longest time it may take.
        slot_seconds: The part of that for waits for slots.
        steady: Measures slots and waits.
    """

    def __init__(
        self,
        config: ConfigCentre,
        hosts: RedisHosts,
        robots: RedisRobotsCache,
        fetcher: Fetcher,
        clock: Clock,
        leased: LeasedRequest,
        who: str,
        seconds: float,
        slot_seconds: float,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._config = config
        self._steady = steady
        self._leased = leased
        self._seconds = seconds
        self._robots = RobotsBook(
            fetcher,
            robots,
            clock,
            threaded,
            self._wait_for_slot,
            lambda: config.current().stage.user_agent,
        )
        scheduler = LocalScheduler(steady)
        self._politeness = PolitenessClient(
            hosts, config, self._robots, scheduler, who, clock, steady
        )
        self._patient_until = self._steady.now() + slot_seconds
        self._sent = False

    @property
    def was_sent(self) -> bool:
        """Tell whether the last hop had its slot, so that the site is answerable for the result."""
        return self._sent

    async def ask(
        self, send: Callable[[HopGuard], Awaitable[R]], seconds_of: Callable[[R], float]
    ) -> R:
        """Return the result of ``send``, which awaits the hop guard before each hop.

        ``seconds_of`` gets from the result how long the site took.

        Raises:
            FetchError: no result; without a slot it is a :class:`ThrottledError` of status 0.
            StoreError: slots cannot be granted now.
        """
        try:
            async with asyncio.timeout(self._seconds):
                found = await send(self._hop_guard)
        except TimeoutError as error:
            late = FetchTimeoutError(f"not there within {self._seconds:g} seconds")
            self._saw(late)
            raise late from error
        except FetchError as error:
            self._saw(error)
            raise
        else:
            self._politeness.saw(self._leased.host, seconds_of(found), None)
            return found
        finally:
            try:
                await threaded(self._politeness.report, self._politeness.take_reports(last=True))
            except StoreError as error:
                warn("how a host answered could not be reported", error)

    async def _hop_guard(self, url: str) -> None:
        self._sent = False
        await self._robots.check(self._leased, url)
        await self._wait_for_slot(self._leased, host_of(url))
        self._sent = True

    async def _wait_for_slot(self, leased: LeasedRequest, host: str, **_: bool) -> None:
        """Wait for a slot, as long as the patience lasts.

        Raises:
            ThrottledError: it has run out; says when a slot may be free.
        """

        async def ask() -> GrantedSlots:
            tree = self._config.current()
            slots = await threaded(
                self._politeness.ask, tree, leased.queue_key, leased.biz, {host: 1}
            )
            return slots[host]

        def give_up(granted: GrantedSlots, now: float) -> ThrottledError | None:
            pause = max(_SHORTEST_PAUSE_SECONDS, granted.again_seconds)
            if now + pause <= self._patient_until:
                return None
            why = reason(granted.why).partition(": ")[2]
            return ThrottledError(
                f"{host} has no free slot now: {why}; ask again in {max(1, round(pause))} s",
                status=0,
                retry_after_seconds=pause,
            )

        await _wait_for_slot(ask, self._steady, give_up)

    def _saw(self, error: FetchError) -> None:
        # Without a slot nothing was learnt of the host.
        if self._sent:
            answer = error.answer
            self._politeness.saw(
                self._leased.host, 0.0 if answer is None else answer.seconds, error
            )
