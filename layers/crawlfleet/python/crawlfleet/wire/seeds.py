"""Seeds, the answers to URLs that are added as seeds, and totals by segment."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.wire import Page, ProblemDocument


class OfferAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a URL: accepted; a duplicate, and ``why``; or the problem with it.

    ``segment`` is the one it was judged in, and ``key`` its page's there.
    """

    accepted: bool = False
    segment: str | None = None
    key: str | None = None
    why: str | None = None
    error: ProblemDocument | None = None


class OffersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a batch of URLs, in their order."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    seeds: tuple[OfferAnswer, ...]


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """A seed: ``ready``, ``handed``, ``finished`` or ``failed``. ``id`` is ``segment/key``.

    ``due_at`` is when it is dispatched, or its request is checked; of one that has ended it is
    when. ``request_id`` is the request that it was last dispatched as.
    """

    id: str
    segment: str
    key: str
    state: str
    url: str
    rule: str = ""
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}
    method: str = "GET"
    body: str | None = None
    job: str | None = None
    found_by: str | None = None
    offered_at: datetime | None = None
    due_at: datetime | None = None
    request_id: str | None = None
    handed_at: datetime | None = None
    tries: int = 0
    why: str | None = None


class SeedsPage(Page, frozen=True):
    """A page of seeds; ``cursor`` is where to go on."""

    seeds: tuple[Seed, ...]


class SegmentTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Seeds of a segment by state; ``waiting`` are ready ones of the future."""

    segment: str
    ready: int = 0
    waiting: int = 0
    handed: int = 0
    finished: int = 0
    failed: int = 0
    filter_bytes: int = 0


class SeedTotalsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The newest segments, the newest first."""

    segments: tuple[SegmentTotals, ...]
