"""Time, spelled one way: aware UTC datetimes inside (``_at``), epoch milliseconds on the wire.

Spans as people say them; a worker's pauses, the steady clock that its waits and leases go by, and
the round trips that are measured by it.
"""

import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, ParamSpec, Protocol, TypeAlias, TypeVar

#: Round trips that are measured, an odd number: one slow one does not move their median.
PINGS: Final = 5
_SPANS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "min": 60}


def span(seconds: float) -> str:
    """Say a span of time in words, to two units.

    >>> span(0.25), span(42), span(600), span(5_430), span(200_000)
    ('0.2 s', '42 s', '10 min', '1 h 30 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    whole = int(min(seconds, 1e12))
    said: list[tuple[int, str]] = []
    for unit, size in _SPANS.items():
        if whole >= size or said:
            count, whole = divmod(whole, size)
            said.append((count, unit))
    return " ".join(f"{count:,} {unit}" for count, unit in said[:2] if count)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Return the epoch milliseconds of an aware datetime, rounded down (what BSON keeps).

    >>> to_ms(datetime(2026, 1, 1, tzinfo=UTC))
    1767225600000
    """
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """Return the aware UTC datetime of epoch milliseconds, exact to the millisecond.

    >>> from_ms(1767225600123).isoformat()
    '2026-01-01T00:00:00.123000+00:00'
    """
    return _EPOCH + ms * _MILLISECOND


#: Returns now, as an aware UTC datetime.
Clock: TypeAlias = Callable[[], datetime]
#: Returns the seconds that are left.
TimeLeft: TypeAlias = Callable[[], float]


async def _sleep(seconds: float) -> None:
    # Whoever tells the time need not have an event loop, which takes long to import.
    import asyncio

    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class SteadyTime:
    """A clock that nobody sets, in seconds since some moment, and waiting by it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = _sleep


#: The process's own, and those of the product.
STEADY: Final = SteadyTime()

P = ParamSpec("P")
R = TypeVar("R")


#: What a process has made sure of in a store it makes sure of again after this: it may be gone with
#: a tenant that was removed, and be wanted by one of the same name.
SURE_SECONDS: Final = 60.0


class Recent:
    """Things that were done at most so many seconds ago.

    ``clock`` is the wall clock: the monotonic one may stand still while a Lambda is frozen.

    >>> now = [0.0]
    >>> done = Recent(clock=lambda: now[0])
    >>> done.add("a")
    >>> now[0] = 59.0
    >>> "a" in done, "b" in done
    (True, False)
    >>> now[0] = 61.0
    >>> "a" in done
    False
    """

    def __init__(
        self, seconds: float = SURE_SECONDS, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._seconds, self._clock = seconds, clock
        self._at: dict[Hashable, float] = {}

    def add(self, thing: Hashable) -> None:
        """Note that it was done now."""
        self._at[thing] = self._clock()

    def __contains__(self, thing: object) -> bool:
        at = self._at.get(thing)
        return at is not None and 0 <= self._clock() - at < self._seconds


class Threaded(Protocol):
    """Calls what blocks without stopping the event loop."""

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the function returns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds that the parts of one worker wait, and that some of them may go on."""

    #: Between two looks at an empty queue. Where a look takes long the pause is as many times as
    #: long as it, between this and ``trouble``; ``kept`` for a worker that stays though idle.
    poll: float = 0.1
    kept: float = 0.5
    #: After a part did not answer.
    trouble: float = 1.0
    #: Between two looks whether leases are to be renewed.
    renew: float = 0.5
    #: Between two times that the account of the phases is written.
    account: float = 5.0
    #: A queue whose requests cannot be claimed is left alone: others have work too.
    rest: float = 5.0
    #: For so long a Redis that does not answer is waited for while leases are renewed. With a wait
    #: at each of many queues the last leases would be over, in MongoDB too, before their turn.
    redis: float = 1.0
    #: For so long what MongoDB said of a lease is taken to hold.
    trusted: float = 2.0
    #: Between two looks for a lease whose answer was lost; whose node did not answer a renewal; and
    #: for jobs that are being cancelled.
    unconfirmed: float = 5.0
    owned: float = 1.0
    cancellations: float = 1.0
    #: For so long a request waits for a slot; then the whole of it comes again later.
    slot: float = 20.0
    #: Reading pages holds the event loop. After this in one go, whoever else is due gets it.
    spell: float = 0.25
    #: Outcomes are stored when the oldest is this old; again later when a store did not answer.
    settle: float = 0.2
    settle_again: float = 1.0
    #: Between two looks at the configuration, whose limits hold from then on.
    follow: float = 1.0
    #: Between two rounds of each background task.
    reap: float = 1.0
    recover: float = 5.0
    cancel: float = 2.0
    dispatch_seeds: float = 0.5
    drain: float = 2.0
    advance: float = 1.0
    award: float = 0.5
    report_throughput: float = 5.0
    #: For so long a round of tasks, or of awards, goes on: pages are read by the same processor.
    advance_round: float = 3.0
    award_round: float = 5.0
    #: For so long a worker that ends lets a round end that is on its way.
    round_end: float = 3.0


PAUSES: Final = Pauses()


def round_trip(ping: Callable[[], object]) -> float:
    """Measure a round trip in seconds; the first may open a connection and does not count."""
    took = []
    for _ in range(PINGS + 1):
        began = time.perf_counter()
        ping()
        took.append(time.perf_counter() - began)
    return sorted(took[1:])[PINGS // 2]
