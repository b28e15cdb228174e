"""Items as sources give them: matched, stored and delivered under one id (SPEC.md D5, D10)."""

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Any, Protocol

import msgspec

from crawlfleet.streams.filters import Item


class StreamItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a reader has read of a channel.

    ``id`` is the same however often the channel repeats the item and whoever reads it: repeats are
    known by ``(channel, id)``. ``seen`` is what filters see of it. ``fields`` is what the channel
    says of it, as JSON, bounded by the reader. ``replies_to`` and ``quotes`` are ids of items of
    the same channel, ``conversation`` is the id of the first one of the thread. ``same`` is what it
    is known by in other channels, too, "" where nothing tells: a subscription gets it once.
    """

    id: str
    channel: str
    seen: Item
    received_at: datetime
    published_at: datetime | None = None
    url: str = ""
    title: str = ""
    conversation: str = ""
    replies_to: str = ""
    quotes: str = ""
    fields: dict[str, Any] = {}
    same: str = ""


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """An item that its channel has taken back: what is stored of it is to be deleted."""

    id: str
    channel: str
    at: datetime


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The next items of a channel; ``cursor`` is where to go on once they are accepted.

    A batch without items says that the channel is alive, or that the cursor has moved. ``dropped``
    counts what came and is no item, by reason.
    """

    cursor: str = ""
    items: tuple[StreamItem, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    dropped: dict[str, int] = {}


class Reader(Protocol):
    """A reader of one channel, of a kind: a feed, the stream of X, lines of JSON.

    It asks ``may_read`` before each connection and each read, and ends when that says no. Errors of
    the channel are the reader's to wait out, by the steps that the channel documents; it ends by an
    exception only where going on makes no sense without somebody's doing.
    """

    def read(self, cursor: str, may_read: Callable[[], bool]) -> AsyncGenerator[Batch, None]:
        """Read on from a cursor; "" is the beginning. Who asks on has accepted what came."""
