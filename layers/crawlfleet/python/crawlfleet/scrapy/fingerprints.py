"""Filter duplicates by fingerprints in Redis, shared by all processes of a crawl.

An imported crawl goes on with the fingerprinter that its fingerprints were made by, whose name is
in Redis. The classes are also for ``REQUEST_FINGERPRINTER_CLASS``.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Self

from scrapy.dupefilters import BaseDupeFilter
from w3lib.url import canonicalize_url

from crawlfleet.scrapy.engine import CrawlSession, session_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

#: Bytes of a mark. Two of 2**32 different pages are taken for one with a probability of 2**-65.
MARK_BYTES: Final = 16


class ScrapyRedisFingerprinter:
    """Makes the fingerprints of scrapy-redis since 0.8."""

    def fingerprint(self, request: "Request") -> bytes:
        """Make a fingerprint of 20 bytes."""
        url, body = canonicalize_url(request.url), request.body.hex()
        text = json.dumps({"method": request.method, "url": url, "body": body}, sort_keys=True)
        return hashlib.sha1(text.encode(), usedforsecurity=False).digest()


class Legacy26Fingerprinter:
    """Makes the fingerprints of Scrapy until 2.6, and of scrapy-redis until 0.7."""

    def fingerprint(self, request: "Request") -> bytes:
        """Make a fingerprint of 20 bytes."""
        found = hashlib.sha1(request.method.encode(), usedforsecurity=False)
        found.update(canonicalize_url(request.url).encode())
        found.update(request.body)
        return found.digest()


def scrapy_fingerprint(request: "Request") -> bytes:
    """Make the fingerprint of Scrapy since 2.7."""
    from scrapy.utils.request import fingerprint

    return fingerprint(request)


#: By their names in Redis.
FINGERPRINTERS: Final[Mapping[str, Callable[["Request"], bytes]]] = {
    "scrapy-redis": ScrapyRedisFingerprinter().fingerprint,
    "scrapy-2.6": Legacy26Fingerprinter().fingerprint,
    "scrapy": scrapy_fingerprint,
}
_log = logging.getLogger(__name__)


class DupeFilter(BaseDupeFilter):
    """``DUPEFILTER_CLASS``: an exact set of fingerprints, 16 bytes each.

    With our scheduler the script that queues a request marks it, so that none is marked and lost.
    With another one, :meth:`request_seen` marks it before that scheduler has it.
    """

    def __init__(self, crawler: "Crawler", *, debug: bool = False) -> None:
        self._crawler = crawler
        self._debug = debug
        self._logged = False

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Make it for a crawler."""
        return cls(crawler, debug=crawler.settings.getbool("DUPEFILTER_DEBUG"))

    def mark(self, request: "Request") -> bytes:
        """Make the mark of a request: the beginning of its fingerprint."""
        make = FINGERPRINTERS.get(self._session.fingerprints)
        found = make(request) if make else self._crawler.request_fingerprinter.fingerprint(request)
        return found[:MARK_BYTES]

    def request_seen(self, request: "Request") -> bool:
        """Mark a request; return whether it was marked before."""
        return self._session.crawl.learn([self.mark(request)]) == 0

    def log(self, request: "Request", spider: "Spider") -> None:
        """Count a request that was filtered; log the first one, or each in debug."""
        if self._debug or not self._logged:
            more = "" if self._debug else " (no more are shown: DUPEFILTER_DEBUG shows all)"
            _log.debug("Filtered duplicate request: %s%s", request, more, extra={"spider": spider})
            self._logged = True
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value("dupefilter/filtered")

    @property
    def _session(self) -> CrawlSession:
        return session_of(self._crawler)
