"""The way to a page: whether it may still be gone, asked right before anything is sent.

At each hop: is the request still ours, does the site want it (RFC 9309), is it our turn there
(SPEC.md H3)? The turn at the first host came with the request; redirects need turns of their own.
Where the site's rules are not known yet, the request's turn goes to its robots.txt, and the page
waits for the next one: for a little while here, else put aside, as nothing was asked of it yet.

One request to a site by one that is no crawl's worker just then, with the manners of one.

::

    robots.txt -> a turn at the host -> ask (at each hop again) -> tell the fleet how the host did

What asks, a download or a probe, is handed in; crawling.trials.service and jobs.bidding.probing do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, ParamSpec, Protocol, TypeVar

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.crawling.fetching.models import FetchContext, Fetcher, HopGuard
from crawlfleet.crawling.politeness.client import PolitenessClient, reason
from crawlfleet.crawling.politeness.local_scheduler import LocalScheduler
from crawlfleet.crawling.politeness.models import Hosts, RobotsCache
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

#: A redirect waits for up to so much of the host's interval beside: who has just been led on by a
#: host gets its next turn no sooner than that, and would never get there by coming again.
LONGEST_INTERVAL_SECONDS: Final = 300.0
#: When nobody can say whose turn it is that is asked again after this.
UNREPORTED_SECONDS: Final = 5.0
_SHORTEST_PAUSE_SECONDS: Final = 0.05


class NoSlotError(CrawlfleetError):
    """The page was not asked for: it has no turn now. To be put aside, without an attempt."""

    def __init__(self, message: str, *, again_seconds: float) -> None:
        self.again_seconds = again_seconds
        super().__init__(message)


class HopGuards:
    """Makes the hop guard of each download of a worker; it waits ``patience_seconds`` for slots.

    Attributes:
        scheduler: Which request a runner begins with next.
        robots: The rules of sites.
        client: Asks the fleet for slots, and tells it how hosts did.
    """

    def __init__(
        self,
        ports: "VisitPorts",
        worker: str,
        threaded: Threaded,
        patience_seconds: float,
        steady: SteadyTime = STEADY,
        on_the_way_seconds: float = ON_THE_WAY_SECONDS,
    ) -> None:
        self._config = ports.config
        self._threaded = threaded
        self._patience_seconds = patience_seconds
        self._steady = steady
        self.scheduler = LocalScheduler(steady)
        self.robots = RobotsBook(
            ports.fetcher,
            ports.robots,
            ports.clock,
            threaded,
            self.wait_for_robots_slot,
            lambda: ports.config.current().stage.user_agent,
            on_the_way_seconds=on_the_way_seconds,
        )
        self.client = PolitenessClient(
            ports.hosts, ports.config, self.robots, self.scheduler, worker, ports.clock, steady
        )

    def of(self, held: LeasedRequest, ours: Callable[[LeasedRequest], Awaitable[bool]]) -> HopGuard:
        """The passage of one request. ``ours`` says whether it is still this worker's."""
        begun = False

        async def hop_guard(url: str) -> None:
            nonlocal begun
            if begun:
                host = host_of(url)
                await self.robots.check(held, url, led=True)
                await self.slot_at(held, host, led=True)
                self.client.go_on(held, host)
            else:
                await self._begin(held, url)
                begun = True
            if not await ours(held):
                raise LeaseLostError("another worker owns it")

        return hop_guard

    async def _begin(self, held: LeasedRequest, url: str) -> None:
        """The first hop, with the turn that the request came with.

        Raises:
            NoTurnError: that turn went to the site's robots.txt, or there is none to read it.
        """
        try:
            await self.robots.check(held, url)
            if held.slot_at is None:
                await self.slot_at(held, host_of(url))
        except (ThrottledError, StoreError) as error:
            again = getattr(error, "retry_after_seconds", None)
            raise NoSlotError(
                str(error), again_seconds=UNREPORTED_SECONDS if again is None else again
            ) from error
        held.slot_at = None

    async def wait_for_robots_slot(self, held: LeasedRequest, host: str, *, led: bool) -> None:
        """Wait for the turn of a robots.txt: the request's own, where it has not begun with it.

        Raises:
            ThrottledError: there is none soon.
        """
        slot_at = held.slot_at
        if slot_at is None or host != held.host[0]:
            await self.slot_at(held, host, led=led)
            return
        held.slot_at = None
        await self._steady.sleep(max(0.0, slot_at - self._steady.now()))

    async def slot_at(self, held: LeasedRequest, host: str, *, led: bool = False) -> None:
        """Wait for a turn at a host that the request did not come with; a redirect may have led it.

        Raises:
            ThrottledError: there is none soon.
        """
        begun_at, patience = self._steady.now(), self._patience_seconds
        while True:
            slots = await self._threaded(
                self.client.ask,
                self._config.current(),
                held.queue_key,
                held.biz,
                {host: 1},
                held,
            )
            granted, now = slots[host], self._steady.now()
            if led:
                interval = min(granted.interval_seconds, LONGEST_INTERVAL_SECONDS)
                patience = self._patience_seconds + interval
            if granted.count:
                if granted.first_at > now:
                    await self._steady.sleep(granted.first_at - now)
                return
            if now + granted.again_seconds > begun_at + patience:
                raise ThrottledError(
                    f"{'leads to ' if led else ''}{host}, which has no turn for it now",
                    status=0,
                    retry_after_seconds=granted.again_seconds,
                )
            await self._steady.sleep(max(_SHORTEST_PAUSE_SECONDS, granted.again_seconds))


P = ParamSpec("P")
R = TypeVar("R")


class VisitPorts(Protocol):
    """What a visit needs of the world; ``fetcher`` fetches robots.txt, if nothing else."""

    @property
    def config(self) -> ConfigCentre:
        """How hosts are treated."""
        ...

    @property
    def hosts(self) -> Hosts:
        """The fleet's turns."""
        ...

    @property
    def robots(self) -> RobotsCache:
        """The fleet's copies of robots.txt."""
        ...

    @property
    def fetcher(self) -> Fetcher:
        """Fetches those that are in no copy."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a visit may take, and how much of that may be spent on waiting for turns."""

    seconds: float
    for_slots: float


async def threaded(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a part without stopping the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


def fetch_context_of(tree: Tree, held: LeasedRequest) -> FetchContext:
    """The way by which the biz's downloads leave."""
    pool = held.biz.fetch.proxies or tree.stage.default_proxies
    proxies = None if pool is None else tree.stage.proxies.get(pool)
    return FetchContext(queue_key=held.queue_key, pool=pool, proxies=proxies)


class Visit:
    """One visit for a request that nobody stores. ``who`` is what the fleet knows the asker by."""

    def __init__(
        self,
        ports: VisitPorts,
        held: LeasedRequest,
        who: str,
        patience: Patience,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._ports = ports
        self._steady = steady
        self._held = held
        self._patience = patience
        self._robots = RobotsBook(
            ports.fetcher,
            ports.robots,
            ports.clock,
            threaded,
            self._wait_for_robots_slot,
            lambda: ports.config.current().stage.user_agent,
        )
        self._politeness = PolitenessClient(
            ports.hosts,
            ports.config,
            self._robots,
            LocalScheduler(steady),
            who,
            ports.clock,
            steady,
        )
        self._patient_until = self._steady.now() + patience.for_slots
        self._sent = False

    @property
    def was_sent(self) -> bool:
        """Whether the last hop had its turn, so that what came of it is the site's doing."""
        return self._sent

    async def ask(
        self, send: Callable[[HopGuard], Awaitable[R]], seconds_of: Callable[[R], float]
    ) -> R:
        """What ``send`` comes to, which goes through the passage before each hop.

        ``seconds_of`` is how long the site took for that.

        Raises:
            FetchError: nothing came, or not now: without a turn a :class:`ThrottledError` of
                status 0.
            StoreError: nobody can say whose turn it is.
        """
        try:
            async with asyncio.timeout(self._patience.seconds):
                found = await send(self._hop_guard)
        except TimeoutError as error:
            late = FetchTimeoutError(f"not there within {self._patience.seconds:g} seconds")
            self._saw(late)
            raise late from error
        except FetchError as error:
            self._saw(error)
            raise
        else:
            self._politeness.saw(self._held.host, seconds_of(found), None)
            return found
        finally:
            await self._report()

    async def _hop_guard(self, url: str) -> None:
        self._sent = False
        await self._robots.check(self._held, url)
        await self._wait_for_slot(self._held, host_of(url))
        self._sent = True

    async def _wait_for_robots_slot(self, held: LeasedRequest, host: str, **_: bool) -> None:
        await self._wait_for_slot(held, host)

    async def _wait_for_slot(self, held: LeasedRequest, host: str) -> None:
        """Wait for a turn, for a little while.

        Raises:
            ThrottledError: says when there may be one.
        """
        while True:
            tree = self._ports.config.current()
            slots = await threaded(self._politeness.ask, tree, held.queue_key, held.biz, {host: 1})
            granted, now = slots[host], self._steady.now()
            if granted.count:
                await self._steady.sleep(max(0.0, granted.first_at - now))
                return
            pause = max(_SHORTEST_PAUSE_SECONDS, granted.again_seconds)
            if now + pause > self._patient_until:
                why = reason(granted.why).partition(": ")[2]
                raise ThrottledError(
                    f"{host} has no turn now: {why}; ask again in {max(1, round(pause))} s",
                    status=0,
                    retry_after_seconds=pause,
                )
            await self._steady.sleep(pause)

    def _saw(self, error: FetchError) -> None:
        # Who got no turn has learnt nothing of the host.
        if self._sent:
            answer = error.answer
            self._politeness.saw(self._held.host, 0.0 if answer is None else answer.seconds, error)

    async def _report(self) -> None:
        try:
            await threaded(self._politeness.report, self._politeness.take_reports(last=True))
        except StoreError as error:
            warn("what was seen of a host could not be told", error)
