"""Until when a biz's backlog is to be done, and whether it will be (SPEC.md A12, H4).

A plan says how long a request may take from its submission until somebody has dealt with it. The
planned end is worked out here and nowhere else: the deadline alarm, the monitor's ``late`` and the
number of workers are three readings of :func:`seconds_left`.

**Who is the latest.** Requests are served in turn. One with ``ahead`` requests up to itself that
was submitted ``age`` seconds ago is done in time at rates of ``ahead / (planned - age)`` and more,
and the backlog's planned end is that of whichever asks for the highest rate. Of a burst that is its
last one: all of it is as old as its oldest. Of a steady stream it is the youngest, which has all of
its time left, however old the oldest is. So neither "the oldest's age and the forecast" nor "the
greater of both" is right for both.

**What is known.** Of the last seconds it is known how much was submitted. What waits beyond that is
taken to have come as evenly as the last of it; what that does not explain came all at once, with
the oldest. Where nothing is known of the last seconds all is as old as the oldest: that asks for
the most, never for less.
"""

from collections.abc import Mapping, Sequence

from crawlfleet.policy.rates import KEPT_SECONDS


def seconds_left(
    planned: float, oldest: float, waiting: float, submitted: Sequence[int] = ()
) -> float:
    """How long what waits may still take as a whole, so that nothing of it is late.

    Below 0, or 0, where the oldest has had all of its time: then something is late already.

    Args:
        planned: Seconds that the biz plans for each request.
        oldest: Seconds that the oldest has waited.
        waiting: How much waits.
        submitted: How much was submitted in each of the last full seconds, the latest first; empty
            where that is not known.

    >>> seconds_left(600, 100, 20_000)
    500.0
    >>> round(seconds_left(600, 300, 9_000, [30] * 90))
    599
    """
    if oldest >= planned or waiting <= 0:
        return float(planned - oldest)
    fastest, later = 0.0, 0
    # What was submitted in a second is taken to have come as it began.
    for second, count in enumerate(submitted):
        ahead = waiting - later
        if ahead <= 0:
            break
        if count:
            fastest = max(fastest, ahead / (planned - min(second + 1, oldest)))
        later += count
    rest = waiting - later
    if rest > 0:
        known = min(len(submitted), oldest)
        evenly = later / len(submitted) * (oldest - known) if submitted else 0.0
        fastest = max(
            fastest, rest / (planned - known), max(0.0, rest - evenly) / (planned - oldest)
        )
    return waiting / fastest


def latest_seconds(planned: float, left: float, oldest: float, forecast: float | None) -> float:
    """How long the latest of what waits will have taken; late is more than ``planned``.

    Args:
        planned: Seconds that the biz plans for each request.
        left: :func:`seconds_left`.
        oldest: Seconds that the oldest has waited.
        forecast: How long all that waits takes at the present rate. None without a rate: then only
            the wait so far is sure.
    """
    if forecast is None:
        return oldest
    return max(oldest, planned - left + forecast)


def latest_first(counts: Mapping[int, int], second: int) -> list[int]:
    """Counts by epoch second as those of each of the full seconds before ``second``.

    >>> latest_first({98: 3, 99: 4, 100: 5}, 100)[:3]
    [4, 3, 0]
    """
    return [counts.get(second - 1 - ago, 0) for ago in range(KEPT_SECONDS)]
