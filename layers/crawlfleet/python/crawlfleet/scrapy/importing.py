"""Import what scrapy-redis has left: as requests of a biz, or of a crawl (SPEC.md H10)."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from crawlfleet.crawling.executors import scrapy_wire
from crawlfleet.requests.models import SCRAPY_META
from crawlfleet.scrapy.fingerprints import MARK_BYTES
from crawlfleet.scrapy.redis import Marks, Pushed, RedisCrawl
from crawlfleet.scrapy.redis_source import Asked, RedisSource, Start, Unread
from crawlfleet.scrapy.spiders import RedisMixin

#: Requests that are queued at once.
TOGETHER: Final = 500
#: What an entry of the API has fields for.
_OF_THE_ENTRY: Final = frozenset({"url", "method", "headers", "body", "cookies", "encoding"})


def entry_of(asked: Asked, spider: str) -> dict[str, Any]:
    """Convert a request into an entry of the API; the executor ``scrapy`` reads its ``meta``.

    Its client id follows from spider and fingerprint, so that it is stored once. Raises
    NotPortableError (names what an entry cannot hold).
    """
    fields = asked.fields
    entry: dict[str, Any] = {"url": fields["url"], "method": str(fields.get("method", "GET"))}
    headers = {name: ", ".join(values) for name, values in fields.get("headers", ())}
    cookies = scrapy_wire.plain_value(fields.get("cookies", {}))
    if cookies:
        pairs = cookies.items() if isinstance(cookies, dict) else map(_pair, cookies)
        headers.setdefault("Cookie", "; ".join(f"{_text(k)}={_text(v)}" for k, v in pairs))
    if headers:
        entry["headers"] = headers
    if body := scrapy_wire.body_of(fields):
        try:
            entry["body"] = body.decode()
        except UnicodeDecodeError as error:
            why = "is no text, and an entry has nothing else"
            raise scrapy_wire.NotPortableError("body", why) from error
    kept = {name: value for name, value in fields.items() if name not in _OF_THE_ENTRY}
    if kept:
        entry["meta"] = {SCRAPY_META: json.dumps(kept, separators=(",", ":"))}
    own = asked.digest if asked.dont_filter else asked.fingerprint
    entry["client_id"] = _client_id(spider, own)
    return entry


def entry_of_start(start: Start, spider: str) -> dict[str, Any]:
    """Convert a start URL into an entry of the API; raises as :func:`entry_of`."""
    try:
        request: Any = RedisMixin().make_request_from_data(start.data)
        fields = scrapy_wire.fields_of_dict(request.to_dict())
    except (ValueError, AttributeError, TypeError) as error:
        raise scrapy_wire.NotPortableError("start URL", str(error)) from error
    # Its origin is of no use to whoever reads the page.
    fields.pop("dont_filter", None)
    fields.pop("_class", None)
    asked = Asked(fields=fields, priority=0, dont_filter=True, digest=start.digest, fingerprint=b"")
    return entry_of(asked, spider)


def pushed_of(asked: Asked) -> Pushed:
    """Convert a request for our scheduler, marked so that a second import leaves it alone."""
    return Pushed(
        content=json.dumps(asked.fields, separators=(",", ":")).encode(),
        marks=Marks.STARTS if asked.dont_filter else Marks.SEEN,
        mark=(asked.digest if asked.dont_filter else asked.fingerprint)[:MARK_BYTES],
        priority=asked.priority,
    )


def pushed_of_start(start: Start) -> Pushed:
    """Convert a start URL for our scheduler."""
    mark = start.digest[:MARK_BYTES]
    return Pushed(content=start.data, marks=Marks.STARTS, mark=mark, start=True)


def queue_all(crawl: RedisCrawl, pushed: Iterable[Pushed]) -> Iterator[tuple[int, int]]:
    """Queue requests in batches; yield of each how many were new, and its size."""
    left = iter(pushed)
    while part := list(islice(left, TOGETHER)):
        yield sum(crawl.push(part)), len(part)


def learn_all(crawl: RedisCrawl, source: RedisSource) -> Iterator[int]:
    """Take over the fingerprints in batches; yield the size of each."""
    for marks in source.fingerprints():
        crawl.learn(marks)
        yield len(marks)


def readable(found: Iterable[Asked | Unread]) -> Iterator[Asked]:
    """Select the requests that could be read."""
    return (each for each in found if isinstance(each, Asked))


def _client_id(spider: str, own: bytes) -> str:
    digest = hashlib.sha1(spider.encode() + b"\0" + own, usedforsecurity=False).hexdigest()
    return f"scrapy-redis:{digest}"


def _pair(cookie: Any) -> tuple[Any, Any]:
    try:
        return cookie["name"], cookie["value"]
    except (TypeError, LookupError) as error:
        raise scrapy_wire.NotPortableError("cookies", "are none") from error


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
