"""When a job has its next turn: after trouble, and while it runs (SPEC.md C3, C5)."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

#: After the first trouble in a row, and at most.
SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(minutes=5)
#: A biz without room is looked at again at the latest after this: workers make room all the time.
LONGEST_CROWDED: Final = timedelta(seconds=30)
#: Between two looks at the ledger of a job that runs; the longer, the more it has left to do.
SOONEST_LOOK: Final = timedelta(seconds=2)
LATEST_LOOK: Final = timedelta(seconds=30)
#: The same of one that does not move: its tasks wait for a host, for a moment, for a worker.
LATEST_STILL: Final = timedelta(minutes=1)
#: A fleet that is quick deals with so many tasks in a second: before that no job can have ended.
QUICK_PER_SECOND: Final = 1_000


def after_trouble(troubles: int) -> timedelta:
    """How long a job waits that has been in trouble so many times in a row before.

    >>> [after_trouble(count).total_seconds() for count in (0, 1, 5, 1_000)]
    [2.0, 4.0, 64.0, 300.0]
    """
    doubled: int = 2 ** min(max(troubles, 0), 16)
    return min(LONGEST, SHORTEST * doubled)


def when_crowded(retry_after_seconds: float) -> timedelta:
    """How long it waits for room in its biz.

    >>> when_crowded(300.0).total_seconds()
    30.0
    """
    bounded = min(max(retry_after_seconds, 1.0), LONGEST_CROWDED.total_seconds())
    return timedelta(seconds=bounded)


def until_look(open_tasks: int) -> timedelta:
    """How long until the ledger of a job is looked at again that has so many tasks open.

    >>> [until_look(count).total_seconds() for count in (1, 10_000, 10**8)]
    [2.0, 10.0, 30.0]
    """
    return min(LATEST_LOOK, max(SOONEST_LOOK, timedelta(seconds=open_tasks / QUICK_PER_SECOND)))


def until_look_again(open_tasks: int, before: int | None, waited: timedelta) -> timedelta:
    """The same where at the last look, ``waited`` ago, so many were open ``before``.

    As long as nothing moves the wait doubles: thousands of jobs whose tasks wait for hours are not
    to keep those from being looked at that end.

    >>> wait = timedelta(seconds=2)
    >>> [until_look_again(1, before, wait).total_seconds() for before in (None, 2, 1)]
    [2.0, 2.0, 4.0]
    """
    wait = until_look(open_tasks)
    if before != open_tasks:
        return wait
    return max(wait, min(LATEST_STILL, 2 * waited))


def shares(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many of ``limit`` are whose, where one after another takes one of what it has."""
    taken: Counter[str] = Counter()
    while limit > 0:
        takers = [name for name, count in counts.items() if taken[name] < count][:limit]
        if not takers:
            break
        taken.update(takers)
        limit -= len(takers)
    return taken
