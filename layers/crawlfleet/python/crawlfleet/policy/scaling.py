"""How many consumers there should be."""

from collections.abc import Iterable
from datetime import datetime

from crawlfleet.model.biz import FleetLimits
from crawlfleet.model.totals import Depth


def wanted_consumers(depths: Iterable[Depth], limits: FleetLimits) -> int:
    """Enough that each has ``requests_per_consumer`` waiting at most, within the stage's bounds.

    >>> wanted_consumers([Depth(queued=2001, leased=0, delayed=0)], FleetLimits(max_consumers=5))
    2
    """
    waiting = sum(depth.queued + depth.leased + depth.delayed for depth in depths)
    needed = -(-waiting // limits.requests_per_consumer)
    return max(limits.min_consumers, min(needed, limits.max_consumers))


def queued_before(depth: Depth, now: datetime, slack_seconds: float) -> float:
    """Epoch seconds below which a pending request cannot be in the queue any more.

    The queue is served oldest first, so whatever is older than its oldest entry and still pending
    has
    been lost from it, or is about to be claimed. A submission needs a moment from MongoDB to Redis,
    hence the slack. Requests lost from the middle are found when their turn comes.
    """
    latest = now.timestamp() - slack_seconds
    return latest if depth.oldest_ts is None else min(latest, depth.oldest_ts / 1000)
