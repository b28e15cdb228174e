"""Who comes first, where a look at all of them may have no time for the last ones.

Each minute begins at another place. The places of consecutive minutes lie the golden ratio apart,
so they are spread evenly however many minutes are taken, and nothing has to be remembered of them.

Rounds over many lanes that may end before they have come to all of them.

Whose turn it is among bizs that have work: start-time fair queueing (SPEC.md C4).

Whoever is served moves on by the entries that came, divided by its weight, and who has moved on
least is served next: a biz of which a lease brings one entry has as many leases more as it takes.
Of 40 turns of one entry a weight of 3 beside one of 1 has 30, never more than three in a row. While
two have work all the time, what they had by their weights never differs by more than a batch of
each (Goyal, Vin and Cheng, 1996).

Who comes, or comes back, begins where those are who are served now: a lull is no claim on what
comes after it. Who is ahead stays so though it has no work for a while, else it would have a batch
more with each pause; that is forgotten when nobody has any, as nobody waits for it then.
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from math import lcm
from typing import Final, Generic, TypeVar

from crawlfleet.kernel.queue_key import QueueKey

T = TypeVar("T")

_GOLDEN: Final = 0.6180339887498949


def place(now: datetime) -> float:
    """Where this minute begins, as a part of the whole, from 0 up to 1.

    >>> [round(place(datetime.fromtimestamp(60 * n)), 2) for n in range(5)]
    [0.0, 0.62, 0.24, 0.85, 0.47]
    """
    return int(now.timestamp()) // 60 * _GOLDEN % 1


def rotated(things: Sequence[T], now: datetime) -> list[T]:
    """All of them in their order, from this minute's place on.

    >>> rotated("abcde", datetime.fromtimestamp(60))
    ['d', 'e', 'a', 'b', 'c']
    """
    begin = int(place(now) * len(things))
    return [*things[begin:], *things[:begin]]


#: The scheduler's tick.
TICK: Final = timedelta(minutes=1)
#: Steps of this part of a circle leave the smallest gaps, however many they are.
GOLDEN: Final = (5**0.5 - 1) / 2


def from_elsewhere(
    queues: Sequence[QueueKey], now: datetime, every: timedelta = TICK
) -> Sequence[QueueKey]:
    """The lanes from another one on in each round, and wherever the last ones began, far from it.

    Rounds that get no further than a few lanes so come to all of them after the fewest rounds.
    """
    first = int(now.timestamp() / every.total_seconds()) * GOLDEN % 1
    place = int(first * len(queues))
    return (*queues[place:], *queues[:place])


H = TypeVar("H", bound=Hashable)

#: By how much one entry moves on a weight of 1. Every weight divides it, so nothing is rounded.
_ENTRY: Final = lcm(*range(1, 101))


class FairQueue(Generic[H]):
    """Order those with work by what they had and their weights (start-time fair queueing)."""

    def __init__(self) -> None:
        self._now = 0
        # Only those who are ahead of that.
        self._ahead: dict[H, int] = {}

    def order(self, weights: Mapping[H, int]) -> list[H]:
        """Those who have work, the one whose turn it is first; the next ones where it has none.

        >>> queue = FairQueue[str]()
        >>> [queue.taken(queue.order({"a": 3, "b": 1})[0], {"a": 3, "b": 1}) for _ in range(8)]
        ['a', 'b', 'a', 'a', 'a', 'b', 'a', 'a']
        """
        # Sorting is stable: of equals the first one named comes first.
        return sorted(weights, key=lambda one: self._ahead.get(one, self._now))

    def taken(self, served: H, weights: Mapping[H, int], entries: int = 1) -> H:
        """Note who of these was served, and with how many entries, one or more."""
        now = self._now = self._ahead.get(served, self._now)
        self._ahead[served] = now + entries * _ENTRY // weights[served]
        self._ahead = {one: at for one, at in self._ahead.items() if at > now}
        return served

    def lull(self) -> None:
        """Nobody had anything to take: nobody is ahead of anybody any more."""
        self._ahead.clear()
