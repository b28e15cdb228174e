"""Rates from counts by second (SPEC.md A10): which seconds count, and how far back they look."""

from collections.abc import Mapping
from typing import Final

from crawlfleet.requests.queue.stats import Rates

#: The longest span of the rates, in seconds.
LONGEST_SECONDS: Final = 60
#: Counts older than this many seconds may be forgotten.
KEPT_SECONDS: Final = 90


def full_minute(counts: Mapping[int, int], second: int) -> dict[int, int]:
    """The counts of the 60 full seconds before ``second``; a second without any is missing.

    >>> full_minute({39: 1, 40: 2, 99: 3, 100: 4}, 100)
    {40: 2, 99: 3}
    """
    return {at: counts[at] for at in sorted(counts) if second - LONGEST_SECONDS <= at < second}


def before(counts: Mapping[int, int], second: int, since: int = 0) -> dict[int, int]:
    """The counts of the seconds from ``since`` on that are over at ``second``, in order.

    >>> before({39: 1, 99: 3, 100: 4}, 100, 40)
    {99: 3}
    """
    return {at: counts[at] for at in sorted(counts) if since <= at < second and counts[at]}


def rates(counts: Mapping[int, int], second: int) -> Rates:
    """Per second over the last full 1, 5 and 60 seconds; ``second`` itself is not over yet.

    >>> rates({95: 10, 99: 5, 100: 7}, 100)
    Rates(per_1s=5.0, per_5s=3.0, per_60s=0.25)
    """

    def over(span: int) -> float:
        return sum(counts.get(at, 0) for at in range(second - span, second)) / span

    return Rates(per_1s=over(1), per_5s=over(5), per_60s=over(LONGEST_SECONDS))
