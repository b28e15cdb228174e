"""How long a beat and a reserved wake-up count: who is taken to live (SPEC.md C6, D1).

Who is dead is for policy.liveness to say, from how each worker beats. The fixed spans here are for
where it is not asked: wake-ups, which have no history, how long a worker is remembered, and, as
the backstop, how many workers are counted as live when it is decided how many to start. A worker
that was found dead is counted no more, however fresh its last beat.
"""

from datetime import datetime, timedelta
from typing import Final, Self

import msgspec

from crawlfleet.model.times import to_ms

#: How long after its last beat a worker is counted as live, if nobody has found it dead before.
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
