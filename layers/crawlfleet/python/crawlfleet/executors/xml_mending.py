"""XML with bare ampersands, as many write the URLs of a sitemap or a feed: mended as it streams."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Final

_CDATA: Final = b"<![CDATA["
_CDATA_END: Final = b"]]>"
_XML_ENTITIES: Final = frozenset({b"amp", b"lt", b"gt", b"quot", b"apos"})
#: An ampersand, with what makes it a character by its number, or an entity by its name.
_AMPERSAND: Final = re.compile(
    rb"&(?:(#[0-9]{1,7};|#x[0-9A-Fa-f]{1,6};)|([A-Za-z][A-Za-z0-9]{1,31});)?"
)
_LONGEST_ENTITY: Final = 34
#: Ampersands of a document that are looked at; what follows stays as it is. They take a second.
AMPERSANDS_MAX: Final = 2_000_000


def mended(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same document with bare ampersands as what they mean, HTML's entities as characters.

    What is well-formed stays as it is. An encoding in which a byte may be half of a character is
    not touched at all.

    >>> b"".join(mended(iter([b"<a>x?a=1&b", b"=2&amp;c&eac", b"ute;<![CDATA[&]]></a>"])))
    b'<a>x?a=1&amp;b=2&amp;c&#233;<![CDATA[&]]></a>'
    """
    mender, first = _Mender(), True
    for chunk in chunks:
        if (first and _is_wide(chunk)) or b"\x1b" in chunk:  # what shifts begins with an escape
            yield mender.rest + chunk
            yield from chunks
            return
        first = False
        if ready := mender.step(chunk):
            yield ready
    if mender.rest:
        yield mender.end()


def _is_wide(start: bytes) -> bool:
    """Whether it is UTF-16 or UTF-32."""
    return b"\x00" in start[:4] or start.startswith((b"\xff\xfe", b"\xfe\xff"))


class _Mender:
    """Follows a document, and keeps what is cut in two till the other half is there."""

    def __init__(self) -> None:
        self.rest = b""
        self._inside = False
        self._left = AMPERSANDS_MAX

    def step(self, chunk: bytes) -> bytes:
        """What is ready once the chunk is there too."""
        data, ready, at = self.rest + chunk, [], 0
        while True:
            mark = _CDATA_END if self._inside else _CDATA
            found = data.find(mark, at)
            if found < 0:
                break
            ready.append(self._mend(data[at:found]) + mark)
            at, self._inside = found + len(mark), not self._inside
        cut = max(at, len(data) - len(_CDATA_END) + 1) if self._inside else _whole(data, at)
        ready.append(self._mend(data[at:cut]))
        self.rest = data[cut:]
        return b"".join(ready)

    def end(self) -> bytes:
        """What was kept, as there is no other half."""
        return self._mend(self.rest)

    def _mend(self, part: bytes) -> bytes:
        if self._inside or not self._left or b"&" not in part:
            return part
        text, count = _AMPERSAND.subn(_meant, part, count=self._left)
        self._left -= count
        return text


def _whole(data: bytes, at: int) -> int:
    """Up to where nothing is cut in two: an entity or the beginning of CDATA may go on."""
    cut = len(data)
    ampersand = data.rfind(b"&", max(at, cut - _LONGEST_ENTITY))
    bracket = data.rfind(b"<", max(at, cut - len(_CDATA)))
    if bracket >= 0 and _CDATA.startswith(data[bracket:]):
        cut = bracket
    if ampersand >= 0 and b";" not in data[ampersand:]:
        cut = min(cut, ampersand)
    return cut


def _meant(found: re.Match[bytes]) -> bytes:
    if found[1] or found[2] in _XML_ENTITIES:
        return found[0]
    character = html5.get(f"{found[2].decode('ascii')};") if found[2] else None
    if character:
        return b"".join(b"&#%d;" % ord(each) for each in character)
    return b"&amp;" + found[0][1:]
