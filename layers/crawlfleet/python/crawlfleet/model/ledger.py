"""The conservation ledger: where everything that was ever submitted is (SPEC.md H1)."""

from datetime import timedelta
from typing import Final

import msgspec

from crawlfleet.model.lane import Lane

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

    lane: Lane
    term: str
    count: int
    why: str
