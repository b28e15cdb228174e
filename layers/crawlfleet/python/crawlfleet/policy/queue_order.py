"""What the order of the queue tells about what is not in it."""

from datetime import datetime

from crawlfleet.model.priority import DEFAULT_PRIORITY
from crawlfleet.model.times import to_ms
from crawlfleet.model.totals import Depth
from crawlfleet.policy.ageing import LEVELS


def queued_before(
    depth: Depth, now: datetime, slack_seconds: float, priority: int = DEFAULT_PRIORITY
) -> int:
    """Epoch ms below which a pending request of that priority cannot be in the queue any more.

    Of one priority the queue is served oldest first, so whatever is older than its oldest entry and
    still pending has been lost from it, or is about to be claimed; unless it waits for its host. A
    submission needs a moment from MongoDB to Redis, hence the slack. Requests lost from the middle
    are found when their turn comes.
    """
    latest = to_ms(now) - round(slack_seconds * 1_000)
    bounds = (depth.heads.get(priority), depth.parked_ts)
    return min([latest, *(bound for bound in bounds if bound is not None)])


def each_queued_before(depth: Depth, now: datetime, slack_seconds: float) -> tuple[int, ...]:
    """:func:`queued_before` of the priorities 0 to 10."""
    return tuple(queued_before(depth, now, slack_seconds, level) for level in range(LEVELS))
