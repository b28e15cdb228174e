"""What starts consumers where requests wait and nobody is there to read them."""

from datetime import datetime
from typing import Protocol


class Waker(Protocol):
    """Starts consumers."""

    def wake(self, count: int) -> None:
        """Start ``count`` consumer invocations, without waiting for them."""
        ...


class WakeReservations(Protocol):
    """A pool's workers, so far as more of them are to be started."""

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers.

        ``now`` is None for whoever does not go by the server's clock, as workers do.

        No more than ``most``, if that is said: the caller asks again when these are started.

        Each is counted as live for a few seconds, so that no two callers start the same one.
        """
        ...
