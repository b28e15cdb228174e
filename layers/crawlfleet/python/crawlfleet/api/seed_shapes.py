"""Which URLs a client offers as seeds, and which seeds it means.

Seeds as the API shows them, and what became of offers.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from crawlfleet.api.inputs import LARGEST_PAGE, read, time_in
from crawlfleet.api.responses import ProblemDocument, View, at, document_of
from crawlfleet.crawling.frontier.models import (
    Offer,
    Offered,
    Seed,
    SeedsMeant,
    SeedState,
    SeedTotals,
)
from crawlfleet.crawling.frontier.segments import NAME
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.urls import Url
from crawlfleet.kernel.validation import Words, decode, join, named
from crawlfleet.requests.submission.admission import RESERVED, is_reserved
from crawlfleet.requests.submission.models import (
    BATCH_LIMIT,
    HeaderName,
    HeaderValue,
    JobName,
    Scalar,
    Text,
)

#: Seeds that one call changes unless it asks for fewer or more.
CHANGES: Final = 500
#: Fields of a batch.
_BATCH: Final = frozenset({"seeds"})
#: What msgspec raises for bytes that are not what was asked for.
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeError)

SegmentName = Annotated[
    str, Meta(pattern=rf"^{NAME}\Z"), Words("the name of a segment, such as 2026-03-01")
]
SeedId = Annotated[
    str,
    Meta(pattern=rf"^{NAME}/[0-9a-f]{{32}}\Z"),
    Words("a seed's id: its segment, a slash, and 32 hex digits in lower case"),
]
StateName = Literal["ready", "handed", "finished", "failed"]


class SeedInput(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A URL offered as a seed. ``rule`` may be left out where the biz has only one.

    It is accepted once a segment, by its key. ``meta``, ``headers`` and ``job`` are those of the
    request that is made of it, at ``starts_at`` or now: RFC 3339 with a zone, or epoch
    milliseconds.
    """

    url: Url
    rule: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    meta: Annotated[dict[Text, Scalar], Meta(max_length=64)] = {}
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=64)] = {}
    job: JobName | None = None
    starts_at: Annotated[str, Meta(max_length=40)] | None = None


class SeedsInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several URLs, each answered on its own."""

    seeds: Annotated[list[SeedInput], Meta(min_length=1, max_length=BATCH_LIMIT)]


class SeedFilterInput(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Seeds of which all that is given holds."""

    segment: SegmentName | None = None
    state: StateName | None = None


class SeedsChangeInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which seeds are released or forgotten: some by what they are called, or those of a filter.

    All of them are ``all``, not an empty filter. Released are failed ones, unless the filter says
    ``finished``. ``cursor`` is that of the answer before, where a call did not come to the end.
    """

    seeds: Annotated[list[SeedId], Meta(max_length=BATCH_LIMIT)] = []
    filter: SeedFilterInput = SeedFilterInput()
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = CHANGES
    cursor: Annotated[str, Meta(max_length=200)] | None = None


_seeds = msgspec.json.Decoder(SeedsInput)
_single = msgspec.json.Decoder(SeedInput)


def offers_in(body: bytes) -> list[Offer | InvalidRequestError]:
    """The offers of a batch; one that is wrong is its error, and the others go on without it.

    Raises:
        InvalidRequestError: the body is no batch of 1 to 1,000.
    """
    try:
        return [_offer(one, index) for index, one in enumerate(_seeds.decode(body).seeds)]
    except _UNREADABLE:
        pass
    top = read(body, dict[str, msgspec.Raw])
    problems = [Problem(join("", name), _beside(name)) for name in top.keys() - _BATCH]
    entries, wrong = decode(bytes(top.get("seeds", b"null")), list[msgspec.Raw])
    problems += [Problem("seeds", "is missing" if "seeds" not in top else p.message) for p in wrong]
    if problems or entries is None:
        raise InvalidRequestError(sorted(problems, key=lambda problem: problem.field))
    if not 1 <= len(entries) <= BATCH_LIMIT:
        message = f"must have 1 to {BATCH_LIMIT:,} entries, has {len(entries):,}"
        raise InvalidRequestError.of("seeds", message)
    return [_entry(entry, index) for index, entry in enumerate(entries)]


def meant_in(query: Mapping[str, str]) -> SeedsMeant:
    """The filter in the parameters of a list."""
    given = {name: query[name] for name in ("segment", "state") if name in query}
    return _meant(read(msgspec.json.encode(given), SeedFilterInput))


def changes_in(body: bytes) -> tuple[SeedsChangeInput, SeedsMeant | None]:
    """Which seeds are changed; the filter is None where they are named.

    Raises:
        InvalidRequestError: they are said in no way, or in two: nobody changes all by a typo.
    """
    given = read(body, SeedsChangeInput)
    ways = bool(given.seeds) + (given.filter != SeedFilterInput()) + given.all
    if not ways:
        message = 'is empty: name seeds or a filter, or say "all": true for every seed'
        raise InvalidRequestError.of("filter", message)
    if ways > 1:
        message = "is one of three ways to say which: seeds, filter, all"
        raise InvalidRequestError.of("seeds" if given.seeds else "filter", message)
    return given, None if given.seeds else _meant(given.filter)


def _meant(given: SeedFilterInput) -> SeedsMeant:
    state = None if given.state is None else SeedState[given.state.upper()]
    return SeedsMeant(segment=given.segment, state=state)


def _offer(one: SeedInput, index: int) -> Offer | InvalidRequestError:
    try:
        starts_at = time_in(one.starts_at, f"seeds[{index}].starts_at")
    except InvalidRequestError as error:
        return error
    if one.job is not None and is_reserved(one.job):
        return InvalidRequestError.of(f"seeds[{index}].job", RESERVED)
    return Offer(
        url=one.url,
        rule=one.rule or "",
        meta=one.meta,
        headers=one.headers,
        job=one.job,
        starts_at=starts_at,
    )


def _entry(raw: msgspec.Raw, index: int) -> Offer | InvalidRequestError:
    try:
        return _offer(_single.decode(raw), index)
    except _UNREADABLE:
        _, problems = decode(bytes(raw), SeedInput)
        return InvalidRequestError(
            Problem(f"seeds[{index}].{p.field}".rstrip("."), p.message) for p in problems
        )


def _beside(name: str) -> str:
    """What is wrong with a field that stands beside a batch's entries."""
    if name in SeedInput.__struct_fields__:
        return 'belongs to each entry of "seeds", not beside them'
    return f"is no field of a batch; it has {named(_BATCH, name)}"


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
