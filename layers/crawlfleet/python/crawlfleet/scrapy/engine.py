"""What is asked of Scrapy's engine, in the words of each version since 2.12.

What scheduler, dupefilter and pipeline of one crawler share: the way to Redis, and an order.

The order is what nothing is lost by: a request is finished only after what its callback gave is in
Redis, requests and items alike.
"""

import uuid
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol

from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.scrapy.redis import RedisCrawl
from crawlfleet.scrapy.settings import (
    ProjectSettings,
    log_errors_in_one_line,
    read_settings,
    warn_of_unknown,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class Loop(Protocol):
    """A function that is called again and again while it runs."""

    @property
    def running(self) -> bool:
        """Whether it is started."""
        ...

    def start(self, interval: float, now: bool = True) -> object:
        """Call the function every so many seconds."""
        ...

    def stop(self) -> object:
        """Call it no more."""
        ...


def looping(function: Callable[[], object]) -> Loop:
    """A loop over the function, on whichever event loop Scrapy runs."""
    try:
        from scrapy.utils.asyncio import create_looping_call
    except ImportError:  # before 2.14
        from twisted.internet.task import LoopingCall

        return LoopingCall(function)  # type: ignore[no-any-return,unused-ignore]  # as newer ones
    return create_looping_call(function)


def under_way(crawler: "Crawler") -> "Container[Request]":
    """The requests that the engine has taken from the scheduler and not done with.

    One leaves when its download has become another request, or when its callback or errback is
    exhausted and each of the items has passed the pipelines. No signal tells that moment, so this
    looks where the engine keeps account of it; it has done so since Scrapy 0.24.

    Raises:
        RuntimeError: this Scrapy keeps it elsewhere; going on would finish requests too early.
    """
    slot = _slot(crawler)
    if slot is None:
        return ()
    found = getattr(slot, "inprogress", None)
    if not isinstance(found, set):
        raise RuntimeError(  # noqa: TRY004  Scrapy is another, not an argument
            "this version of Scrapy keeps its requests where we do not find them"
        )
    return found


def wake(crawler: "Crawler") -> None:
    """Let the engine ask its scheduler soon; by itself it does so every five seconds."""
    slot = _slot(crawler)
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def close_spider(crawler: "Crawler", reason: str) -> None:
    """End the crawl in good order."""
    engine: Any = crawler.engine
    if hasattr(engine, "close_spider_async"):
        from scrapy.utils.defer import deferred_from_coro

        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(crawler.spider, reason=reason)


def _slot(crawler: "Crawler") -> Any:
    engine: Any = crawler.engine
    return engine._slot if hasattr(engine, "_slot") else engine.slot  # noqa: SLF001  before 2.13


class CrawlSession:
    """One crawler's side of Redis.

    Attributes:
        settings: The project's.
        connection: To the fleet's Redis.
        crawl: This process's part in the crawl.
        fingerprints: Of which make the crawl's are, empty for those of the running Scrapy.
        items_given: How many items callbacks have given to the pipeline so far.
        flush_items: Sends the items that wait; the pipeline puts itself here. Unless it is told to
            send all it may leave some for later. Returns how many of the first were sent.
        spoil: What is under way must be done again; the scheduler puts itself here.
    """

    def __init__(self, settings: ProjectSettings) -> None:
        self.settings = settings
        self.connection = RedisConnection(settings.redis_url, password=settings.password)
        self.crawl = RedisCrawl(
            self.connection,
            settings.tenant,
            settings.crawl,
            uuid.uuid4().hex,
            lease_ms=round(settings.lease_seconds * 1000),
            attempts=settings.attempts,
            order=settings.order,
        )
        self.fingerprints = ""
        self.items_given = 0
        self.flush_items: Callable[[bool], int] = _no_items
        self.spoil: Callable[[], None] = _nothing


def session_of(crawler: "Crawler") -> CrawlSession:
    """The joint of a crawler, made when it is first asked for.

    Raises:
        ConfigError: names every setting that is wrong.
    """
    holder: Any = crawler
    session = getattr(holder, "crawlfleet", None)
    if not isinstance(session, CrawlSession):
        if crawler.spider is None:
            raise RuntimeError("the crawler has no spider yet")
        log_errors_in_one_line()
        warn_of_unknown(crawler.settings)
        session = holder.crawlfleet = CrawlSession(read_settings(crawler.settings, crawler.spider))
    return session


def _no_items(all_of_them: bool) -> int:  # noqa: ARG001  there are none
    """Nobody has put itself here."""
    return 0


def _nothing() -> None:
    """Nobody has put itself here."""
