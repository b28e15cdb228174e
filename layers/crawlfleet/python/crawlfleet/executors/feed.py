"""``feed``: RSS and Atom, by feedparser, which gets them made harmless (``feed_text``)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from time import struct_time
from typing import Annotated, Any, Final

from msgspec import Meta

from crawlfleet.errors import ExtractError
from crawlfleet.executors.base import Context, Executor, Found, Parameters
from crawlfleet.executors.dates import read_date
from crawlfleet.executors.feed_text import ENTRIES_MAX, harmless
from crawlfleet.model.document import RuleName
from crawlfleet.model.harvest import Skipped
from crawlfleet.page import Page

_LIST_MAX: Final = 100
#: Dates that feedparser reads as others than they are: seconds since 1970, hours of half a day.
_MISREAD: Final = re.compile(r"\A\s*\d{9,}|\d\s*[AaPp]\.?[Mm]\b", re.ASCII)


class FeedParameters(Parameters, frozen=True, kw_only=True):
    """With ``rule`` each entry's page becomes a link for that rule or spider.

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
    contents = [one.get("value") for one in entry.get("content", ())[:_LIST_MAX]]
    return {
        "id": entry.get("id") or entry.get("link"),
        "title": entry.get("title"),
        "link": entry.get("link"),
        "published": _date(entry, "published") or _date(entry, "updated"),
        "updated": _date(entry, "updated"),
        "summary": entry.get("summary"),
        "content": "\n".join(one for one in contents if one) or None,
        "authors": _authors(entry),
        "tags": [tag["term"] for tag in entry.get("tags", ())[:_LIST_MAX] if tag.get("term")],
        "enclosures": [
            {"url": one["href"], "type": one.get("type")}
            for one in entry.get("enclosures", ())[:_LIST_MAX]
            if one.get("href")
        ],
    }


def _authors(entry: Any) -> list[str]:
    names = [one.get("name") or one.get("email") for one in entry.get("authors", ())[:_LIST_MAX]]
    return list(dict.fromkeys(name for name in names if name))


def _date(entry: Any, name: str) -> str | None:
    """The date with its own zone where it says one that is known; else in UTC."""
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
