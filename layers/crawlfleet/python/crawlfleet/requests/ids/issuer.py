"""Decide which Snowflake ids an environment may issue next (SPEC.md A2).

An id is 41 bits of milliseconds since 2025, 10 bits of worker number, 12 bits of sequence. For one
worker number the pair (millisecond, sequence) is one growing *position*; ids are unique because
every position at or below the worker number's *mark* is spent, and the mark is kept outside the
environment, under the fence of its lease. Nothing here reads a clock: ``now_ms`` is handed in.

Ids are issued in blocks: lease a worker number, advance its mark, hand out the ids. The mark lives
beside the lease and every block advances it there, so an environment that was frozen, or whose
number went to another meanwhile, is refused before it can issue anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias

import msgspec

from crawlfleet.kernel import errors, ids
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock, from_ms, to_ms


class LeasedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a leased Snowflake worker number. ``mark``: every position below it is spent."""

    number: int
    fence: str
    mark: int


WORKER_NUMBERS: Final = 1024
PER_MILLISECOND: Final = 1 << ids.SEQUENCE_BITS

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
    """Return the position of a moment, in epoch milliseconds, and a sequence number."""
    return ((now_ms - ids.SNOWFLAKE_EPOCH_MS) << ids.SEQUENCE_BITS) + sequence


def first_mark(now_ms: int) -> int:
    """Return the mark of a worker number that has none."""
    return position(now_ms + UNMARKED_GUARD_MS)


def allot(mark: int, now_ms: int, count: int) -> Allotment:
    """Decide which ``count`` positions come next: never one at or below what was issued.

    >>> allot(mark=0, now_ms=ids.SNOWFLAKE_EPOCH_MS + 1000, count=2)
    Allot(start=3686400, end=3686402)
    """
    start = max(mark, position(now_ms - WINDOW_MS))
    end = start + count
    ahead_ms = -(-(end - position(now_ms + 1)) // PER_MILLISECOND)
    if ahead_ms <= 0:
        return Allot(start, end)
    return Wait(ahead_ms) if ahead_ms <= LONGEST_WAIT_MS else SteppedBack(ahead_ms)


def runs(worker: int, allotted: Allot) -> list[tuple[int, int]]:
    """Return the ids of the positions as runs ``(first id, how many)``, one for each millisecond.

    >>> runs(5, Allot(4094, 4098))
    [(24574, 2), (4214784, 2)]
    """
    found, at = [], allotted.start
    while at < allotted.end:
        millisecond, sequence = divmod(at, PER_MILLISECOND)
        size = min(PER_MILLISECOND - sequence, allotted.end - at)
        first = (millisecond << ids.TIME_SHIFT) | (worker << ids.SEQUENCE_BITS) | sequence
        found.append((first, size))
        at += size
    return found


class IdSource(Protocol):
    """Give a submission its ids; a Protocol, as the fleet, which calls the issuer, stands above."""

    def take(self, queue_key: QueueKey, kind: ids.IdKind, count: int) -> list[ids.RequestId]:
        """Give ``count`` ids never given before, roughly in time order.

        Raises:
            IdsError: none can be issued now.
        """
        ...


class WorkerNumbers(Protocol):
    """Lease Snowflake worker numbers, each with a fence and a mark."""

    def lease(self, holder: str, now_ms: int, term_ms: int) -> LeasedNumber:
        """Lease the number that has been free for longest, for ``term_ms``.

        Raises:
            WorkerNumbersExhaustedError: all are leased.
        """
        ...

    def advance(self, leased: LeasedNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """Spend the positions below ``mark`` and renew the lease, in one step.

        False, and no effect, when the lease has ended, is another's, or has another mark.
        """
        ...


#: How long a worker number stays leased after its last block.
TERM: Final = timedelta(seconds=60)
#: How long a block may be used. Short, because ids carry their time and the route depends on it.
BLOCK_LIFE: Final = timedelta(seconds=10)
#: Tries to get hold of a number and advance it before giving up.
TRIES: Final = 8


@dataclass(slots=True)
class Issuer:
    """Issue Snowflake ids under one environment's worker number.

    ``authorities`` lease numbers, the preferred one first; they share out the numbers between them,
    so that ids go on when one does not answer. ``holder`` names this environment in the lease.
    """

    authorities: Sequence[WorkerNumbers]
    holder: str
    clock: Clock
    sleep: Callable[[float], None]
    _leased: tuple[WorkerNumbers, LeasedNumber] | None = field(default=None, init=False)

    def issue(self, count: int) -> ids.Block:
        """Issue ``count`` Snowflake ids that no other call, here or elsewhere, gives.

        Raises:
            WorkerNumbersExhaustedError: more environments than numbers.
            ClockSteppedBackError: the clock is too far behind ids already issued.
            StoreUnavailableError: no authority answers.
        """
        for _ in range(TRIES):
            now = self.clock()
            authority, leased = self._leased or self._lease(now)
            decision = allot(leased.mark, to_ms(now), count)
            if isinstance(decision, SteppedBack):
                message = f"the clock is {decision.milliseconds} ms behind ids already issued"
                raise errors.ClockSteppedBackError(message)
            if isinstance(decision, Wait):
                self._leased = authority, leased
                self.sleep(decision.milliseconds / 1000)
                continue
            self._leased = None
            if self._advance(authority, leased, decision.end, now):
                renewed = LeasedNumber(number=leased.number, fence=leased.fence, mark=decision.end)
                self._leased = authority, renewed
                expires_at = from_ms(to_ms(now + BLOCK_LIFE))
                return ids.Block(runs=tuple(runs(leased.number, decision)), expires_at=expires_at)
        raise errors.IdsError(f"no worker number could be kept in {TRIES} tries")

    @staticmethod
    def _advance(authority: WorkerNumbers, leased: LeasedNumber, mark: int, now: datetime) -> bool:
        try:
            return authority.advance(leased, mark, to_ms(now), TERM // timedelta(milliseconds=1))
        except errors.StoreUnavailableError:
            # Whether the mark moved is not known: the number is left to its lease, another taken.
            return False

    def _lease(self, now: datetime) -> tuple[WorkerNumbers, LeasedNumber]:
        failure: errors.StoreUnavailableError | errors.WorkerNumbersExhaustedError | None = None
        for authority in self.authorities:
            try:
                term_ms = TERM // timedelta(milliseconds=1)
                return authority, authority.lease(self.holder, to_ms(now), term_ms)
            except (errors.StoreUnavailableError, errors.WorkerNumbersExhaustedError) as error:
                failure = error
        raise failure or errors.IdsError("there is no authority for worker numbers")
