"""A tenant's use beside its ceilings, and which it has reached; nothing here asks anybody."""

from collections.abc import Iterator
from typing import Final

import msgspec

from crawlfleet.config.documents.ceilings import Ceilings

#: Room in the queues comes back as workers go on; in MongoDB as documents expire.
REDIS_SECONDS: Final = 30.0
STORED_SECONDS: Final = 300.0


class CeilingState(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's use of one thing beside its ceiling. ``allowed`` is None where there is none.

    ``limit`` is the setting's name. ``seconds`` is after what it makes sense to look again.
    """

    limit: str
    used: float | None = None
    allowed: float | None = None
    seconds: float = 0.0

    @property
    def is_reached(self) -> bool:
        """Tell whether there is no room for more.

        >>> CeilingState(limit="documents", used=1_000, allowed=1_000).is_reached
        True
        >>> CeilingState(limit="documents", used=1_000).is_reached
        False
        """
        known = self.used is not None and self.allowed is not None
        return known and (self.used or 0) >= (self.allowed or 0)

    def __str__(self) -> str:
        return f"{self.used or 0:,.0f} of {self.allowed or 0:,.0f} ({self.limit})"


class TenantSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The use that a tenant makes of the stores; None is not known, or not asked for.

    ``redis_bytes`` are those of its queues and data queues, as the server measures some of each;
    ``redis_most`` is what one of several tenants may have, None where there is no bound.
    ``stored_bytes`` are those of its documents in MongoDB, before compression.
    """

    redis_bytes: int | None = None
    redis_most: int | None = None
    stored_bytes: int | None = None
    documents: int | None = None


def redis_state(ceilings: Ceilings, sizes: TenantSizes) -> CeilingState:
    """Return how full the tenant's part of Redis is: by its own ceiling, or by all tenants'.

    >>> sizes = TenantSizes(redis_bytes=5, redis_most=4)
    >>> redis_state(Ceilings(), sizes).limit, redis_state(Ceilings(redis_bytes=9**9), sizes).limit
    ('tenant_redis_ratio', 'tenant_redis_ratio')
    """
    own, most = ceilings.redis_bytes, sizes.redis_most
    limit = "ceilings.redis_bytes"
    if most is not None and (own is None or most < own):
        own, limit = most, "tenant_redis_ratio"
    return CeilingState(limit=limit, used=sizes.redis_bytes, allowed=own, seconds=REDIS_SECONDS)


def stored_states(ceilings: Ceilings, sizes: TenantSizes) -> Iterator[CeilingState]:
    """Return how much of what it may store the tenant has."""
    for name in ("stored_bytes", "documents"):
        used, allowed = getattr(sizes, name), getattr(ceilings, name)
        limit = f"ceilings.{name}"
        yield CeilingState(limit=limit, used=used, allowed=allowed, seconds=STORED_SECONDS)


def used_rate(wait_seconds: float, count: int, per_second: float, burst: int) -> float:
    """Compute how many a second came of late, where ``count`` more have to wait for so long.

    Of late is as long as the rate takes for a whole burst.

    >>> used_rate(0.5, 1, 2.0, 4)
    2.0
    >>> used_rate(0.5, 3, 2.0, 4)
    1.0
    """
    counted = wait_seconds * per_second + max(0, burst - count)
    return round(per_second * counted / burst, 3)


class PermitAsk(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's ask for a tenant: it has ``held`` requests in flight and wants so many more.

    ``unused`` is what it was given before and has not leased: the rate takes that back.
    """

    held: int
    wanted: int = 0
    unused: int = 0
    in_flight: int | None = None
    per_second: float | None = None


class Permits(msgspec.Struct, frozen=True, kw_only=True):
    """The permits granted: ``count`` more; all workers together have ``in_flight`` permits now."""

    count: int
    in_flight: int
    wait_seconds: float = 0.0
