"""Where the queue entries of a biz live: the unit of queueing, leasing and counting."""

import msgspec


class Lane(msgspec.Struct, frozen=True, order=True):
    """One biz of one tenant, and the name of its queue (SPEC.md A3, A6).

    Every key of a lane carries the hash tag ``{tenant:biz}``, so that one script may touch all of
    them on a Redis Cluster too.
    """

    tenant: str
    biz: str
    queue: str
