"""Whether a biz is late (SPEC.md A11, H4)."""

from collections.abc import Sequence

from crawlfleet.policy.lanes import finish_seconds
from crawlfleet.policy.plans import latest_seconds, seconds_left


def is_late(
    *,
    oldest_seconds: float,
    longest_seconds: float,
    queued: int,
    per_second: float,
    planned_seconds: float | None,
    submitted: Sequence[int] = (),
) -> bool:
    """Whether a biz's backlog is older than the stage bears, or will outlast the biz's plan.

    Args:
        oldest_seconds: Age of what is served next.
        longest_seconds: The age that the stage bears.
        queued: Requests waiting.
        per_second: The present rate of processing. Without one there is no forecast, and the
            backlog is late once its oldest has waited for as long as the whole was planned.
        planned_seconds: The time in which the biz wants a backlog finished; None for no wish.
        submitted: Requests submitted in each of the last full seconds, the latest first.
    """
    if oldest_seconds > longest_seconds:
        return True
    if planned_seconds is None or not queued:
        return False
    left = seconds_left(planned_seconds, oldest_seconds, queued, submitted)
    forecast = finish_seconds(queued, per_second)
    return latest_seconds(planned_seconds, left, oldest_seconds, forecast) > planned_seconds
