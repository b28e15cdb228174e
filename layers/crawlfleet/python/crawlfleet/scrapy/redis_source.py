"""Read what scrapy-redis has left in Redis: requests, fingerprints, start URLs (SPEC.md H10).

A request that cannot be read, because it carries more than plain data, is reported with its reason
and left where it is.

A pickle is a program: it names functions and calls them. This reader finds no name but those of
plain containers, so there is nothing to be called. It is the one in Python, not the one in C, whose
memory a few bytes can make grow to gigabytes.
"""

import fnmatch
import hashlib
import io
import json
import pickle
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, cast

import msgspec

from crawlfleet.crawling.executors.scrapy_wire import NotPortableError, body_of, fields_of_dict
from crawlfleet.kernel.redis.connection import RedisConnection, text
from crawlfleet.scrapy.fingerprints import FINGERPRINTERS, MARK_BYTES

#: Bytes of a pickle.
LARGEST: Final = 10_000_000
#: Values that are reached in it, repeats counted again: references can multiply to any number.
MOST_VALUES: Final = 100_000
_DEEPEST: Final = 64


class UnreadablePickleError(ValueError):
    """The content is no pickle of plain data."""


def loads(content: bytes) -> Any:
    """Load a value of None, bool, int, float, str, bytes, list, tuple, dict and sets.

    Raises UnreadablePickleError (it names anything else, or is broken or too large).
    """
    if len(content) > LARGEST:
        raise UnreadablePickleError(f"has {len(content):,} bytes, {LARGEST:,} is the most")
    try:
        value = _Reader(content).load()
    except UnreadablePickleError:
        raise
    except Exception as error:  # a broken one makes the reader stumble over anything
        raise UnreadablePickleError(f"is no pickle: {type(error).__name__}") from error
    _look(value, 0, [MOST_VALUES])
    return value


#: A key may be a tuple of so many values, and such tuples may be in it.
_KEY_VALUES: Final = 8
_KEY_DEPTH: Final = 2


def _look_at_keys(keys: Iterable[Any], depth: int = 0) -> None:
    """Check that keys are hashed in no time: a tuple's parts are hashed at each repeat."""
    for key in keys:
        if isinstance(key, tuple):
            if len(key) > _KEY_VALUES or depth >= _KEY_DEPTH:
                raise UnreadablePickleError("has a key of more parts than keys have")
            _look_at_keys(key, depth + 1)


def _guarded(opcode: bytes, keys: slice) -> tuple[int, Callable[[Any], None]]:
    """Make an operation check its keys, on the stack, before it hashes them."""
    read = _DISPATCH[opcode[0]]

    def look_first(reader: Any) -> None:
        _look_at_keys(reader.stack[keys])
        read(reader)

    return opcode[0], look_first


_DISPATCH: Final[Mapping[int, Callable[[Any], None]]] = pickle._Unpickler.dispatch  # noqa: SLF001  as below
_GUARDED: Final = dict(
    (
        _guarded(pickle.SETITEM, slice(-2, -1)),
        _guarded(pickle.SETITEMS, slice(0, None, 2)),
        _guarded(pickle.DICT, slice(0, None, 2)),
        _guarded(pickle.ADDITEMS, slice(None)),
        _guarded(pickle.FROZENSET, slice(None)),
    )
)


class _Reader(pickle._Unpickler):  # noqa: SLF001  the one in Python, see above
    """A reader that finds no function."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", errors="surrogateescape")

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {**_DISPATCH, **_GUARDED}

    def find_class(self, module: str, name: str) -> Any:
        """Find the few plain kinds, made anew each time: a pickle could change a function."""
        if (module, name) == ("_codecs", "encode"):
            return _encoder()
        if name == "bytes" and module in {"builtins", "__builtin__"}:
            return lambda: b""  # for empty ones: with an argument it would be memory of any size
        if name in _SETS and module in {"builtins", "__builtin__"}:
            return _set_maker(_SETS[name])
        raise UnreadablePickleError(f"asks for {module}.{name}, which is not plain data")

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002  the base class's signature
        """Refuse references out of the pickle."""
        raise UnreadablePickleError("asks for something beside itself")

    def get_extension(self, code: int) -> Any:
        """Refuse names of the registry."""
        raise UnreadablePickleError(f"asks for extension {code}")


def _encoder() -> Callable[..., bytes]:
    """Make the function by which old pickles of Python 3 write bytes."""

    def encode(text: str, encoding: str = "latin1") -> bytes:
        if encoding not in {"latin1", "latin-1"}:
            raise UnreadablePickleError(f"asks for the encoding {encoding!r}")
        return text.encode("latin-1")

    return encode


_SETS: Final[Mapping[str, Callable[[Iterable[Any]], Any]]] = {"set": set, "frozenset": frozenset}


def _set_maker(kind: Callable[[Iterable[Any]], Any]) -> Callable[..., Any]:
    """Make the one for sets."""

    def make(members: Iterable[Any] = ()) -> Any:
        _look_at_keys(members)
        return kind(members)

    return make


def _look(value: Any, depth: int, left: list[int]) -> None:
    """Check that the value is plain, and not too large to be written out."""
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise UnreadablePickleError("holds more values, or deeper ones, than a request has")
    if value is None or isinstance(value, str | bytes | bool | float):
        return
    if isinstance(value, int):
        if value.bit_length() > _DEEPEST * 64:
            raise UnreadablePickleError("holds a number of thousands of digits")
    elif type(value) in {list, tuple, set, frozenset}:
        for each in value:
            _look(each, depth + 1, left)
    elif type(value) is dict:
        for key, each in value.items():
            _look(key, depth + 1, left)
            _look(each, depth + 1, left)
    else:
        raise UnreadablePickleError(f"holds a {type(value).__name__}, which is not plain data")


#: Entries of one look at a key.
_PAGE: Final = 500
#: Requests by which the fingerprinter is found.
_TRIED: Final = 200
#: Bytes of an unreadable entry that are searched for a URL, and characters shown of it.
_SEARCHED_BYTES: Final = 100_000
_URL_SHOWN: Final = 200
_URL: Final = re.compile(rb"https?://[!#-&(-;=?-~]+")
#: Keys that are looked through for those of other spiders.
_LOOKED_THROUGH: Final = 100_000


class SourceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a spider, by default those of scrapy-redis."""

    requests: str
    dupefilter: str
    start_urls: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A queued request. ``fields`` are as our wire has them; ``digest`` is of the entry as it was.

    ``fingerprint`` is by the source's fingerprinter.
    """

    fields: dict[str, Any]
    priority: int
    dont_filter: bool
    digest: bytes
    fingerprint: bytes


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that cannot be read, and why; ``url`` is what looks like one in it, if anything."""

    why: str
    url: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start URL as somebody pushed it."""

    data: bytes
    digest: bytes


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts the entries of each key."""

    requests: int
    fingerprints: int
    start_urls: int


class RedisSource:
    """The keys of one spider."""

    def __init__(self, connection: RedisConnection, keys: SourceKeys) -> None:
        self._redis = connection
        self._keys = keys

    def counts(self) -> Counts:
        """Count the entries. Raises StoreUnavailableError (Redis does not answer)."""
        keys, size = self._keys, self._size
        return Counts(
            requests=size(keys.requests),
            fingerprints=size(keys.dupefilter),
            start_urls=size(keys.start_urls),
        )

    def alike(self, patterns: Iterable[str], most: int) -> list[str]:
        """List other keys that match one of the patterns, among the first of Redis."""
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

    def find_fingerprinter(self) -> str:
        """Find which of :data:`FINGERPRINTERS` has made the fingerprints, by the queued requests.

        Empty where none has.
        """
        hits = dict.fromkeys(FINGERPRINTERS, 0)
        tried = 0
        for raw in self._entries(self._keys.requests):
            fields = _read(raw)
            if isinstance(fields, Unread) or fields.get("dont_filter"):
                continue
            request = _plain_request(fields)
            if request is None:
                continue
            for name, make in FINGERPRINTERS.items():
                hits[name] += self._is_known(make(request).hex())
            tried += 1
            if tried >= _TRIED:
                break
        best = max(hits, key=lambda name: hits[name])
        # Without a request: the present scrapy-redis.
        return "scrapy-redis" if not tried else best if hits[best] else ""

    def requests(self, make: str) -> Iterator[Asked | Unread]:
        """Yield the queued requests, the first to be served first."""
        fingerprint = FINGERPRINTERS[make or "scrapy"]
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
        """Yield the fingerprints as marks, some at a time, without what is no SHA-1."""
        for page in self._set_pages(self._keys.dupefilter):
            found = []
            for member in page:
                try:
                    found.append(bytes.fromhex(member.decode())[:MARK_BYTES])
                except ValueError:
                    continue
            yield [each for each in found if len(each) == MARK_BYTES]

    def start_urls(self) -> Iterator[Start]:
        """Yield the start URLs that no spider has taken yet."""
        for raw in self._entries(self._keys.start_urls):
            yield Start(data=raw, digest=_digest(raw))

    def remove(self, seen: Counts, staying: Container[str] = ()) -> bool:
        """Delete the keys if they have as many entries as were seen; return whether it was done.

        ``staying`` are those of :class:`SourceKeys` that are still needed.
        """
        if self.counts() != seen:
            return False
        for name, key in msgspec.structs.asdict(self._keys).items():
            if name not in staying:
                self._redis.together(("UNLINK", key))  # each by itself: they may be on many nodes
        return True

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
    """Read a queued entry, pickle or JSON, as the fields of our wire."""
    try:
        value = json.loads(raw) if raw[:1] == b"{" else loads(raw)
        if not isinstance(value, Mapping):
            return Unread(why="is no request")
        return fields_of_dict(value)
    except (UnreadablePickleError, NotPortableError) as error:
        return Unread(why=str(error))
    except (ValueError, RecursionError):
        return Unread(why="is neither a pickle nor JSON")


def _url_in(raw: bytes) -> str:
    """Search an unreadable entry for a URL; nothing of it is run."""
    found = _URL.search(raw[:_SEARCHED_BYTES])
    return found[0].decode("ascii")[:_URL_SHOWN] if found else ""


def _plain_request(fields: Mapping[str, Any]) -> Any:
    """Make the request that is fingerprinted, or None where it is none."""
    from scrapy import Request

    try:
        return Request(fields["url"], method=str(fields.get("method", "GET")), body=body_of(fields))
    except (TypeError, ValueError):
        return None


def _digest(raw: bytes) -> bytes:
    return hashlib.sha1(raw, usedforsecurity=False).digest()
