"""Share one crawl session between scheduler, dupefilter and pipeline, and drive Scrapy's engine.

The engine is called as each version of Scrapy since 2.12 expects. Nothing is lost, as a request is
finished only after what its callback yielded is in Redis, requests and items alike.
"""

import uuid
from collections.abc import Callable, Container
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from scrapy import signals

from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.scrapy.journal import Journal, journal_folder
from crawlfleet.scrapy.redis import RedisCrawl
from crawlfleet.scrapy.scrapy_redis import is_peer
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
    set since Scrapy 0.24. Raises RuntimeError (this Scrapy has no such set; going on would finish
    requests too early).
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

    ``fingerprints`` names the crawl's fingerprinter, empty for that of the running Scrapy. The
    pipeline has received ``items_given`` so far, and sets ``flush_items``: that sends the items
    that wait, of which it may leave some for later unless its argument is true, and returns how
    many of the first were sent; and ``check_items``, which finds out what is stored or was lost.
    The scheduler sets ``spoil``, which has what is under way done again.
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
            known_by=settings.known_by,
        )
        self.journal = Journal(journal_folder(settings.journal), _journal_name(settings))
        self.fingerprints = ""
        #: Set by the scheduler that left the crawl as its last one, and forgot it.
        self.forgotten = False
        self.items_given = 0
        self.flush_items: Callable[[bool], int] = lambda _: 0
        self.spoil: Callable[[], None] = lambda: None
        self.check_items: Callable[[], None] = lambda: None


def _journal_name(settings: ProjectSettings) -> str:
    """Name the journal: what one holds belongs to this crawl, biz and Redis alone."""
    server = urlsplit(settings.redis_url)
    place = f"{server.netloc.rpartition('@')[2]}{server.path}"
    whole = f"{place}\n{settings.tenant}\n{settings.biz}\n{settings.queue}\n{settings.crawl}"
    digest = sha256(whole.encode()).hexdigest()[:12]
    return f"{settings.tenant}-{settings.crawl}-{digest}".replace(":", ".")


def session_of(crawler: "Crawler") -> CrawlSession:
    """Return the session of a crawler; the first call makes it.

    Raises ConfigError (names every setting that is wrong).
    """
    holder: Any = crawler
    session = getattr(holder, "crawlfleet", None)
    if not isinstance(session, CrawlSession):
        if crawler.spider is None:
            raise RuntimeError("the crawler has no spider yet")
        log_errors_in_one_line()
        warn_of_unknown(crawler.settings)
        session = holder.crawlfleet = CrawlSession(read_settings(crawler.settings, crawler.spider))
        _quieten(crawler, crawler.spider)
    return session


def _quieten(crawler: "Crawler", spider: Any) -> None:
    """Keep a spider of scrapy-redis from popping start URLs beside us: what it pops it may lose."""
    if is_peer(spider):
        crawler.signals.disconnect(spider.spider_idle, signal=signals.spider_idle)
        spider.start_requests = lambda: iter(())
