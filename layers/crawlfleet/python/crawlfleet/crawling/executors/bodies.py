"""Read bodies as streams: unpacked within bounds as they are read, text with its encoding found.

A file may come packed (``.csv.gz``), whatever the transfer did; it is known by its first bytes.
"""

from __future__ import annotations

import codecs
import io
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from crawlfleet.crawling.executors.base import UNPACKED_BYTES_MAX
from crawlfleet.crawling.extract.encoding import CHARSET, MARKS
from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.page import Page

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STEP: Final = 65_536  #: Bytes that are unpacked, decoded or parsed in one go.

_GZIP: Final = b"\x1f\x8b"
#: Encodings that web pages mean by these names (WHATWG Encoding Standard).
_MEANT: Final = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
#: No encodings of text, or ones that read escapes.
_REFUSED: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"}
)


def open_body(page: Page) -> BinaryIO:
    """Open the body, unpacked where it is gzip; reading raises ExtractError beyond the bound."""
    if page.body.startswith(_GZIP):
        return io.BufferedReader(_Gunzip(page.body), STEP)
    return io.BytesIO(page.body)


def chunks_of(page: Page) -> Iterator[bytes]:
    """Read the body in steps."""
    stream = open_body(page)
    while chunk := stream.read(STEP):
        yield chunk


def codec_of(label: str) -> str | None:
    """Return Python's name of an encoding of text, or None.

    >>> codec_of("ISO-8859-1"), codec_of("utf8"), codec_of("zlib"), codec_of("x-none")
    ('cp1252', 'utf-8', None, None)
    """
    try:
        codec = codecs.lookup(label)
        "".encode(codec.name)  # refuses what turns bytes into bytes
    except (LookupError, ValueError, UnicodeError):
        return None
    return None if codec.name in _REFUSED else _MEANT.get(codec.name, codec.name)


def open_text(page: Page, encoding: str | None = None) -> io.TextIOWrapper:
    """Open the body as text with its line ends kept; what cannot be decoded becomes U+FFFD.

    A byte order mark says the encoding, then the parameter, then the header. Without any of these
    it is UTF-16 where every other byte is zero, UTF-8 where the beginning is, or Windows-1252.
    """
    stream = open_body(page)
    start = stream.read(STEP)
    name, mark = _encoding_of(start, page.content_type, encoding)
    stream = io.BufferedReader(_Again(start[mark:], stream), STEP)
    return io.TextIOWrapper(stream, encoding=name, errors="replace", newline="")


def _encoding_of(start: bytes, content_type: str, encoding: str | None) -> tuple[str, int]:
    for mark, name in MARKS:
        if start.startswith(mark):
            return name, len(mark)
    header = CHARSET.search(content_type)
    for label in (encoding, header[1] if header else None):
        if label is not None and (codec := codec_of(label)) is not None:
            return codec, 0
    head = start[:1000]
    for odd, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 3 and head[odd::2].count(0) > 0.9 * len(head[odd::2]):
            return name, 0
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) < STEP)
    except UnicodeDecodeError:
        return "cp1252", 0
    return "utf-8", 0


class _Raw(io.RawIOBase):
    """A stream of what :meth:`some` gives."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        into = memoryview(buffer).cast("B")
        out = self.some(len(into))
        into[: len(out)] = out
        return len(out)

    @abstractmethod
    def some(self, most: int) -> bytes:
        """Return the next bytes, ``most`` at most; none at the end."""


class _Gunzip(_Raw):
    """Gzip of one member or several, as a stream."""

    def __init__(self, packed: bytes) -> None:
        self._packed = memoryview(packed)
        self._at = 0
        self._given = 0
        self._ended = False
        self._inflate = zlib.decompressobj(wbits=31)

    def some(self, most: int) -> bytes:
        try:
            out = self._inflated(most)
        except zlib.error as error:
            raise ExtractError("page", f"broken gzip: {error}") from error
        self._given += len(out)
        if self._given > UNPACKED_BYTES_MAX:
            raise ExtractError("page", f"unpacks to more than {UNPACKED_BYTES_MAX:,} bytes")
        return out

    def _inflated(self, most: int) -> bytes:
        while not self._ended:
            if self._inflate.eof:
                self._at -= len(self._inflate.unused_data)
                if bytes(self._packed[self._at : self._at + 2]) != _GZIP:
                    self._ended = True  # what follows the last member is padding
                    break
                self._inflate = zlib.decompressobj(wbits=31)
            tail = self._inflate.unconsumed_tail
            if not tail:
                tail = bytes(self._packed[self._at : self._at + STEP])
                self._at += len(tail)
            out = self._inflate.decompress(tail, most)
            if out:
                return out
            if not tail and not self._inflate.eof:
                raise zlib.error("it ends too early")
        return b""


class _Again(_Raw):
    """A stream whose beginning was read already."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start = start
        self._rest = rest

    def some(self, most: int) -> bytes:
        out = self._start[:most] or self._rest.read(most)
        self._start = self._start[most:]
        return out
