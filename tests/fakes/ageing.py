"""Ageing of priorities and counts of deferred requests, as the Lua of the queue decides them.

What is proved of them stands in requests.queue.ageing. :class:`tests.fakes.queue.MemoryQueue` and
the simulations of benchmarks go by these.
"""

from collections.abc import Sequence
from math import ceil, floor, log2
from typing import Final

import msgspec

from tests.kit.kernel import LEVELS, Ageing
from tests.kit.queue import NO_TS, kept

#: What an unaged task weighs, as a logarithm to base 2.
BASE: Final = tuple(log2(level + 1) for level in range(LEVELS))
#: No task waits.
NONE: Final = -1


def ticks_to_pass(beta: float, low: int = 0, high: int = LEVELS - 1) -> int:
    """Ticks over the threshold after which a task of ``low`` stands before newcomers of ``high``.

    >>> ticks_to_pass(0.5), ticks_to_pass(1.0), ticks_to_pass(0.5, 5, 10)
    (7, 4, 2)
    """
    return max(0, ceil((BASE[high] - BASE[low]) / beta))


def longest_wait(interval: float, beta: float, oldest_age: float = 0.0) -> float:
    """After how long nothing that comes is served before a task, in the unit of both times.

    ``oldest_age`` is the age that the oldest task which was not done had when this one was queued:
    not of those in the queue alone, since what is in somebody's hands, or is to be tried again,
    comes back with its old time.

    >>> longest_wait(300.0, 0.5), longest_wait(300.0, 0.5, 3600.0)
    (2400.0, 6000.0)
    """
    return beta / (1 - beta) * oldest_age + (ticks_to_pass(beta) + 1) * interval


def settle(
    times: list[float],
    oldests: list[float],
    now: float,
    oldest: float,
    interval: float,
    most: int,
) -> None:
    """Note the ticks that have come since the last one noted, of which ``most`` are kept.

    Ticks are at the multiples of ``interval``, whoever looks. ``oldest`` is the least creation of
    what is queued now. Those of before it concern nobody; those that lie ahead, since the clock was
    set back, never were.

    >>> times, oldests = [], []
    >>> settle(times, oldests, 23.0, 7.0, 5.0, 20), times, oldests
    (None, [10.0, 15.0, 20.0], [7.0, 7.0, 7.0])
    """
    while times and times[-1] > now:
        times.pop()
        oldests.pop()
    last = floor(now / interval)
    first = max(floor(oldest / interval), last - most) + 1
    if times:
        first = max(first, floor(times[-1] / interval) + 1)
    for number in range(first, last + 1):
        times.append(number * interval)
        oldests.append(oldest)
    if len(times) > most:
        del times[:-most]
        del oldests[:-most]


def urgency(
    level: int,
    created: float,
    times: Sequence[float],
    oldests: Sequence[float],
    beta: float,
    cap: float,
) -> float:
    """The logarithm of what a task weighs; ``cap`` is that of the clamp, above every unaged one.

    >>> urgency(0, 7.0, [10.0, 15.0, 20.0], [7.0, 7.0, 7.0], 0.5, 10.0)
    3.0
    """
    total = BASE[level]
    for place in range(len(times) - 1, -1, -1):
        time = times[place]
        age = time - created
        if age <= 0:
            break  # this tick came before it, and so did all earlier ones
        oldest_age = time - oldests[place]
        # What came back is older than anything that was queued then.
        alpha = age / oldest_age if oldest_age > age else 1.0
        if alpha > beta:
            total += alpha
            if total >= cap:
                return cap
    return total


def next_level(
    heads: Sequence[float | None],
    times: Sequence[float],
    oldests: Sequence[float],
    beta: float,
    cap: float,
) -> int:
    """The priority that is served next, by the creation of each one's oldest task.

    >>> next_level([3.0, None, 9.0], [5.0], [3.0], 0.5, 10.0)
    2
    >>> next_level([3.0, None, 9.0], [5.0, 7.0], [3.0, 3.0], 0.5, 10.0)
    0
    """
    best, best_at, chosen = 0.0, 0.0, NONE
    for level in range(len(heads) - 1, -1, -1):
        created = heads[level]
        if created is None:
            continue
        weight = urgency(level, created, times, oldests, beta, cap)
        if chosen == NONE or weight > best or (weight == best and created < best_at):
            best, best_at, chosen = weight, created, level
    return chosen


class Waiting(msgspec.Struct, frozen=True):
    """``old`` of the ``count`` entries are the first part; each part's least ``ts``."""

    count: int
    old: int
    least_of_old: int
    least_of_new: int = NO_TS

    @property
    def low(self) -> int:
        """The least ``ts`` of all entries."""
        return min(self.least_of_old, self.least_of_new)


def joined(waiting: Waiting | None, many: int, least: int) -> Waiting:
    """So many more wait, none older than ``least``.

    >>> joined(joined(None, 2, 50), 1, 40).low
    40
    """
    if waiting is None:
        return Waiting(many, many, least)
    new = min(waiting.least_of_new, least)
    return Waiting(waiting.count + many, waiting.old, waiting.least_of_old, new)


def served(waiting: Waiting, many: int) -> Waiting | None:
    """The first ``many`` are gone; None if those were all.

    >>> served(Waiting(3, 2, 10, 30), 2)
    Waiting(count=1, old=1, least_of_old=30, least_of_new=9007199254740992)
    """
    count, old = waiting.count - many, waiting.old - many
    if count <= 0:
        return None
    if old <= 0:
        return Waiting(count, count, waiting.least_of_new)
    return Waiting(count, old, waiting.least_of_old, waiting.least_of_new)


def aged(oldest: int, now_ms: int, ageing: Ageing) -> tuple[list[float], list[float]]:
    """The latest ticks of a host, as queue.ageing takes them; ``oldest`` is its oldest head's."""
    times: list[float] = []
    oldests: list[float] = []
    most = kept(ageing.beta, ageing.clamp)
    settle(times, oldests, now_ms, oldest, ageing.interval_ms, most)
    return times, oldests
