"""Add the figures of sources and subscriptions up by the hour, on the home node.

``stream_source_hours`` and ``stream_subscriber_hours`` have a document for each source, or
subscription, that had anything in an hour: ``{_id: "NAME@HOUR", read, matched, delivered,
dropped.REASON, lags.BUCKET, taken_at, delivered_at, expires_at}``. They are forgotten after two
days.
"""

import re
from collections.abc import Collection as Several
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from pymongo import IndexModel, UpdateOne
from pymongo.collection import Collection

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.figures import HOUR, Counts, Figures, Taken
from crawlfleet.streams.delivery.mongo.outbox import chunks

LIFE: Final = timedelta(days=2)
SOURCES: Final = "stream_source_hours"
SUBSCRIPTIONS: Final = "stream_subscriber_hours"
#: Reasons that are counted apart: words of readers, which no stranger chooses.
_REASON: Final = re.compile(r"[a-z_]{1,40}\Z")


class MongoFigures:
    """Add up and read figures."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._indexed: set[str] = set()

    def add(self, taken: Taken, now: datetime) -> None:
        """Add sums to those of this hour, a thousand a write; what fails then is not counted."""
        for name, counts in ((SOURCES, taken.sources), (SUBSCRIPTIONS, taken.subscriptions)):
            self._add(name, counts, now)

    def of_sources(self, names: Several[str], now: datetime) -> dict[str, Figures]:
        """Return figures of sources, each by its channel; of those without any they are 0."""
        return self._read(SOURCES, names, now)

    def of_subscriptions(self, ids: Several[str], now: datetime) -> dict[str, Figures]:
        """Return figures of subscriptions by their ids."""
        return self._read(SUBSCRIPTIONS, ids, now)

    def _add(self, name: str, counts: Mapping[str, Counts], now: datetime) -> None:
        hour, expires_at = _hour(now), now + LIFE
        for part in chunks(counts.items()):
            writes = [
                UpdateOne({"_id": _id(key, hour)}, _change(one, expires_at), upsert=True)
                for key, one in part
            ]
            with border():
                self._documents(name).bulk_write(writes, ordered=False)

    def _read(self, name: str, keys: Several[str], now: datetime) -> dict[str, Figures]:
        hours = (_hour(now - HOUR), _hour(now))
        seconds = now.timestamp() - hours[0] * HOUR.total_seconds()
        found: dict[str, list[Document]] = {key: [] for key in keys}
        for part in chunks(sorted(found)):
            ids = [_id(key, hour) for key in part for hour in hours]
            with border():
                for one in self._documents(name).find({"_id": {"$in": ids}}):
                    found[one["_id"].rpartition("@")[0]].append(one)
        return {key: _figures(those, seconds) for key, those in found.items()}

    def _documents(self, name: str) -> Collection[Document]:
        collection = self._nodes.control(name)
        if name not in self._indexed:
            ttl = IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0)
            collection.create_indexes([ttl])
            self._indexed.add(name)
        return collection


def _hour(now: datetime) -> int:
    return int(now.timestamp() // HOUR.total_seconds())


def _id(key: str, hour: int) -> str:
    return f"{key}@{hour}"


def _change(counts: Counts, expires_at: datetime) -> Document:
    sums = {"read": counts.read, "matched": counts.matched, "delivered": counts.delivered}
    for reason, count in counts.dropped.items():
        named = reason if _REASON.match(reason) else "other"
        sums[f"dropped.{named}"] = sums.get(f"dropped.{named}", 0) + count
    sums |= {f"lags.{bucket}": count for bucket, count in counts.lags.items()}
    moments = {"taken_at": counts.taken_at, "delivered_at": counts.delivered_at}
    latest = {name: at for name, at in moments.items() if at is not None}
    return {
        "$inc": {name: count for name, count in sums.items() if count} or {"read": 0},
        "$max": {**latest, "expires_at": expires_at},
    }


def _figures(documents: list[Document], seconds: float) -> Figures:
    dropped: dict[str, int] = {}
    lags: dict[int, int] = {}
    for one in documents:
        for reason, count in one.get("dropped", {}).items():
            dropped[reason] = dropped.get(reason, 0) + int(count)
        for bucket, count in one.get("lags", {}).items():
            lags[int(bucket)] = lags.get(int(bucket), 0) + int(count)

    def whole(name: str) -> int:
        return sum(int(one.get(name, 0)) for one in documents)

    def latest(name: str) -> datetime | None:
        return max((one[name] for one in documents if name in one), default=None)

    return Figures(
        seconds=seconds,
        read=whole("read"),
        matched=whole("matched"),
        delivered=whole("delivered"),
        dropped=dropped,
        lags=lags,
        taken_at=latest("taken_at"),
        delivered_at=latest("delivered_at"),
    )
