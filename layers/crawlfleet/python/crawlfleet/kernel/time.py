"""Spans of time as people say them.

Time, spelled one way: aware UTC datetimes inside (``_at``), epoch milliseconds on the wire.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, ParamSpec, Protocol, TypeVar

_SPANS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "min": 60}


def span(seconds: float) -> str:
    """A span of time in words, to two units.

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
    """Epoch milliseconds of an aware datetime, rounded down (what BSON keeps).

    >>> to_ms(datetime(2026, 1, 1, tzinfo=UTC))
    1767225600000
    """
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """Aware UTC datetime of epoch milliseconds, exact to the millisecond.

    >>> from_ms(1767225600123).isoformat()
    '2026-01-01T00:00:00.123000+00:00'
    """
    return _EPOCH + ms * _MILLISECOND


class Clock(Protocol):
    """Now, as an aware UTC datetime."""

    def __call__(self) -> datetime:
        """The present moment."""
        ...


@dataclass(frozen=True, slots=True)
class SteadyTime:
    """A clock that nobody sets, in seconds since some moment, and waiting by it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


#: The process's own, and those of the product.
STEADY: Final = SteadyTime()

P = ParamSpec("P")
R = TypeVar("R")


class Threaded(Protocol):
    """Calls a part without stopping the event loop."""

    async def __call__(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns."""
        ...
