"""Holds: one reader of a channel at a time, by a lease that is acknowledged (SPEC.md D2, D3).

1. A worker takes a channel that is free: it is offered for a moment, under a fence that rises.
2. It is the worker's when that keeps it, which acknowledges the offer; a late one is refused. So an
   offer whose answer is lost keeps the channel from others for that moment only.
3. It keeps the hold again and again, and may read until a lease after it last *asked* to, less what
   clocks may differ by: it stops before the channel can be another's. Whoever hands over stops
   first, then releases.

What Redis loses, or has of another time after a failover, is granted to nobody for one lease: who
read before has kept it by then, or has stopped. A new channel waits as long, as it looks the same.
So there are never two readers; and none for at most a lease, an offer and the pauses between two
asks. The leases are by the clock of Redis: one that is set forward ends them early.
"""

from typing import Final

#: A reader that died is followed after this.
LEASE_SECONDS: Final = 4.0
#: A hold is kept again after this.
KEEP_SECONDS: Final = 1.0
#: An offer ends after this unless it is acknowledged.
OFFER_SECONDS: Final = 1.0
#: The part of a lease that two clocks may differ by in its time.
DRIFT: Final = 0.05


class ReaderHold:
    """A reader's side of a hold; times are by its steady clock."""

    def __init__(self, lease_seconds: float = LEASE_SECONDS) -> None:
        self._reads_for = lease_seconds * (1 - DRIFT)
        #: The fence that the channel was offered or is held under; None without one.
        self.fence: int | None = None
        self._reads_until: float | None = None
        self._asked_at: float | None = None

    def offered(self, fence: int) -> None:
        """Note an offer, which is to be kept at once."""
        self.fence, self._reads_until, self._asked_at = fence, None, None

    def is_due(self, now: float) -> bool:
        """Tell whether the hold is to be kept now."""
        if self.fence is None:
            return False
        return self._asked_at is None or now - self._asked_at >= KEEP_SECONDS

    def ask(self, now: float) -> int | None:
        """Return the fence to ask with, None where there is nothing to keep any more.

        Who has read and whose time is over asks no more: another may read.
        """
        if self._reads_until is not None and now >= self._reads_until:
            self.dropped()
        if self.fence is not None:
            self._asked_at = now
        return self.fence

    def answered(self, fence: int, asked_at: float, *, is_kept: bool) -> None:
        """Note an answer, which may be late: it counts from when it was asked for."""
        if fence != self.fence:
            return
        if not is_kept:
            self.dropped()
            return
        self._reads_until = max(self._reads_until or asked_at, asked_at + self._reads_for)

    def may_read(self, now: float) -> bool:
        """Tell whether the channel may be read; before each connection and each read of it."""
        return self._reads_until is not None and now < self._reads_until

    def dropped(self) -> None:
        """Stop: the hold is released, or another's."""
        self.fence = self._reads_until = self._asked_at = None
