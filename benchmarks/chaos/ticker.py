"""A scheduler's environment, a process that can be killed: a line on standard input is an event.

``python -m benchmarks.chaos.ticker WORLD`` ticks by the product's own scheduler. It says in lines
of JSON that a tick has begun, that it has ended, and how many consumers it wakes. After a line
``dying`` the next tick is its last: it kills itself in the middle of recovery, with its lock.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from benchmarks.chaos.consumer import Woken
from benchmarks.chaos.house import ChaosParts, World
from crawlfleet.apps.scheduler import Scheduler, Verbs
from crawlfleet.fleet.recovery.service import Recovered, Recovery

#: Lambda's time for a tick.
_SECONDS: Final = 120.0
TICK: Final = "tick"
DYING: Final = "dying"


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The environment has imported everything."""


class Ticked(msgspec.Struct, frozen=True, tag="ticked"):
    """A tick has ended."""

    done: dict[str, int]


Said: TypeAlias = Woken | Ready | Ticked


def say(said: Said) -> None:
    """Tell the parent."""
    os.write(1, msgspec.json.encode(said) + b"\n")


def die() -> float:
    """``kill -9`` of this process, where it stands."""
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def main(world: World) -> None:
    """Tick for each event, until there are no more."""
    parts = ChaosParts(world, "scheduler", lambda count: say(Woken(count=count)))
    is_dying = False

    def recover(
        recovery: Recovery, tree: Any, by: str, now: Any, time_left: Callable[[], float]
    ) -> Recovered:
        if not is_dying:
            return recovery.recover(tree, by, now, time_left)
        asked = iter([_SECONDS])
        recovery.recover(tree, by, now, lambda: next(asked, None) or die())
        die()
        raise AssertionError

    scheduler = Scheduler(parts, Verbs(recover=recover))
    say(Ready())
    for number, line in enumerate(sys.stdin):
        if line.strip() == DYING:
            is_dying = True
            continue
        done = scheduler.tick(f"scheduler-{os.getpid()}-{number}", lambda: _SECONDS)
        say(Ticked(done=done))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=World))
