"""``STATS_CLASS``: stats that the processes of a spider share, in a HASH as scrapy-redis has them.

Each process counts in its memory and adds to the HASH once a second and at its end: scrapy-redis
makes two round trips for each count, and another one for each look. What ``get_value`` returns is
this process's own; ``HGETALL shop:stats`` is of all. They go when the crawl is forgotten.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from scrapy.statscollectors import MemoryStatsCollector

from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.redis.server import Script
from crawlfleet.scrapy.engine import CrawlSession, session_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
_log = logging.getLogger(__name__)
_ADD: Final = Script("scrapy/stats_add")
_SECONDS: Final = 1.0
#: A Redis that was away is not asked again sooner.
_AWAY_SECONDS: Final = 5.0


class StatsCollector(MemoryStatsCollector):
    """The stats of one crawler, added to those of its spider."""

    def __init__(self, crawler: "Crawler", *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(crawler)
        self._crawler = crawler  # older Scrapy keeps none
        self._clock = clock
        self._due = 0.0
        self._session: CrawlSession | None = None
        # By name, in their order: one that follows its like is one with it.
        self._pending: dict[str, list[tuple[str, Any, Any]]] = {}

    def open_spider(self, spider: Any = None) -> None:  # noqa: ARG002  of older Scrapy
        """Share the crawl's connection. Raises ConfigError (names every wrong setting)."""
        self._session = session_of(self._crawler)

    def close_spider(self, spider: Any = None, reason: str | None = None) -> None:
        """Add what is left; forget all where the crawl was forgotten."""
        self._flush(at_last=True)
        session = self._session
        if session is not None:
            if session.forgotten:
                try:
                    session.connection.together(("UNLINK", session.settings.stats_key))
                except StoreError as error:
                    _log.warning("the stats at %s stay: %s", session.settings.stats_key, error)
            session.connection.close()
        if spider is None:
            super().close_spider(reason=reason)
        else:  # older Scrapy wants it
            super().close_spider(spider, reason)

    def set_value(self, key: str, value: Any, spider: Any = None) -> None:  # noqa: ARG002  as above
        """Set a value, here and for all."""
        super().set_value(key, value)
        self._pending[key] = [("set", value, 0)]
        self._flush()

    def set_stats(self, stats: dict[str, Any], spider: Any = None) -> None:  # noqa: ARG002  as above
        """Set all values of this process, and those of their names for all."""
        super().set_stats(stats)
        self._pending = {key: [("set", value, 0)] for key, value in stats.items()}

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Any = None) -> None:  # noqa: ARG002  as above
        """Add to a value."""
        super().inc_value(key, count, start)
        self._note(key, "add", count, start, lambda one, other: one + other)

    def max_value(self, key: str, value: Any, spider: Any = None) -> None:  # noqa: ARG002  as above
        """Raise a value to this one."""
        super().max_value(key, value)
        self._note(key, "max", value, 0, max)

    def min_value(self, key: str, value: Any, spider: Any = None) -> None:  # noqa: ARG002  as above
        """Lower a value to this one."""
        super().min_value(key, value)
        self._note(key, "min", value, 0, min)

    def _note(
        self, key: str, operation: str, value: Any, start: Any, join: Callable[[Any, Any], Any]
    ) -> None:
        noted = self._pending.setdefault(key, [])
        if noted and noted[-1][0] == operation:
            noted[-1] = (operation, join(noted[-1][1], value), noted[-1][2])
        else:
            noted.append((operation, value, start))
        self._flush()

    def _flush(self, *, at_last: bool = False) -> None:
        """Add what was counted, once a second; an answer that is lost may count it twice."""
        now = self._clock()
        if self._session is None or not self._pending or (now < self._due and not at_last):
            return
        arguments: list[str] = []
        for key, noted in self._pending.items():
            for operation, value, start in noted:
                arguments += [operation, str(key), _text(value), _text(start)]
        self._due = now + _SECONDS
        try:
            self._session.connection.once(_ADD, (self._session.settings.stats_key,), *arguments)
        except StoreError as error:
            self._due = now + _AWAY_SECONDS
            _log.warning("the stats of this process wait: %s", error)
        else:
            self._pending.clear()


def _text(value: Any) -> str:
    return str(value.timestamp() if isinstance(value, datetime) else value)
