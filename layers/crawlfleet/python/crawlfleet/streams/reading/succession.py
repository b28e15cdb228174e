"""Decide how many readers there are to be, when a successor starts, and when a reader may leave.

A reader on AWS lives for a quarter of an hour. Its successor is started by a tick of the scheduler,
early enough to run before it ends; then it leaves, once the other one has run for the overlap. Who
reads what is decided elsewhere, by rendezvous hashing and holds: here a mistake costs money, and
no item.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

#: The registry of workers that read streams, beside that of consumers.
FLEET: Final = "streams"
#: The longest between two looks of whoever starts readers: ticks come each half minute.
TICK: Final = timedelta(seconds=35)
#: A reader beats so long after its start at the latest: a cold one imports and connects first.
START: Final = timedelta(seconds=15)


class Demand(NamedTuple):
    """The demand for readers: sources to be read, whether feeds are, and whether receivers wait."""

    sources: int = 0
    has_feeds: bool = False
    has_due: bool = False


class Tenure(NamedTuple):
    """A reader that lives: since when, and when it leaves at the latest."""

    worker: str
    began_at: datetime
    ends_at: datetime


def readers_needed(demand: Demand, sources_each: int, most: int) -> int:
    """Return how many readers are needed; none where nobody subscribes and nothing waits.

    >>> [readers_needed(Demand(count), 20, 3) for count in (0, 1, 20, 21, 500)]
    [0, 1, 1, 2, 3]
    >>> readers_needed(Demand(has_feeds=True), 20, 3), readers_needed(Demand(has_due=True), 20, 3)
    (1, 1)
    """
    if not any(demand):
        return 0
    return min(most, max(1, -(-demand.sources // sources_each)))


def readers_wanted(
    needed: int, readers: Iterable[Tenure], overlap: timedelta, now: datetime
) -> int:
    """Return how many are to live now: those needed, and those whose successors start already."""
    soon = now + overlap + TICK + START
    leaving = sum(one.ends_at <= soon for one in readers)
    return needed + min(leaving, needed)


def may_leave(
    worker: str, readers: Sequence[Tenure], needed: int, overlap: timedelta, now: datetime
) -> bool:
    """Tell whether a reader may leave before its time: those who stay longest are enough.

    All readers come to the same answer: of two with the same end one stays.
    """
    staying = sorted(readers, key=lambda one: (one.ends_at, one.worker), reverse=True)[:needed]
    return len(staying) == needed and all(
        one.worker != worker and one.began_at + overlap <= now for one in staying
    )
