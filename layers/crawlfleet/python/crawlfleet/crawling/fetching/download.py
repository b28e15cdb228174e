"""A download under way: its hops so far, its time, and what is known of its answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.crawling.fetching.cookies import OpenJar
from crawlfleet.crawling.fetching.models import Followed, HeldUpError, HopGuard
from crawlfleet.crawling.fetching.proxies import ProxyRoute
from crawlfleet.crawling.fetching.request import Hop, next_hop
from crawlfleet.crawling.fetching.response import Trail
from crawlfleet.kernel.redaction import Mask


@dataclass(slots=True, kw_only=True, eq=False)
class Download:
    """A download from its first hop to its end; waits between hops do not count as its time.

    ``before`` are the seconds of the hops before this one.
    """

    tenant: str | None
    limits: FetchLimits
    route: ProxyRoute | None
    jar: OpenJar | None
    conditional: bool
    trail: Trail
    mask: Mask
    redirects: list[str] = field(default_factory=list)
    followed: list[Followed] = field(default_factory=list)
    before: float = 0.0
    _began: float = 0.0
    # The event loop's clock, which its time-outs use as well.
    _clock: Callable[[], float] = field(default_factory=lambda: asyncio.get_running_loop().time)

    def go_on(self) -> None:
        """Begin a hop."""
        self._began = self._clock()

    def pause(self) -> None:
        """End the hop."""
        self.before = self.seconds

    def follow(self, hop: Hop, status: int, place: str) -> Hop:
        """Return the hop that a redirect asks for; PageGoneError if it is not allowed."""
        self.redirects.append(str(hop.url))
        following = next_hop(hop, status, place)
        seconds = self.seconds - sum(one.seconds for one in self.followed)
        self.followed.append(Followed(status=status, place=str(following.url), seconds=seconds))
        return following

    def resume(self, hop: Hop, followed: tuple[Followed, ...]) -> Hop:
        """Return the hop behind redirects that an earlier call has followed."""
        for one in followed:
            self.redirects.append(str(hop.url))
            self.followed.append(one)
            self.before += one.seconds
            hop = next_hop(hop, one.status, one.place)
        return hop

    async def pass_guard(self, hop_guard: HopGuard, hop: Hop) -> None:
        """Await the guard of a hop; where it is held up, note how far the download has come."""
        try:
            await hop_guard(hop.asked)
        except HeldUpError as error:
            error.followed = tuple(self.followed)
            raise

    @property
    def seconds(self) -> float:
        """Seconds that the download has taken so far."""
        return self.before + self._clock() - self._began
