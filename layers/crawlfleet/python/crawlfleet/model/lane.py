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

    @property
    def path(self) -> str:
        """Which biz it is, for people and for keys of figures: a queue's name may change.

        >>> Lane("acme", "docs", "main").path
        'acme/docs'
        """
        return f"{self.tenant}/{self.biz}"
