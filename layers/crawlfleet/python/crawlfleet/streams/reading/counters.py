"""Count what readers do, by channel: read, matched, dropped, faults, lag."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.streams.http.backoff import End
from crawlfleet.streams.items import Batch
from crawlfleet.streams.silence import Gaps, after_items

#: Items whose lag is looked at: the latest of each channel.
_LAGS: Final = 500
#: Clocks of channels differ from ours; nothing has a lag of less than nothing.
_P95: Final = 0.95


class ChannelReport(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a channel since its reader's process began; lags are of its latest items.

    ``matched`` are items that a subscriber wants, ``delivered`` deliveries that are new. Where the
    channel's own quota is used up ``stopped`` says so.
    """

    read: int
    matched: int
    delivered: int
    dropped: Mapping[str, int]
    faults: Mapping[str, int]
    last_fault: str
    subscriptions: int
    is_read: bool
    last_item_at: datetime | None
    since: datetime
    connections: int
    gaps: Gaps
    last_fault_at: datetime | None
    is_refused: bool
    lag_p95_seconds: float | None
    stopped: str = ""


class ChannelCounters:
    """The counters of one channel."""

    def __init__(self, now: datetime) -> None:
        #: Since when the worker reads it.
        self.since = now
        self.gaps = Gaps()
        self.last_fault_at: datetime | None = None
        self._last_end = ""
        self.read = self.matched = self.delivered = 0
        self.dropped: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.last_fault = ""
        self.last_item_at: datetime | None = None
        self._lags: deque[float] = deque(maxlen=_LAGS)

    def accepted(self, published: Iterable[datetime | None], now: datetime) -> None:
        """Note that items were accepted now that were published then."""
        self.last_item_at = now
        for at in published:
            if at is not None:
                self._lags.append(max(0.0, (now - at).total_seconds()))

    def came(self, batch: Batch, now: datetime) -> None:
        """Note that a batch was read."""
        self.read += len(batch.items) + sum(batch.dropped.values())
        self.dropped.update(batch.dropped)
        self._last_end = ""
        if batch.items:
            self.gaps = after_items(self.gaps, now)

    def fault(self, end: str, message: str, now: datetime) -> None:
        """Note that a connection has ended."""
        self.faults[end] += 1
        self.last_fault, self.last_fault_at, self._last_end = message, now, end

    def report(self, *, subscriptions: int, connections: int, stopped: str = "") -> ChannelReport:
        """Return the figures; ``connections`` are those that are read now."""
        lags = sorted(self._lags)
        return ChannelReport(
            read=self.read,
            matched=self.matched,
            delivered=self.delivered,
            dropped=dict(self.dropped),
            faults=dict(self.faults),
            last_fault=self.last_fault,
            subscriptions=subscriptions,
            is_read=connections > 0,
            last_item_at=self.last_item_at,
            since=self.since,
            connections=connections,
            gaps=self.gaps,
            last_fault_at=self.last_fault_at,
            is_refused=self._last_end == End.REFUSED,
            lag_p95_seconds=lags[int(len(lags) * _P95)] if lags else None,
            stopped=stopped,
        )
