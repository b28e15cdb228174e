"""What scheduler, dupefilter and pipeline of one crawler share: the way to Redis, and an order.

The order is what nothing is lost by: a request is finished only after what its callback gave is in
Redis, requests and items alike.
"""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crawlfleet.adapters.redis_queue.connection import RedisConnection
from crawlfleet.adapters.redis_queue.crawl import RedisCrawl
from crawlfleet.scrapy.logs import tell_in_one_line, warn_of_unknown
from crawlfleet.scrapy.settings import ProjectSettings, read_settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Joint:
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


def joint_of(crawler: "Crawler") -> Joint:
    """The joint of a crawler, made when it is first asked for.

    Raises:
        ConfigError: names every setting that is wrong.
    """
    holder: Any = crawler
    joint = getattr(holder, "crawlfleet", None)
    if not isinstance(joint, Joint):
        if crawler.spider is None:
            raise RuntimeError("the crawler has no spider yet")
        tell_in_one_line()
        warn_of_unknown(crawler.settings)
        joint = holder.crawlfleet = Joint(read_settings(crawler.settings, crawler.spider))
    return joint


def _no_items(all_of_them: bool) -> int:  # noqa: ARG001  there are none
    """Nobody has put itself here."""
    return 0


def _nothing() -> None:
    """Nobody has put itself here."""
