"""Whose turn it is among bizs that have work: smooth weighted round robin (SPEC.md C4).

At each turn everybody who has work gains its weight, and whoever has most then is served and pays
what all have gained. So of 40 turns a weight of 3 beside one of 1 has 30, never more than three in
a row, and whoever has work is served at least once in as many turns as all weights together make.
Who has no work neither gains nor keeps anything: a lull is no claim on what comes after it.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Turns(Generic[T]):
    """The turns of one worker."""

    def __init__(self) -> None:
        self._gained: dict[T, int] = {}

    def order(self, weights: Mapping[T, int]) -> list[T]:
        """Those who have work, the one whose turn it is first; the next ones where it has none.

        >>> turns = Turns[str]()
        >>> [turns.taken(turns.order({"a": 3, "b": 1})[0], {"a": 3, "b": 1}) for _ in range(8)]
        ['a', 'a', 'b', 'a', 'a', 'a', 'b', 'a']
        """
        # Sorting is stable: of equals the first one named comes first.
        return sorted(weights, key=lambda one: -(self._gained.get(one, 0) + weights[one]))

    def taken(self, served: T, weights: Mapping[T, int]) -> T:
        """Note who of these was served; the others have moved up."""
        self._gained = {
            one: self._gained.get(one, 0) + weight - (sum(weights.values()) if one == served else 0)
            for one, weight in weights.items()
        }
        return served
