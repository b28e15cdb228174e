"""Which priority is served next: what waits gains on what is above it (SPEC.md C4, CLAIMS.md s2.4).

A task of priority 0 to 10 weighs ``priority + 1``, so that 0 grows too. On a fixed clock, at every
tick, what is queued is judged by its age beside that of the oldest that is queued then::

    alpha = (tick - created) / (tick - oldest)
    weight *= 2 ** alpha     where alpha > beta

and no weight passes a clamp. The sources sweep at each pop, so that their boost depends on how
often somebody pops; by ticks it depends on time alone. Of two weights the larger one is served
first; of two that are equal the older task, then the one of the higher priority.

No task is rewritten: a tick is kept as its time and the oldest ``created`` then, and what a task
weighs follows from the ticks after its creation. Inside one priority what came first is served
first, and an older task weighs at least as much as a younger one, since each of its terms is at
least as large; so only the head of each priority's list is ever judged: a pop costs eleven of
these, however long the lists are. Ticks that nobody has noted are made up for at the next pop.
Weights are kept as their logarithms to base 2: sums that every machine computes alike.

**How long a task waits.** Let T be put into the queue at b: when it comes, or when it comes back
with its old time, as its retry is due, its lease has ended or it was given back. What comes back is
served next of its priority, so it may stand before older ones. Let D be the age at b of the oldest
task that is not done by then: one that is queued, in somebody's hands, to come back, or lost and to
be recovered. Whatever comes back after b is one of those, or was created later, so nothing that is
queued from then on was created before ``b - D``.

1. What stands before T in its list was created by b, and so was all that comes to stand there: to
   come back it must have been served before, and what is created after b stands behind T. So the
   list's head H, T or another, is of the age ``t - b`` at least at a tick t, and of the oldest
   ``t - b + D`` is the most. Its alpha is more than beta from ``beta / (1 - beta) * D`` after b on
   (at once if D is 0).
2. From there on each tick adds more than beta to the logarithm of whatever is H. After
   ``k = ceil(log2(11) / beta)`` ticks that is ``log2(11)``: 7 with a beta of a half. The oldest
   task of all gains 1 a tick, and is there after 4.
3. Let U be created after that, of any priority. At each later tick alpha of H is at least that of
   U, which is younger. So H stays ahead of U by what it had gained, which is no less than the most
   that priorities differ by; where both come to the clamp the older one, H, is first. That ticks
   are forgotten does not change it: :func:`kept` of them lift H to the clamp by themselves.

So from ``beta / (1 - beta) * D`` and k + 1 intervals after it was queued on (:func:`longest_wait`),
whatever is created is not served before T. Before T are served no more than were not done when it
was queued, and came within that time, each as often as it comes back: nothing starves as long as
anything is served and what is tried again is tried a limited number of times.

**What that leaves out.** A dead letter that is replayed has its old time, though it had been done
with. Where it is older than ``b - D``, T may gain less than beta at each tick at which it waits:
such ticks come on top. The oldest of all rises first, and is at the clamp at once where ticks are
remembered, so these are the ticks that serving what is replayed takes. What a host keeps waiting is
in no such queue, and what holds of it is told in requests.queue.deferral.
"""

from collections.abc import Sequence
from math import ceil, floor, log2
from typing import Final

from crawlfleet.kernel.queue_key import LEVELS

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


def kept(beta: float, clamp: float) -> int:
    """How many ticks are remembered: those that lift a task to the clamp from wherever it was.

    >>> kept(0.5, 1024.0)
    21
    """
    return ceil(log2(clamp) / beta) + 1


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
