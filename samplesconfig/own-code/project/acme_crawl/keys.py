"""A seed-key resolver: the number at the end of an article's URL is the article."""

import re
from hashlib import blake2b
from typing import Any

from crawlfleet.crawling.frontier.fingerprint import KEY_BYTES, seed_key

_NUMBER = re.compile(r"-(\d+)\.html\Z")


def by_article(url: str, rules: Any, *, method: str = "GET", body: bytes | None = None) -> bytes:
    """Return 16 bytes that all URLs of an article share, whatever its title is now."""
    number = _NUMBER.search(url.partition("?")[0])
    if number is None or method != "GET":
        return seed_key(url, rules, method=method, body=body)
    return blake2b(b"article %s" % number[1].encode(), digest_size=KEY_BYTES).digest()
