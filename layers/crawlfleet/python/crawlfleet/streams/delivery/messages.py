"""Messages: the format that receivers get, and batches within what their services take.

A message is a JSON object. Fields are added, never renamed or taken away; tests/kept has examples:

``id``            the delivery's: repeats have the same one, and are to be dropped by it
``kind``          ``item`` or ``withdrawn``
``biz``, ``subscription``  whose it is
``channel``, ``accepted_at``
``item``          of an item: id, url, title, text, author, language, hashtags, mentions,
                  published_at, received_at, conversation, replies_to, quotes, fields
``withdrawn``     of a withdrawal: id of the item, at

Times are RFC 3339 in UTC. What is not known is "", null or empty. An item that was too long to be
kept whole has ``{"cut": true}`` as its fields.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.streams.delivery.models import Delivery
from crawlfleet.streams.items import StreamItem
from crawlfleet.streams.targets import TargetKind

#: An item is stored in so many bytes at most; then its fields go, then its text is cut.
MOST_ITEM_BYTES: Final = 200_000
_MOST_TEXT: Final = 20_000
_NO_XML: Final = ((b"\xef\xbf\xbe", b"\\ufffe"), (b"\xef\xbf\xbf", b"\\uffff"))


class Limits(NamedTuple):
    """The most messages and bytes of one call, ``overhead`` bytes added to each message."""

    most: int
    size: int
    overhead: int = 0


#: As the services document them; attributes beside a message count, too.
LIMITS: Final = {
    TargetKind.SQS: Limits(10, 1_048_576, 512),
    # Of one message and of the whole call: 256 KiB.
    TargetKind.SNS: Limits(10, 262_144, 512),
    # Of the whole call: 1 MB since 2026, 256 KB before; the smaller one holds everywhere.
    TargetKind.EVENTBRIDGE: Limits(10, 262_144, 1_024),
    TargetKind.REDIS_STREAM: Limits(500, 4_194_304, 128),
}


class Message(NamedTuple):
    """A delivery, and the message that it is."""

    delivery: Delivery
    body: bytes


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    kind: str
    biz: str
    subscription: str
    channel: str
    accepted_at: datetime
    item: dict[str, Any] | None = None
    withdrawn: dict[str, Any] | None = None


def message_of(delivery: Delivery) -> Message | None:
    """Build the message of a delivery; None where there is nothing to tell any more."""
    about = delivery.withdrawn or delivery.item
    if about is None:
        return None
    item = withdrawn = None
    if delivery.withdrawn is not None:
        withdrawn = {"id": delivery.withdrawn.id, "at": delivery.withdrawn.at}
    elif delivery.item is not None:
        item = spoken(delivery.item)
    body = _Body(
        id=delivery.id,
        kind="item" if withdrawn is None else "withdrawn",
        biz=delivery.biz,
        subscription=delivery.subscription,
        channel=about.channel,
        accepted_at=delivery.accepted_at,
        item=item,
        withdrawn=withdrawn,
    )
    encoded = msgspec.json.encode(body)
    # The two that are no characters of XML, which SQS therefore does not take; in JSON they can
    # stand inside of strings alone.
    for plain, escaped in _NO_XML:
        encoded = encoded.replace(plain, escaped)
    return Message(delivery, encoded)


def spoken(item: StreamItem) -> dict[str, Any]:
    """Shape an item as messages have it."""
    seen = item.seen
    return {
        "id": item.id,
        "url": item.url,
        "title": item.title,
        "text": seen.text,
        "author": seen.author,
        "language": seen.language,
        "hashtags": seen.hashtags,
        "mentions": seen.mentions,
        "published_at": item.published_at,
        "received_at": item.received_at,
        "conversation": item.conversation,
        "replies_to": item.replies_to,
        "quotes": item.quotes,
        "fields": item.fields,
    }


def batches(messages: Iterable[Message], limits: Limits) -> Iterator[list[Message]]:
    """Cut messages into calls, in their order; one that is too long for any is one of its own."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        own = len(message.body) + limits.overhead
        if batch and (len(batch) == limits.most or size + own > limits.size):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += own
    if batch:
        yield batch


def is_too_large(message: Message, limits: Limits) -> bool:
    """Tell whether no call takes the message."""
    return len(message.body) + limits.overhead > limits.size


def stored(item: StreamItem) -> bytes:
    """Encode an item within bounds; what strangers write need not be valid Unicode."""
    body = _encoded(item)
    if len(body) > MOST_ITEM_BYTES:
        body = _encoded(msgspec.structs.replace(item, fields={"cut": True}))
    if len(body) > MOST_ITEM_BYTES:
        body = _encoded(_cut(item))
    return body


def _cut(item: StreamItem) -> StreamItem:
    seen = item.seen
    few: Sequence[str] = ()
    return msgspec.structs.replace(
        item,
        seen=msgspec.structs.replace(
            seen,
            text=seen.text[:_MOST_TEXT],
            author=seen.author[:200],
            language=seen.language[:50],
            hashtags=few,
            mentions=few,
        ),
        url=item.url[:4_096],
        title=item.title[:1_000],
        fields={"cut": True},
    )


def _encoded(item: StreamItem) -> bytes:
    try:
        return msgspec.json.encode(item)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(item)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")


def read(body: bytes) -> StreamItem:
    """Decode what :func:`stored` has encoded."""
    return msgspec.json.decode(body, type=StreamItem)
