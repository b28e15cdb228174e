"""Which requests were seen: fingerprints in Redis, shared by all processes of a crawl."""

import logging
from typing import TYPE_CHECKING, Self

from scrapy.dupefilters import BaseDupeFilter

from crawlfleet.scrapy.fingerprints import MAKES, MARK_BYTES
from crawlfleet.scrapy.joint import Joint, joint_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

_log = logging.getLogger(__name__)


class DupeFilter(BaseDupeFilter):
    """``DUPEFILTER_CLASS``: an exact set of fingerprints, 16 bytes each.

    With our scheduler a request is marked by the script that queues it, so that it is never marked
    and lost. With another one, :meth:`request_seen` marks it before that scheduler has it.
    """

    def __init__(self, crawler: "Crawler", *, debug: bool = False) -> None:
        self._crawler = crawler
        self._debug = debug
        self._told = False

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Made by Scrapy."""
        return cls(crawler, debug=crawler.settings.getbool("DUPEFILTER_DEBUG"))

    def mark(self, request: "Request") -> bytes:
        """What the request is known by."""
        make = MAKES.get(self._joint.fingerprints)
        found = make(request) if make else self._crawler.request_fingerprinter.fingerprint(request)
        return found[:MARK_BYTES]

    def request_seen(self, request: "Request") -> bool:
        """Mark it; tells whether it was marked before."""
        return self._joint.crawl.learn([self.mark(request)]) == 0

    def log(self, request: "Request", spider: "Spider") -> None:
        """Count a request that was filtered; the first one is told, or each in debug."""
        if self._debug or not self._told:
            more = "" if self._debug else " (no more are told: DUPEFILTER_DEBUG tells all)"
            _log.debug("Filtered duplicate request: %s%s", request, more, extra={"spider": spider})
            self._told = True
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value("dupefilter/filtered")

    @property
    def _joint(self) -> Joint:
        return joint_of(self._crawler)
