"""Decide when a source that brings nothing is silent, by the gaps that it usually has.

A source is silent after :data:`TIMES` its longest gap of late, and :data:`LEAST` at least. A gap
that is longer than any before counts at once; what was longest fades by half in three days, so that
nights and weekends are known, and a source that has become busier is trusted less long. Of a source
that has brought items hardly ever nothing is known.
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

TIMES: Final = 3.0
LEAST: Final = timedelta(minutes=10)
#: Nothing is said of a source that has brought items fewer times.
ENOUGH: Final = 20
HALF_LIFE: Final = timedelta(days=3)


class Gaps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The gaps of a source: its longest one of late in seconds, how often it has brought items."""

    longest: float = 0.0
    times: int = 0
    item_at: datetime | None = None


def after_items(gaps: Gaps, now: datetime) -> Gaps:
    """Return the gaps after items came now.

    >>> noon = datetime(2026, 11, 24, 12)
    >>> after_items(Gaps(longest=60.0, times=7, item_at=noon), noon + timedelta(hours=1))
    Gaps(longest=3600.0, times=8, item_at=datetime.datetime(2026, 11, 24, 13, 0))
    """
    passed = timedelta() if gaps.item_at is None else max(now - gaps.item_at, timedelta())
    faded = gaps.longest * 0.5 ** (passed / HALF_LIFE)
    return Gaps(longest=max(faded, passed.total_seconds()), times=gaps.times + 1, item_at=now)


def silent_at(gaps: Gaps) -> datetime | None:
    """Return when the source is silent unless items come before; None where that is not known.

    >>> silent_at(Gaps(longest=3600.0, times=20, item_at=datetime(2026, 11, 24, 12)))
    datetime.datetime(2026, 11, 24, 15, 0)
    >>> silent_at(Gaps(longest=3600.0, times=19, item_at=datetime(2026, 11, 24, 12)))
    """
    if gaps.item_at is None or gaps.times < ENOUGH:
        return None
    return gaps.item_at + max(LEAST, timedelta(seconds=TIMES * gaps.longest))
