"""The counts of answers of the in-memory fake: this minute and the one before, as in Redis."""

from typing import Final

import msgspec
from msgspec.structs import replace

from tests.kit.politeness import MINUTE_US, HostReport, micros

_MILLION: Final = 1_000_000


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Answers within a minute; ``spent`` is how long the answers took together, in us."""

    answered: int = 0
    failed: int = 0
    overloads: int = 0
    spent: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            answered=self.answered + other.answered,
            failed=self.failed + other.failed,
            overloads=self.overloads + other.overloads,
            spent=self.spent + other.spent,
        )


class HostCounts(msgspec.Struct, frozen=True, kw_only=True):
    """``present`` is of ``minute``, counted from the epoch; ``before`` of the minute before it."""

    minute: int = 0
    present: Counts = Counts()
    before: Counts = Counts()


_NONE: Final = Counts()


def moved_on(counts: HostCounts, now: int) -> HostCounts:
    """Move the counts on to ``now``, in us; keep them where the clock was set back."""
    minute = now // MINUTE_US
    if minute <= counts.minute:
        return counts
    before = counts.present if minute == counts.minute + 1 else _NONE
    return HostCounts(minute=minute, before=before)


def counted(counts: HostCounts, report: HostReport, now: int) -> HostCounts:
    """Add a report's answers; an empty report moves nothing.

    >>> report = HostReport(host="h", tenant="t", running=0, answered=3, seconds=1e-3, failed=1)
    >>> counted(HostCounts(), report, 0).present
    Counts(answered=3, failed=1, overloads=0, spent=3000)
    """
    own = report.own
    answered, overloads = report.answered + own.answered, report.overloads + own.overloads
    if not (answered or overloads):
        return counts
    counts = moved_on(counts, now)
    more = Counts(
        answered=answered,
        failed=min(report.failed, answered),
        overloads=overloads,
        spent=report.answered * micros(report.seconds) + own.answered * micros(own.seconds),
    )
    return replace(counts, present=counts.present + more)


def lately(counts: HostCounts, now: int) -> tuple[Counts, float]:
    """Sum both minutes; add the seconds that they cover, 0 for nothing.

    >>> counts = Counts(answered=6, spent=9)
    >>> lately(HostCounts(minute=1, present=counts), 90 * 1_000_000)
    (Counts(answered=6, failed=0, overloads=0, spent=9), 90.0)
    >>> lately(HostCounts(minute=1, present=counts), 200 * 1_000_000)
    (Counts(answered=0, failed=0, overloads=0, spent=0), 0.0)
    """
    counts = moved_on(counts, now)
    found = counts.present + counts.before
    if found == _NONE:
        return found, 0.0
    within = min(MINUTE_US, max(0, now - counts.minute * MINUTE_US))
    return found, (MINUTE_US + within) / _MILLION
