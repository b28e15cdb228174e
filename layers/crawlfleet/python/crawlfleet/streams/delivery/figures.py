"""Count what comes of streams by source and subscriber: what is taken, how late it is delivered.

Readers and deliverers count in memory, a sum for each source and subscription that has anything;
``mongo.figures`` adds sums to those of the hour. Lags begin with publication, as far as channels
tell it: those of a source end when its items are accepted, those of a subscription when they are
delivered. They are counted in a fixed number of buckets.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

import msgspec

from crawlfleet.streams.delivery.models import Addressed, Delivery, Subscriber
from crawlfleet.streams.items import StreamItem

#: Upper ends of the buckets of lags, in seconds; what is later is in one more.
LAG_BOUNDS: Final = (
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3_600.0,
    86_400.0,
)
HOUR: Final = timedelta(hours=1)
#: Sources and subscriptions of one process that are counted apart; of more the later ones are not.
MOST: Final = 200_000


def bucket_of(seconds: float) -> int:
    """Return the bucket of a lag; clocks of channels differ from ours, so none is below 0.

    >>> bucket_of(-3), bucket_of(0.1), bucket_of(0.2), bucket_of(1e9) == len(LAG_BOUNDS)
    (0, 0, 1, True)
    """
    return bisect_left(LAG_BOUNDS, seconds)


def quantile(buckets: Mapping[int, int], share: float) -> float | None:
    """Return the lag that so many have at most, within its bucket; None where none is known.

    >>> quantile({3: 2}, 0.5), quantile({}, 0.5), quantile({99: 1}, 0.95)
    (0.75, None, 86400.0)
    """
    counts = [buckets.get(each, 0) for each in range(len(LAG_BOUNDS))]
    whole = sum(buckets.values())
    if not whole:
        return None
    wanted = share * whole
    for at, (count, up_to) in enumerate(zip(counts, accumulate(counts), strict=True)):
        if count and up_to >= wanted:
            least = LAG_BOUNDS[at - 1] if at else 0.0
            inside = (wanted - (up_to - count)) / count
            return least + inside * (LAG_BOUNDS[at] - least)
    return LAG_BOUNDS[-1]


@dataclass(slots=True)
class Counts:
    """Sums of a source or a subscription."""

    read: int = 0
    matched: int = 0
    delivered: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    lags: Counter[int] = field(default_factory=Counter)
    taken_at: datetime | None = None
    delivered_at: datetime | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of the last one to two hours, which are ``seconds`` long."""

    seconds: float
    read: int = 0
    matched: int = 0
    delivered: int = 0
    dropped: dict[str, int] = {}
    lags: dict[int, int] = {}
    taken_at: datetime | None = None
    delivered_at: datetime | None = None

    def per_minute(self, count: int) -> float:
        """Return a sum as a rate.

        >>> Figures(seconds=120.0).per_minute(5)
        2.5
        """
        return 60.0 * count / max(1.0, self.seconds)

    @property
    def lag_p50_seconds(self) -> float | None:
        """Return the median lag."""
        return quantile(self.lags, 0.5)

    @property
    def lag_p95_seconds(self) -> float | None:
        """Return the lag that 95 of 100 have at most."""
        return quantile(self.lags, 0.95)


class Taken(msgspec.Struct, frozen=True):
    """Sums that are to be stored."""

    sources: dict[str, Counts]
    subscriptions: dict[str, Counts]


class Tally:
    """The sums of one process; threads may share it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sources: dict[str, Counts] = {}
        self._subscriptions: dict[str, Counts] = {}

    def read(
        self,
        items: Iterable[StreamItem],
        wanted: Sequence[Addressed],
        now: datetime,
        dropped: Mapping[str, int] | None = None,
        channel: str = "",
    ) -> None:
        """Count items that were read and accepted; ``dropped`` ones are of the ``channel``.

        What goes to no target is delivered with that.
        """
        by_channel: Counter[str] = Counter()
        lags: dict[str, Counter[int]] = {}
        for item in items:
            by_channel[item.channel] += 1
            if item.published_at is not None:
                late = bucket_of((now - item.published_at).total_seconds())
                lags.setdefault(item.channel, Counter())[late] += 1
        lost = sum((dropped or {}).values())
        if lost:
            by_channel[channel] += lost
        with self._lock:
            for name, count in by_channel.items():
                if (counts := self._of(self._sources, name)) is not None:
                    counts.read += count
                    counts.taken_at = now
                    counts.lags.update(lags.get(name, ()))
            if dropped and (counts := self._of(self._sources, channel)) is not None:
                counts.dropped.update(dropped)
            for one in wanted:
                if (counts := self._of(self._sources, one.item.channel)) is not None:
                    counts.matched += 1
                for subscriber in one.subscribers:
                    self._matched(subscriber, one.item, now)

    def pushed(self, deliveries: Iterable[Delivery], now: datetime) -> None:
        """Count deliveries that their receivers have; withdrawals are none."""
        with self._lock:
            for one in deliveries:
                if one.item is not None:
                    key = f"{one.tenant}/{one.biz}/{one.subscription}"
                    self._delivered(key, one.item, now)

    def take(self) -> Taken:
        """Take the sums; it begins anew."""
        with self._lock:
            found = Taken(self._sources, self._subscriptions)
            self._sources, self._subscriptions = {}, {}
        return found

    def _matched(self, subscriber: Subscriber, item: StreamItem, now: datetime) -> None:
        key = f"{subscriber.tenant}/{subscriber.biz}/{subscriber.name}"
        if (counts := self._of(self._subscriptions, key)) is None:
            return
        counts.matched += 1
        counts.taken_at = now
        if subscriber.target is None:
            self._delivered(key, item, now)

    def _delivered(self, key: str, item: StreamItem, now: datetime) -> None:
        lag = None
        if item.published_at is not None:
            lag = bucket_of((now - item.published_at).total_seconds())
        if (counts := self._of(self._subscriptions, key)) is None:
            return
        counts.delivered += 1
        counts.delivered_at = now
        if lag is not None:
            counts.lags[lag] += 1

    def _of(self, known: dict[str, Counts], key: str) -> Counts | None:
        counts = known.get(key)
        if counts is None and len(known) < self._most:
            counts = known[key] = Counts()
        return counts
