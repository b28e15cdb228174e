"""Where the queue entries of a biz live: the unit of queueing, leasing and counting."""

from typing import Final

import msgspec

from crawlfleet.model.pool import MAIN_POOL

#: Between a queue's name and the pool that its work is bound for; no queue's name has one.
_AT: Final = "@"


class Lane(msgspec.Struct, frozen=True, order=True):
    """One biz of one tenant, and the name of its queue (SPEC.md A3, A6).

    Every key of a lane carries the hash tag ``{tenant:biz}``, so that one script may touch all of
    them on a Redis Cluster too.
    """

    tenant: str
    biz: str
    queue: str

    @property
    def path(self) -> str:
        """Which biz it is, for people and for keys of figures: a queue's name may change.

        >>> Lane("acme", "docs", "main").path
        'acme/docs'
        """
        return f"{self.tenant}/{self.biz}"

    @property
    def pool(self) -> str | None:
        """The pool that its work is bound for; None where any may do it.

        >>> Lane("acme", "docs", "main@large").pool
        'large'
        >>> Lane("acme", "docs", "main").pool is None
        True
        """
        return self.queue.partition(_AT)[2] or None


def bound(lane: Lane, pool: str) -> Lane:
    """The lane of the same biz whose work is bound for a pool; the usual one's is the lane itself.

    >>> bound(Lane("acme", "docs", "main"), "large").queue
    'main@large'
    """
    queue = lane.queue.partition(_AT)[0]
    return Lane(lane.tenant, lane.biz, queue if pool == MAIN_POOL else f"{queue}{_AT}{pool}")
