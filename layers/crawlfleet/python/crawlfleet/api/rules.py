"""The API's rules: their coverage, and trials of them on a page or a URL (SPEC.md H8)."""

import base64
import binascii
from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import Url, read
from crawlfleet.api.responses import TooLargeBodyError, View, shown
from crawlfleet.api.routing import ANY, Call, Route
from crawlfleet.config.documents.rule import Rule
from crawlfleet.crawling.records import coverage
from crawlfleet.crawling.trials import remote
from crawlfleet.crawling.trials.remote import LARGEST_PAGE, Failure, Seen, TrialWanted, Tried
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import Words
from crawlfleet.requests.models import Coverage, Link, RuleCoverage


class FieldCoverageView(View, frozen=True, kw_only=True):
    """In how many records a field had a value, and in which share of them, from 0 to 1."""

    name: str
    count: int
    share: float


class RuleCoverageView(View, frozen=True, kw_only=True):
    """One version of a rule or spider; ``current`` is the one that new requests are read by.

    ``rejected`` of the records were not stored: the schema or the key did not take them.
    """

    rule: str
    version: str
    current: bool
    pages: int
    records: int
    rejected: int
    fields: list[FieldCoverageView]


class CoverageView(View, frozen=True, kw_only=True):
    """Every version that was counted, by rule, of each the current one first."""

    coverage: list[RuleCoverageView]


def coverage_view(found: list[RuleCoverage]) -> CoverageView:
    """The coverage of all."""
    return CoverageView(coverage=[_rule_view(one) for one in found])


def _rule_view(one: RuleCoverage) -> RuleCoverageView:
    counted = one.coverage
    return RuleCoverageView(
        rule=one.rule,
        version=one.version,
        current=one.current,
        pages=counted.pages,
        records=counted.records,
        rejected=counted.rejected,
        fields=field_views(counted),
    )


def field_views(counted: Coverage) -> list[FieldCoverageView]:
    """The fields of a coverage, by name."""
    return [
        FieldCoverageView(name=name, count=count, share=_share(count, counted.records))
        for name, count in sorted(counted.fields.items())
    ]


def _share(count: int, records: int) -> float:
    return round(min(1.0, count / records), 4) if records else 0.0


#: Where a page is taken to be from that does not say so: links are joined with it.
NOWHERE: Final = "https://page.invalid/"


class TrialPageInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A saved page of up to 1,000,000 bytes: its text, or its bytes in base64.

    ``url`` is where it was found. The ``content_type`` is as a site would send it; a text's charset
    is always UTF-8, whatever the page or the type says.
    """

    body: str | None = None
    body_base64: str | None = None
    url: Url = NOWHERE
    content_type: Annotated[
        str, Meta(max_length=200, pattern=r"^[ -~]*\Z"), Words("a media type in ASCII")
    ] = "text/html"


class TrialInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule, and a ``page`` or a ``url`` to try it on.

    ``rule`` is the name of a rule or a spider of the biz, or a whole rule as in the biz's document.
    A ``url`` is fetched as a worker would: within the biz's limits, when it is the fleet's turn at
    the host, and only if the site's robots.txt lets it. ``depth`` counts links from where the crawl
    would have begun.
    """

    rule: Annotated[str, Meta(min_length=1, max_length=64)] | Rule
    page: TrialPageInput | None = None
    url: Url | None = None
    depth: Annotated[int, Meta(ge=0, le=1000)] = 0


def trial_in(body: bytes) -> TrialWanted:
    """What is to be tried.

    Raises:
        InvalidRequestError: names every field that is wrong.
        TooLargeBodyError: the page is longer than :data:`LARGEST_PAGE` bytes.
    """
    given = read(body, TrialInput)
    if given.page is None and given.url is None:
        raise InvalidRequestError.of("page", "is missing, and so is url: give one of the two")
    if given.page is not None and given.url is not None:
        raise InvalidRequestError.of("page", "goes without url: give one of the two")
    page = None if given.page is None else _page(given.page)
    return TrialWanted(rule=given.rule, page=page, url=given.url, depth=given.depth)


def _page(given: TrialPageInput) -> Page:
    if given.body is None and given.body_base64 is None:
        message = "is missing, and so is body_base64: give one of the two"
        raise InvalidRequestError.of("page.body", message)
    if given.body is not None and given.body_base64 is not None:
        raise InvalidRequestError.of("page.body", "goes without body_base64: give one of the two")
    kind = given.content_type
    if given.body_base64 is not None:
        try:
            body = base64.b64decode(given.body_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequestError.of("page.body_base64", "is no base64") from error
    else:
        body = str(given.body).encode()
        kind = f"{kind.partition(';')[0].strip()}; charset=utf-8"
    if len(body) > LARGEST_PAGE:
        message = f"page.body: a page may have {LARGEST_PAGE:,} bytes, this one has {len(body):,}"
        raise TooLargeBodyError(message)
    return Page(url=given.url, status=200, headers={"content-type": kind}, body=body)


class SeenView(View, frozen=True, kw_only=True):
    """The page that came: the URL where redirects ended, and those on the way there."""

    url: str
    status: int
    content_type: str
    bytes: int
    seconds: float
    redirects: list[str]


class FailureView(View, frozen=True, kw_only=True):
    """Why there is no page; ``reason`` is what a dead letter would say.

    ``status`` is the site's, 0 where it gave no answer or was not asked, as with `RobotsDenied`. A
    host of which the fleet has no turn to give now is `Throttled` with a status of 0.
    ``retry_after_seconds`` is when it makes sense to ask again, if anybody knows.
    """

    reason: str
    message: str
    status: int
    retryable: bool
    retry_after_seconds: float | None


class LinkView(View, frozen=True, kw_only=True):
    """A link that would be followed; ``rule`` is what reads it, null the rule that is tried."""

    url: str
    rule: str | None
    depth: int
    meta: dict[str, Any]


class TriedView(View, frozen=True, kw_only=True):
    """What a rule yields of a page, and what a worker would do with it; nothing was stored.

    ``error`` says why a URL could not be fetched; ``fetched`` is the site's last answer.
    ``problems`` are what of the page could not be read: a worker would store nothing of it.
    ``rejected`` are records that the rule's schema or key keeps from being stored: the first few of
    ``rejected_count``. ``left_out`` are things of the page, such as lines of a file, that a spider
    could not read: the first few of ``left_out_count``. ``records`` and ``links`` are the first 200
    and 1,000, fewer where they are large, of ``record_count`` and ``link_count``; ``cut`` says that
    there are others. ``coverage`` says of how many records each field has a value. ``refused``
    counts links that are not followed, by reason. ``seconds`` is what reading took.
    """

    version: str
    fetched: SeenView | None
    error: FailureView | None
    problems: list[Problem]
    records: list[dict[str, Any]]
    record_count: int
    rejected: list[str]
    rejected_count: int
    left_out: list[str]
    left_out_count: int
    coverage: list[FieldCoverageView]
    links: list[LinkView]
    link_count: int
    refused: dict[str, int]
    cut: bool
    seconds: float


def tried_view(tried: Tried) -> TriedView:
    """What came of a trial."""
    return TriedView(
        version=tried.version,
        fetched=None if tried.seen is None else _seen_view(tried.seen),
        error=None if tried.failure is None else _failure_view(tried.failure),
        problems=list(tried.problems),
        records=list(tried.records),
        record_count=tried.record_count,
        rejected=list(tried.rejected),
        rejected_count=tried.rejected_count,
        left_out=list(tried.left_out),
        left_out_count=tried.left_out_count,
        coverage=field_views(tried.coverage),
        links=[_link_view(link) for link in tried.links],
        link_count=tried.link_count,
        refused=tried.refused,
        cut=(
            len(tried.records) < tried.record_count
            or len(tried.links) < tried.link_count
            or tried.unread
        ),
        seconds=round(tried.seconds, 6),
    )


def _seen_view(seen: Seen) -> SeenView:
    return SeenView(
        url=seen.url,
        status=seen.status,
        content_type=seen.content_type,
        bytes=seen.bytes,
        seconds=round(seen.seconds, 6),
        redirects=list(seen.redirects),
    )


def _failure_view(failure: Failure) -> FailureView:
    after = failure.retry_after_seconds
    return FailureView(
        reason=failure.reason,
        message=failure.message,
        status=failure.status,
        retryable=failure.retryable,
        retry_after_seconds=None if after is None else round(after, 3),
    )


def _link_view(link: Link) -> LinkView:
    return LinkView(url=link.url, rule=link.rule or None, depth=link.depth, meta=link.meta)


def _get_coverage(call: Call, biz: str) -> Response[str]:
    ports = call.context.coverage
    return shown(200, coverage_view(coverage.coverage(ports, call.tree, call.tenant, biz)))


def _try_rule(call: Call, biz: str) -> Response[str]:
    wanted = trial_in(call.body)
    tried = remote.try_rule(call.context.trials, call.tree, call.tenant, biz, wanted)
    return shown(200, tried_view(tried))


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="getCoverage",
        handler=_get_coverage,
        method="GET",
        path="/v1/{biz}/coverage",
        summary="In how many records each field has a value, by rule and version.",
        answers={200: CoverageView},
        problems=ANY,
    ),
    Route(
        operation="tryRule",
        handler=_try_rule,
        method="POST",
        path="/v1/{biz}/rules/try",
        summary="What a rule yields of a page that is sent along, or of a URL; nothing is stored.",
        body=(TrialInput,),
        answers={200: TriedView},
        problems=(*ANY, 413),
    ),
)
