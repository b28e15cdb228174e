"""What happened to a lane as a whole: its queue filled anew, workers buried, accounts corrected.

The conservation ledger: where everything that was ever submitted is (SPEC.md H1).

What is known of the work afterwards: ledger, journal, dead letters, repeats.
"""

from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.queue_key import QueueKey


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event: when, who, what kind, why in words, and how many requests it concerned."""

    at: datetime
    by: str
    kind: str
    why: str
    count: int = 0


#: The ledger of a job can be read for so long after its last request is gone.
JOB_LIFE: Final = timedelta(days=30)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a biz, or of one job of it, since it exists.

    ``done``, ``dead``, ``cancelled`` and ``expired`` are counted for ever, also those that MongoDB
    has removed since. A dead letter that is replayed leaves ``dead``. ``others`` are requests in
    states of the biz's own, ``own`` the same by state.
    """

    submitted: int = 0
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    others: int = 0
    own: dict[int, int] = {}

    @property
    def open(self) -> int:
        """Submitted and not ended, by the counters alone."""
        return self.submitted - self.done - self.dead - self.cancelled - self.expired

    @property
    def difference(self) -> int:
        """Submitted and in no state: 0 unless something was lost (above 0) or made up (below)."""
        return self.open - self.pending - self.leased - self.waiting - self.others


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """What had to be booked by hand of the machine, and why: a line of the lane's journal."""

    queue_key: QueueKey
    term: str
    count: int
    why: str


class Ledgers(Protocol):
    """The ledgers of bizs and jobs."""

    def totals(
        self, queue_key: QueueKey, biz: Biz, now: datetime, job: str | None = None
    ) -> Ledger:
        """O(1): counters, and an index count of what is in flight. Given up after some seconds.

        ``pending`` is what remains, so that the difference is always 0.
        """
        ...

    def audit(
        self,
        queue_key: QueueKey,
        biz: Biz,
        now: datetime,
        job: str | None = None,
        *,
        within_seconds: float | None = None,
    ) -> Ledger:
        """Every term counted by itself, of each node at one moment.

        That reads all that is open, so whoever has not the time for it says how long it may take.
        """
        ...

    def reconcile(self, queue_key: QueueKey, biz: Biz, now: datetime) -> list[Correction]:
        """Book what MongoDB may have removed uncounted while no recovery ran; then note this one.

        To be called after :meth:`RequestStore.expire`. Nothing is booked unless the time since the
        last call is longer than the grace that expired requests have.
        """
        ...


class Journal(Protocol):
    """What happened to a lane as a whole, for people who ask why."""

    def note(self, queue_key: QueueKey, line: JournalLine) -> None:
        """Keep a line, for a month."""
        ...

    def lines(
        self, queue_key: QueueKey, since: datetime, until: datetime, limit: int
    ) -> list[JournalLine]:
        """The lines of a span that includes ``since`` and not ``until``, oldest first."""
        ...
