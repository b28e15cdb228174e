"""Turns of those who share a list that has an end."""

from collections import Counter
from collections.abc import Mapping


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
