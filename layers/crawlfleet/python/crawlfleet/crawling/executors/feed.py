"""``feed``: RSS and Atom, by feedparser, made harmless before feedparser sees them.

feedparser reads anything, but parts of it take quadratic time on texts that are made for it. So
libxml2 reads the feed first, within its bounds, and mends what is not well-formed. Texts that
have too much markup to be cleaned of it lose what makes it some.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from time import struct_time
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters, read_date
from crawlfleet.crawling.executors.bodies import open_text
from crawlfleet.crawling.executors.xml import mended, refuse_entities
from crawlfleet.crawling.extract.limits import XML_OPTIONS
from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import RuleName
from crawlfleet.requests.models import Skipped

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
    """Write the feed as well-formed UTF-8 without document type, not too deep and not too large.

    Raises ExtractError: it is no XML at all, or beyond a bound.
    """
    from lxml import etree

    text = _text(page)
    if not text.strip():
        raise ExtractError("page", "is empty")
    try:
        root = _tree(text, recover=False)
    except etree.LxmlError:
        context.tick()
        try:
            # HTML's entities and bare ampersands as what they mean, no forbidden characters.
            plain = _NO_XML.sub("", text).encode("utf-8", "replace")
            root = _tree(b"".join(mended(iter([plain]))).decode(), recover=True)
        except etree.LxmlError as error:
            raise ExtractError("page", f"no XML: {error}") from error
    if root is None:
        raise ExtractError("page", "no XML: it holds no element")
    refuse_entities(root)
    _guard(root)
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
        encoding="utf-8", recover=recover, remove_comments=True, remove_pis=True, **XML_OPTIONS
    )
    root: _Element | None = etree.fromstring(text.strip().encode("utf-8", "replace"), parser)
    return root


def _guard(root: _Element) -> None:
    """Take away markup beyond the bounds, of every text as feedparser will have it to clean.

    Raises ExtractError: there are too many elements or entries.
    """
    entries = all_tags = all_declarations = 0
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
            raise ExtractError(f"entry {entries}", f"has more than {_ALIKE_MAX} of {name[:60]!r}")
        text = element.text or ""
        tags, declarations = text.count("<") + text.count("&"), text.count("<!")
        if len(text) > _ENCODED_CHARACTERS and _is_encoded(element):
            element.text = None
        elif tags:
            large = len(text) > _TEXT_CHARACTERS or tags > _TEXT_TAGS
            if not (large := large or declarations > _TEXT_DECLARATIONS):
                all_tags, all_declarations = all_tags + tags, all_declarations + declarations
                large = all_tags > _ALL_TAGS or all_declarations > _ALL_DECLARATIONS
            if large:
                element.text = text[:_TEXT_CHARACTERS].translate(_NO_MARKUP)


def _is_encoded(element: _Element) -> bool:
    """Tell whether feedparser will take the text for base64."""
    kind = str(element.get("type") or "").lower()
    if str(element.get("mode") or "").lower() == "base64":
        return True
    return "/" in kind and not kind.startswith("text/") and not kind.endswith(("+xml", "/xml"))


_LIST_MAX: Final = 100
#: Dates that feedparser reads as others than they are: seconds since 1970, hours of half a day.
_MISREAD: Final = re.compile(r"\A\s*\d{9,}|\d\s*[AaPp]\.?[Mm]\b", re.ASCII)


class FeedParameters(Parameters, frozen=True, kw_only=True):
    """The parameters of a feed; ``rule`` is the rule or spider that reads each entry's page.

    ``records`` is false where the entries themselves are not wanted.
    """

    rule: RuleName | None = None
    records: bool = True
    max_entries: Annotated[int, Meta(ge=1, le=ENTRIES_MAX)] = ENTRIES_MAX


class Feed(Executor[FeedParameters]):
    """A record of each entry.

    Records have ``id``, ``title``, ``link``, ``published`` and ``updated`` (ISO 8601), ``summary``
    and ``content`` (markup without scripts, styles and the like), ``authors``, ``tags`` and
    ``enclosures`` (links to media).
    """

    name = "feed"
    Parameters = FeedParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the entries in the feed's order."""
        parsed = parsed_feed(page, context)
        for number, entry in enumerate(parsed.entries):
            context.tick()
            if number >= self.parameters.max_entries:
                yield Skipped(f"entry {number}", f"follows {number:,} entries")
                return
            if self.parameters.records:
                yield _record(entry)
            if self.parameters.rule is not None:
                url = entry.get("link")
                link = context.link(url, self.parameters.rule) if url else None
                yield link or Skipped(f"entry {number}", "has no link to go on with")

    @classmethod
    def fields(cls, parameters: FeedParameters) -> Iterable[str]:  # noqa: ARG003  the same for all
        """Name what feeds say of an entry."""
        return (
            *("id", "title", "link", "published", "updated", "summary", "content"),
            *("authors", "tags", "enclosures"),
        )


def parsed_feed(page: Page, context: Context) -> Any:
    """Parse RSS or Atom by feedparser, made harmless; raises ExtractError for what is neither."""
    import feedparser  # type: ignore[import-untyped]  # it has no stubs

    written = harmless(page, context)
    # A stream: feedparser would take a text for an address, or for the name of a file.
    headers = {"content-type": "application/xml; charset=utf-8", "content-location": page.url}
    parsed = feedparser.parse(
        io.BytesIO(written),
        response_headers=headers,
        sanitize_html=True,
        resolve_relative_uris=True,
    )
    if not parsed.version and not parsed.entries:
        raise ExtractError("page", "is no feed that feedparser knows")
    return parsed


def _record(entry: Any) -> dict[str, object]:
    authors = (one.get("name") or one.get("email") for one in entry.get("authors", ())[:_LIST_MAX])
    contents = [one.get("value") for one in entry.get("content", ())[:_LIST_MAX]]
    return {
        "id": entry.get("id") or entry.get("link"),
        "title": entry.get("title"),
        "link": entry.get("link"),
        "published": date_of(entry, "published") or date_of(entry, "updated"),
        "updated": date_of(entry, "updated"),
        "summary": entry.get("summary"),
        "content": "\n".join(one for one in contents if one) or None,
        "authors": list(dict.fromkeys(filter(None, authors))),
        "tags": [tag["term"] for tag in entry.get("tags", ())[:_LIST_MAX] if tag.get("term")],
        "enclosures": [
            {"url": one["href"], "type": one.get("type")}
            for one in entry.get("enclosures", ())[:_LIST_MAX]
            if one.get("href")
        ],
    }


def date_of(entry: Any, name: str) -> str | None:
    """Return the date with its own zone where it says one that is known; else in UTC."""
    text = dict.get(entry, name)  # feedparser's own look-up warns, and gives another date
    written = read_date(text)
    if written is not None:
        return written.isoformat()
    parsed = dict.get(entry, f"{name}_parsed")
    if not isinstance(parsed, struct_time) or _MISREAD.search(text or ""):
        return None
    try:
        return datetime(*parsed[:6], tzinfo=UTC).isoformat()
    except ValueError:
        return None
