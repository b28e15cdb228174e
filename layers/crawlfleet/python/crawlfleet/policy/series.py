"""How many metrics there may be (SPEC.md A10): what is named by tenants and sites is bounded.

CloudWatch bills a metric for every hour in which it got a value, so who is shown is settled for the
hour: the first to come get the places, and nobody else gets one before the hour is over. Hosts that
changed with each look would be as dear as if all of them were shown all the time.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

_HOUR_SECONDS: Final = 3600


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a place in this hour, counted from the epoch."""

    hour: int = -1
    names: frozenset[str] = frozenset()


def seated(places: Places, wanted: Iterable[str], most: int, now: datetime) -> Places:
    """The places after some want one, those that want it most first.

    >>> at = datetime(2026, 3, 1, 12)
    >>> first = seated(Places(), ["a", "b", "c"], 2, at)
    >>> sorted(first.names), sorted(seated(first, ["c", "a"], 2, at).names)
    (['a', 'b'], ['a', 'b'])
    """
    hour = int(now.timestamp()) // _HOUR_SECONDS
    names = set(places.names) if hour == places.hour else set()
    for name in wanted:
        if len(names) >= most:
            break
        names.add(name)
    return Places(hour=hour, names=frozenset(names))
