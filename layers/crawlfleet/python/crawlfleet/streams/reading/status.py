"""Statuses of readers: which source a worker reads, since when, and what it last met.

A status is kept by each worker for each channel that it reads, and one for all of its feeds. Those
that are not renewed are of workers that are gone.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.streams.reading.counters import ChannelReport
from crawlfleet.streams.silence import Gaps

#: A worker that has not renewed a status for so long reads no more.
FRESH: Final = timedelta(seconds=45)
RENEWED_SECONDS: Final = 10.0
#: The name of a status that is of all feeds.
FEEDS: Final = ""


class ReaderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A channel as one worker reads it.

    ``connections`` are those that stand now, ``per_second`` items read of late. ``faults`` are
    connections that ended, by how, since the worker began; ``refused`` says that the last one did
    not come about, as the channel refused the secret.
    """

    channel: str
    worker: str
    at: datetime
    since: datetime
    connections: int = 0
    per_second: float = 0.0
    gaps: Gaps = Gaps()
    faults: dict[str, int] = {}
    last_fault: str = ""
    last_fault_at: datetime | None = None
    refused: bool = False
    lag_p95_seconds: float | None = None


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A channel as all of its workers read it: the newest fault, sums of the rest."""

    readers: tuple[str, ...] = ()
    since: datetime | None = None
    connections: int = 0
    per_second: float = 0.0
    last_item_at: datetime | None = None
    faults: int = 0
    last_fault: str = ""
    last_fault_at: datetime | None = None
    refused: bool = False
    gaps: Gaps = Gaps()
    lag_p95_seconds: float | None = None


class Pace:
    """The rates of channels, of what was read between two statuses."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, datetime]] = {}

    def statuses(
        self, worker: str, reports: Mapping[str, ChannelReport], now: datetime
    ) -> list[ReaderStatus]:
        """Make the statuses of a worker's channels."""
        return [self._status(worker, name, one, now) for name, one in reports.items()]

    def _status(self, worker: str, name: str, one: ChannelReport, now: datetime) -> ReaderStatus:
        read, at = self._before.get(name, (0, one.since))
        self._before[name] = one.read, now
        seconds = (now - at).total_seconds()
        return ReaderStatus(
            channel=name,
            worker=worker,
            at=now,
            since=one.since,
            connections=one.connections,
            per_second=max(0, one.read - read) / seconds if seconds > 0 else 0.0,
            gaps=one.gaps,
            faults=dict(one.faults),
            last_fault=one.last_fault,
            last_fault_at=one.last_fault_at,
            refused=one.is_refused,
            lag_p95_seconds=one.lag_p95_seconds,
        )


def together(statuses: Iterable[ReaderStatus], now: datetime) -> SourceStatus:
    """Put the statuses of one channel together; those that are not fresh count no more."""
    every = sorted(statuses, key=lambda one: one.at)
    fresh = [one for one in every if now - one.at <= FRESH]
    faulty = [one for one in every if one.last_fault_at is not None]
    newest = max(faulty, key=lambda one: one.last_fault_at or one.at) if faulty else None
    items = [one.gaps.item_at for one in every if one.gaps.item_at is not None]
    lags = [one.lag_p95_seconds for one in fresh if one.lag_p95_seconds is not None]
    return SourceStatus(
        readers=tuple(sorted({one.worker for one in fresh if one.connections})),
        since=min((one.since for one in fresh if one.connections), default=None),
        connections=sum(one.connections for one in fresh),
        per_second=sum(one.per_second for one in fresh),
        last_item_at=max(items, default=None),
        faults=sum(sum(one.faults.values()) for one in fresh),
        last_fault="" if newest is None else newest.last_fault,
        last_fault_at=None if newest is None else newest.last_fault_at,
        refused=any(one.refused for one in fresh),
        gaps=_of_all(one.gaps for one in every),
        lag_p95_seconds=max(lags, default=None),
    )


def _of_all(each: Iterable[Gaps]) -> Gaps:
    """Return the gaps of a source by those of its readers, one after another or at once."""
    known = [one for one in each if one.item_at is not None]
    return Gaps(
        longest=max((one.longest for one in known), default=0.0),
        times=sum(one.times for one in known),
        item_at=max((one.item_at for one in known if one.item_at), default=None),
    )
