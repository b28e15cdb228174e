"""Rounds over many lanes that may end before they have come to all of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.model.lane import Lane

#: The scheduler's tick.
TICK: Final = timedelta(minutes=1)
#: Steps of this part of a circle leave the smallest gaps, however many they are.
GOLDEN: Final = (5**0.5 - 1) / 2


def from_elsewhere(lanes: Sequence[Lane], now: datetime, every: timedelta = TICK) -> Sequence[Lane]:
    """The lanes from another one on in each round, and wherever the last ones began, far from it.

    Rounds that get no further than a few lanes so come to all of them after the fewest rounds.
    """
    first = int(now.timestamp() / every.total_seconds()) * GOLDEN % 1
    place = int(first * len(lanes))
    return (*lanes[place:], *lanes[:place])
