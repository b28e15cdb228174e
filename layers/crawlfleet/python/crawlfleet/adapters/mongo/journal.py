"""What happened to lanes as a whole, on the home node: lines by time, for a month."""

from datetime import datetime, timedelta
from typing import Final

from pymongo import ASCENDING, IndexModel
from pymongo.collection import Collection

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.documents import clean
from crawlfleet.model.journal import JournalLine
from crawlfleet.model.lane import Lane

#: How long a line is kept.
LIFE: Final = timedelta(days=30)
#: Characters kept of a line's texts: it may quote what others sent.
LONGEST_WHY: Final = 500
LONGEST_NAME: Final = 128


class MongoJournal:
    """ports.Journal."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False

    def note(self, lane: Lane, line: JournalLine) -> None:
        """See ports.Journal.note."""
        with border():
            self._lines().insert_one(
                {
                    "tenant": lane.tenant,
                    "biz": lane.biz,
                    "at": line.at,
                    "by": clean(line.by, LONGEST_NAME),
                    "kind": clean(line.kind, LONGEST_NAME),
                    "why": clean(line.why, LONGEST_WHY),
                    "count": line.count,
                }
            )

    def lines(self, lane: Lane, since: datetime, until: datetime, limit: int) -> list[JournalLine]:
        """See ports.Journal.lines."""
        match = {
            "tenant": lane.tenant,
            "biz": lane.biz,
            "at": {"$gte": since, "$lt": until},
        }
        with border():
            cursor = self._lines().find(match).sort([("at", ASCENDING), ("_id", ASCENDING)])
            return [
                JournalLine(
                    at=line["at"],
                    by=line["by"],
                    kind=line["kind"],
                    why=line["why"],
                    count=int(line["count"]),
                )
                for line in cursor.limit(limit)
            ]

    def _lines(self) -> Collection[Document]:
        lines = self._nodes.control("journal")
        if not self._sure:
            # `_id` keeps what happened within one millisecond in an order that stays.
            order = [(name, ASCENDING) for name in ("tenant", "biz", "at", "_id")]
            life = int(LIFE.total_seconds())
            lines.create_indexes(
                [
                    IndexModel(order, name="by_time"),
                    IndexModel([("at", ASCENDING)], name="ttl", expireAfterSeconds=life),
                ]
            )
            self._sure = True
        return lines
