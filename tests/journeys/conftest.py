"""Fixtures of the chaos journeys: log, seed and progress, shown to readers of a failure."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest

from tests.progress import say

#: Of the last that was told so much is shown.
SHOWN: Final = 20_000


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Yield the log file of a run; its end is shown with a failed test."""
    path = tmp_path / "log"
    path.touch()
    yield path
    sys.stdout.write(path.read_text()[-SHOWN:])


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return a random seed, or ``SEED``; it is shown with a failed test."""
    found = int(os.environ.get("SEED") or SystemRandom().randrange(10**6))
    sys.stdout.write(f"repeat it with: SEED={found} pytest '{request.node.nodeid}'\n")
    return found


@pytest.fixture
def progress(request: pytest.FixtureRequest) -> Callable[[int, str], None]:
    """Tell of each thousand requests that are done, and of the harm that came before."""
    thousands = harms = 0

    def report(done: int, harm: str) -> None:
        nonlocal thousands, harms
        harms += bool(harm)
        if done // 1_000 > thousands:
            thousands = done // 1_000
            say(request.config, f"        {done:,} requests done, {harms} harms")

    return report
