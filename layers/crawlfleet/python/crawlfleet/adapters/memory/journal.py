"""The twin of MongoDB's journal. It forgets when a line is noted, by that line's time."""

import threading
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.model.journal import JournalLine
from crawlfleet.model.lane import Lane
from crawlfleet.model.times import from_ms, to_ms

_LIFE: Final = timedelta(days=30)
_LONGEST_WHY: Final = 500
_LONGEST_NAME: Final = 128


class MemoryJournal:
    """ports.Journal in memory."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[JournalLine]] = defaultdict(list)
        self._lock = threading.Lock()

    def note(self, lane: Lane, line: JournalLine) -> None:
        """See ports.Journal.note."""
        kept = JournalLine(
            at=from_ms(to_ms(line.at)),
            by=_clean(line.by, _LONGEST_NAME),
            kind=_clean(line.kind, _LONGEST_NAME),
            why=_clean(line.why, _LONGEST_WHY),
            count=line.count,
        )
        with self._lock:
            lines = self._lines[lane.tenant, lane.biz]
            oldest = kept.at - _LIFE
            lines[:] = [*(other for other in lines if other.at > oldest), kept]
            lines.sort(key=lambda other: other.at)

    def lines(self, lane: Lane, since: datetime, until: datetime, limit: int) -> list[JournalLine]:
        """See ports.Journal.lines."""
        with self._lock:
            lines = self._lines[lane.tenant, lane.biz]
            return [line for line in lines if since <= line.at < until][:limit]


def _clean(text: str, length: int) -> str:
    return text[:length].encode("utf-8", "replace").decode("utf-8")
