"""Waiting for something that comes true by itself: on the condition, with a deadline."""

import time
from collections.abc import Callable
from threading import Event

#: Between two looks. Nobody sets it, so waiting on it is only giving way to those who work.
_PAUSE = Event()
_PAUSE_SECONDS = 0.02


def eventually(
    holds: Callable[[], object], seconds: float = 60.0, what: str = "did not come true in time"
) -> float:
    """Return once ``holds``, after how many seconds; fail with ``what`` at the deadline."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() < started + seconds, what
        _PAUSE.wait(_PAUSE_SECONDS)
    return time.monotonic() - started
