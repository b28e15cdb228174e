"""One round of the scheduler, as others hear of it (SPEC.md B1, B13)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

#: So long what failed between two ticks is told of with the latest one: those who look once a
#: minute, and believe it when they have seen it three times, do find it.
BETWEEN_SECONDS: Final = 240.0
#: Of so many of them at most, the latest.
MOST_BETWEEN: Final = 1_000


class TickPart(StrEnum):
    """What a tick is made of; each part fails by itself."""

    SCHEDULES = "schedules"
    JOBS = "jobs"
    PAGES = "pages"
    SEEDS = "seeds"
    CANCELLING = "cancelling"
    BIZS = "bizs"
    WATCH = "watch"
    RECOVERY = "recovery"
    SCALING = "scaling"
    #: Starts by events, which come between ticks.
    STARTS = "starts"


class Ticked(msgspec.Struct, frozen=True, kw_only=True):
    """The latest tick that came to its end.

    Attributes:
        seconds_ago: When that was; None where no tick is known, as none has ended yet or Redis has
            lost it.
        awaited_seconds: Where none is known: how long ago it was first asked for.
        took_seconds: How long it took.
        faults: Of each part that failed how often it did: once for as a whole, and once for each
            schedule or biz that it could not serve. What failed shortly before or after it, of
            parts that come between ticks, is counted too.
    """

    seconds_ago: float | None = None
    awaited_seconds: float = 0.0
    took_seconds: float = 0.0
    faults: Mapping[str, int] = {}
