"""What the order of the queue tells about what is not in it."""

from datetime import datetime

from crawlfleet.model.totals import Depth


def queued_before(depth: Depth, now: datetime, slack_seconds: float) -> float:
    """Epoch seconds below which a pending request cannot be in the queue any more.

    The queue is served oldest first, so whatever is older than its oldest entry and still pending
    has been lost from it, or is about to be claimed. A submission needs a moment from MongoDB to
    Redis, hence the slack. Requests lost from the middle are found when their turn comes.
    """
    latest = now.timestamp() - slack_seconds
    return latest if depth.oldest_ts is None else min(latest, depth.oldest_ts / 1000)
