"""How many workers there are to be: what lies ahead of them, what was decided, what is allowed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Protocol

from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry
from crawlfleet.model.staff import LaneWork, Mustered, Shown, Staff, Staffed
from crawlfleet.model.tick import Ticked, TickPart

_NONE: Final[Mapping[str, Shown]] = MappingProxyType({})


class Outlook(Protocol):
    """The queues as whoever decides on workers sees them. Costs by lanes, not by what is queued."""

    def works(
        self, lanes: Sequence[Lane], now: datetime, soon: timedelta, hosts: int
    ) -> list[LaneWork]:
        """What lies ahead in each lane, with ``hosts`` of its hosts at most."""
        ...

    def glimpse(self, lane: Lane, count: int) -> list[Entry]:
        """Up to ``count`` entries of the queue, from its whole length; they stay where they are."""
        ...


class Staffing(Protocol):
    """The standing decision on a pool, which several may make, and the workers that go by it."""

    def read(self, pool: str) -> Staffed:
        """What stands; a version of 0 and no decision where none was ever made, or Redis lost it.

        Its moment is the server's.
        """
        ...

    def settle(self, pool: str, read: Staffed, staff: Staff) -> bool:
        """Make it the decision that stands, unless another was made since ``read``; False then."""
        ...

    def paces(self, pool: str) -> dict[str, float]:
        """What workers have shown to be able to do in a second of a lane alone, by ``tenant/biz``.

        Of at most policy.scaling.MOST_PACES lanes, those shown last.
        """
        ...

    def muster(
        self,
        pool: str,
        worker: str,
        pace: Shown | None,
        now: datetime,
        paces: Mapping[str, Shown] = _NONE,
    ) -> Mustered:
        """A worker says what it can do in a second, if it knows; whether it is to leave.

        ``paces`` are what it could do of a lane alone, by ``tenant/biz``. What is known is learnt
        from it by policy.scaling.learnt.

        As many are told to leave as are more than is decided to be kept, and no decision that is
        out of date sends anybody away, nor any the last one. Who was told once is told so again.
        """
        ...

    def idle(self, stated: Sequence[str], active: Collection[str]) -> dict[str, float]:
        """Seconds since each that states needs was at work; 0 for those that are, or are new.

        ``active`` are those at work now. Who is not among ``stated`` is forgotten.
        """
        ...


class Ticks(Protocol):
    """The scheduler's latest tick: who is silent cannot say so himself, so others look."""

    def note(self, took_seconds: float, faults: Mapping[TickPart, int]) -> None:
        """A tick has ended just now; of each part that failed how often it did."""
        ...

    def tell_fault(self, part: TickPart, what: str) -> None:
        """Something of a part has failed between ticks; ``what`` is a word, once for each failure.

        :meth:`last` counts it for ``BETWEEN_SECONDS``; told again it is the same.
        """
        ...

    def last(self) -> Ticked:
        """The latest that ended, by the server's clock; or since when one is asked for."""
        ...


class ConcurrencyLimit(Protocol):
    """How many invocations of the workers' function there may be at once."""

    @property
    def ceiling(self) -> int:
        """The most that the stage may be given."""
        ...

    def current(self) -> int | None:
        """How many are allowed now; None where it is not limited."""
        ...

    def change(self, count: int) -> None:
        """Allow so many.

        Raises:
            LimitRefusedError: the account has not so many to give; what was allowed still is.
        """
        ...
