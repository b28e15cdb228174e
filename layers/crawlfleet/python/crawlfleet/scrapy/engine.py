"""Share one crawl session between scheduler, dupefilter and pipeline, and drive Scrapy's engine.

The engine is called as each version of Scrapy since 2.12 expects. Nothing is lost, as a request is
finished only after what its callback yielded is in Redis, requests and items alike.
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
    """A function that is called every ``interval`` seconds while the loop runs."""

    @property
    def running(self) -> bool: ...  # noqa: D102
    def start(self, interval: float, now: bool = True) -> object: ...  # noqa: D102
    def stop(self) -> object: ...  # noqa: D102


def looping(function: Callable[[], object]) -> Loop:
    """Make a loop that calls the function on Scrapy's event loop."""
    try:
        from scrapy.utils.asyncio import create_looping_call
    except ImportError:  # before 2.14
        from twisted.internet.task import LoopingCall

        return LoopingCall(function)  # type: ignore[no-any-return,unused-ignore]  # as newer ones
    return create_looping_call(function)


def under_way(crawler: "Crawler") -> "Container[Request]":
    """Return the requests that the engine has taken from the scheduler and is not done with.

    One leaves when its download has become another request, or when its callback or errback is
    exhausted and each item has passed the pipelines. No signal says so; the engine has kept this
    set since Scrapy 0.24.

    Raises:
        RuntimeError: this Scrapy has no such set; going on would finish requests too early.
    """
    slot = _slot(crawler)
    if slot is None:
        return ()
    found = getattr(slot, "inprogress", None)
    if not isinstance(found, set):
        raise RuntimeError(  # noqa: TRY004  of Scrapy, not of an argument
            "this version of Scrapy keeps its requests where we do not find them"
        )
    return found


def wake(crawler: "Crawler") -> None:
    """Have the engine ask its scheduler now; by itself it does so every five seconds."""
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
    """The crawl of one crawler, as its parts share it.

    Attributes:
        settings: The project's.
        connection: To the fleet's Redis.
        crawl: The crawl in Redis, for this process.
        fingerprints: Names the crawl's fingerprinter, empty for that of the running Scrapy.
        items_given: How many items the pipeline has received so far.
        flush_items: Sends the items that wait, of which it may leave some for later unless its
            argument is true; set by the pipeline. Returns how many of the first were sent.
        spoil: Has what is under way done again; set by the scheduler.
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
        self.flush_items: Callable[[bool], int] = lambda _: 0
        self.spoil: Callable[[], None] = lambda: None


def session_of(crawler: "Crawler") -> CrawlSession:
    """Return the session of a crawler; the first call makes it.

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
