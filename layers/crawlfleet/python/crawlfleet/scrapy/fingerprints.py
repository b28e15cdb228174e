"""How the fingerprints were made that an import has brought.

Set one of these as ``REQUEST_FINGERPRINTER_CLASS`` to go on with it; an imported crawl does so by
itself, because Redis says of which make its fingerprints are.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from w3lib.url import canonicalize_url

if TYPE_CHECKING:
    from scrapy import Request

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


def scrapys_own(request: "Request") -> bytes:
    """Those of Scrapy since 2.7, unless a project has its own."""
    from scrapy.utils.request import fingerprint

    return fingerprint(request)


#: By the names under which Redis says of which make a crawl's fingerprints are.
MAKES: Final[Mapping[str, Callable[["Request"], bytes]]] = {
    "scrapy-redis": ScrapyRedisFingerprinter().fingerprint,
    "scrapy-2.6": Legacy26Fingerprinter().fingerprint,
    "scrapy": scrapys_own,
}
