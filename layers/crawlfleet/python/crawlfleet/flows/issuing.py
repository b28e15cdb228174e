"""Issuing ids in blocks (SPEC.md A2): lease a worker number, advance its mark, hand out the ids.

The mark lives beside the lease and every block advances it there, so an environment that was
frozen, or whose number went to another meanwhile, is refused before it can issue anything.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.errors import (
    ClockSteppedBackError,
    IdsError,
    StoreUnavailableError,
    WorkerNumbersExhaustedError,
)
from crawlfleet.model.block import Block
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.model.worker import HeldNumber
from crawlfleet.policy.snowflake import SteppedBack, Wait, allot, runs
from crawlfleet.ports import Clock, WorkerNumbers

#: How long a worker number stays leased after its last block.
TERM: Final = timedelta(seconds=60)
#: How long a block may be used. Short, because ids carry their time and the route depends on it.
BLOCK_LIFE: Final = timedelta(seconds=10)
#: Tries to get hold of a number and advance it before giving up.
TRIES: Final = 8


class Issuer:
    """One environment's hold on a worker number.

    Args:
        authorities: Where numbers are leased, the preferred one first; they share out the numbers
            between them, so that ids go on when one does not answer.
        holder: Names this environment in the lease.
        clock: The time.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        authorities: Sequence[WorkerNumbers],
        holder: str,
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        self._authorities = authorities
        self._holder = holder
        self._clock = clock
        self._sleep = sleep
        self._held: tuple[WorkerNumbers, HeldNumber] | None = None

    def issue(self, count: int) -> Block:
        """``count`` Snowflake ids that no other call, here or elsewhere, ever gave or will give.

        Raises:
            WorkerNumbersExhaustedError: more environments than numbers.
            ClockSteppedBackError: the clock is too far behind ids already issued.
            StoreUnavailableError: no authority answers.
        """
        for _ in range(TRIES):
            now = self._clock()
            authority, held = self._held or self._lease(now)
            decision = allot(held.mark, to_ms(now), count)
            if isinstance(decision, SteppedBack):
                message = f"the clock is {decision.milliseconds} ms behind ids already issued"
                raise ClockSteppedBackError(message)
            if isinstance(decision, Wait):
                self._held = authority, held
                self._sleep(decision.milliseconds / 1000)
                continue
            self._held = None
            if self._advance(authority, held, decision.end, now):
                renewed = HeldNumber(number=held.number, fence=held.fence, mark=decision.end)
                self._held = authority, renewed
                return Block(runs=tuple(runs(held.number, decision)), expires_at=_block_end(now))
        message = f"no worker number could be kept in {TRIES} tries"
        raise IdsError(message)

    @staticmethod
    def _advance(authority: WorkerNumbers, held: HeldNumber, mark: int, now: datetime) -> bool:
        try:
            return authority.advance(held, mark, to_ms(now), TERM // timedelta(milliseconds=1))
        except StoreUnavailableError:
            # Whether the mark moved is not known: this number is left to its lease, another is
            # taken.
            return False

    def _lease(self, now: datetime) -> tuple[WorkerNumbers, HeldNumber]:
        failure: StoreUnavailableError | WorkerNumbersExhaustedError | None = None
        for authority in self._authorities:
            try:
                term_ms = TERM // timedelta(milliseconds=1)
                return authority, authority.lease(self._holder, to_ms(now), term_ms)
            except (StoreUnavailableError, WorkerNumbersExhaustedError) as error:
                failure = error
        raise failure or IdsError("there is no authority for worker numbers")


def _block_end(now: datetime) -> datetime:
    return from_ms(to_ms(now + BLOCK_LIFE))
