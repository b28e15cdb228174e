"""What is known of pages since they were last read (SPEC.md H7)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.recrawl import Visit, VisitTotals


class Visits(Protocol):
    """Pages by their seed key; kept until nothing was heard of them for the policy's time."""

    def known(self, lane: Lane, biz: Biz, keys: Sequence[str]) -> dict[str, Visit]:
        """The visits of these pages; unknown ones are missing."""
        ...

    def saw(self, lane: Lane, biz: Biz, visits: Sequence[Visit]) -> None:
        """Keep these, each unless a later one is kept."""
        ...

    def due(self, lane: Lane, biz: Biz, now: datetime, limit: int) -> list[Visit]:
        """Pages to be read again by ``now``, longest due first.

        Fewer than ``limit`` where what they carry is large (policy.recrawl.with_room).
        """
        ...

    def put_off(self, lane: Lane, biz: Biz, offs: Sequence[tuple[Visit, datetime]]) -> list[Visit]:
        """Put each off until its time; returns, so put off, those that were still due as given.

        What somebody else has put off or seen since it was read is left as it is.
        """
        ...

    def totals(self, lane: Lane, biz: Biz, now: datetime) -> VisitTotals:
        """The sums over all pages that are known."""
        ...
