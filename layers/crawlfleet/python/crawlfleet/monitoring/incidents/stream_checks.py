"""Detect sources of streams that are silent, late or refuse their secret, and receivers that fail.

**Silent** is a source that has brought nothing for longer than its usual gaps allow; the moment is
worked out where they are known (``streams.silence``), so each source is judged by itself. Feeds are
one finding, as there may be thousands.

**Late** is a channel whose items of late are read long after they were published.

**Refused** is the secret of a channel: nothing is read until it is replaced.

**Receivers** take nothing, of one tenant or another: a finding for each tenant names them.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.kernel.time import span
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.monitoring.incidents.models import Finding, Place
from crawlfleet.monitoring.models import ReceiverSample, StreamSample, StreamsSample

#: What is found of streams.
KINDS: Final = frozenset(
    {Kind.STREAM_SILENT, Kind.STREAM_LATE, Kind.STREAM_REFUSED, Kind.RECEIVER_FAILS}
)
#: Items are late beyond this, 95 of 100 of those that came last.
LATE_SECONDS: Final = 300.0
#: Items that came longer ago say nothing of how late those are that come now.
RECENT: Final = timedelta(minutes=15)
#: A receiver that takes nothing for so long is told of; it is tried again all the time.
FAILING: Final = timedelta(minutes=5)
_NAMED: Final = 5
_QUOTED: Final = 200
FEEDS: Final = Place(part="stream", name="feeds")


def stream_findings(streams: StreamsSample, now: datetime) -> Iterator[Finding]:
    """Find what is wrong with sources and receivers."""
    for source in streams.sources:
        yield from _source_findings(source, now)
    if feeds := streams.silent_feeds:
        said = f"{len(feeds):,} have brought nothing for longer than they usually do: "
        said += _listed([one_line(feed, _QUOTED) for feed in feeds])
        yield Finding(Kind.STREAM_SILENT, FEEDS, len(feeds), 0, said)
    receivers = sorted(streams.receivers, key=lambda one: (one.tenant, one.failing_since))
    for tenant, each in groupby(receivers, key=lambda one: one.tenant):
        yield from _receiver_findings(tenant, list(each), now)


def _source_findings(source: StreamSample, now: datetime) -> Iterator[Finding]:
    place = Place(part="stream", name=one_line(source.name, 64))
    if source.refused:
        said = f"it refuses the secret: {plain(source.last_fault, _QUOTED)}"
        yield Finding(Kind.STREAM_REFUSED, place, 1, 0, said)
    if source.item_at is None:
        return
    passed = now - source.item_at
    if source.silent_at is not None and now > source.silent_at:
        usual = (source.silent_at - source.item_at).total_seconds()
        said = f"it has brought nothing for {span(passed.total_seconds())}; by its usual gaps"
        said += f" {span(usual)} would be long"
        yield Finding(Kind.STREAM_SILENT, place, passed.total_seconds(), usual, said)
    lag = source.lag_p95_seconds
    if lag is not None and lag > LATE_SECONDS and passed <= RECENT:
        said = f"of its latest items one in twenty was read {span(lag)} after it was published,"
        said += f" or later, more than {span(LATE_SECONDS)}"
        yield Finding(Kind.STREAM_LATE, place, lag, LATE_SECONDS, said)


def _receiver_findings(
    tenant: str, receivers: Sequence[ReceiverSample], now: datetime
) -> Iterator[Finding]:
    failing = [one for one in receivers if now - one.failing_since >= FAILING]
    if not failing:
        return
    words = [
        f"{one_line(one.target, _QUOTED)} since {one.failing_since:%Y-%m-%d %H:%M} UTC:"
        f" {plain(one.error, _QUOTED)}"
        for one in failing
    ]
    yield Finding(Kind.RECEIVER_FAILS, Place(tenant=tenant), len(failing), 0, _listed(words))


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return "; ".join(words[:_NAMED]) + (f"; and {more:,} more" if more > 0 else "")
