"""Who comes first, where a look at all of them may have no time for the last ones.

Each minute begins at another place. The places of consecutive minutes lie the golden ratio apart,
so they are spread evenly however many minutes are taken, and nothing has to be remembered of them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

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
