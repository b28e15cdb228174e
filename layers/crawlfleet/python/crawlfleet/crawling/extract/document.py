"""A page as the engines see it: decoded once, parsed once per engine, and only when asked for.

What people see of HTML, by resiliparse: of a whole page its main text, of a piece all of it.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.config.documents.rule import Source, Structured
from crawlfleet.crawling.extract.encoding import decode
from crawlfleet.crawling.extract.html_guard import guard_html
from crawlfleet.crawling.extract.limits import CPU_SECONDS_MAX, Meter, UnreadableError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import MAX_URL_LENGTH

if TYPE_CHECKING:
    from lxml.etree import _Element
    from selectolax.lexbor import LexborHTMLParser

    from crawlfleet.crawling.extract.links import Addresses


_NOFOLLOW: Final = frozenset({"nofollow", "none"})
_ROBOTS: Final = re.compile(rb"<meta[^>]{0,400}robots", re.IGNORECASE)
_DEPTHS: Final = (8, 16, 32, 64, 128, 256, 512, 1024)


class Document:
    """One page while it is read. Not shared between threads."""

    def __init__(self, page: Page, source: Source, cpu_seconds: float = CPU_SECONDS_MAX) -> None:
        self.page = page
        self.source = source
        self.meter = Meter(cpu_seconds)
        self._structured: dict[Structured, list[Any]] = {}

    @cached_property
    def text(self) -> str:
        """The body, decoded."""
        return decode(
            self.page.body, self.page.content_type, declares=self.source in {"html", "xml"}
        )

    @cached_property
    def utf8(self) -> bytes:
        """The body as UTF-8, whatever it came as; most pages are it already, and not copied."""
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
        """The body as UTF-8, fit for a parser of HTML.

        Raises:
            UnreadableError: it is built to exhaust one.
        """
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
        """The page for XPath. HTML deeper than 255 elements ends there.

        Raises:
            UnreadableError: there is no element in it.
        """
        from crawlfleet.crawling.extract.tree import parse_html, parse_xml

        return parse_xml(self.utf8) if self.source == "xml" else parse_html(self.guarded)

    @cached_property
    def json(self) -> Any:
        """The page as JSON.

        Raises:
            UnreadableError: it is none.
        """
        from crawlfleet.crawling.extract.casts import parse_json

        return parse_json(self.utf8)

    def structured(self, kind: Structured) -> list[Any]:
        """What the page says of itself for machines, one kind of it.

        Raises:
            UnreadableError: there is too much of it.
        """
        if kind not in self._structured:
            from crawlfleet.crawling.extract.structured import structured_of

            self._structured[kind] = structured_of(
                kind, self.guarded, self.meter, lambda: self.base
            )
        return self._structured[kind]

    @cached_property
    def main_text(self) -> str:
        """What people read on the page."""
        return main_text_of(self.guarded, self.meter)

    @cached_property
    def base(self) -> str:
        """What links on the page are relative to.

        The page's URL, or the ``href`` of its first ``<base>`` where that leads to http(s).
        """
        url = self.page.url
        if self.source != "html" or b"<base" not in self.utf8.lower():
            return url
        from crawlfleet.crawling.extract.links import join

        node = self.lexbor.css_first("base[href]")
        href = node.attributes.get("href") or "" if node is not None else ""
        # Every link of the page is joined with it, so it is as short as a link may be.
        joined = join(url, href) if 0 < len(href) <= MAX_URL_LENGTH else None
        return joined if joined and joined.startswith(("http://", "https://")) else url

    @cached_property
    def addresses(self) -> Addresses:
        """What makes URLs of the page's links."""
        from crawlfleet.crawling.extract.links import Addresses

        return Addresses(self.base)

    @cached_property
    def nofollow(self) -> bool:
        """Whether the page asks that none of its links is followed."""
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
        """Not fewer than the elements of the page, the implied ones aside."""
        return self.utf8.count(b"<") + 16

    def named(self, name: str) -> int:
        """Not fewer than the elements of that name (or of names that begin with it)."""
        lower, upper = name.lower().encode(), name.upper().encode()
        count = self.utf8.count(lower) + (self.utf8.count(upper) if upper != lower else 0)
        return min(self.nodes, count + 16)

    @cached_property
    def depth(self) -> int:
        """Not less than the depth of the tree that CSS sees."""
        for depth in _DEPTHS:
            if self.lexbor.css_first("*>" * depth + "*") is None:
                return depth
        return min(self.nodes, 5_000)

    @cached_property
    def tree_depth(self) -> int:
        """Not less than the depth of the tree that XPath sees."""
        for depth in _DEPTHS[:5]:
            if not self.tree.xpath("boolean(" + "/*" * (depth + 1) + ")"):
                return depth
        return 256


def _directives(text: str) -> set[str]:
    return {part.strip().lower() for part in text.split(",")}


#: Bytes of a page whose main text is looked for, and what a byte of it costs in units.
MAIN_TEXT_BYTES_MAX: Final = 5_000_000
_BYTE_UNITS: Final = 10
#: What readers wrote below an article is not in it.
_DISCUSSION: Final = ("#comments", ".comments", "#disqus_thread")


def main_text_of(guarded: bytes, meter: Meter) -> str:
    """The article of a guarded page: headings, paragraphs and lists, each on lines of its own.

    Raises:
        UnreadableError: the page is too large.
    """
    size = len(guarded)
    if size > MAIN_TEXT_BYTES_MAX:
        raise UnreadableError(f"main text is read of {MAIN_TEXT_BYTES_MAX:,} bytes at most")
    meter.spend(size * _BYTE_UNITS)
    return _extracted(guarded.decode("utf-8", "replace"), main=True)


def visible_text(markup: str) -> str:
    r"""The text of a piece of HTML without scripts and styles, one line a block.

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
