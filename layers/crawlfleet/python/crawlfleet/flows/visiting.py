"""One request to a site by one that is no crawl's worker just then, with the manners of one.

::

    robots.txt -> a turn at the host -> ask (at each hop again) -> tell the fleet how the host did

What asks, a download or a probe, is handed in; flows.trials and flows.probing do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, ParamSpec, Protocol, TypeVar

from crawlfleet.errors import FetchError, FetchTimeoutError, StoreError, ThrottledError
from crawlfleet.flows.courtesy import Courtesy, reason
from crawlfleet.flows.holding import Held
from crawlfleet.flows.pauses import STEADY, SteadyTime
from crawlfleet.flows.robots import RobotsBook
from crawlfleet.flows.turns import Turns
from crawlfleet.model.biz import Tree
from crawlfleet.policy.politeness import host_of
from crawlfleet.ports import (
    Clock,
    ConfigCentre,
    Errand,
    Fetcher,
    Hosts,
    Passage,
    RobotsCache,
)

_SHORTEST_PAUSE_SECONDS: Final = 0.05

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

    @property
    def warn(self) -> Callable[[str, Exception], None]:
        """Is told what is wrong but not fatal."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a visit may take, and how much of that may be spent on waiting for turns."""

    seconds: float
    of_turns: float


async def threaded(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a part without stopping the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)


def errand_of(tree: Tree, held: Held) -> Errand:
    """The way by which the biz's downloads leave."""
    pool = held.biz.fetch.proxies or tree.stage.default_proxies
    proxies = None if pool is None else tree.stage.proxies.get(pool)
    return Errand(lane=held.lane, pool=pool, proxies=proxies)


class Visit:
    """One visit for a request that nobody stores. ``who`` is what the fleet knows the asker by."""

    def __init__(
        self,
        ports: VisitPorts,
        held: Held,
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
            self._robots_turn_at,
            ports.warn,
            lambda: ports.config.current().stage.user_agent,
        )
        self._courtesy = Courtesy(
            ports.hosts, ports.config, self._robots, Turns(steady), who, ports.clock, steady
        )
        self._patient_until = self._steady.now() + patience.of_turns
        self._sent = False

    @property
    def was_sent(self) -> bool:
        """Whether the last hop had its turn, so that what came of it is the site's doing."""
        return self._sent

    async def ask(
        self, send: Callable[[Passage], Awaitable[R]], seconds_of: Callable[[R], float]
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
                found = await send(self._passage)
        except TimeoutError as error:
            late = FetchTimeoutError(f"not there within {self._patience.seconds:g} seconds")
            self._saw(late)
            raise late from error
        except FetchError as error:
            self._saw(error)
            raise
        else:
            self._courtesy.saw(self._held.host, seconds_of(found), None)
            return found
        finally:
            await self._report()

    async def _passage(self, url: str) -> None:
        self._sent = False
        await self._robots.check(self._held, url)
        await self._turn_at(self._held, host_of(url))
        self._sent = True

    async def _robots_turn_at(self, held: Held, host: str, **_: bool) -> None:
        await self._turn_at(held, host)

    async def _turn_at(self, held: Held, host: str) -> None:
        """Wait for a turn, for a little while.

        Raises:
            ThrottledError: says when there may be one.
        """
        while True:
            tree = self._ports.config.current()
            turns = await threaded(self._courtesy.ask, tree, held.lane, held.biz, {host: 1})
            turn, now = turns[host], self._steady.now()
            if turn.count:
                await self._steady.sleep(max(0.0, turn.first_at - now))
                return
            pause = max(_SHORTEST_PAUSE_SECONDS, turn.again_seconds)
            if now + pause > self._patient_until:
                why = reason(turn.why).partition(": ")[2]
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
            self._courtesy.saw(self._held.host, 0.0 if answer is None else answer.seconds, error)

    async def _report(self) -> None:
        try:
            await threaded(self._courtesy.report, self._courtesy.take_reports(last=True))
        except StoreError as error:
            self._ports.warn("what was seen of a host could not be told", error)
