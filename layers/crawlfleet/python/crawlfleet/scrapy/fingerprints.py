"""How the fingerprints were made that an import has brought.

Set one of these as ``REQUEST_FINGERPRINTER_CLASS`` to go on with it; an imported crawl does so by
itself, because Redis says of which make its fingerprints are.

Which requests were seen: fingerprints in Redis, shared by all processes of a crawl.
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
    """Those of scrapy-redis since 0.8."""

    def fingerprint(self, request: "Request") -> bytes:
        """Twenty bytes."""
        fields = {
            "method": request.method,
            "url": canonicalize_url(request.url),
            "body": request.body.hex(),
        }
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha1(text.encode(), usedforsecurity=False).digest()


class Legacy26Fingerprinter:
    """Those of Scrapy until 2.6, and with it of scrapy-redis until 0.7."""

    def fingerprint(self, request: "Request") -> bytes:
        """Twenty bytes."""
        found = hashlib.sha1(request.method.encode(), usedforsecurity=False)
        found.update(canonicalize_url(request.url).encode())
        found.update(request.body)
        return found.digest()


def scrapy_fingerprint(request: "Request") -> bytes:
    """Those of Scrapy since 2.7, unless a project has its own."""
    from scrapy.utils.request import fingerprint

    return fingerprint(request)


#: By the names under which Redis says of which make a crawl's fingerprints are.
FINGERPRINTERS: Final[Mapping[str, Callable[["Request"], bytes]]] = {
    "scrapy-redis": ScrapyRedisFingerprinter().fingerprint,
    "scrapy-2.6": Legacy26Fingerprinter().fingerprint,
    "scrapy": scrapy_fingerprint,
}

_log = logging.getLogger(__name__)


class DupeFilter(BaseDupeFilter):
    """``DUPEFILTER_CLASS``: an exact set of fingerprints, 16 bytes each.

    With our scheduler a request is marked by the script that queues it, so that it is never marked
    and lost. With another one, :meth:`request_seen` marks it before that scheduler has it.
    """

    def __init__(self, crawler: "Crawler", *, debug: bool = False) -> None:
        self._crawler = crawler
        self._debug = debug
        self._reported = False

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Made by Scrapy."""
        return cls(crawler, debug=crawler.settings.getbool("DUPEFILTER_DEBUG"))

    def mark(self, request: "Request") -> bytes:
        """What the request is known by."""
        make = FINGERPRINTERS.get(self._session.fingerprints)
        found = make(request) if make else self._crawler.request_fingerprinter.fingerprint(request)
        return found[:MARK_BYTES]

    def request_seen(self, request: "Request") -> bool:
        """Mark it; tells whether it was marked before."""
        return self._session.crawl.learn([self.mark(request)]) == 0

    def log(self, request: "Request", spider: "Spider") -> None:
        """Count a request that was filtered; the first one is told, or each in debug."""
        if self._debug or not self._reported:
            more = "" if self._debug else " (no more are told: DUPEFILTER_DEBUG tells all)"
            _log.debug("Filtered duplicate request: %s%s", request, more, extra={"spider": spider})
            self._reported = True
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value("dupefilter/filtered")

    @property
    def _session(self) -> CrawlSession:
        return session_of(self._crawler)
