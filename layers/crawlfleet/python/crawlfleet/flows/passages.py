"""The way to a page: whether it may still be gone, asked right before anything is sent.

At each hop: is the request still ours, does the site want it (RFC 9309), is it our turn there
(SPEC.md H3)? The turn at the first host came with the request; redirects need turns of their own.
Where the site's rules are not known yet, the request's turn goes to its robots.txt, and the page
waits for the next one: for a little while here, else put aside, as nothing was asked of it yet.
"""

from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, Protocol, TypeVar

from crawlfleet.errors import CrawlfleetError, LeaseLostError, StoreError, ThrottledError
from crawlfleet.flows.courtesy import Courtesy
from crawlfleet.flows.holding import Held
from crawlfleet.flows.pauses import STEADY, SteadyTime
from crawlfleet.flows.robots import RobotsBook
from crawlfleet.policy.politeness import host_of
from crawlfleet.ports import ConfigCentre, Passage

#: A redirect waits for up to so much of the host's interval beside: who has just been led on by a
#: host gets its next turn no sooner than that, and would never get there by coming again.
LONGEST_INTERVAL_SECONDS: Final = 300.0
#: When nobody can say whose turn it is that is asked again after this.
UNTOLD_SECONDS: Final = 5.0
_SHORTEST_PAUSE_SECONDS: Final = 0.05

P = ParamSpec("P")
R = TypeVar("R")


class NoTurnError(CrawlfleetError):
    """The page was not asked for: it has no turn now. To be put aside, without an attempt."""

    def __init__(self, message: str, *, again_seconds: float) -> None:
        self.again_seconds = again_seconds
        super().__init__(message)


class Threaded(Protocol):
    """Calls a part without stopping the event loop."""

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns."""
        ...


class Passages:
    """Makes the passage of each download of a worker; it waits ``patience_seconds`` for turns."""

    def __init__(
        self,
        config: ConfigCentre,
        courtesy: Courtesy,
        robots: RobotsBook,
        threaded: Threaded,
        patience_seconds: float,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._config = config
        self._courtesy = courtesy
        self._robots = robots
        self._threaded = threaded
        self._patience_seconds = patience_seconds
        self._steady = steady

    def of(self, held: Held, ours: Callable[[Held], Awaitable[bool]]) -> Passage:
        """The passage of one request. ``ours`` says whether it is still this worker's."""
        begun = False

        async def passage(url: str) -> None:
            nonlocal begun
            if begun:
                host = host_of(url)
                await self._robots.check(held, url, led=True)
                await self.turn_at(held, host, led=True)
                self._courtesy.go_on(held, host)
            else:
                await self._begin(held, url)
                begun = True
            if not await ours(held):
                raise LeaseLostError("another worker owns it")

        return passage

    async def _begin(self, held: Held, url: str) -> None:
        """The first hop, with the turn that the request came with.

        Raises:
            NoTurnError: that turn went to the site's robots.txt, or there is none to read it.
        """
        try:
            await self._robots.check(held, url)
            if held.turn_at is None:
                await self.turn_at(held, host_of(url))
        except (ThrottledError, StoreError) as error:
            again = getattr(error, "retry_after_seconds", None)
            raise NoTurnError(
                str(error), again_seconds=UNTOLD_SECONDS if again is None else again
            ) from error
        held.turn_at = None

    async def robots_turn_at(self, held: Held, host: str, *, led: bool) -> None:
        """Wait for the turn of a robots.txt: the request's own, where it has not begun with it.

        Raises:
            ThrottledError: there is none soon.
        """
        turn_at = held.turn_at
        if turn_at is None or host != held.host[0]:
            await self.turn_at(held, host, led=led)
            return
        held.turn_at = None
        await self._steady.sleep(max(0.0, turn_at - self._steady.now()))

    async def turn_at(self, held: Held, host: str, *, led: bool = False) -> None:
        """Wait for a turn at a host that the request did not come with; a redirect may have led it.

        Raises:
            ThrottledError: there is none soon.
        """
        begun_at, patience = self._steady.now(), self._patience_seconds
        while True:
            turns = await self._threaded(
                self._courtesy.ask, self._config.current(), held.lane, held.biz, {host: 1}, held
            )
            turn, now = turns[host], self._steady.now()
            if led:
                interval = min(turn.interval_seconds, LONGEST_INTERVAL_SECONDS)
                patience = self._patience_seconds + interval
            if turn.count:
                if turn.first_at > now:
                    await self._steady.sleep(turn.first_at - now)
                return
            if now + turn.again_seconds > begun_at + patience:
                raise ThrottledError(
                    f"{'leads to ' if led else ''}{host}, which has no turn for it now",
                    status=0,
                    retry_after_seconds=turn.again_seconds,
                )
            await self._steady.sleep(max(_SHORTEST_PAUSE_SECONDS, turn.again_seconds))
