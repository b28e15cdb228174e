"""Seeds in the API: add, list, count, release, forget."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.api import inputs
from crawlfleet.api.quotas import must_have_room
from crawlfleet.api.responses import document_of, filled, no_content, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, TRACED, Call, Parameter, Routes
from crawlfleet.config.documents.policies import LARGEST_SEED
from crawlfleet.crawling.frontier import models, service
from crawlfleet.crawling.frontier.models import AddResult, SeedSelection, SeedSpec, SeedState
from crawlfleet.crawling.frontier.segments import NAME
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.redaction import masked_headers
from crawlfleet.kernel.urls import Url
from crawlfleet.kernel.validation import Words
from crawlfleet.requests.submission.admission import (
    BATCH_LIMIT,
    RESERVED,
    HeaderName,
    HeaderValue,
    JobName,
    Scalar,
    Text,
    is_reserved,
)
from crawlfleet.wire.seeds import (
    OfferAnswer,
    OffersAnswer,
    Seed,
    SeedsPage,
    SeedTotalsAnswer,
    SegmentTotals,
)

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
    """A URL to add as a seed. ``rule`` may be left out where the biz has only one.

    It is accepted once a segment, by its key: that of its URL, and of ``method`` and ``body`` where
    it is no GET. These, ``meta``, ``headers`` and ``job`` are those of the request that is made of
    it, at ``starts_at`` or now: RFC 3339 with a zone, or epoch milliseconds.
    """

    url: Url
    rule: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    meta: Annotated[dict[Text, Scalar], Meta(max_length=64)] = {}
    headers: Annotated[dict[HeaderName, HeaderValue], Meta(max_length=64)] = {}
    method: Literal["GET", "HEAD", "POST", "PUT"] = "GET"
    body: Annotated[str, Meta(max_length=LARGEST_SEED)] | None = None
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
    """Selection of seeds to release or forget: some by their ids, or those of a filter.

    All of them are ``all``, not an empty filter. Released are failed ones, unless the filter says
    ``finished``. ``cursor`` is that of the answer before, where a call did not come to the end.
    """

    seeds: Annotated[list[SeedId], Meta(max_length=BATCH_LIMIT)] = []
    filter: SeedFilterInput = SeedFilterInput()
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=inputs.LARGEST_PAGE)] = inputs.CHANGES
    cursor: Annotated[str, Meta(max_length=200)] | None = None


_seeds = msgspec.json.Decoder(SeedsInput)


def specs_in(body: bytes) -> list[SeedSpec | InvalidRequestError]:
    """Read the specs of a batch; one that is wrong is its error, the others go on without it.

    Raises:
        InvalidRequestError: the body is no batch of 1 to 1,000.
    """
    try:
        return [_spec(one, index) for index, one in enumerate(_seeds.decode(body).seeds)]
    except inputs.UNREADABLE:
        pass
    top = inputs.read(body, dict[str, msgspec.Raw])
    entries = inputs.entries_in(top, "seeds", SeedInput)
    return [_spec(inputs.entry_in(e, SeedInput, f"seeds[{i}]"), i) for i, e in enumerate(entries)]


def meant_in(query: Mapping[str, str]) -> SeedSelection:
    """Read the filter in the parameters of a list."""
    given = {name: query[name] for name in ("segment", "state") if name in query}
    return _meant(inputs.read(msgspec.json.encode(given), SeedFilterInput))


def changes_in(body: bytes) -> tuple[SeedsChangeInput, SeedSelection | None]:
    """Read which seeds are changed; the filter is None where they are named.

    Raises:
        InvalidRequestError: none are named, or in two ways: a typo must not change all.
    """
    given = inputs.read(body, SeedsChangeInput)
    ways = bool(given.seeds) + (given.filter != SeedFilterInput()) + given.all
    if not ways:
        message = 'is empty: name seeds or a filter, or say "all": true for every seed'
        raise InvalidRequestError.of("filter", message)
    if ways > 1:
        message = "is one of three ways to say which: seeds, filter, all"
        raise InvalidRequestError.of("seeds" if given.seeds else "filter", message)
    return given, None if given.seeds else _meant(given.filter)


def _meant(given: SeedFilterInput) -> SeedSelection:
    state = None if given.state is None else SeedState[given.state.upper()]
    return SeedSelection(segment=given.segment, state=state)


def _spec(one: SeedInput | InvalidRequestError, index: int) -> SeedSpec | InvalidRequestError:
    if isinstance(one, InvalidRequestError):
        return one
    try:
        starts_at = inputs.time_in(one.starts_at, f"seeds[{index}].starts_at")
    except InvalidRequestError as error:
        return error
    if one.job is not None and is_reserved(one.job):
        return InvalidRequestError.of(f"seeds[{index}].job", RESERVED)
    return SeedSpec(
        url=one.url,
        rule=one.rule or "",
        meta=one.meta,
        headers=one.headers,
        method=one.method,
        body=one.body,
        job=one.job,
        starts_at=starts_at,
    )


class SeedsChangedView(msgspec.Struct, frozen=True, kw_only=True):
    """The count of changed seeds. ``more``: others may be; ask again with this ``cursor``."""

    count: int
    cursor: str | None
    more: bool


def offer_view(answer: AddResult | InvalidRequestError) -> OfferAnswer:
    """Shape the answer to one URL."""
    if isinstance(answer, InvalidRequestError):
        return OfferAnswer(error=document_of(answer))
    return filled(OfferAnswer, answer, why=answer.why or None, error=None)


def seed_view(seed: models.Seed) -> Seed:
    """Shape a seed."""
    spec = seed.spec
    return filled(
        Seed,
        seed,
        state=seed.state.label,
        url=spec.url,
        rule=spec.rule,
        depth=spec.depth,
        meta=spec.meta,
        headers=masked_headers(spec.headers),
        method=spec.method,
        body=spec.body,
        job=spec.job,
        found_by=None if spec.found_by is None else str(spec.found_by),
        request_id=None if seed.request is None else str(seed.request),
        why=seed.why or None,
    )


_SEEDS: Final = (
    Parameter(
        name="segment",
        meaning="Only seeds of this segment.",
        shape={"type": "string", "pattern": f"^{NAME}$"},
    ),
    Parameter(
        name="state",
        meaning="Only seeds in this state.",
        shape={"type": "string", "enum": ["ready", "handed", "finished", "failed"]},
    ),
)

ROUTES: Final = Routes()


@ROUTES.add(
    "POST",
    "/v1/{biz}/seeds",
    OffersAnswer,
    problems=(413, 429),
    body=(SeedsInput,),
    headers=(TRACED,),
)
def offer_seeds(call: Call, biz: str) -> Response[str]:
    """Add up to 1,000 URLs as seeds, each accepted once a segment. Each is answered."""
    specs = specs_in(call.body)
    if (caller := inputs.caller_in(call.event)) is not None:
        specs = [replace(one, caller=caller) if isinstance(one, SeedSpec) else one for one in specs]
    ports, tree = call.context.seeds, call.tree
    # A page that a limit ends at once is refused here, and says which; one that waits is kept.
    must_have_room(call, biz, [(None, one.job) for one in specs if isinstance(one, SeedSpec)])
    answers = service.add_seeds(ports, tree, call.tenant, biz, specs, call.now)
    accepted = sum(isinstance(one, AddResult) and one.accepted for one in answers)
    if accepted:
        service.dispatch_added(ports, tree, call.tenant, biz, accepted, call.now)
    names = {
        one.job
        for one, answer in zip(specs, answers, strict=True)
        if isinstance(one, SeedSpec)
        and one.job is not None
        and isinstance(answer, AddResult)
        and answer.accepted
    }
    if names:
        call.context.submitted.note(call.tenant, biz, names, call.now)
    wrong = [answer for answer in answers if isinstance(answer, InvalidRequestError)]
    if len(wrong) == len(answers):
        raise InvalidRequestError(problem for error in wrong for problem in error.problems)
    view = OffersAnswer(
        accepted=accepted,
        duplicates=len(answers) - accepted - len(wrong),
        rejected=len(wrong),
        seeds=tuple(offer_view(answer) for answer in answers),
    )
    return shown(200, view)


@ROUTES.add("GET", "/v1/{biz}/seeds", SeedsPage, parameters=(*_SEEDS, CURSOR, LIMIT))
def list_seeds(call: Call, biz: str) -> Response[str]:
    """List seeds in the order of segment and key."""
    meant, ports = meant_in(call.query), call.context.seeds
    return page_of(
        call.limit,
        lambda limit: service.list_seeds(
            ports, call.tree, call.tenant, biz, meant, cursor=call.cursor, limit=limit
        ),
        SeedsPage,
        seed_view,
    )


@ROUTES.add("GET", "/v1/{biz}/seeds/totals", SeedTotalsAnswer)
def get_seed_totals(call: Call, biz: str) -> Response[str]:
    """Count the seeds of the newest segments by state."""
    totals = service.seed_totals(call.context.seeds, call.tree, call.tenant, biz, call.now)
    return shown(
        200, SeedTotalsAnswer(segments=tuple(filled(SegmentTotals, each) for each in totals))
    )


@ROUTES.add("POST", "/v1/{biz}/seeds/{segment}/{key}/release", Seed, problems=(409,))
def release_seed(call: Call, biz: str, segment: str, key: str) -> Response[str]:
    """Make one failed or finished seed ready again."""
    ports, seed = call.context.seeds, f"{segment}/{key}"
    released = service.release_seed(ports, call.tree, call.tenant, biz, seed, call.by, call.now)
    return shown(200, seed_view(released))


@ROUTES.add("DELETE", "/v1/{biz}/seeds/{segment}/{key}", {204: None})
def forget_seed(call: Call, biz: str, segment: str, key: str) -> Response[str]:
    """Remove one seed, so that its URL is accepted anew."""
    service.forget_seed(call.context.seeds, call.tree, call.tenant, biz, f"{segment}/{key}")
    return no_content()


@ROUTES.add(
    "POST", "/v1/{biz}/seeds/release", SeedsChangedView, problems=(413,), body=(SeedsChangeInput,)
)
def release_seeds(call: Call, biz: str) -> Response[str]:
    """Make failed or finished seeds ready again: named ones, or those of a filter."""
    given, meant = changes_in(call.body)
    ours, how = (call.context.seeds, call.tree, call.tenant, biz), (call.by, call.now)
    if meant is None:
        return _changed(service.release_seeds(*ours, given.seeds, *how))
    cursor, limit = given.cursor, given.limit
    return _changed(service.release_those(*ours, meant, *how, cursor=cursor, limit=limit))


@ROUTES.add(
    "POST", "/v1/{biz}/seeds/forget", SeedsChangedView, problems=(413,), body=(SeedsChangeInput,)
)
def forget_seeds(call: Call, biz: str) -> Response[str]:
    """Remove seeds, so that their URLs are accepted anew: named ones, or of a filter."""
    given, meant = changes_in(call.body)
    ours = (call.context.seeds, call.tree, call.tenant, biz)
    if meant is None:
        return _changed(service.forget_seeds(*ours, given.seeds))
    return _changed(service.forget_those(*ours, meant, cursor=given.cursor, limit=given.limit))


def _changed(done: service.SeedsChanged) -> Response[str]:
    return shown(200, SeedsChangedView(count=done.count, cursor=done.cursor, more=done.more))
