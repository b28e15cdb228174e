"""What the order of the queue tells about what is not in it.

Lease tokens: they name their worker, so that its leases can be found when it is dead.
"""

from datetime import datetime

from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, LEVELS
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.queue.stats import Depth


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
    bounds = (depth.heads.get(priority), depth.deferred_ts)
    return min([latest, *(bound for bound in bounds if bound is not None)])


def each_queued_before(depth: Depth, now: datetime, slack_seconds: float) -> tuple[int, ...]:
    """:func:`queued_before` of the priorities 0 to 10."""
    return tuple(queued_before(depth, now, slack_seconds, level) for level in range(LEVELS))


def new_token(worker: str, nonce: str, number: int) -> str:
    """A token for the ``number``-th lease of one run of a worker.

    Lambda may run one invocation twice, under one id: the nonce keeps their leases apart.

    >>> new_token("w1", "9f3c", 12)
    'w1.9f3c.12'
    """
    return f"{worker}.{nonce}.{number}"


def worker_of(token: str) -> str:
    """Whose token it is.

    >>> worker_of("eu.w1.9f3c.12")
    'eu.w1'
    """
    return token.rsplit(".", 2)[0]


def is_of(token: str, worker: str) -> bool:
    """Whether the token is one of that worker's.

    >>> is_of("eu.w1.9f3c.12", "eu.w1"), is_of("eu.w1.9f3c.12", "eu")
    (True, False)
    """
    return token.startswith(f"{worker}.") and worker_of(token) == worker
