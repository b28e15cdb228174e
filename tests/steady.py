"""Clocks that leave out what the machine takes from the tests.

Tests of time-outs are quick because the time-outs are: half a second for a page, a twentieth for a
lease. A machine that stands still for three seconds in the middle lets all of them pass at once,
and a page that was there is not there in time. By these clocks it is: of the time in which neither
who waits nor what is waited for could go on, next to nothing is counted. Time that is waited is
counted in full, so that a time-out that is missing shows as before.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Final, Self

#: So long is waited in one go at most, so that of a wait that was interrupted only so much is lost.
SLICE_SECONDS: Final = 0.01
#: Of the time between two looks at a clock no more is counted: five times what it ought to be.
MOST_SECONDS: Final = 0.05


class SteadyLoop(asyncio.SelectorEventLoop):
    """The usual event loop, by a clock of its own; ``asyncio.timeout`` and ``sleep`` go by it."""

    def __init__(self) -> None:
        self._counted, self._looked_at = 0.0, time.monotonic()
        super().__init__(_Slices(self))

    def time(self) -> float:
        now = time.monotonic()
        self._counted += min(now - self._looked_at, MOST_SECONDS)
        self._looked_at = now
        return self._counted


class _Slices(selectors.DefaultSelector):
    """Waits in slices, and has the loop look at its clock after each."""

    def __init__(self, loop: SteadyLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        end = self._loop.time() + timeout
        left = timeout
        while True:
            found = super().select(min(left, SLICE_SECONDS))
            left = end - self._loop.time()
            if found or left <= 0:
                return found


class _Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = SteadyLoop


@contextmanager
def steady_loops() -> Iterator[None]:
    """Every event loop that is made in this process is such a one."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(_Policy())
    try:
        yield
    finally:
        asyncio.set_event_loop_policy(before)


class SteadyClock:
    """``monotonic`` less what the machine took since this was entered; for all threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._over = threading.Event()
        # The last tick, and what was taken until then: read together, so written together.
        self._state = self._monotonic(), 0.0
        self._ticker = threading.Thread(target=self._tick, name="steady clock", daemon=True)

    def __call__(self) -> float:
        ticked_at, taken = self._state
        return ticked_at + min(self._monotonic() - ticked_at, MOST_SECONDS) - taken

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ticker.join()

    @property
    def as_time(self) -> SimpleNamespace:
        """Return a stand-in for the module ``time`` of which this clock is each steady clock."""
        return SimpleNamespace(monotonic=self, perf_counter=self)

    def _tick(self) -> None:
        while not self._over.wait(SLICE_SECONDS):
            ticked_at, taken = self._state
            now = self._monotonic()
            self._state = now, taken + max(0.0, now - ticked_at - MOST_SECONDS)
