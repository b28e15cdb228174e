"""Ask for a feed as politely as for a page: robots.txt, host slots, back-off, addresses, bounds.

A feed is asked for once for all tenants, so it counts as a tenant's of its own at its host. Each
redirect is a request with a condition of its own: validators go to the place that gave them only.
"""

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Final

from crawlfleet.config.documents.biz import Biz, FetchLimits
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.crawling.fetching.models import (
    FetchContext,
    Fetcher,
    Followed,
    HeldUpError,
    HopGuard,
)
from crawlfleet.crawling.politeness.hop_guard import SingleRequest
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Body, Claim, Entry, Request
from crawlfleet.requests.visits import Validators
from crawlfleet.streams.feeds.conditions import condition
from crawlfleet.streams.feeds.models import Download, Feed

#: Feeds at their hosts; no tenant is called so.
QUEUE_KEY: Final = QueueKey("-feeds", "feeds", "main")
#: Seconds that a feed may take, and those of them that it may wait for host slots.
SECONDS: Final = 90.0
SLOT_SECONDS: Final = 30.0
BODY_BYTES_MAX: Final = 10_000_000
_ACCEPT: Final = (
    "application/atom+xml, application/rss+xml, application/feed+json, "
    "application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1"
)
_PERMANENT: Final = frozenset({301, 308})
_NOT_MODIFIED: Final = 304


@lru_cache(maxsize=8)
def limits_of(user_agent: str) -> FetchLimits:
    """Return the limits of a feed's download."""
    return FetchLimits(
        user_agent=user_agent,
        headers={"Accept": _ACCEPT},
        max_body_bytes=BODY_BYTES_MAX,
        max_redirects=5,
    )


def moved_to(followed: tuple[Followed, ...]) -> str:
    """Return where permanent redirects led before the first of another kind; "" for nowhere.

    >>> moved_to((Followed(status=308, place="a"), Followed(status=302, place="b")))
    'a'
    """
    place = ""
    for one in followed:
        if one.status not in _PERMANENT:
            break
        place = one.place
    return place


@dataclass(frozen=True, slots=True)
class PoliteFeeds:
    """Downloads of feeds, as one worker makes them."""

    config: SsmConfig
    hosts: RedisHosts
    robots: RedisRobotsCache
    fetcher: Fetcher
    clock: Clock
    worker: str
    _: KW_ONLY
    steady: SteadyTime = STEADY

    async def download(self, feed: Feed) -> tuple[Download, Validators | None]:
        """Ask for a feed; return what came, and the condition that was sent for it.

        Raises FetchError, or StoreError if no host slot can be granted now.
        """
        start = feed.place or feed.url
        limits = limits_of(self.config.current().stage.user_agent)
        single = SingleRequest(
            *(self.config, self.hosts, self.robots, self.fetcher, self.clock),
            *(self._leased(start, limits), self.worker, SECONDS, SLOT_SECONDS),
            steady=self.steady,
        )
        followed: tuple[Followed, ...] = ()
        sent: Validators | None = None

        async def send(hop_guard: HopGuard) -> Page:
            nonlocal followed, sent
            while True:
                place = followed[-1].place if followed else start
                sent = condition(feed, place, self.clock())
                context = FetchContext(queue_key=QUEUE_KEY, validators=sent, followed=followed)
                body = Body(url=start, rule="feed", rule_version="")
                try:
                    return await self.fetcher.fetch(body, limits, _first(hop_guard), context)
                except HeldUpError as held_up:
                    followed = held_up.followed

        page = await single.ask(send, lambda found: found.seconds)
        body = None if page.status == _NOT_MODIFIED else page.body
        return Download(
            url=page.url, headers=page.headers, body=body, moved=moved_to(followed)
        ), sent

    def _leased(self, url: str, limits: FetchLimits) -> LeasedRequest:
        """Make the request that politeness goes by; it is stored nowhere."""
        now, (tenant, biz) = self.clock(), (QUEUE_KEY.tenant, QUEUE_KEY.biz)
        body = Body(url=url, rule="feed", rule_version="")
        request = Request(id=0, tenant=tenant, biz=biz, queued_at=now, body=body)
        claim = Claim(request=request, entry=Entry(0, biz, to_ms(now)), token="", attempt=1)
        return LeasedRequest(QUEUE_KEY, Biz(generations=(), fetch=limits), claim, Rule())


def _first(hop_guard: HopGuard) -> HopGuard:
    """Guard the first hop, and hold up the next one."""
    begun = False

    async def guard(url: str) -> None:
        nonlocal begun
        if begun:
            raise HeldUpError
        begun = True
        await hop_guard(url)

    return guard
