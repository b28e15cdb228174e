"""``feed_items``: feeds as streams read them: RSS and Atom by feedparser, and JSON Feed.

The first record is of the feed itself: its title, language, how long it may be kept, its links of
WebSub. Each further one is an entry, its texts without markup. What is beyond a bound is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from crawlfleet.crawling.executors.base import Context, Executor, Found, NoParameters, read_date
from crawlfleet.crawling.executors.feed import date_of, parsed_feed
from crawlfleet.crawling.extract.casts import parse_json
from crawlfleet.crawling.extract.document import visible_text
from crawlfleet.crawling.extract.limits import UnreadableError
from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.page import Page

#: Characters of a text without markup, of one with it, and of what is short; entries, and names
#: and the like of one entry.
TEXT_MAX: Final = 100_000
_MARKUP_MAX: Final = 500_000
_SHORT_MAX: Final = 8_000
_ENTRIES_MAX: Final = 5_000
_LIST_MAX: Final = 100
_PERIODS: Final = {
    "hourly": 3_600.0,
    "daily": 86_400.0,
    "weekly": 604_800.0,
    "monthly": 2_592_000.0,
    "yearly": 31_536_000.0,
}
_LONGEST_SECONDS: Final = 31_536_000.0


class FeedItems(Executor[NoParameters]):
    """A record of the feed, then one of each entry, for streams."""

    name = "feed_items"

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the entries in the feed's order."""
        reading = _of_json if page.body.lstrip()[:1] == b"{" else _of_xml
        for record in reading(page, context):
            context.tick()
            yield {name: value for name, value in record.items() if value}

    @classmethod
    def fields(cls, parameters: NoParameters) -> Iterable[str]:  # noqa: ARG003  the same for all
        """Name what is said of a feed, and of its entries."""
        return (
            *("title", "language", "ttl_seconds", "hubs", "topic"),
            *("id", "link", "summary", "content", "authors", "categories"),
            *("published_at", "updated_at", "replies_to"),
        )


def _of_xml(page: Page, context: Context) -> Iterator[dict[str, object]]:
    parsed = parsed_feed(page, context)
    feed = parsed.feed
    links = [one for one in feed.get("links", ()) if isinstance(one.get("href"), str)]
    yield {
        "title": _plain(feed.get("title")),
        "language": _short(feed.get("language")),
        "ttl_seconds": _ttl(feed),
        "hubs": [_short(one["href"]) for one in links if one.get("rel") == "hub"][:_LIST_MAX],
        "topic": next((_short(one["href"]) for one in links if one.get("rel") == "self"), ""),
    }
    for entry in parsed.entries[:_ENTRIES_MAX]:
        contents = entry.get("content", ())[:_LIST_MAX]
        content = "\n".join(filter(None, (one.get("value") for one in contents)))
        details = [entry.get("title_detail"), *contents, entry.get("summary_detail")]
        people = entry.get("authors", ())[:_LIST_MAX]
        reply = entry.get("thr_in-reply-to")
        link = _short(entry.get("link"))
        yield {
            "id": _short(entry.get("id")),
            # feedparser takes an id for the link of an entry that has none.
            "link": link if link.startswith(("http://", "https://")) else "",
            "title": _plain(entry.get("title")),
            "summary": _plain(entry.get("summary")),
            "content": _plain(content),
            "authors": _shorts(one.get("name") or one.get("email") for one in people),
            "categories": _shorts(one.get("term") for one in entry.get("tags", ())[:_LIST_MAX]),
            "language": next(filter(None, (_short(_language(one)) for one in details)), ""),
            "published_at": date_of(entry, "published"),
            "updated_at": date_of(entry, "updated"),
            "replies_to": _short(reply.get("ref")) if isinstance(reply, dict) else "",
        }


def _language(detail: Any) -> Any:
    return detail.get("language") if detail else None


def _ttl(feed: Any) -> float:
    """Return how long a feed says it may be kept: ``ttl`` in minutes, or syndication's period."""
    minutes = _short(feed.get("ttl")).strip()
    if minutes.isascii() and minutes.isdecimal():
        return min(float(minutes[:12]) * 60.0, _LONGEST_SECONDS)
    period = _PERIODS.get(_short(feed.get("sy_updateperiod")).strip().lower(), 0.0)
    times = _short(feed.get("sy_updatefrequency")).strip()
    return period / max(1, int(times[:6])) if times.isascii() and times.isdecimal() else period


def _of_json(page: Page, context: Context) -> Iterator[dict[str, object]]:
    """Read a JSON Feed (jsonfeed.org, version 1.1 and 1)."""
    try:
        feed = parse_json(page.body)
    except (UnreadableError, ValueError) as error:
        raise ExtractError("page", f"is neither XML nor JSON: {error}") from error
    items = feed.get("items") if isinstance(feed, dict) else None
    if not isinstance(items, list) or "jsonfeed.org" not in _short(feed.get("version")):
        raise ExtractError("page", "is JSON, and no JSON Feed")
    hubs = (one.get("url") for one in _dicts(feed.get("hubs")) if one.get("type") == "WebSub")
    yield {
        "title": _short(feed.get("title")),
        "language": _short(feed.get("language")),
        "hubs": _shorts(hubs),
        "topic": _short(feed.get("feed_url")),
    }
    for item in _dicts(items[:_ENTRIES_MAX]):
        people = _dicts(item.get("authors")) or _dicts([item.get("author")])
        tags = item.get("tags")
        link = _short(item.get("url"))
        made = context.link(link, context.rule) if link else None
        number = item.get("id")
        yield {
            # The standard asks readers to take numbers, too.
            "id": _short(str(number) if isinstance(number, int | float) else number),
            "link": made.url if made else "",
            "title": _plain(item.get("title")),
            "summary": _plain(item.get("summary")),
            "content": _plain(item.get("content_html")) or _text(item.get("content_text")),
            "authors": _shorts(one.get("name") for one in people[:_LIST_MAX]),
            "categories": _shorts(tags[:_LIST_MAX]) if isinstance(tags, list) else [],
            "language": _short(item.get("language")),
            "published_at": _date(item.get("date_published")),
            "updated_at": _date(item.get("date_modified")),
        }


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _date(value: Any) -> str | None:
    found = read_date(value) if isinstance(value, str) else None
    return None if found is None else found.isoformat()


def _short(value: Any) -> str:
    return _text(value)[:_SHORT_MAX]


def _shorts(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(_short, values))))[:_LIST_MAX]


def _text(value: Any) -> str:
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _plain(markup: Any) -> str:
    """Return a text without markup; "" for one that is built to exhaust a parser."""
    if not isinstance(markup, str) or len(markup) > _MARKUP_MAX:
        return _text(markup) if isinstance(markup, str) and "<" not in markup else ""
    try:
        return visible_text(markup)[:TEXT_MAX].strip()
    except UnreadableError:
        return ""
