"""Elements of an XML document one after the other, the document never being in memory whole.

Nothing is trusted: no entities, no network, no huge trees (libxml2 then bounds depth and text), and
a document that declares entities is refused.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.errors import ExtractError
from crawlfleet.executors.base import Context
from crawlfleet.executors.bodies import STEP, chunks_of, codec_of
from crawlfleet.executors.bounds import RECORD_BYTES_MAX, RECORD_ELEMENTS_MAX
from crawlfleet.executors.xml_mending import mended
from crawlfleet.page import Page

if TYPE_CHECKING:
    from lxml.etree import XMLPullParser, _Element

#: Says of the local names from the root down to an element whether it is wanted.
Wanted = Callable[[list[str]], bool]

_DECLARED: Final = re.compile(
    rb"\A[\s\xef\xbb\xbf]*<\?xml[^>]{0,200}encoding|\A(?:\xff\xfe|\xfe\xff)"
)
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.ASCII)


def elements(
    page: Page, wanted: Wanted, context: Context, *, mend: bool = False
) -> Iterator[_Element]:
    """The wanted elements, each complete, and gone when the next one is asked for.

    Inside of a wanted element no other one is looked for. With ``mend`` bare ampersands are read as
    what they mean (xml_mending).

    Raises:
        ExtractError: the document is not well-formed, or built to exhaust its reader.
    """
    from lxml import etree

    parser: XMLPullParser | None = None
    reader = _Reader(wanted)
    try:
        for chunk in mended(chunks_of(page)) if mend else chunks_of(page):
            context.tick()
            if parser is None:
                parser = _parser(page, chunk)
                # Before <?xml it is a mistake, and a frequent one; so is a mark there.
                chunk = chunk.removeprefix(BOM_UTF8).lstrip(b" \t\r\n")  # noqa: PLW2901
            parser.feed(chunk)
            yield from reader.read(parser)
        if parser is None:
            raise ExtractError("page", "is empty")
        parser.close()
        yield from reader.read(parser)
    except etree.LxmlError as error:
        raise ExtractError("page", f"no well-formed XML: {error}") from error


def local_name(element: _Element) -> str:
    """An element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def text_of(element: _Element) -> str:
    """The text of an element and all below it, without white space at its ends."""
    return "".join(str(part) for part in element.itertext()).strip()


def refuse_entities(root: _Element) -> None:
    """A document may name a document type, but nothing in it may stand for something else.

    Raises:
        ExtractError: it declares entities.
    """
    declared: Any = root.getroottree().docinfo.internalDTD
    if declared is not None and next(iter(declared.iterentities()), None) is not None:
        raise ExtractError("page", "declares entities, which are not read")


def _parser(page: Page, start: bytes) -> XMLPullParser:
    from lxml import etree

    header = _CHARSET.search(page.content_type)
    encoding = codec_of(header[1]) if header and not _DECLARED.match(start) else None
    if start.startswith(BOM_UTF8):
        encoding = "utf-8"
    return etree.XMLPullParser(
        events=("start", "end"),
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


class _Reader:
    """Follows the parser's events and frees what has been passed."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._names: list[str] = []
        self._inside = 0
        self._elements = 0
        self._bytes = 0

    def read(self, parser: XMLPullParser) -> Iterator[_Element]:
        self._grow()
        for event, element in _events(parser):
            if event == "start":
                self._open(element)
                continue
            if not self._inside:
                _free(element)
            elif len(self._names) == self._inside:
                yield element
                self._inside = 0
                _free(element)
            self._names.pop()

    def _open(self, element: _Element) -> None:
        if not self._names:
            refuse_entities(element)
        self._names.append(local_name(element))
        if self._inside:
            self._elements += 1
            if self._elements > RECORD_ELEMENTS_MAX:
                message = f"has more than {RECORD_ELEMENTS_MAX:,} elements"
                raise ExtractError("/".join(self._names[: self._inside]), message)
        elif self._wanted(self._names):
            self._inside = len(self._names)
            self._elements = self._bytes = 0

    def _grow(self) -> None:
        if self._inside:
            self._bytes += STEP
            if self._bytes > RECORD_BYTES_MAX:
                message = f"is larger than {RECORD_BYTES_MAX:,} bytes"
                raise ExtractError("/".join(self._names[: self._inside]), message)


def _events(parser: XMLPullParser) -> Iterator[tuple[str, _Element]]:
    events: Any = parser.read_events()  # the stubs know of events that are not asked for
    return iter(events)


def _free(element: _Element) -> None:
    """What is below and before an element that has been read."""
    element.clear(keep_tail=True)  # type: ignore[call-arg]  # the stubs are older than it
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]
