"""Which Snowflake ids an environment may issue next (SPEC.md A2).

An id is 41 bits of milliseconds since 2025, 10 bits of worker number, 12 bits of sequence. For one
worker number the pair (millisecond, sequence) is one growing *position*; ids are unique because
every position at or below the worker number's *mark* is spent, and the mark is kept outside the
environment, under the fence of its lease. Nothing here reads a clock: ``now_ms`` is handed in.
"""

from typing import Final, TypeAlias

import msgspec

from crawlfleet.model.ids import SEQUENCE_BITS, SNOWFLAKE_EPOCH_MS, TIME_SHIFT

WORKER_NUMBERS: Final = 1024
PER_MILLISECOND: Final = 1 << SEQUENCE_BITS

#: Unused positions of this many past milliseconds may still be issued, so that a block of 400,000
#: never waits. Ids are therefore time-ordered to this much.
WINDOW_MS: Final = 100
#: A worker number without a mark may have been used by an environment whose mark was lost with
#: Redis, and whose clock was ahead by up to this much.
UNMARKED_GUARD_MS: Final = 250
#: Further than this the clock is called wrong instead of waited for.
LONGEST_WAIT_MS: Final = 2_000


class Allot(msgspec.Struct, frozen=True):
    """Positions ``start`` to ``end``, ``end`` excluded; the new mark is ``end``."""

    start: int
    end: int


class Wait(msgspec.Struct, frozen=True):
    """The positions lie ``milliseconds`` ahead of the clock: ask again then."""

    milliseconds: int


class SteppedBack(msgspec.Struct, frozen=True):
    """The clock is ``milliseconds`` behind ids already issued: refuse."""

    milliseconds: int


Allotment: TypeAlias = Allot | Wait | SteppedBack


def position(now_ms: int, sequence: int = 0) -> int:
    """The position of a moment, epoch milliseconds, and a sequence number."""
    return ((now_ms - SNOWFLAKE_EPOCH_MS) << SEQUENCE_BITS) + sequence


def first_mark(now_ms: int) -> int:
    """The mark of a worker number that has none."""
    return position(now_ms + UNMARKED_GUARD_MS)


def allot(mark: int, now_ms: int, count: int) -> Allotment:
    """Decide which ``count`` positions come next: never one at or below what was issued.

    >>> allot(mark=0, now_ms=SNOWFLAKE_EPOCH_MS + 1000, count=2)
    Allot(start=3686400, end=3686402)
    """
    start = max(mark, position(now_ms - WINDOW_MS))
    end = start + count
    ahead_ms = -(-(end - position(now_ms + 1)) // PER_MILLISECOND)
    if ahead_ms <= 0:
        return Allot(start, end)
    return Wait(ahead_ms) if ahead_ms <= LONGEST_WAIT_MS else SteppedBack(ahead_ms)


def runs(worker: int, allotted: Allot) -> list[tuple[int, int]]:
    """The ids of the positions as runs ``(first id, how many)``, one for each millisecond.

    >>> runs(5, Allot(4094, 4098))
    [(24574, 2), (4214784, 2)]
    """
    found = []
    at = allotted.start
    while at < allotted.end:
        millisecond, sequence = divmod(at, PER_MILLISECOND)
        size = min(PER_MILLISECOND - sequence, allotted.end - at)
        found.append(((millisecond << TIME_SHIFT) | (worker << SEQUENCE_BITS) | sequence, size))
        at += size
    return found
