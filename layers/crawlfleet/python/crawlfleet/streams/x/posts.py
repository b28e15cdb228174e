"""Read what X's filtered stream and its search send: posts as items, errors, withdrawals.

Posts are asked for with what items need of them (``FIELDS``); authors and the posts that they refer
to come beside them, as ``includes``. An edit of a post is a post with an id of its own.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.crawling.records.normalise import normalised
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.streams.filters import Item
from crawlfleet.streams.items import StreamItem, Withdrawn

#: Parameters of each request that answers posts.
FIELDS: Final = {
    "tweet.fields": (
        "attachments,author_id,conversation_id,created_at,edit_history_tweet_ids,entities,"
        "in_reply_to_user_id,lang,note_tweet,possibly_sensitive,public_metrics,referenced_tweets"
    ),
    "expansions": "author_id",
    "user.fields": "id,name,username,verified",
}
#: Reasons why something is dropped, as they are counted.
NOT_JSON: Final = "not_json"
NO_POST: Final = "no_post"
UNFIT: Final = "unfit"
_MOST_TEXT: Final = 30_000
_MOST_NAMES: Final = 100


class Answer(NamedTuple):
    """An object that X sent: one of these. ``fault`` ends the connection, in X's words."""

    item: StreamItem | None = None
    withdrawn: Withdrawn | None = None
    dropped: str = ""
    fault: str = ""


class _Named(msgspec.Struct, frozen=True):
    tag: str = ""
    username: str = ""


class _Entities(msgspec.Struct, frozen=True):
    hashtags: list[_Named] = []
    mentions: list[_Named] = []


class _Note(msgspec.Struct, frozen=True):
    text: str = ""
    entities: _Entities = _Entities()


class _Referred(msgspec.Struct, frozen=True):
    type: str
    id: str


class _Post(msgspec.Struct, frozen=True):
    id: str
    text: str
    author_id: str = ""
    conversation_id: str = ""
    created_at: datetime | None = None
    lang: str = ""
    entities: _Entities = _Entities()
    note_tweet: _Note | None = None
    referenced_tweets: list[_Referred] = []


class _User(msgspec.Struct, frozen=True):
    id: str
    username: str


class _Includes(msgspec.Struct, frozen=True):
    users: list[_User] = []


class _Problem(msgspec.Struct, frozen=True):
    title: str = ""
    detail: str = ""
    disconnect_type: str = ""
    connection_issue: str = ""


class _Deleted(msgspec.Struct, frozen=True):
    id: str


class _Deletion(msgspec.Struct, frozen=True):
    tweet: _Deleted | None = None
    event_at: datetime | None = None


def read_object(line: bytes, channel: str, now: datetime) -> Answer:
    """Read a line of the stream, or of a compliance stream.

    >>> now = datetime(2026, 11, 24, tzinfo=UTC)
    >>> read_object(b'{"data": {"id": "7", "text": "Storm!"}}', "x", now).item.url
    'https://x.com/i/status/7'
    >>> read_object(b'{"errors": [{"title": "operational-disconnect"}]}', "x", now).fault
    'operational-disconnect'
    """
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Answer(dropped=NOT_JSON)
    if not isinstance(found, dict):
        return Answer(dropped=NO_POST)
    data = found.get("data")
    if not isinstance(data, dict):
        fault = problem_of(found)
        return Answer(fault=fault) if fault else Answer(dropped=NO_POST)
    if "delete" in data:
        return _withdrawn(data["delete"], channel, now)
    return _post(data, _users(found), channel, now)


def read_page(page: Mapping[str, Any], channel: str, now: datetime) -> tuple[StreamItem, ...]:
    """Return the posts of a page of search, the oldest first."""
    users = _users(page)
    data = page.get("data")
    found = (_post(one, users, channel, now) for one in (data if isinstance(data, list) else ()))
    items = [one.item for one in found if one.item is not None]
    return tuple(sorted(items, key=lambda item: order_of(item.id)))


def order_of(post_id: str) -> tuple[int, str]:
    """Return what orders ids of posts by their time: they are numbers that rise."""
    return len(post_id), post_id


def before(post_id: str, seconds: float) -> str:
    """Return the id that a post of so many seconds before this one would have.

    The upper bits of an id are milliseconds.

    >>> before("1995000000000000000", 30.0)
    '1994999874170880000'
    """
    return str(max(1, int(post_id) - (int(seconds * 1_000) << 22)))


def problem_of(found: Mapping[str, Any]) -> str:
    """Return what X says is wrong, in a line; "" where it says nothing.

    >>> problem_of({"title": "ConnectionException", "connection_issue": "TooManyConnections"})
    'TooManyConnections'
    """
    errors = found.get("errors")
    for one in (*(errors if isinstance(errors, list) else ()), found):
        try:
            problem = msgspec.convert(one, _Problem)
        except msgspec.ValidationError:
            continue
        said = problem.connection_issue or problem.disconnect_type or problem.title
        if said:
            return f"{said}: {problem.detail}"[:500] if problem.detail else said[:500]
    return ""


def _users(found: Mapping[str, Any]) -> dict[str, str]:
    try:
        includes = msgspec.convert(found.get("includes", {}), _Includes)
    except msgspec.ValidationError:
        return {}
    return {user.id: user.username for user in includes.users}


def _withdrawn(deletion: object, channel: str, now: datetime) -> Answer:
    try:
        found = msgspec.convert(deletion, _Deletion)
    except msgspec.ValidationError:
        return Answer(dropped=UNFIT)
    if found.tweet is None or not _is_id(found.tweet.id):
        return Answer(dropped=NO_POST)
    return Answer(withdrawn=Withdrawn(id=found.tweet.id, channel=channel, at=now))


def _post(data: object, users: Mapping[str, str], channel: str, now: datetime) -> Answer:
    try:
        post = msgspec.convert(data, _Post)
        said = normalised(data) if isinstance(data, dict) else {}
    except (msgspec.ValidationError, InvalidRequestError, RecursionError):
        return Answer(dropped=UNFIT)
    if not _is_id(post.id):
        return Answer(dropped=UNFIT)
    # A long post has the whole of its text, and what is named in it, apart.
    note = post.note_tweet
    text = note.text if note is not None and note.text else post.text
    each = (post.entities,) if note is None else (post.entities, note.entities)
    author = users.get(post.author_id, "")
    referred = {one.type: one.id for one in post.referenced_tweets if _is_id(one.id)}
    published = post.created_at
    if published is not None:
        zone = published.tzinfo or UTC
        published = published.replace(tzinfo=zone).astimezone(UTC)
    return Answer(
        item=StreamItem(
            id=post.id,
            channel=channel,
            seen=Item(
                text=text[:_MOST_TEXT],
                author=author,
                language=post.lang,
                hashtags=_names(one.tag for part in each for one in part.hashtags),
                mentions=_names(one.username for part in each for one in part.mentions),
            ),
            received_at=now,
            published_at=published,
            url=f"https://x.com/{author or 'i'}/status/{post.id}",
            conversation=post.conversation_id if _is_id(post.conversation_id) else "",
            replies_to=referred.get("replied_to", ""),
            quotes=referred.get("quoted", ""),
            fields=said,
        )
    )


def _names(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in found if name))[:_MOST_NAMES]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20
