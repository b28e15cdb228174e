"""How many consumers there should be."""

from collections.abc import Iterable
from datetime import datetime

from crawlfleet.model.biz import FleetLimits
from crawlfleet.model.totals import Depth, Load


def wanted_consumers(loads: Iterable[Load], limits: FleetLimits) -> int:
    """Enough that each has ``requests_per_consumer`` at most, within the stage's bounds.

    >>> wanted_consumers([Load(ready=2000, leased=1)], FleetLimits(max_consumers=5))
    2
    """
    work = sum(load.ready + load.leased for load in loads)
    needed = -(-work // limits.requests_per_consumer)
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
