"""Sources of streams as they are read, and figures of subscriptions."""

from datetime import datetime

import msgspec

from crawlfleet.wire import Page


class StreamFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the last one to two hours, which are ``seconds`` long.

    ``read`` are items of the sources, ``matched`` those that were taken of them, ``delivered``
    those that receivers have. Lags begin with publication, where the source tells it: those of a
    source end when it was read, those of a subscription when it was delivered. ``lags`` counts
    them by the seconds that they had at most; ``inf`` are longer ones.
    """

    seconds: float
    read: int = 0
    matched: int = 0
    delivered: int = 0
    dropped: dict[str, int] = {}
    lags: dict[str, int] = {}
    lag_p50_seconds: float | None = None
    lag_p95_seconds: float | None = None


class StreamSource(msgspec.Struct, frozen=True, kw_only=True):
    """A channel, or a feed by its URL, that subscriptions of a biz are to.

    ``state`` is ``reading``, ``failing``, ``refused`` where the channel refuses the secret, or
    ``unread`` where nobody reads it now. ``readers`` are workers that have read it ``since``.
    ``due_at`` is when a feed is asked next. ``figures`` are of all that was read of it.
    """

    name: str
    kind: str
    state: str
    subscriptions: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    since: datetime | None = None
    connections: int = 0
    per_second: float = 0.0
    last_item_at: datetime | None = None
    faults: int = 0
    last_fault: str = ""
    last_fault_at: datetime | None = None
    due_at: datetime | None = None
    figures: StreamFigures


class SourcesPage(Page, frozen=True):
    """A page of sources, by name."""

    sources: tuple[StreamSource, ...]


class SubscriptionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a subscription; ``figures.read`` are items of all of its sources.

    ``pending`` and ``dead`` are its deliveries that wait, and that were given up: a thousand each
    at most are counted. ``receiver_error`` says why its receiver takes nothing now, and
    ``failing_since`` since when.
    """

    subscription: str
    figures: StreamFigures
    pending: int = 0
    dead: int = 0
    last_taken_at: datetime | None = None
    last_delivered_at: datetime | None = None
    receiver_error: str = ""
    failing_since: datetime | None = None
