"""One round of the scheduler, as others hear of it (SPEC.md B1, B13)."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class TickPart(StrEnum):
    """What a tick is made of; each part fails by itself."""

    SCHEDULES = "schedules"
    JOBS = "jobs"
    PAGES = "pages"
    SEEDS = "seeds"
    BIZS = "bizs"
    WATCH = "watch"
    RECOVERY = "recovery"
    SCALING = "scaling"


class Ticked(msgspec.Struct, frozen=True, kw_only=True):
    """The latest tick that came to its end.

    Attributes:
        seconds_ago: When that was; None where no tick is known, as none has ended yet or Redis has
            lost it.
        awaited_seconds: Where none is known: how long ago it was first asked for.
        took_seconds: How long it took.
        faults: Of each part that failed how often it did: once for as a whole, and once for each
            schedule or biz that it could not serve.
    """

    seconds_ago: float | None = None
    awaited_seconds: float = 0.0
    took_seconds: float = 0.0
    faults: Mapping[str, int] = {}
