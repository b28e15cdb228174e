"""The ceilings of a tenant's document (SPEC.md C7, H4): the most that it may have of anything."""

from typing import Annotated

from msgspec import Meta

from crawlfleet.kernel.validation import Count, Document

PerSecond = Annotated[float, Meta(gt=0, le=1_000_000)]


class Ceilings(Document, frozen=True, kw_only=True):
    """The most that a tenant has, over all of its bizs and workers; None is no ceiling.

    ``in_flight`` are requests that workers have leased, ``leases_per_second`` how many more they
    lease; beyond either the tenant's requests wait. ``submissions_per_second`` may be exceeded by
    ``burst`` at once; a submission beyond it is answered with 429, as is one while the tenant's
    queues take ``redis_bytes``, or while it has ``stored_bytes`` or ``documents`` in MongoDB. Of
    who has these two nothing is leased either, until some have expired or were deleted. Of
    ``trials`` of rules so many go on at once; one more is answered with 429, and so is one more
    of ``subscriptions`` to streams.
    """

    in_flight: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    leases_per_second: PerSecond | None = None
    submissions_per_second: PerSecond | None = None
    burst: Count = 1_000
    redis_bytes: Annotated[int, Meta(ge=1_000_000)] | None = None
    stored_bytes: Annotated[int, Meta(ge=1_000_000)] | None = None
    documents: Annotated[int, Meta(ge=1_000)] | None = None
    trials: Annotated[int, Meta(ge=1, le=1_000)] = 4
    subscriptions: Annotated[int, Meta(ge=0, le=100_000)] = 1_000
