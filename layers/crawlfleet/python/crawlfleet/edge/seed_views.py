"""Seeds as the API shows them, and what became of offers."""

from typing import Any

from crawlfleet.edge.problems import ProblemDocument, document_of
from crawlfleet.edge.views import View, at
from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.seed import Offered, Seed, SeedTotals


class OfferView(View, frozen=True, kw_only=True):
    """What became of an offer: accepted; a duplicate, and ``why``; or the problem with it.

    ``segment`` is the one it was judged in, and ``key`` what its page has there.
    """

    accepted: bool
    segment: str | None = None
    key: str | None = None
    why: str | None = None
    error: ProblemDocument | None = None


class OfferedView(View, frozen=True, kw_only=True):
    """One answer an offer, in the order of the offers."""

    accepted: int
    duplicates: int
    rejected: int
    seeds: list[OfferView]


class SeedView(View, frozen=True, kw_only=True):
    """A seed. ``id`` is what it is called: ``segment/key``.

    ``due_at`` is when it is to be looked at next: handed out, or looked after; of one that has
    ended it is when. ``request_id`` is the request that it was last handed out as.
    """

    id: str
    segment: str
    key: str
    state: str
    url: str
    rule: str
    depth: int
    meta: dict[str, Any]
    headers: dict[str, str]
    job: str | None
    found_by: str | None
    offered_at: str
    due_at: str
    request_id: str | None
    handed_at: str | None
    tries: int
    why: str | None


class SeedsView(View, frozen=True, kw_only=True):
    """A page of seeds; ``cursor`` is where to go on."""

    seeds: list[SeedView]
    cursor: str | None
    more: bool


class SegmentView(View, frozen=True, kw_only=True):
    """How many seeds a segment has in each state; ``waiting`` are ready ones of the future."""

    segment: str
    ready: int
    waiting: int
    handed: int
    finished: int
    failed: int
    filter_bytes: int


class SeedTotalsView(View, frozen=True, kw_only=True):
    """The newest segments, the newest first."""

    segments: list[SegmentView]


class SeedsChangedView(View, frozen=True, kw_only=True):
    """How many seeds were changed. ``more``: others may be; ask again with this ``cursor``."""

    count: int
    cursor: str | None
    more: bool


def offer_view(answer: Offered | InvalidRequestError) -> OfferView:
    """What became of an offer."""
    if isinstance(answer, InvalidRequestError):
        return OfferView(accepted=False, error=document_of(answer))
    return OfferView(
        accepted=answer.accepted,
        segment=answer.segment,
        key=answer.key,
        why=answer.why or None,
    )


def seed_view(seed: Seed) -> SeedView:
    """A seed."""
    offer = seed.offer
    return SeedView(
        id=seed.id,
        segment=seed.segment,
        key=seed.key,
        state=seed.state.label,
        url=offer.url,
        rule=offer.rule,
        depth=offer.depth,
        meta=offer.meta,
        headers=offer.headers,
        job=offer.job,
        found_by=None if offer.found_by is None else str(offer.found_by),
        offered_at=at(seed.offered_at),
        due_at=at(seed.due_at),
        request_id=None if seed.request is None else str(seed.request),
        handed_at=None if seed.handed_at is None else at(seed.handed_at),
        tries=seed.tries,
        why=seed.why or None,
    )


def segment_view(totals: SeedTotals) -> SegmentView:
    """How many seeds a segment has."""
    return SegmentView(
        segment=totals.segment,
        ready=totals.ready,
        waiting=totals.waiting,
        handed=totals.handed,
        finished=totals.finished,
        failed=totals.failed,
        filter_bytes=totals.filter_bytes,
    )
