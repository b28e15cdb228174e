"""Feeds made harmless before feedparser sees them.

feedparser reads anything, but parts of it take quadratic time on texts that are made for it. So
libxml2 reads the feed first, within its bounds, and mends what is not well-formed. Texts that
have too much markup to be cleaned of it lose what makes it some.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from crawlfleet.errors import ExtractError
from crawlfleet.executors.base import Context
from crawlfleet.executors.bodies import open_text
from crawlfleet.executors.xml_mending import mended
from crawlfleet.page import Page

if TYPE_CHECKING:
    from lxml.etree import _Element

#: Characters, elements and entries of a feed.
FEED_CHARACTERS_MAX: Final = 10_000_000
ELEMENTS_MAX: Final = 100_000
ENTRIES_MAX: Final = 5_000
#: Elements of one name in an entry, those of markup aside: feedparser compares each with all.
_ALIKE_MAX: Final = 300
#: What may be cleaned of markup: characters of one text; tags and references, and declarations
#: (which may have no end), of one text and of all together.
_TEXT_CHARACTERS: Final = 500_000
_TEXT_TAGS: Final = 5_000
_TEXT_DECLARATIONS: Final = 200
_ALL_TAGS: Final = 100_000
_ALL_DECLARATIONS: Final = 2_000
#: What is written as base64 is decoded out of sight of the bounds above.
_ENCODED_CHARACTERS: Final = 20_000

_NO_MARKUP: Final = str.maketrans("<>&", "   ")
_MARKUP_NAMES: Final = frozenset(
    ("a", "abbr", "b", "blockquote", "br", "caption", "cite", "code", "dd", "del", "div", "dl",
     "dt", "em", "figcaption", "figure", "font", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i",
     "img", "ins", "kbd", "li", "ol", "p", "pre", "q", "s", "small", "span", "strong", "sub",
     "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul")
)  # fmt: skip
_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]{0,500}\?>")
_ENCODING: Final = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def harmless(page: Page, context: Context) -> bytes:
    """The feed as UTF-8, well-formed, without a document type, not too deep and not too large.

    Raises:
        ExtractError: it is no XML at all, or beyond a bound.
    """
    from lxml import etree

    from crawlfleet.executors.xml_stream import refuse_entities

    text = _text(page)
    if not text.strip():
        raise ExtractError("page", "is empty")
    try:
        root = _tree(text, recover=False)
    except etree.LxmlError:
        context.tick()
        try:
            root = _tree(_mended(text), recover=True)
        except etree.LxmlError as error:
            raise ExtractError("page", f"no XML: {error}") from error
    if root is None:
        raise ExtractError("page", "no XML: it holds no element")
    refuse_entities(root)
    _Guard().look_at(root)
    context.tick()
    return etree.tostring(root, encoding="utf-8", xml_declaration=True, with_tail=False)


def _text(page: Page) -> str:
    declared = _ENCODING.search(page.body[:500])
    encoding = declared[1].decode("ascii", "replace") if declared else None
    text = open_text(page, encoding).read(FEED_CHARACTERS_MAX + 1)
    if len(text) > FEED_CHARACTERS_MAX:
        raise ExtractError("page", f"is longer than {FEED_CHARACTERS_MAX:,} characters")
    return _DECLARATION.sub("", text, count=1)


def _tree(text: str, *, recover: bool) -> _Element | None:
    from lxml import etree

    parser = etree.XMLParser(
        encoding="utf-8",
        recover=recover,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    root: _Element | None = etree.fromstring(text.strip().encode("utf-8", "replace"), parser)
    return root


def _mended(text: str) -> str:
    """HTML's entities and bare ampersands as what they mean, no forbidden characters."""
    plain = _NO_XML.sub("", text).encode("utf-8", "replace")
    return b"".join(mended(iter([plain]))).decode()


class _Guard:
    """Looks at every text of a feed, as feedparser will have it before it cleans it."""

    def __init__(self) -> None:
        self._tags = 0
        self._declarations = 0

    def look_at(self, root: _Element) -> None:
        """Take away what is too much.

        Raises:
            ExtractError: there are too many elements or entries.
        """
        entries = 0
        alike: Counter[str] = Counter()
        for count, element in enumerate(root.iter("*")):
            if count > ELEMENTS_MAX:
                raise ExtractError("page", f"has more than {ELEMENTS_MAX:,} elements")
            name = str(element.tag).rpartition("}")[2].lower()
            if name in ("item", "entry"):
                alike.clear()
                entries += 1
            elif name not in _MARKUP_NAMES:
                alike[name] += 1
            if entries > ENTRIES_MAX:
                raise ExtractError("page", f"has more than {ENTRIES_MAX:,} entries")
            if alike[name] > _ALIKE_MAX:
                raise ExtractError(
                    f"entry {entries}", f"has more than {_ALIKE_MAX} of {name[:60]!r}"
                )
            text = element.text
            if not text:
                continue
            if len(text) > _ENCODED_CHARACTERS and _is_encoded(element):
                element.text = None
            elif self._is_too_much(text):
                element.text = text[:_TEXT_CHARACTERS].translate(_NO_MARKUP)

    def _is_too_much(self, text: str) -> bool:
        tags, declarations = text.count("<") + text.count("&"), text.count("<!")
        if not tags:
            return False
        if len(text) > _TEXT_CHARACTERS or tags > _TEXT_TAGS or declarations > _TEXT_DECLARATIONS:
            return True
        self._tags += tags
        self._declarations += declarations
        return self._tags > _ALL_TAGS or self._declarations > _ALL_DECLARATIONS


def _is_encoded(element: _Element) -> bool:
    """Whether feedparser will take the text for base64."""
    kind = str(element.get("type") or "").lower()
    if str(element.get("mode") or "").lower() == "base64":
        return True
    return "/" in kind and not kind.startswith("text/") and not kind.endswith(("+xml", "/xml"))
