"""Repair XML that libxml2 refuses: text before the root, bare ``&`` and ``<``, tags that cross.

libxml2 recovers by leaving out: of ``<r><a>1</b></a><a>2</a></r>`` it keeps the first ``a``, and of
a page that begins with text nothing. BeautifulSoup's forgiving parser reads all of it; what it has
read is written as XML, for libxml2 to parse once more, so that rules see one kind of tree. That
takes many times as long, so only broken pages of a bounded size take this way, and only they have
this module imported.
"""

import re
from functools import partial
from html import escape
from html.entities import html5
from typing import Any, Final

from bs4 import BeautifulSoup, Tag
from bs4.builder._htmlparser import BeautifulSoupHTMLParser, HTMLParserTreeBuilder
from bs4.dammit import EntitySubstitution
from bs4.exceptions import ParserRejectedMarkup
from bs4.formatter import XMLFormatter

_NAME: Final = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?\Z")
_WRITTEN: Final = re.compile(r"</?([^\s/>]+)")
#: What no XML may hold, however it is written.
_NO_TEXT: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: What begins with ``<`` and ends: a CDATA section, what is left out, or a tag, whose values may
#: have ``<`` and ``>`` in them where they are not long. Nothing here goes through a page twice.
_MARKUP: Final = re.compile(
    r"<(?:!\[CDATA\[(?P<text>.*?)\]\]>|!--.*?-->|[!?][^<>]*+>"
    r"|(?P<tag>/?[^\W\d](?:[^<>\"']++|\"[^\"]{0,1000}+\"|'[^']{0,1000}+')*+>|/?[^\W\d][^<>]*+>))?",
    re.DOTALL,
)
#: As XML has references: without the semicolon they are text, as in a link's ``?a=1&copy=2``.
_AND: Final = re.compile(r"&(?:(#\d{1,7}|#[xX][\da-fA-F]{1,6}|\w{1,32});)?")
#: Markup that would be looked for from each beginning, up to the end of the page, in vain.
_ENDLESS: Final = (("<![CDATA[", "]]>"), ("<!--", "-->"))
#: The root of a page that has none, or several that are alike.
_AROUND: Final = "repaired"
_FORMAT: Final = XMLFormatter(entity_substitution=EntitySubstitution.substitute_xml)


class _Parser(BeautifulSoupHTMLParser):
    """Read tags as XML has them: capitals count, and no name stands for an empty element."""

    def __init__(self, written: list[tuple[Tag, str]], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._written_names = written

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]], handle_empty_element: bool = True
    ) -> None:
        markup = self.get_starttag_text() or ""
        lower, at = markup.lower(), 0
        named: list[tuple[str, str | None]] = []
        for key, value in attrs:
            # Few letters have another length when small; with one the names stay as they were read.
            found = lower.find(key, at) if len(lower) == len(markup) else -1
            written = key if found < 0 else markup[found : found + len(key)]
            at = max(at, found + len(key))
            if _NAME.match(written):
                named.append((written, value))
        super().handle_starttag(tag, named, handle_empty_element)
        name = _WRITTEN.match(markup)
        if self.soup.currentTag is not None and name is not None:
            self._written_names.append((self.soup.currentTag, name[1]))

    def set_cdata_mode(self, elem: str, **_: Any) -> None:
        """Read tags in a <script> or <style> as anywhere."""


class _Builder(HTMLParserTreeBuilder):
    """Build a tree of any names."""

    def __init__(self) -> None:
        super().__init__(multi_valued_attributes=None, store_line_numbers=False)
        # Instead of HTML's names: a feed's <link> has a text, its <style> and <script> tags.
        self.empty_element_tags = set()
        self.string_containers = {}

    def feed(self, markup: Any, _parser_class: Any = None) -> None:
        written: list[tuple[Tag, str]] = []
        super().feed(markup, partial(_Parser, written))  # type: ignore[arg-type]  # makes one
        for tag, name in written:
            tag.name = name


def _only_tags(text: str) -> str:
    """Leave tags as the only markup, and only those that end.

    The forgiving parser takes time by the square of what begins and never ends.
    """
    for begin, end in _ENDLESS:
        last = text.rfind(end) + 1
        text = text[:last] + text[last:].replace(begin, escape(begin))
    return _AND.sub(_meant, _MARKUP.sub(_plain, text))


def _meant(found: re.Match[str]) -> str:
    """Return a character as it is referred to; of what refers to none the text."""
    name = found[1]
    is_one = name is not None and (name.startswith("#") or f"{name};" in html5)
    return found[0] if is_one else f"&amp;{found[0][1:]}"


def _plain(found: re.Match[str]) -> str:
    markup = found[0]
    if found["tag"] is not None:
        name = _WRITTEN.match(markup)
        return markup if name is not None and _NAME.match(name[1]) else escape(markup)
    if found["text"] is not None:
        return escape(found["text"])
    return escape(markup) if len(markup) == 1 else ""


def repaired_xml(text: str) -> bytes | None:
    """Write a page's elements as XML that is well-formed; None where there are none.

    Of several roots the one with most elements is the page's, unless they are all alike.

    >>> repaired_xml("Notice: x <r><a n=1>A & B</a><a>2</b></a></r>")
    b'<r><a n="1">A &amp; B</a><a>2</a></r>'
    >>> repaired_xml("<a>1</a><a>2</a>")
    b'<repaired><a>1</a><a>2</a></repaired>'
    """
    # What a server wrote before the page is none of it.
    text = _only_tags(_NO_TEXT.sub("", text[max(0, text.find("<?xml")) :]))
    try:
        soup = BeautifulSoup(text, builder=_Builder())
    except (ParserRejectedMarkup, RecursionError):
        return None
    roots = [node for node in soup.contents if isinstance(node, Tag)]
    if not roots:
        return None
    if len(roots) > 1 and len({root.name for root in roots}) == 1:
        inside = "".join(root.decode(formatter=_FORMAT) for root in roots)
        return f"<{_AROUND}>{inside}</{_AROUND}>".encode()
    root = max(roots, key=lambda one: len(one.find_all(name=True)))
    return root.decode(formatter=_FORMAT).encode()
