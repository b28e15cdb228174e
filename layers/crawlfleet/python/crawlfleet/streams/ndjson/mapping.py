"""Read an object of a stream as an item, by the places that the channel's document names.

A line is an item, the withdrawal of one, a cursor alone, or dropped with a reason. What it says is
bounded and in the form that stores take (crawling.records.normalise) before anybody else sees it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.config.documents.streams import ItemFields
from crawlfleet.crawling.records.normalise import normalised
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.streams.filters import Item
from crawlfleet.streams.items import StreamItem, Withdrawn

#: Reasons why a line is dropped, as they are counted.
NOT_JSON: Final = "not_json"
NO_OBJECT: Final = "no_object"
NO_ID: Final = "no_id"
UNFIT: Final = "unfit"
TOO_LONG: Final = "too_long"

#: Characters of an id, of a name, of a title, of an address; values of a list.
MOST_ID: Final = 256
MOST_NAME: Final = 256
MOST_TITLE: Final = 1_000
MOST_URL: Final = 8_000
MOST_VALUES: Final = 100
#: From here on a number is of milliseconds: as seconds it would be the year 5138.
_MILLISECONDS_FROM: Final = 100_000_000_000
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeError)


class Line(NamedTuple):
    """A line as it was read: one of these, and where to go on behind it."""

    item: StreamItem | None = None
    withdrawn: Withdrawn | None = None
    dropped: str = ""
    cursor: str = ""


def read_line(line: bytes, channel: str, fields: ItemFields, now: datetime) -> Line:
    """Read a line of a channel.

    >>> now = datetime(2026, 11, 24, tzinfo=UTC)
    >>> line = read_line(b'{"id": 7, "text": "storm"}', "wire", ItemFields(), now)
    >>> line.item.id, line.item.seen.text, line.cursor
    ('7', 'storm', '7')
    >>> read_line(b'{"text": "storm"}', "wire", ItemFields(), now).dropped
    'no_id'
    """
    try:
        found = msgspec.json.decode(line)
    except _UNREADABLE:
        return Line(dropped=NOT_JSON)
    if not isinstance(found, dict):
        return Line(dropped=NO_OBJECT)
    try:
        said = normalised(found)
    except (InvalidRequestError, RecursionError):
        return Line(dropped=UNFIT, cursor=_text(found, fields.cursor, MOST_ID))
    cursor = _text(said, fields.cursor, MOST_ID)
    if gone := _text(said, fields.withdrawn, MOST_ID):
        return Line(withdrawn=Withdrawn(id=gone, channel=channel, at=now), cursor=cursor)
    own = _text(said, fields.id, MOST_ID)
    if not own:
        # An object that only says how far the stream has come is no fault.
        return Line(cursor=cursor, dropped="" if cursor else NO_ID)
    title, text = _cut(said, fields.title, MOST_TITLE), _cut(said, fields.text)
    url = _text(said, fields.url, MOST_URL)
    seen = Item(
        text=f"{title}\n{text}" if title else text,
        author=_text(said, fields.author, MOST_NAME),
        language=_text(said, fields.language, MOST_NAME),
        hashtags=tuple(_texts(said, fields.hashtags, MOST_NAME)),
        mentions=tuple(_texts(said, fields.mentions, MOST_NAME)),
    )
    item = StreamItem(
        id=own,
        channel=channel,
        seen=seen,
        received_at=now,
        published_at=_moment(next(_at(said, fields.published_at), None)),
        url=url if url.startswith(("https://", "http://")) else "",
        title=title,
        conversation=_text(said, fields.conversation, MOST_ID),
        replies_to=_text(said, fields.replies_to, MOST_ID),
        quotes=_text(said, fields.quotes, MOST_ID),
        fields=said,
    )
    return Line(item=item, cursor=cursor)


def _at(value: Any, path: str) -> Iterator[Any]:
    """Yield what stands at a place; several values where the way leads through lists."""
    if not path:
        return
    name, _, rest = path.partition(".")
    for one in value if isinstance(value, list) else (value,):
        if not isinstance(one, dict) or name not in one:
            continue
        if rest:
            yield from _at(one[name], rest)
        elif isinstance(one[name], list):
            yield from one[name]
        else:
            yield one[name]


def _texts(said: Any, path: str, most: int) -> Iterator[str]:
    """Yield texts and whole numbers as texts; what is longer than ``most`` is none."""
    left = MOST_VALUES
    for value in _at(said, path):
        if isinstance(value, bool) or not isinstance(value, str | int):
            continue
        text = str(value).strip()
        if 0 < len(text) <= most and "\0" not in text:
            yield text
        left -= 1
        if not left:
            return


def _text(said: Any, path: str, most: int) -> str:
    return next(_texts(said, path, most), "")


def _cut(said: Any, path: str, most: int | None = None) -> str:
    text = next((each for each in _at(said, path) if isinstance(each, str)), "")
    return text[:most]


def _moment(value: Any) -> datetime | None:
    """Read a time: seconds or milliseconds since 1970, ISO 8601, or as e-mail writes it.

    >>> _moment("2026-11-24T01:00:00+01:00"), _moment("soon")
    (datetime.datetime(2026, 11, 24, 0, 0, tzinfo=datetime.timezone.utc), None)
    >>> _moment(1_795_478_400) == _moment(1_795_478_400_000) == _moment("2026-11-24T00:00:00Z")
    True
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1_000 if abs(value) >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
        if not isinstance(value, str) or len(value) > 64:
            return None
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = parsedate_to_datetime(value)
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return found.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None
