"""How long a beat and a reserved wake-up count: who is taken to live (SPEC.md C6, D1)."""

from datetime import datetime, timedelta
from typing import Final, Self

import msgspec

from crawlfleet.model.times import to_ms

#: How long after its last beat a worker is taken to live, unless told otherwise.
LIVENESS: Final = timedelta(seconds=15)
#: How long a started consumer may take to its first beat. Longer than a cold start in a network.
WAKE_TERM: Final = timedelta(seconds=10)
#: How long a dead worker is remembered.
MEMORY: Final = timedelta(minutes=10)


class Presence(msgspec.Struct, frozen=True):
    """The three limits at one moment, in epoch milliseconds; each excludes its own value."""

    now_ms: int
    live_after_ms: int
    wakes_after_ms: int
    forget_ms: int

    @classmethod
    def at(cls, now: datetime, liveness: timedelta = LIVENESS) -> Self:
        """The limits at ``now``; a longer liveness is also a longer memory."""
        return cls(
            now_ms=to_ms(now),
            live_after_ms=to_ms(now - liveness),
            wakes_after_ms=to_ms(now - WAKE_TERM),
            forget_ms=to_ms(now - max(MEMORY, liveness)),
        )
