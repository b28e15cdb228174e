"""Make items of what a reader of pages gives of a feed.

A stranger's process gives it, so it is converted within bounds first (``models``). Filters see
title, summary and content, each a line; the first author; categories as hashtags, without what no
hashtag has (``Green Deal`` is ``#GreenDeal``); the main part of a language (``en`` of ``en-US``).
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.urls import problem_with
from crawlfleet.streams.feeds.identity import Level, item_id, same_of
from crawlfleet.streams.feeds.models import ENTRIES_MAX, About, Entry
from crawlfleet.streams.filters import Item
from crawlfleet.streams.items import StreamItem
from crawlfleet.streams.text import is_part_of_a_word

#: Items of a feed's first reading that are this old are given; older ones, and undated ones, are
#: from before anybody subscribed.
FRESH: Final = timedelta(hours=1)
_FIELDS_MAX: Final = 20_000


def reading_of(records: Iterable[Mapping[str, Any]]) -> tuple[About, tuple[Entry, ...]]:
    """Convert the records of a feed: of the feed itself, then of each entry.

    Raises ExtractError: they are none that the reader of feeds gives.
    """
    given = iter(records)
    try:
        about = msgspec.convert(next(given, None), About)
        entries = []
        for count, record in enumerate(given):
            if count >= ENTRIES_MAX:
                break
            entries.append(msgspec.convert(record, Entry))
    except msgspec.ValidationError as error:
        raise ExtractError("page", f"gives entries that are none: {error}") from error
    return about, tuple(entries)


def is_fresh(entry: Entry, now: datetime) -> bool:
    """Tell whether an entry of a feed's first reading is given."""
    return entry.published_at is not None and entry.published_at >= now - FRESH


def items_of(
    channel: str, about: About, new: Iterable[tuple[str, Entry]], now: datetime
) -> Iterator[StreamItem]:
    """Make the items of entries, each with its id."""
    for one, entry in new:
        texts = (entry.title, entry.summary, _beside(entry.content, entry.summary))
        # No instant is later than now: what is dated tomorrow was published today.
        published = None if entry.published_at is None else min(entry.published_at, now)
        yield StreamItem(
            id=one,
            channel=channel,
            seen=Item(
                text="\n".join(filter(None, texts)),
                author=entry.authors[0] if entry.authors else "",
                language=(entry.language or about.language).partition("-")[0].strip().lower(),
                hashtags=tuple(filter(None, map(_hashtag, entry.categories))),
            ),
            received_at=now,
            published_at=published,
            url=entry.link if entry.link and problem_with(entry.link) is None else "",
            title=entry.title[:1_000],
            replies_to=item_id(Level.ID, entry.replies_to) if entry.replies_to else "",
            fields=_fields(about, entry),
            same=same_of(one, entry),
        )


def _beside(content: str, summary: str) -> str:
    """Return a content without the summary that it begins with, or is."""
    return content if not summary or not content.startswith(summary) else content[len(summary) :]


def _hashtag(category: str) -> str:
    return "".join(filter(is_part_of_a_word, category))


def _fields(about: About, entry: Entry) -> dict[str, Any]:
    said: dict[str, Any] = {
        "feed": about.title[:1_000],
        "id": entry.id,
        "summary": entry.summary[:_FIELDS_MAX],
        "content": entry.content[:_FIELDS_MAX],
        "authors": list(entry.authors),
        "categories": list(entry.categories),
        "updated": None if entry.updated_at is None else entry.updated_at.isoformat(),
    }
    return {name: value for name, value in said.items() if value}
