"""``xml``: a file of many records, streamed (catalogues, exports, product feeds).

:func:`elements` gives the elements of a document one after the other, never holding it whole;
:func:`mended` repairs bare ampersands as it streams, as many write them into the URLs of a sitemap
or a feed. Nothing is trusted: no entities, no network, no huge trees (libxml2 then bounds depth and
text), and a document that declares entities is refused.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from html.entities import html5
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from crawlfleet.config.documents.rule import Field, Name, Rule, Selector, Source
from crawlfleet.crawling.executors import base
from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters
from crawlfleet.crawling.executors.bodies import STEP, chunks_of, codec_of
from crawlfleet.crawling.executors.page import LinkField, with_links
from crawlfleet.crawling.executors.runner import BadRecords, Chunks, Piece
from crawlfleet.crawling.extract.encoding import CHARSET
from crawlfleet.crawling.extract.limits import XML_OPTIONS
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import Words

if TYPE_CHECKING:
    from lxml.etree import XMLPullParser, _Element

_STEP: Final = r"[^\W\d][\w.-]*"
#: Each record takes along the namespaces that are declared around it.
_NAMESPACES_MAX: Final = 100
_SMALL_BYTES: Final = 2_000
#: ``catalog/product``, from the root; ``//product``, anywhere.
ElementPath = Annotated[
    str,
    Meta(max_length=500, pattern=rf"^(?://{_STEP}|/?{_STEP})(?:/(?:{_STEP}|\*))*\Z"),
    Words("a path of names, such as catalog/product or //product"),
]


class XmlParameters(Parameters, frozen=True, kw_only=True):
    """``records`` is the path to the element of each record, by local names and ``*``.

    It starts at the root (``catalog/product``), or with ``//`` anywhere. ``fields`` are as in a
    rule of ``source: xml``: by XPath from the record's element (``name``, ``price/@currency``),
    whatever the namespaces. ``bad_records`` says what becomes of those that cannot be read.
    """

    records: ElementPath
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]
    bad_records: BadRecords = BadRecords.FAIL
    link: LinkField | None = None

    def rule(self) -> Rule:
        """Make the rule that reads the elements, some at a time."""
        return Rule(source=Source.XML, items=Selector(xpath="/*/*"), fields=self.fields)


class XmlFile(Executor[XmlParameters]):
    """A record of each element at a path."""

    name = "xml"
    Parameters = XmlParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the records in the document's order."""
        rule, bad = self.parameters.rule(), self.parameters.bad_records
        chunks = Chunks(
            self.rules, rule, lambda pieces: b"<records>" + b"".join(pieces) + b"</records>", bad
        )
        found = chunks.read(self._pieces(page, context), page, context)
        yield from with_links(found, self.parameters.link, context)

    def _pieces(self, page: Page, context: Context) -> Iterator[Piece]:
        from lxml import etree

        path = _compiled(self.parameters.records)

        def wanted(names: list[str]) -> bool:
            return path.fullmatch("/".join(names)) is not None

        for number, element in enumerate(elements(page, wanted, context)):
            written = etree.tostring(element, encoding="utf-8", with_tail=False)
            if len(written) > _SMALL_BYTES and len(element.nsmap) > _NAMESPACES_MAX:
                raise ExtractError(f"records[{number}]", f"has over {_NAMESPACES_MAX} namespaces")
            yield Piece(f"records[{number}]", written)

    @classmethod
    def problems(cls, parameters: XmlParameters) -> Iterable[Problem]:
        """Check that the field to follow is one of the fields."""
        return parameters.link.problems(parameters.fields) if parameters.link else ()

    @classmethod
    def used_rules(cls, parameters: XmlParameters) -> Iterable[base.UsedRule]:
        """List the rule that reads the elements."""
        return (base.UsedRule(parameters.rule()),)

    @classmethod
    def fields(cls, parameters: XmlParameters) -> Iterable[str]:
        """Name the rule's fields."""
        return parameters.fields


def _compiled(path: str) -> re.Pattern[str]:
    """Compile the path to a pattern of joined names; with nothing but names nothing backtracks.

    >>> bool(_compiled("//product").fullmatch("catalog/books/product"))
    True
    >>> bool(_compiled("catalog/*").fullmatch("catalog/a/b"))
    False
    """
    anywhere = path.startswith("//")
    steps = path.lstrip("/").split("/")
    form = "/".join("[^/]+" if step == "*" else re.escape(step) for step in steps)
    return re.compile(f"(?:.*/)?{form}" if anywhere else form)


_CDATA: Final = b"<![CDATA["
_CDATA_END: Final = b"]]>"
_XML_ENTITIES: Final = frozenset({b"amp", b"lt", b"gt", b"quot", b"apos"})
#: An ampersand, with what makes it a character by its number, or an entity by its name.
_AMPERSAND: Final = re.compile(
    rb"&(?:(#[0-9]{1,7};|#x[0-9A-Fa-f]{1,6};)|([A-Za-z][A-Za-z0-9]{1,31});)?"
)
_LONGEST_ENTITY: Final = 34
#: Ampersands of a document that are mended; what follows stays as it is. They take a second.
AMPERSANDS_MAX: Final = 2_000_000


def mended(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Write bare ampersands as what they mean, and HTML's entities as characters.

    What is well-formed stays as it is. An encoding in which a byte may be half of a character is
    not touched at all.

    >>> b"".join(mended(iter([b"<a>x?a=1&b", b"=2&amp;c&eac", b"ute;<![CDATA[&]]></a>"])))
    b'<a>x?a=1&amp;b=2&amp;c&#233;<![CDATA[&]]></a>'
    """
    mender, first = _Mender(), True
    for chunk in chunks:
        wide = first and (b"\x00" in chunk[:4] or chunk.startswith((b"\xff\xfe", b"\xfe\xff")))
        if wide or b"\x1b" in chunk:  # UTF-16 or UTF-32; what shifts begins with an escape
            yield mender.rest + chunk
            yield from chunks
            return
        first = False
        if ready := mender.step(chunk):
            yield ready
    if mender.rest:
        yield mender.end()


class _Mender:
    """Follows a document, and keeps what is cut in two till the other half is there."""

    def __init__(self) -> None:
        self.rest = b""
        self._inside = False
        self._left = AMPERSANDS_MAX

    def step(self, chunk: bytes) -> bytes:
        """Take a chunk; return what is ready then."""
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
        """Return what was kept, as there is no other half."""
        return self._mend(self.rest)

    def _mend(self, part: bytes) -> bytes:
        if self._inside or not self._left or b"&" not in part:
            return part
        text, count = _AMPERSAND.subn(_meant, part, count=self._left)
        self._left -= count
        return text


def _whole(data: bytes, at: int) -> int:
    """Find up to where nothing is cut in two: an entity or the beginning of CDATA may go on."""
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


#: Takes the local names from the root down to an element; tells whether it is wanted.
Wanted = Callable[[list[str]], bool]

_DECLARED: Final = re.compile(
    rb"\A[\s\xef\xbb\xbf]*<\?xml[^>]{0,200}encoding|\A(?:\xff\xfe|\xfe\xff)"
)


def elements(
    page: Page, wanted: Wanted, context: Context, *, mend: bool = False
) -> Iterator[_Element]:
    """Read the wanted elements, each complete, and gone when the next one is asked for.

    Inside of a wanted element no other one is searched. With ``mend`` bare ampersands are read as
    what they mean (:func:`mended`). Raises ExtractError: the document is not well-formed, or built
    to exhaust its reader.
    """
    from lxml import etree

    parser: XMLPullParser | None = None
    reader = _Reader(wanted)
    try:
        for chunk in mended(chunks_of(page)) if mend else chunks_of(page):
            context.tick()
            if parser is None:
                parser = _parser(page, chunk)
                # Before <?xml it is an error, and a frequent one; so is a mark there.
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
    """Return an element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def text_of(element: _Element) -> str:
    """Return the text of an element and all below it, stripped."""
    return "".join(str(part) for part in element.itertext()).strip()


def refuse_entities(root: _Element) -> None:
    """Refuse a document that declares entities; it may name a document type."""
    declared: Any = root.getroottree().docinfo.internalDTD
    if declared is not None and next(iter(declared.iterentities()), None) is not None:
        raise ExtractError("page", "declares entities, which are not read")


def _parser(page: Page, start: bytes) -> XMLPullParser:
    from lxml import etree

    header = CHARSET.search(page.content_type)
    encoding = codec_of(header[1]) if header and not _DECLARED.match(start) else None
    if start.startswith(BOM_UTF8):
        encoding = "utf-8"
    return etree.XMLPullParser(
        events=("start", "end"),
        encoding=encoding,
        remove_comments=True,
        remove_pis=True,
        **XML_OPTIONS,
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
        events: Any = parser.read_events()  # the stubs know of events that are not asked for
        for event, element in events:
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
            if self._elements > base.RECORD_ELEMENTS_MAX:
                message = f"has more than {base.RECORD_ELEMENTS_MAX:,} elements"
                raise ExtractError("/".join(self._names[: self._inside]), message)
        elif self._wanted(self._names):
            self._inside = len(self._names)
            self._elements = self._bytes = 0

    def _grow(self) -> None:
        if self._inside:
            self._bytes += STEP
            if self._bytes > base.RECORD_BYTES_MAX:
                message = f"is larger than {base.RECORD_BYTES_MAX:,} bytes"
                raise ExtractError("/".join(self._names[: self._inside]), message)


def _free(element: _Element) -> None:
    """Free what is below and before an element that has been read."""
    element.clear(keep_tail=True)  # type: ignore[call-arg]  # the stubs are older than it
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]
