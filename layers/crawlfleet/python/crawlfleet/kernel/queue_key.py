"""Queue keys: one biz of a tenant and its queue, the unit of queueing, leasing and counting.

A pool is one kind of worker (SPEC.md B12, C1): so much memory, in a region, behind a network. The
usual pool has no name in queues, keys or functions: a stage without pools has only that.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.kernel.validation import Document

#: What the usual pool is called where it has to be called something.
MAIN_POOL: Final = "main"
#: Names that no further pool may have: the usual one's, and what its figures are kept under.
TAKEN_NAMES: Final = frozenset({MAIN_POOL, "fleet"})
#: Pools of a stage beside the usual one, at most: each is looked at and scaled with every tick.
MOST_POOLS: Final = 16


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of worker, as infrastructure states it in ``CRAWLFLEET_POOLS`` as JSON.

    ``name`` is ``main`` or a slug of its own, ``memory_mb`` is of each worker, ``region`` and
    ``network`` (what downloads leave through) are for people. ``function`` is the pool's consumer,
    by its ARN where that runs in another region; ``ceiling`` the most invocations of it at once.
    """

    name: str = MAIN_POOL
    memory_mb: int = 1024
    region: str = ""
    network: str = ""
    function: str = ""
    ceiling: int = 1


#: Between a queue's name and the pool that its work is bound for; no queue's name has one.
_AT: Final = "@"


class QueueKey(msgspec.Struct, frozen=True, order=True):
    """A queue key: a biz of a tenant, which names its queue (SPEC.md A3, A6).

    Every key of a queue carries the hash tag ``{tenant:biz}``, so that one script may touch all of
    them on a Redis Cluster too.
    """

    tenant: str
    biz: str
    queue: str

    @property
    def path(self) -> str:
        """Return ``tenant/biz``, for people and for keys of figures: a queue's name may change.

        >>> QueueKey("acme", "docs", "main").path
        'acme/docs'
        """
        return f"{self.tenant}/{self.biz}"

    @property
    def pool(self) -> str | None:
        """Return the pool that its work is bound for; None where any may do it.

        >>> QueueKey("acme", "docs", "main@large").pool
        'large'
        >>> QueueKey("acme", "docs", "main").pool is None
        True
        """
        return self.queue.partition(_AT)[2] or None


def bound(queue_key: QueueKey, pool: str) -> QueueKey:
    """Return the queue of the same biz bound for a pool; for the usual one it is the same queue.

    >>> bound(QueueKey("acme", "docs", "main"), "large").queue
    'main@large'
    """
    queue, at_pool = queue_key.queue.partition(_AT)[0], "" if pool == MAIN_POOL else _AT + pool
    return QueueKey(queue_key.tenant, queue_key.biz, queue + at_pool)


#: From 0 to 10; what waits gains on what is above it (requests.queue.ageing).
Priority = Annotated[int, Meta(ge=0, le=10)]
DEFAULT_PRIORITY = 5


class Ageing(Document, frozen=True, kw_only=True):
    """The ageing of priorities: how fast those of waiting tasks rise (requests.queue.ageing).

    A tick is every ``interval_seconds``. A task weighs its priority + 1, and at each tick at which
    its age is more than ``beta`` of the oldest one's that becomes up to twice as much, though never
    more than ``clamp``. What has waited longest stands before every newcomer after four ticks.
    """

    interval_seconds: Annotated[float, Meta(ge=0.05, le=86_400)] = 300.0
    beta: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.5
    clamp: Annotated[float, Meta(ge=12, le=2**20)] = 1024.0

    @property
    def interval_ms(self) -> int:
        """Return the interval in whole milliseconds."""
        return round(self.interval_seconds * 1_000)


USUAL_AGEING = Ageing()

#: Priorities 0 to 10.
LEVELS: Final = 11
