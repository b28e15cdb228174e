"""Where ids come from, and the numbers that keep them apart."""

from typing import Protocol

from crawlfleet.model.ids import IdKind, RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.worker import HeldNumber


class IdSource(Protocol):
    """Where a submission gets its ids."""

    def take(self, lane: Lane, kind: IdKind, count: int) -> list[RequestId]:
        """``count`` ids never given before, roughly in time order.

        Raises:
            IdsError: none can be issued now.
        """
        ...


class WorkerNumbers(Protocol):
    """Leases of Snowflake worker numbers, with a fence and a mark (see policy.snowflake)."""

    def lease(self, holder: str, now_ms: int, term_ms: int) -> HeldNumber:
        """A free worker number, for ``term_ms``; the one that has been free for longest.

        Raises:
            WorkerNumbersExhaustedError: all are leased.
        """
        ...

    def advance(self, held: HeldNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """Spend the positions below ``mark`` and renew the lease, in one step.

        False, and no effect, when the lease has ended, is another's, or its mark is not ``held``'s.
        """
        ...
