"""Waiting for something that comes true by itself: on the condition, with a deadline."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Final

#: Between two looks. Nobody sets it, so waiting on it is only giving way to those who work.
_PAUSE = Event()
_PAUSE_SECONDS = 0.02
#: What a machine may take from whoever is timed: it stands still for some seconds, others have its
#: processors, its disk is busy. Less than what would be waited where a time-out were missing: half
#: a minute, the drivers' own, or for ever.
ROOM_SECONDS: Final = 20.0


def eventually(
    holds: Callable[[], object], seconds: float = 60.0, what: str = "did not come true in time"
) -> float:
    """Return once ``holds``, after how many seconds; fail with ``what`` at the deadline."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() < started + seconds, what
        _PAUSE.wait(_PAUSE_SECONDS)
    return time.monotonic() - started


@contextmanager
def in_time(seconds: float, what: str = "took longer than its time-outs") -> Iterator[None]:
    """Assert that the block ends by its own time-outs, after ``seconds`` and some room."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds + ROOM_SECONDS, what
