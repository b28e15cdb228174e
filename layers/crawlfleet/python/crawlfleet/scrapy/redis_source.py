"""What scrapy-redis has left in Redis: requests, fingerprints, start URLs (SPEC.md H10).

Nothing here writes. A request that cannot be read, because what it carries is no plain data, is
told with its reason and left where it is.
"""

import fnmatch
import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from crawlfleet.adapters.redis_queue.connection import RedisConnection, text
from crawlfleet.executors.scrapy_wire import NotPortableError, body_of, fields_of_dict
from crawlfleet.scrapy.fingerprints import MAKES, MARK_BYTES
from crawlfleet.scrapy.unpickling import UnreadablePickleError, loads

#: Entries of one look at a key.
_PAGE: Final = 500
#: Requests by which it is found out how the fingerprints are made.
_TRIED: Final = 200
#: Where a URL is looked for in an entry that cannot be read, and what is shown of it.
_SEARCHED_BYTES: Final = 100_000
_URL_SHOWN: Final = 200
_URL: Final = re.compile(rb"https?://[!#-&(-;=?-~]+")
#: Keys that are looked through for those of other spiders.
_LOOKED_THROUGH: Final = 100_000


class SourceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Where they are, with the names that scrapy-redis gives them unless it is told others."""

    requests: str
    dupefilter: str
    start_urls: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A queued request. ``fields`` are as our wire has them; ``digest`` is of the entry as it was.

    ``fingerprint`` is by the make that the source's are of.
    """

    fields: dict[str, Any]
    priority: int
    dont_filter: bool
    digest: bytes
    fingerprint: bytes


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that cannot be read, and why; ``url`` is what of it looks like one, if anything."""

    why: str
    url: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start URL as somebody pushed it."""

    data: bytes
    digest: bytes


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is."""

    requests: int
    fingerprints: int
    start_urls: int


class RedisSource:
    """The keys of one spider."""

    def __init__(self, connection: RedisConnection, keys: SourceKeys) -> None:
        self._redis = connection
        self._keys = keys

    def counts(self) -> Counts:
        """How much there is now.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        return Counts(
            requests=self._size(self._keys.requests),
            fingerprints=self._size(self._keys.dupefilter),
            start_urls=self._size(self._keys.start_urls),
        )

    def alike(self, patterns: Iterable[str], most: int) -> list[str]:
        """Up to so many other keys that match one of the patterns, among the first of Redis."""
        wanted = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]
        nodes = self._redis.nodes()
        found: list[str] = []
        for _, client in nodes:
            cursor = looked = 0
            while len(found) < most and looked < _LOOKED_THROUGH // len(nodes):
                with self._redis.translated():
                    page: Any = client.scan(cursor, count=_PAGE)
                cursor, keys = int(page[0]), [key.decode("utf-8", "replace") for key in page[1]]
                found += [key for key in keys if any(each.match(key) for each in wanted)]
                looked += _PAGE
                if not cursor:
                    break
        return sorted(found)[:most]

    def make_of_fingerprints(self) -> str:
        """By which of :data:`MAKES` queued requests are found among the fingerprints.

        Empty where none are: then the fingerprints are of a make that nobody knows.
        """
        hits = dict.fromkeys(MAKES, 0)
        tried = 0
        for raw in self._entries(self._keys.requests):
            fields = _read(raw)
            if isinstance(fields, Unread) or fields.get("dont_filter"):
                continue
            request = _plain_request(fields)
            if request is None:
                continue
            for name, make in MAKES.items():
                hits[name] += self._is_known(make(request).hex())
            tried += 1
            if tried >= _TRIED:
                break
        best = max(hits, key=lambda name: hits[name])
        # Without a request to go by: what the present scrapy-redis writes.
        return "scrapy-redis" if not tried else best if hits[best] else ""

    def requests(self, make: str) -> Iterator[Asked | Unread]:
        """The queued requests, first to be served first."""
        fingerprint = MAKES[make or "scrapy"]
        for raw in self._entries(self._keys.requests):
            fields = _read(raw)
            if isinstance(fields, Unread):
                yield Unread(why=fields.why, url=_url_in(raw))
                continue
            request = _plain_request(fields)
            if request is None:
                yield Unread(why="its URL is none", url=str(fields.get("url", ""))[:_URL_SHOWN])
                continue
            priority = fields.get("priority", 0)
            yield Asked(
                fields=fields,
                priority=priority if isinstance(priority, int) else 0,
                dont_filter=bool(fields.get("dont_filter")),
                digest=_digest(raw),
                fingerprint=fingerprint(request),
            )

    def fingerprints(self) -> Iterator[list[bytes]]:
        """What the dupefilter knows, as marks, some at a time; what is no SHA-1 is left out."""
        for page in self._set_pages(self._keys.dupefilter):
            found = []
            for member in page:
                try:
                    found.append(bytes.fromhex(member.decode())[:MARK_BYTES])
                except ValueError:
                    continue
            yield [each for each in found if len(each) == MARK_BYTES]

    def start_urls(self) -> Iterator[Start]:
        """The start URLs that no spider has taken yet."""
        for raw in self._entries(self._keys.start_urls):
            yield Start(data=raw, digest=_digest(raw))

    def remove(self, seen: Counts, staying: Container[str] = ()) -> bool:
        """Delete the keys if they still hold as much as was seen; tells whether it was done.

        ``staying`` are those of :class:`SourceKeys` that are still needed.
        """
        if self.counts() != seen:
            return False
        for name, key in msgspec.structs.asdict(self._keys).items():
            if name not in staying:
                self._redis.together(("UNLINK", key))  # each by itself: they may be on many nodes
        return True

    # ---- kinds of keys ----------------------------------------------------------------------

    def _kind(self, key: str) -> str:
        (kind,) = self._redis.together(("TYPE", key))
        with self._redis.translated():
            return text(kind).decode()

    def _size(self, key: str) -> int:
        command = {"zset": "ZCARD", "list": "LLEN", "set": "SCARD"}.get(self._kind(key))
        if command is None:
            return 0
        (size,) = self._redis.together((command, key))
        return size if isinstance(size, int) else 0

    def _entries(self, key: str) -> Iterator[bytes]:
        kind = self._kind(key)
        if kind == "set":
            for page in self._set_pages(key):
                yield from page
            return
        command = {"zset": "ZRANGE", "list": "LRANGE"}.get(kind)
        first = 0
        while command is not None:
            some: Any = self._redis.together((command, key, first, first + _PAGE - 1))[0]
            if not some:
                return
            yield from some
            first += _PAGE

    def _set_pages(self, key: str) -> Iterator[list[bytes]]:
        if self._kind(key) != "set":
            return
        cursor = 0
        while True:
            (found,) = self._redis.together(("SSCAN", key, cursor, "COUNT", _PAGE))
            with self._redis.translated():
                following, page = cast("tuple[int, list[bytes]]", found)
                cursor = int(following)
            yield page
            if not cursor:
                return

    def _is_known(self, fingerprint: str) -> bool:
        (found,) = self._redis.together(("SISMEMBER", self._keys.dupefilter, fingerprint))
        return bool(found)


def _read(raw: bytes) -> dict[str, Any] | Unread:
    """A queued entry as the fields of our wire; JSON is read where a project has chosen it."""
    try:
        value = json.loads(raw) if raw[:1] == b"{" else loads(raw)
        if not isinstance(value, Mapping):
            return Unread(why="is no request")
        return fields_of_dict(value)
    except UnreadablePickleError as error:
        return Unread(why=str(error))
    except NotPortableError as error:
        return Unread(why=str(error))
    except (ValueError, RecursionError):
        return Unread(why="is neither a pickle nor JSON")


def _url_in(raw: bytes) -> str:
    """What looks like a URL in an entry that is not read: looked for, and nothing is run."""
    found = _URL.search(raw[:_SEARCHED_BYTES])
    return found[0].decode("ascii")[:_URL_SHOWN] if found else ""


def _plain_request(fields: Mapping[str, Any]) -> Any:
    """What fingerprints are made of, or None where that is no request."""
    from scrapy import Request

    try:
        return Request(fields["url"], method=str(fields.get("method", "GET")), body=body_of(fields))
    except (TypeError, ValueError):
        return None


def _digest(raw: bytes) -> bytes:
    return hashlib.sha1(raw, usedforsecurity=False).digest()
