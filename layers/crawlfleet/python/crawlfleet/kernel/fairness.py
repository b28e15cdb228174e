"""Fairness: rounds that may end before they come to all, and whose turn it is among bizs.

**Rounds** begin at another place each minute. The places of consecutive ones lie the golden ratio
apart, so they are spread evenly however many are taken, and nothing has to be remembered of them.

**Bizs** that have work take turns by start-time fair queueing (SPEC.md C4). Whoever is served moves
on by the entries that came, divided by its weight, and who has moved on least is served next: a biz
of which a lease brings one entry has as many leases more as it takes. Of 40 turns of one entry a
weight of 3 beside one of 1 has 30, never more than three in a row. While two have work all the
time, what they had by their weights never differs by more than a batch of each (Goyal, Vin and
Cheng, 1996). Who comes, or comes back, begins where those are who are served now: a lull is no
claim on what comes after it. Who is ahead stays so though it has no work for a while, else it would
have a batch more with each pause; that is forgotten when nobody has any, as nobody waits then.
"""

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from math import lcm
from typing import Final, Generic, TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

#: The scheduler's tick.
TICK: Final = timedelta(minutes=1)
#: Steps of this part of a circle leave the smallest gaps, however many they are.
_GOLDEN: Final = (5**0.5 - 1) / 2


def place(now: datetime, every: timedelta = TICK) -> float:
    """Return where this round begins, as a part of the whole, from 0 up to 1.

    >>> [round(place(datetime.fromtimestamp(60 * n)), 2) for n in range(5)]
    [0.0, 0.62, 0.24, 0.85, 0.47]
    """
    return int(now.timestamp() / every.total_seconds()) * _GOLDEN % 1


def rotated(things: Sequence[T], now: datetime, every: timedelta = TICK) -> list[T]:
    """Return all in their order, from this round's place on.

    Rounds that get no further than a few so come to all of them after the fewest rounds.

    >>> rotated("abcde", datetime.fromtimestamp(60))
    ['d', 'e', 'a', 'b', 'c']
    """
    begin = int(place(now, every) * len(things))
    return [*things[begin:], *things[:begin]]


#: By how much one entry moves on a weight of 1. Every weight divides it, so nothing is rounded.
_ENTRY: Final = lcm(*range(1, 101))


class FairQueue(Generic[H]):
    """Order those with work by what they had and their weights (start-time fair queueing)."""

    def __init__(self) -> None:
        self._now = 0
        # Only those who are ahead of that.
        self._ahead: dict[H, int] = {}

    def order(self, weights: Mapping[H, int]) -> list[H]:
        """Return those who have work: first the one whose turn it is.

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
        """Forget who is ahead: nobody had anything to take."""
        self._ahead.clear()
