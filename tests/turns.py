"""Turns choose a run's share of what would take too long as a whole.

The turn is the number of commits. It is the same for all who try one state of the code, so that
a failure can be seen again, and another one for the next state; no run has to keep anything. Who
takes N things by turn gets through all of them in N landings of one commit each, or of any other
number that has no divisor with N in common. ``TURN=`` names another one. A clone without its
history takes the hour.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

#: Names the turn; set once it is known, so that a run's other processes inherit it.
ENV: Final = "TURN"

_ROOT: Final = Path(__file__).resolve().parent.parent

Taken = TypeVar("Taken")


def turn() -> int:
    """The turn of this run."""
    if not os.environ.get(ENV):
        commits = _git("rev-list", "--count", "HEAD")
        is_whole = _git("rev-parse", "--is-shallow-repository") == "false"
        os.environ[ENV] = commits if is_whole and commits else str(int(time.time()) // 3600)
    return int(os.environ[ENV])


def _git(*arguments: str) -> str:
    """Ask git about this folder; the answer is empty where there is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def taken(things: Sequence[Taken], count: int, turn: int) -> list[Taken]:
    """``count`` things whose turn it is.

    >>> [taken("abcde", 2, turn) for turn in range(3)]
    [['a', 'b'], ['c', 'd'], ['e', 'a']]
    """
    return [things[(turn * count + n) % len(things)] for n in range(count)]
