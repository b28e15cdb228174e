"""Whose turn it is among bizs that have work: start-time fair queueing (SPEC.md C4).

Whoever is served moves on by the entries that came, divided by its weight, and who has moved on
least is served next: a biz of which a lease brings one entry has as many leases more as it takes.
Of 40 turns of one entry a weight of 3 beside one of 1 has 30, never more than three in a row. While
two have work all the time, what they had by their weights never differs by more than a batch of
each (Goyal, Vin and Cheng, 1996).

Who comes, or comes back, begins where those are who are served now: a lull is no claim on what
comes after it. Who is ahead stays so though it has no work for a while, else it would have a batch
more with each pause; that is forgotten when nobody has any, as nobody waits for it then.
"""

from collections.abc import Hashable, Mapping
from math import lcm
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

#: By how much one entry moves on a weight of 1. Every weight divides it, so nothing is rounded.
_ENTRY: Final = lcm(*range(1, 101))


class Turns(Generic[T]):
    """The turns of one worker."""

    def __init__(self) -> None:
        self._now = 0
        # Only those who are ahead of that.
        self._ahead: dict[T, int] = {}

    def order(self, weights: Mapping[T, int]) -> list[T]:
        """Those who have work, the one whose turn it is first; the next ones where it has none.

        >>> turns = Turns[str]()
        >>> [turns.taken(turns.order({"a": 3, "b": 1})[0], {"a": 3, "b": 1}) for _ in range(8)]
        ['a', 'b', 'a', 'a', 'a', 'b', 'a', 'a']
        """
        # Sorting is stable: of equals the first one named comes first.
        return sorted(weights, key=lambda one: self._ahead.get(one, self._now))

    def taken(self, served: T, weights: Mapping[T, int], entries: int = 1) -> T:
        """Note who of these was served, and with how many entries, one or more."""
        now = self._now = self._ahead.get(served, self._now)
        self._ahead[served] = now + entries * _ENTRY // weights[served]
        self._ahead = {one: at for one, at in self._ahead.items() if at > now}
        return served

    def lull(self) -> None:
        """Nobody had anything to take: nobody is ahead of anybody any more."""
        self._ahead.clear()
