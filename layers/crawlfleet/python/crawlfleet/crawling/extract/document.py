"""A page as the engines see it: decoded once, and parsed once per engine, when first asked for.

Parsers trust nothing. HTML is checked before one sees it for three shapes of markup that cost
quadratic time: the depth of open elements, the attributes of one tag (each new one is compared with
all before) and formatting elements (``<b id=1><b id=2>...`` is built again in every later
paragraph: 50 KB of it fill gigabytes). Counting clears most pages; only the others are walked tag
by tag (``nesting``). XML has no entities, no DTD and no network; broken XML is repaired
(``repair``). Text is extracted by resiliparse.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.config.documents.rule import Source, Structured
from crawlfleet.crawling.extract import casts, encoding, links, nesting
from crawlfleet.crawling.extract.limits import CPU_SECONDS_MAX, XML_OPTIONS, Meter, UnreadableError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import MAX_URL_LENGTH

if TYPE_CHECKING:
    from lxml.etree import HTMLParser, XMLParser, _Element
    from selectolax.lexbor import LexborHTMLParser

_NOFOLLOW: Final = frozenset({"nofollow", "none"})
_ROBOTS: Final = re.compile(rb"<meta[^>]{0,400}robots", re.IGNORECASE)
_DEPTHS: Final = (8, 16, 32, 64, 128, 256, 512, 1024)


class Document:
    """A page while it is read. Not shared between threads."""

    def __init__(self, page: Page, source: Source, cpu_seconds: float = CPU_SECONDS_MAX) -> None:
        self.page = page
        self.source = source
        self.meter = Meter(cpu_seconds)
        self._structured: dict[Structured, list[Any]] = {}

    @cached_property
    def text(self) -> str:
        """The body, decoded."""
        return encoding.decode(
            self.page.body, self.page.content_type, declares=self.source in {"html", "xml"}
        )

    @cached_property
    def utf8(self) -> bytes:
        """The body as UTF-8; most pages are it already, and not copied."""
        body, text = self.page.body, self.text
        if text.isascii() and len(text) == len(body) and body.isascii():
            return body
        try:
            # Decoding is several times as fast as encoding.
            if body.decode() == text:
                return body
        except UnicodeDecodeError:
            pass
        return text.encode("utf-8", "replace")

    @cached_property
    def guarded(self) -> bytes:
        """The body as UTF-8, checked by :func:`guard_html`."""
        guard_html(self.utf8)
        return self.utf8

    @cached_property
    def lexbor(self) -> LexborHTMLParser:
        """The page for CSS."""
        from selectolax.lexbor import LexborHTMLParser, SelectolaxError

        try:
            return LexborHTMLParser(self.guarded)
        except (SelectolaxError, ValueError) as error:
            raise UnreadableError(f"the page cannot be parsed: {error}") from error

    @cached_property
    def tree(self) -> _Element:
        """The page for XPath. HTML deeper than 255 elements ends there."""
        return (
            parse_xml(self.utf8, self.meter) if self.source == "xml" else parse_html(self.guarded)
        )

    @cached_property
    def json(self) -> Any:
        """The page as JSON."""
        return casts.parse_json(self.utf8)

    def structured(self, kind: Structured) -> list[Any]:
        """Return the page's structured data of one kind."""
        if kind not in self._structured:
            from crawlfleet.crawling.extract.structured import structured_of

            self._structured[kind] = structured_of(
                kind, self.guarded, self.meter, lambda: self.base
            )
        return self._structured[kind]

    @cached_property
    def main_text(self) -> str:
        """The text of the page's article: headings, paragraphs and lists, each on own lines."""
        size = len(self.guarded)
        if size > MAIN_TEXT_BYTES_MAX:
            raise UnreadableError(f"main text is read of {MAIN_TEXT_BYTES_MAX:,} bytes at most")
        self.meter.spend(size * _BYTE_UNITS)
        return _extracted(self.guarded.decode("utf-8", "replace"), main=True)

    @cached_property
    def base(self) -> str:
        """The base of relative links: the first ``<base>`` that leads to http(s), or the URL."""
        url = self.page.url
        if self.source != "html" or b"<base" not in self.utf8.lower():
            return url
        node = self.lexbor.css_first("base[href]")
        href = node.attributes.get("href") or "" if node is not None else ""
        # Every link of the page is joined with it, so it is as short as a link may be.
        joined = links.join(url, href) if 0 < len(href) <= MAX_URL_LENGTH else None
        return joined if joined and joined.startswith(("http://", "https://")) else url

    @cached_property
    def addresses(self) -> links.Addresses:
        """The maker of URLs of the page's links."""
        return links.Addresses(self.base)

    @cached_property
    def nofollow(self) -> bool:
        """True where the page asks that none of its links is followed."""
        header = self.page.headers.get("x-robots-tag", "")
        # A header may be for one robot only: "otherbot: nofollow".
        if ":" not in header and _NOFOLLOW & _directives(header):
            return True
        if self.source != "html" or not _ROBOTS.search(self.utf8):
            return False
        return any(
            (node.attributes.get("name") or "").strip().lower() == "robots"
            and bool(_NOFOLLOW & _directives(node.attributes.get("content") or ""))
            for node in self.lexbor.css("meta[name][content]")
        )

    @cached_property
    def nodes(self) -> int:
        """An upper bound of the page's elements, implied ones aside."""
        return self.utf8.count(b"<") + 16

    def named(self, name: str) -> int:
        """Return an upper bound of the elements whose names begin so."""
        lower, upper = name.lower().encode(), name.upper().encode()
        count = self.utf8.count(lower) + (self.utf8.count(upper) if upper != lower else 0)
        return min(self.nodes, count + 16)

    @cached_property
    def depth(self) -> int:
        """An upper bound of the depth of the tree that CSS sees."""
        for depth in _DEPTHS:
            if self.lexbor.css_first("*>" * depth + "*") is None:
                return depth
        return min(self.nodes, 5_000)

    @cached_property
    def tree_depth(self) -> int:
        """An upper bound of the depth of the tree that XPath sees."""
        for depth in _DEPTHS[:5]:
            if not self.tree.xpath("boolean(" + "/*" * (depth + 1) + ")"):
                return depth
        return 256


def _directives(text: str) -> set[str]:
    return {part.strip().lower() for part in text.split(",")}


#: Bytes of a page whose main text is extracted, and what a byte of it costs in units.
MAIN_TEXT_BYTES_MAX: Final = 5_000_000
_BYTE_UNITS: Final = 10
#: What readers wrote below an article is not in it.
_DISCUSSION: Final = ("#comments", ".comments", "#disqus_thread")


def visible_text(markup: str) -> str:
    r"""Extract the text of a piece of HTML without scripts and styles, one line a block.

    >>> visible_text("<p>Nuts &amp; <b>bolts</b><script>x()</script><p>M4")
    'Nuts & bolts\n\nM4'
    """
    if "<" not in markup and "&" not in markup:
        return markup
    guard_html(markup.encode("utf-8", "replace"))
    return _extracted(markup, main=False)


def _extracted(markup: str, *, main: bool) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    try:
        text: str = extract_plain_text(
            markup.encode("utf-8", "replace").decode(),
            main_content=main,
            preserve_formatting=True,
            list_bullets=False,
            alt_texts=False,
            skip_elements=_DISCUSSION if main else None,
        )
    except (ValueError, RuntimeError) as error:
        raise UnreadableError(f"the text cannot be read: {error}") from error
    return text


#: Elements times tags of a page: were each inside of the one before, a parser would take two to
#: four seconds.
_NESTED_MAX: Final = 1_600_000_000
_MANY_TAGS: Final = 40_000  #: With so few tags, of three bytes at least, there are never that many.
_MANY_BYTES: Final = 200_000  #: So many bytes of attributes, of two bytes each, cost it as much.
#: With so few tags a page can be blown up to a million elements at most.
_FEW_TAGS: Final = 2_000
_NAMES: Final = "b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
#: Formatting elements with attributes: of equal ones HTML keeps three.
_FORMATTING: Final = rf"<(?i:{_NAMES})[\s/]"
#: Those that end before another tag begins: they are never built again.
_ENDED: Final = "|".join(
    rf"<{name}(?:\s+[\w:.-]+=\"[^\"<>]*\")+\s*>[^<]*</{name}>" for name in _NAMES.split("|")
)
#: What may be an attribute's value with a ``>`` in it, so that its tag does not end there.
_QUOTED: Final = r"=[\t\n\f\r ]*(?:\"[^\">]*>|'[^'>]*>)"
_QUOTED_MAX: Final = 200  #: More of them are not counted, but walked.


def guard_html(body: bytes) -> None:
    """Refuse a page that is built to exhaust a parser. Raises UnreadableError: it is.

    >>> guard_html(b"<p>hello" * 1000)
    """
    size = len(body)
    if size <= 3 * _FEW_TAGS:
        return
    built_again = len(_expression(_FORMATTING).findall(body))
    # Most pages are let through here, uncounted.
    if size <= 3 * _MANY_TAGS and built_again * _MANY_TAGS <= nesting.REBUILT_MAX:
        return
    tags = body.count(b"<")
    if tags > _FEW_TAGS and built_again * tags > nesting.REBUILT_MAX:
        built_again -= len(_expression(_ENDED).findall(body))
    rebuilds = tags > _FEW_TAGS and built_again * tags > nesting.REBUILT_MAX
    # End tags and line breaks begin no element.
    begun = tags - body.count(b"</") - body.count(b"<br>") if tags > _MANY_TAGS else 0
    if rebuilds or tags * begun > _NESTED_MAX or (size > _MANY_BYTES and _long_tags(body)):
        nesting.walk(body, tags)


def _long_tags(body: bytes) -> bool:
    """Tell whether one tag may have too many attributes.

    Up to the first ``>`` it is no longer than the longest stretch between two of them. It goes on
    to the next one only from within a quoted value, and such values are few on most pages.
    """
    quoted = len(_expression(_QUOTED).findall(body))
    if quoted > _QUOTED_MAX:
        return True
    longest = _MANY_BYTES // (quoted + 1)
    at = 0
    while at + longest < len(body):
        at = body.rfind(b">", at + 1, at + longest)
        if at < 0:
            return True
    return False


@cache
def _expression(pattern: str) -> Any:
    """RE2, which counts several times as fast as Python does."""
    import re2

    return re2.compile(pattern.encode())


_DOCTYPE_END: Final = re.compile(rb"[\[>]")


def parse_html(body: bytes) -> _Element:
    """Parse HTML to its root element; an empty page has one, too."""
    from lxml import etree

    root = _parsed(body, etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False))
    return etree.Element("html") if root is None else root


#: Bytes of broken XML that is repaired, and what a byte of it costs in units; of what is larger
#: stays what libxml2 recovers.
REPAIRED_BYTES_MAX: Final = 250_000
_REPAIR_UNITS: Final = 400


def parse_xml(body: bytes, meter: Meter | None = None) -> _Element:
    """Parse XML to its root element, without its document type and the entities of that.

    Markup that is broken is repaired, at the cost of the ``meter``. Raises UnreadableError: there
    is no element, or entities are declared where none can be.

    >>> parse_xml(b'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///x">]><r>a&e;b</r>').xpath("string()")
    'ab'
    >>> parse_xml(b"Notice: <r><a>A & B</a></b><a>2</a></r>").xpath("string()")
    'A & B2'
    """
    from lxml import etree

    def parser() -> XMLParser:
        return etree.XMLParser(encoding="utf-8", recover=True, **XML_OPTIONS)

    first = parser()
    root = _parsed(_without_doctype(body), first)
    is_broken = root is None or first.error_log.filter_from_fatals()
    # One that declares entities is not broken: they are never read.
    if is_broken and len(body) <= REPAIRED_BYTES_MAX and b"<!ENTITY" not in body:
        from crawlfleet.crawling.extract.repair import repaired_xml

        if meter is not None:
            meter.spend(len(body) * _REPAIR_UNITS)
        repaired = repaired_xml(body.decode("utf-8", "replace"))
        again = None if repaired is None else _parsed(repaired, parser())
        root = root if again is None else again
    if root is None:
        raise UnreadableError("the page holds no element")
    return root


def _parsed(body: bytes, parser: HTMLParser | XMLParser) -> _Element | None:
    from lxml import etree

    if not body:
        return None
    try:
        # lxml gives None where its stubs promise an element.
        root: _Element | None = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError) as error:
        raise UnreadableError(f"the page cannot be parsed: {error}") from error
    return root


def _without_doctype(body: bytes) -> bytes:
    if b"<!ENTITY" not in body:
        return body
    start = body.find(b"<!DOCTYPE")
    mark = _DOCTYPE_END.search(body, start) if start >= 0 else None
    if mark is not None:
        end = body.find(b">", body.find(b"]", mark.end())) if mark[0] == b"[" else mark.start()
        body = body[:start] + body[end + 1 :] if end >= 0 else body[:start]
    if b"<!ENTITY" in body and b"<!DOCTYPE" in body:
        raise UnreadableError("the page declares entities")
    return body
