"""The way to a page: whether it may still be gone, asked right before anything is sent.

At each hop: is the request still ours, does the site want it (RFC 9309), is it our turn there
(SPEC.md H3)? The turn at the first host came with the request; redirects need turns of their own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, Protocol, TypeVar

from crawlfleet.errors import LeaseLostError, ThrottledError
from crawlfleet.flows.courtesy import Courtesy
from crawlfleet.flows.holding import Held
from crawlfleet.flows.robots import RobotsBook
from crawlfleet.policy.politeness import host_of
from crawlfleet.ports import ConfigCentre, Passage

#: For so long a redirect waits for its turn; then the whole request comes again later.
PATIENCE_SECONDS: Final = 20.0
_SHORTEST_PAUSE_SECONDS: Final = 0.05

P = ParamSpec("P")
R = TypeVar("R")


class Threaded(Protocol):
    """Calls a part without stopping the event loop."""

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns."""
        ...


class Passages:
    """Makes the passage of each download of a worker."""

    def __init__(
        self, config: ConfigCentre, courtesy: Courtesy, robots: RobotsBook, threaded: Threaded
    ) -> None:
        self._config = config
        self._courtesy = courtesy
        self._robots = robots
        self._threaded = threaded

    def of(self, held: Held, ours: Callable[[Held], Awaitable[bool]]) -> Passage:
        """The passage of one request. ``ours`` says whether it is still this worker's."""
        begun = False

        async def passage(url: str) -> None:
            nonlocal begun
            await self._robots.check(held, url)
            if begun:
                host = host_of(url)
                await self.turn_at(held, host)
                self._courtesy.go_on(held, host)
            begun = True
            if not await ours(held):
                raise LeaseLostError("another worker owns it")

        return passage

    async def turn_at(self, held: Held, host: str) -> None:
        """Wait for a turn at a host that the request did not come with.

        Raises:
            ThrottledError: there is none soon.
        """
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            turns = await self._threaded(
                self._courtesy.ask, self._config.current(), held.lane, held.biz, {host: 1}, held
            )
            turn, now = turns[host], time.monotonic()
            if turn.count:
                if turn.first_at > now:
                    await asyncio.sleep(turn.first_at - now)
                return
            if now + turn.again_seconds > give_up_at:
                raise ThrottledError(
                    f"leads to {host}, which has no turn for it now",
                    status=0,
                    retry_after_seconds=turn.again_seconds,
                )
            await asyncio.sleep(max(_SHORTEST_PAUSE_SECONDS, turn.again_seconds))
