"""Capacity that a tenant or a biz states it needs (SPEC.md C1)."""

from typing import Annotated

from msgspec import Meta

from crawlfleet.model.document import Count, Document, Seconds, Slug
from crawlfleet.model.pool import MAIN_POOL


class Needs(Document, frozen=True, kw_only=True):
    """What is to be kept available in a pool: ``workers``, or as many as do that in an hour.

    One of the two is said. How many workers ``requests_per_hour`` comes to follows what workers
    have shown to be able to do with requests of the biz. A tenant's is for all its bizs together,
    beside none of theirs: the greater counts.

    Who has had no work for ``idle_seconds`` has its capacity released, and has it back within a
    minute of its next request; null keeps it for as long as it is stated.
    """

    workers: Annotated[int, Meta(ge=1, le=1000)] | None = None
    requests_per_hour: Count | None = None
    pool: Slug = MAIN_POOL
    idle_seconds: Seconds | None = 3600.0


class CapacityLimits(Document, frozen=True, kw_only=True):
    """How many workers of each pool one tenant may have kept available, whatever it states."""

    workers_per_tenant: Annotated[int, Meta(ge=0, le=1000)] = 10
