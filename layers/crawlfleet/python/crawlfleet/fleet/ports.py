"""Which pools there have been, and until when (SPEC.md B12).

What surrounds the work: the time, the configuration, what is measured and woken.

How many workers there are to be: what lies ahead of them, what was decided, what is allowed.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Protocol

from crawlfleet.fleet.models import (
    ScalingState,
    ScalingTarget,
    Throughput,
    ThroughputReply,
    Ticked,
    TickPart,
    WorkerHeartbeats,
    WorkerStatus,
)
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.requests.models import Entry
from crawlfleet.requests.queue.stats import QueueWork
from crawlfleet.requests.submission.service import WakeReservations

_NO_STATUS: Final = WorkerStatus()


class Workers(WakeReservations, Protocol):
    """Which workers of one pool live, over all lanes of the stage."""

    def beat(self, worker: str, now: datetime, worker_status: WorkerStatus = _NO_STATUS) -> bool:
        """The worker lives, and is taken to for the adapter's liveness span.

        True if it was known. False: it is new, or it was buried or forgotten meanwhile.
        """
        ...

    def leave(self, worker: str) -> None:
        """The worker ends of its own will."""
        ...

    def retire(self, worker: str, now: datetime, least: int) -> bool:
        """The worker ends, unless fewer than ``least`` others live; whether it has.

        Atomic over callers: of two, one ends where one has to stay. Wake-ups are nobody yet, and
        those that are told to leave are not counted.
        """
        ...

    def live(self, now: datetime | None = None) -> list[str]:
        """Ids of the workers that live, and of wake-ups that have not become workers yet.

        Without ``now`` it is the server's: workers beat by that, whatever the caller's clock says.
        """
        ...

    def staying(self, now: datetime) -> list[str]:
        """Ids of the workers that live and go on taking work.

        Wake-ups are nobody yet, and those that are told to leave take no more.
        """
        ...


class FailureDetector(Protocol):
    """The accrual failure detector's view of the workers, over all lanes of the stage.

    Time is the server's, so that a worker's clock does not make it look dead.
    """

    def acquire_lock(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Whether the holder is to do ``name`` now.

        True for one at a time, and at most once ``every``. A holder that does not come back loses
        its turn after ``term``.
        """
        ...

    def release_lock(self, name: str, holder: str) -> None:
        """The holder is done; no effect if the turn is another's now."""
        ...

    def heartbeats(self, silent_for: timedelta | None = None) -> list[WorkerHeartbeats]:
        """Known workers; only those silent for at least ``silent_for`` where that is given.

        Calling it is watching, and so is every beat that arrives: either shows that the others
        could have beaten. What was silent while Redis was away, or while nothing was heard of the
        fleet for some seconds, is not held against a worker: it takes a second look, soon after, to
        find anybody dead then.
        """
        ...

    def observed_for(self) -> timedelta:
        """How long somebody has looked or beaten without a lapse: who lives is known by then.

        Nearly nothing after Redis was away or emptied. Counts as a look itself.
        """
        ...

    def reap(self, worker: str, pool: str = MAIN_POOL) -> bool:
        """The worker is dead; False if it was not known any more. If it beats again it is new.

        ``pool`` is the one that it says it is of, which counts it no more.
        """
        ...


class PoolBook(Protocol):
    """Pools beside the usual one that anybody knew of, whatever has become of them.

    What is bound for a pool outlives its configuration and its workers: by this it is found.
    """

    def known(self) -> dict[str, datetime]:
        """When each pool was last known."""
        ...

    def saw(self, pools: Collection[str], now: datetime) -> None:
        """These are known: they are configured, or a worker of theirs lives."""
        ...

    def forget(self, pool: str, seen: datetime) -> None:
        """Nothing is bound for it any more; no effect where it was known later than ``seen``."""
        ...


_NONE: Final[Mapping[str, Throughput]] = MappingProxyType({})


class QueueSampler(Protocol):
    """The queues as whoever decides on workers sees them. Costs by lanes, not by what is queued."""

    def works(
        self, queues: Sequence[QueueKey], now: datetime, soon: timedelta, hosts: int
    ) -> list[QueueWork]:
        """What lies ahead in each lane, with ``hosts`` of its hosts at most."""
        ...

    def sample_queue(self, queue_key: QueueKey, count: int) -> list[Entry]:
        """Up to ``count`` entries of the queue, from its whole length; they stay where they are."""
        ...


class ScalingTargets(Protocol):
    """The standing decision on a pool, which several may make, and the workers that go by it."""

    def read(self, pool: str) -> ScalingState:
        """What stands; a version of 0 and no decision where none was ever made, or Redis lost it.

        Its moment is the server's.
        """
        ...

    def settle(self, pool: str, read: ScalingState, target: ScalingTarget) -> bool:
        """Make it the decision that stands, unless another was made since ``read``; False then."""
        ...

    def throughputs(self, pool: str) -> dict[str, float]:
        """What workers have shown to be able to do in a second of a lane alone, by ``tenant/biz``.

        Of at most fleet.autoscaler.MOST_PACES lanes, those shown last.
        """
        ...

    def report_throughput(
        self,
        pool: str,
        worker: str,
        throughput: Throughput | None,
        now: datetime,
        throughputs: Mapping[str, Throughput] = _NONE,
    ) -> ThroughputReply:
        """A worker says what it can do in a second, if it knows; whether it is to leave.

        ``paces`` are what it could do of a lane alone, by ``tenant/biz``. What is known is learnt
        from it by fleet.autoscaler.learnt.

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

    def report_fault(self, part: TickPart, what: str) -> None:
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
