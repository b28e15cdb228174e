"""Guard each hop of a download, right before anything is sent.

A guard checks that the request is still leased, that robots.txt allows the page (RFC 9309) and that
the host has a slot for it (SPEC.md H3). The slot at the first host came with the request; redirects
need slots of their own. Where the site's rules are unknown, the request's slot goes to robots.txt,
and the page waits for the next one: for a little while here, else deferred, nothing being sent yet.

:class:`HopGuards` serve a worker's downloads, :class:`SingleRequest` one trial or link probe.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, ParamSpec, TypeVar

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.lookup import proxies_of
from crawlfleet.crawling.fetching.models import FetchContext, Fetcher, HopGuard
from crawlfleet.crawling.politeness import client, local_scheduler, models
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.politeness.robots import ON_THE_WAY_SECONDS, Parse, RobotsBook
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL
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


class NoSlotError(errors.CrawlfleetError):
    """No host slot is free for the page now; defer it without counting an attempt."""

    def __init__(self, message: str, *, again_seconds: float) -> None:
        self.again_seconds = again_seconds
        super().__init__(message)


async def _wait_for_slot(
    ask: Callable[[], Awaitable[client.GrantedSlots]],
    steady: SteadyTime,
    give_up: Callable[[client.GrantedSlots, float], errors.ThrottledError | None],
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


def _agent(config: SsmConfig) -> str:
    return config.current().stage.user_agent


class HopGuards:
    """Make the hop guard of each download of a worker; wait ``patience_seconds`` for slots."""

    def __init__(
        self,
        config: SsmConfig,
        hosts: RedisHosts,
        robots: RedisRobotsCache,
        fetcher: Fetcher,
        clock: Clock,
        worker: str,
        threaded: Threaded,
        patience_seconds: float,
        steady: SteadyTime = STEADY,
        on_the_way_seconds: float = ON_THE_WAY_SECONDS,
        first: local_scheduler.First = local_scheduler.first_come,
        share: local_scheduler.Share = local_scheduler.same_share,
        parse: Parse | None = None,
    ) -> None:
        self._config = config
        self._threaded = threaded
        self._patience_seconds = patience_seconds
        self._steady = steady
        self.scheduler = local_scheduler.LocalScheduler(steady, first, share)
        agent, slots = partial(_agent, config), self.wait_for_robots_slot
        self.robots = RobotsBook(
            *(fetcher, robots, clock, threaded, slots, agent),
            on_the_way_seconds=on_the_way_seconds,
            parse=parse,
        )
        self.client = client.PolitenessClient(
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
                await self.robots.check(leased, url, led=True)
                await self.wait_for_slot(leased, origin_of(url), led=True)
                self.client.go_on(leased, host_of(url))
            else:
                await self._begin(leased, url)
                begun = True
            if not await ours(leased):
                raise errors.LeaseLostError("another worker owns it")

        return hop_guard

    async def _begin(self, leased: LeasedRequest, url: str) -> None:
        """Guard the first hop with the slot that the request came with.

        Raises NoSlotError if robots.txt used that slot, or gets none itself.
        """
        try:
            await self.robots.check(leased, url)
            if leased.slot_at is None:
                await self.wait_for_slot(leased, origin_of(url))
        except (errors.ThrottledError, errors.StoreError) as error:
            again = getattr(error, "retry_after_seconds", None)
            raise NoSlotError(
                str(error), again_seconds=UNREPORTED_SECONDS if again is None else again
            ) from error
        leased.slot_at = None

    async def wait_for_robots_slot(self, leased: LeasedRequest, origin: str, *, led: bool) -> None:
        """Wait for the slot of a robots.txt: the request's own if it has not begun with it.

        Raises ThrottledError if no slot is free soon.
        """
        slot_at = leased.slot_at
        if slot_at is None or host_of(origin) != leased.host[0]:
            await self.wait_for_slot(leased, origin, led=led)
            return
        leased.slot_at = None
        await self._steady.sleep(max(0.0, slot_at - self._steady.now()))

    async def wait_for_slot(self, leased: LeasedRequest, origin: str, *, led: bool = False) -> None:
        """Wait for a slot that the request did not come with; a redirect may have ``led`` there.

        Raises ThrottledError if no slot is free soon.
        """
        begun_at = self._steady.now()

        async def ask() -> client.GrantedSlots:
            tree = self._config.current()
            slots = await self._threaded(
                self.client.ask, tree, leased.queue_key, leased.biz, {origin: 1}, leased
            )
            return slots[origin]

        def give_up(granted: client.GrantedSlots, now: float) -> errors.ThrottledError | None:
            patience = self._patience_seconds
            if led:
                patience += min(granted.interval_seconds, LONGEST_INTERVAL_SECONDS)
            if now + granted.again_seconds <= begun_at + patience:
                return None
            return errors.ThrottledError(
                f"{'leads to ' if led else ''}{host_of(origin)}, which has no free slot now",
                status=0,
                retry_after_seconds=granted.again_seconds,
            )

        await _wait_for_slot(ask, self._steady, give_up)


async def threaded(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function without stopping the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


def fetch_context_of(tree: Tree, leased: LeasedRequest, workers: str = MAIN_POOL) -> FetchContext:
    """Get the proxies by which the biz's downloads leave from workers of that pool."""
    pool = proxies_of(tree.stage, leased.biz, workers)
    proxies = None if pool is None else tree.stage.proxies.get(pool)
    return FetchContext(queue_key=leased.queue_key, pool=pool, proxies=proxies)


@dataclass(eq=False)
class SingleRequest:
    """Send one polite request that no store knows of, for a trial or a link probe.

    It is asked for by the name ``who``, and may take ``seconds``, of those ``slot_seconds`` waiting
    for slots. ``proxied`` ones say something of the host to their own tenant alone.
    """

    config: SsmConfig
    hosts: RedisHosts
    robots: RedisRobotsCache
    fetcher: Fetcher
    clock: Clock
    leased: LeasedRequest
    who: str
    seconds: float
    slot_seconds: float
    proxied: bool = False
    steady: SteadyTime = STEADY
    #: Whether the last hop had its slot, so that the site is answerable for the result.
    was_sent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        config, clock, steady = self.config, self.clock, self.steady
        agent = partial(_agent, config)
        self._rules = RobotsBook(
            self.fetcher, self.robots, clock, threaded, self._wait_for_slot, agent
        )
        scheduler = local_scheduler.LocalScheduler(steady)
        self._politeness = client.PolitenessClient(
            self.hosts, config, self._rules, scheduler, self.who, clock, steady
        )
        self._patient_until = steady.now() + self.slot_seconds

    async def ask(
        self, send: Callable[[HopGuard], Awaitable[R]], seconds_of: Callable[[R], float]
    ) -> R:
        """Return the result of ``send``, which awaits the hop guard before each hop.

        ``seconds_of`` gets from the result how long the site took. Without a slot the FetchError is
        a :class:`ThrottledError` of status 0; a StoreError says that none can be granted now.
        """
        try:
            async with asyncio.timeout(self.seconds):
                found = await send(self._hop_guard)
        except TimeoutError as error:
            late = errors.FetchTimeoutError(f"not there within {self.seconds:g} seconds")
            self._saw(late)
            raise late from error
        except errors.FetchError as error:
            self._saw(error)
            raise
        else:
            self._saw(None, seconds_of(found))
            return found
        finally:
            try:
                await threaded(self._politeness.report, self._politeness.take_reports(last=True))
            except errors.StoreError as error:
                warn("how a host answered could not be reported", error)

    async def _hop_guard(self, url: str) -> None:
        self.was_sent = False
        await self._rules.check(self.leased, url)
        await self._wait_for_slot(self.leased, origin_of(url))
        self.was_sent = True

    async def _wait_for_slot(self, leased: LeasedRequest, origin: str, **_: bool) -> None:
        """Wait for a slot with patience; then ThrottledError, which says when one may be free."""

        async def ask() -> client.GrantedSlots:
            tree = self.config.current()
            slots = await threaded(
                self._politeness.ask, tree, leased.queue_key, leased.biz, {origin: 1}
            )
            return slots[origin]

        def give_up(granted: client.GrantedSlots, now: float) -> errors.ThrottledError | None:
            pause = max(_SHORTEST_PAUSE_SECONDS, granted.again_seconds)
            if now + pause <= self._patient_until:
                return None
            why = models.reason(granted.why).partition(": ")[2]
            return errors.ThrottledError(
                f"{host_of(origin)} has no free slot now: {why}; "
                f"ask again in {max(1, round(pause))} s",
                status=0,
                retry_after_seconds=pause,
            )

        await _wait_for_slot(ask, self.steady, give_up)

    def _saw(self, error: errors.FetchError | None, seconds: float = 0.0) -> None:
        # Without a slot nothing was learnt of the host.
        if error is not None and error.answer is not None:
            seconds = error.answer.seconds
        if error is None or self.was_sent:
            leased, tenant = self.leased, self.leased.queue_key.tenant
            self._politeness.saw(leased.origin, tenant, seconds, error, proxied=self.proxied)
