"""How far ahead of its workers a job is made into tasks, so that others find room (SPEC.md C3)."""

from typing import Final

from crawlfleet.model.biz import IntakeLimits
from crawlfleet.model.submission import BATCH_LIMIT

#: Of ``intake.max_backlog`` a job leaves so much to clients.
CLIENTS_PART: Final = 2
#: Of a biz that works off more than its ``jobs_ahead`` in so long, as much as that is ahead.
AHEAD_SECONDS: Final = 60.0
#: Jobs stop so far before clients are refused for want of memory.
MEMORY_BEFORE: Final = 0.1
#: With fewer tasks of its own open a job goes on while others' fill the window: a backlog of
#: clients' or of another job's is worked off at its own time.
OWN_TASKS: Final = 2 * BATCH_LIMIT


def window(limits: IntakeLimits, processed_per_second: float = 0.0) -> int:
    """So many requests may be ahead in a biz when tasks of a job are made.

    >>> window(IntakeLimits()), window(IntakeLimits(), 2_000.0), window(IntakeLimits(max_backlog=9))
    (50000, 120000, 4)
    """
    ahead = max(limits.jobs_ahead, int(processed_per_second * AHEAD_SECONDS))
    return max(1, min(ahead, limits.max_backlog // CLIENTS_PART))


def memory_ratio(clients_ratio: float) -> float:
    """The part of Redis' memory up to which tasks of jobs are made.

    >>> round(memory_ratio(0.85), 2), round(memory_ratio(0.1), 2)
    (0.75, 0.05)
    """
    return max(clients_ratio - MEMORY_BEFORE, clients_ratio / 2)


def is_short_of_tasks(own_open: int, count: int, limits: IntakeLimits) -> bool:
    """Whether a job with so many tasks open gets ``count`` more, however many others' there are.

    >>> [is_short_of_tasks(own, 1_000, IntakeLimits()) for own in (1_000, 1_001)]
    [True, False]
    """
    return own_open + count <= min(OWN_TASKS, window(limits))
