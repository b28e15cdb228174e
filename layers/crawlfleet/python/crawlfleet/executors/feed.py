"""``feed``: RSS and Atom, by feedparser, of which nothing is asked that could take long.

feedparser reads anything, but parts of it cost quadratic time on texts that are made for it. So the
feed is first read by libxml2 within its bounds, and mended where it is not well-formed; feedparser
gets the result, and cleans each text of markup only where that is small enough.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from html import escape
from html.entities import html5
from time import struct_time
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from crawlfleet.errors import ExtractError
from crawlfleet.executors.base import Context, Executor, Found, Parameters
from crawlfleet.executors.bodies import open_text
from crawlfleet.executors.dates import read_date
from crawlfleet.model.document import RuleName
from crawlfleet.model.harvest import Skipped
from crawlfleet.model.outcome import Page

if TYPE_CHECKING:
    from lxml.etree import _Element

#: Characters of a feed.
_FEED_MAX: Final = 10_000_000
#: Entries of a feed.
_ENTRIES_MAX: Final = 10_000
#: What feedparser's cleaning is trusted with; larger texts become plain ones.
_MARKUP_CHARACTERS: Final = 500_000
_MARKUP_TAGS: Final = 10_000
_MARKUP_DECLARATIONS: Final = 200
_LIST_MAX: Final = 100

_MARKUP_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_CDATA: Final = re.compile(r"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_AMPERSAND: Final = re.compile(
    r"&(?!#\d{1,7};|#[xX][0-9a-fA-F]{1,6};)(?:([A-Za-z][A-Za-z0-9]{1,31});)?"
)
_XML_ENTITIES: Final = frozenset({"amp", "lt", "gt", "quot", "apos"})
_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]{0,500}\?>")
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class FeedParameters(Parameters, frozen=True, kw_only=True):
    """With ``rule`` each entry's page becomes a link for that rule or spider.

    ``records`` is false where the entries themselves are not wanted.
    """

    rule: RuleName | None = None
    records: bool = True
    max_entries: Annotated[int, Meta(ge=1, le=_ENTRIES_MAX)] = _ENTRIES_MAX


class Feed(Executor[FeedParameters]):
    """A record of each entry.

    Records have ``id``, ``title``, ``link``, ``published`` and ``updated`` (ISO 8601), ``summary``
    and ``content`` (markup without scripts, styles and the like), ``authors``, ``tags`` and
    ``enclosures`` (links to media).
    """

    name = "feed"
    Parameters = FeedParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """In the feed's order."""
        parsed = _parsed(page, context)
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
        """What feeds say of an entry."""
        return (
            *("id", "title", "link", "published", "updated", "summary", "content"),
            *("authors", "tags", "enclosures"),
        )


def _parsed(page: Page, context: Context) -> Any:
    import feedparser  # type: ignore[import-untyped]  # it has no stubs

    written = _well_formed(page, context)
    # A stream: feedparser would take a text for an address, or for the name of a file.
    headers = {"content-type": "application/xml; charset=utf-8", "content-location": page.url}
    parsed = feedparser.parse(
        io.BytesIO(written),
        response_headers=headers,
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    if not parsed.version and not parsed.entries:
        raise ExtractError("page", "is no feed that feedparser knows")
    return parsed


def _well_formed(page: Page, context: Context) -> bytes:
    """The feed as UTF-8, without a document type, well-formed and not too deep."""
    from lxml import etree

    from crawlfleet.executors.xml_stream import refuse_entities

    text = _feed_text(page)
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
    entries = sum(1 for _ in root.iter("{*}item", "{*}entry"))
    if entries > _ENTRIES_MAX:
        raise ExtractError("page", f"has more than {_ENTRIES_MAX:,} entries")
    context.tick()
    return etree.tostring(root, encoding="utf-8", xml_declaration=True, with_tail=False)


def _feed_text(page: Page) -> str:
    start = page.body[:500]
    declared = re.search(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", start)
    encoding = declared[1].decode("ascii", "replace") if declared else None
    text = open_text(page, encoding).read(_FEED_MAX + 1)
    if len(text) > _FEED_MAX:
        raise ExtractError("page", f"is longer than {_FEED_MAX:,} characters")
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
    """HTML's entities as characters, bare ampersands as what they mean, no forbidden characters."""

    def mend(found: re.Match[str]) -> str:
        name = found[1]
        if name in _XML_ENTITIES:
            return found[0]
        character = html5.get(f"{name};") if name else None
        return escape(character) if character else f"&amp;{found[0][1:]}"

    parts = _CDATA.split(_NO_XML.sub("", text))
    parts[::2] = [_AMPERSAND.sub(mend, part) for part in parts[::2]]
    return "".join(parts)


def _record(entry: Any) -> dict[str, object]:
    contents = [_clean(one) for one in entry.get("content", ())[:_LIST_MAX]]
    summary = entry.get("summary_detail")
    return {
        "id": entry.get("id") or entry.get("link"),
        "title": _clean(entry["title_detail"]) if "title_detail" in entry else None,
        "link": entry.get("link"),
        "published": _date(entry, "published") or _date(entry, "updated"),
        "updated": _date(entry, "updated"),
        "summary": _clean(summary) if summary else None,
        "content": "\n".join(one for one in contents if one) or None,
        "authors": _authors(entry),
        "tags": [tag["term"] for tag in entry.get("tags", ())[:_LIST_MAX] if tag.get("term")],
        "enclosures": [
            {"url": one["href"], "type": one.get("type")}
            for one in entry.get("enclosures", ())[:_LIST_MAX]
            if one.get("href")
        ],
    }


def _clean(detail: Any) -> str:
    """The text, markup cleaned and its links made absolute."""
    value = str(detail.get("value") or "")
    kind = detail.get("type")
    if kind not in _MARKUP_TYPES or not ("<" in value or "&" in value):
        return value.strip()
    if (
        len(value) > _MARKUP_CHARACTERS
        or value.count("<") > _MARKUP_TAGS
        or value.count("<!") > _MARKUP_DECLARATIONS
    ):
        return escape(value, quote=False)
    from feedparser.sanitizer import sanitize_html  # type: ignore[import-untyped]  # as above
    from feedparser.urls import resolve_relative_uris  # type: ignore[import-untyped]  # as above

    absolute = resolve_relative_uris(value, str(detail.get("base") or ""), "utf-8", kind)
    return str(sanitize_html(absolute, "utf-8", kind)).strip()


def _authors(entry: Any) -> list[str]:
    names = [one.get("name") or one.get("email") for one in entry.get("authors", ())[:_LIST_MAX]]
    return list(dict.fromkeys(name for name in names if name))


def _date(entry: Any, name: str) -> str | None:
    """The date with its own zone where it says one that is known; else in UTC."""
    written = read_date(entry.get(name))
    if written is not None:
        return written.isoformat()
    parsed = entry.get(f"{name}_parsed")
    if not isinstance(parsed, struct_time) or not 1 <= parsed.tm_year <= 9999:
        return None
    from datetime import UTC, datetime

    try:
        return datetime(*parsed[:6], tzinfo=UTC).isoformat()
    except ValueError:
        return None
