"""Rules in the API: coverage, and trials on a page or a URL (SPEC.md H8)."""

import base64
import binascii
from typing import Annotated, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import Url, read
from crawlfleet.api.responses import TooLargeBodyError, filled, shown
from crawlfleet.api.routing import Call, Routes
from crawlfleet.config.documents.rule import Rule
from crawlfleet.crawling.records import redis as records
from crawlfleet.crawling.trials.messages import LARGEST_PAGE, Tried
from crawlfleet.crawling.trials.remote import TrialWanted
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import Words
from crawlfleet.requests import models
from crawlfleet.wire.rules import (
    BizsAnswer,
    BizSummary,
    CoverageAnswer,
    FetchedPage,
    FetchFailure,
    FieldCoverage,
    FollowedLink,
    HourCoverage,
    RuleCoverage,
    TriedField,
    TriedRule,
)


def coverage_view(found: list[models.RuleCoverage]) -> CoverageAnswer:
    """Shape the coverage of every version of every rule."""
    return CoverageAnswer(
        coverage=tuple(
            filled(
                RuleCoverage,
                one.coverage,
                rule=one.rule,
                version=one.version,
                current=one.current,
                empty=one.empty,
                mostly_empty=one.mostly,
                fields=field_views(one.coverage),
                hours=tuple(
                    filled(
                        HourCoverage,
                        hour.coverage,
                        started_at=hour.started_at,
                        fields=field_views(hour.coverage),
                    )
                    for hour in one.hours
                ),
            )
            for one in found
        )
    )


def field_views(counted: models.Coverage) -> tuple[FieldCoverage, ...]:
    """Shape the fields of a coverage, by name."""
    return tuple(
        FieldCoverage(name=name, count=count, share=_share(count, counted.records))
        for name, count in sorted(counted.fields.items())
    )


def _tried_fields(tried: Tried) -> tuple[TriedField, ...]:
    """Shape the fields of a trial, those that cannot be read among them, with the causes."""
    fields = {**dict.fromkeys(tried.empty, 0), **tried.coverage.fields}
    whole = msgspec.structs.replace(tried.coverage, fields=fields)
    return tuple(
        filled(TriedField, one, why=tried.empty.get(one.name)) for one in field_views(whole)
    )


def _share(count: int, records: int) -> float:
    return round(min(1.0, count / records), 4) if records else 0.0


#: URL of a page that has none: links are joined with it.
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
    A ``url`` is fetched as a worker would: within the biz's limits, with a host slot, and only if
    the site's robots.txt allows it. ``depth`` counts links from where the crawl would have begun.
    """

    rule: Annotated[str, Meta(min_length=1, max_length=64)] | Rule
    page: TrialPageInput | None = None
    url: Url | None = None
    depth: Annotated[int, Meta(ge=0, le=1000)] = 0


def trial_in(body: bytes) -> TrialWanted:
    """Read the trial that is wanted.

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


def tried_view(tried: Tried) -> TriedRule:
    """Shape the outcome of a trial."""
    seen, failure = tried.seen, tried.failure
    after = None if failure is None else failure.retry_after_seconds
    return filled(
        TriedRule,
        tried,
        fetched=None if seen is None else filled(FetchedPage, seen, seconds=round(seen.seconds, 6)),
        error=None
        if failure is None
        else filled(
            FetchFailure,
            failure,
            retry_after_seconds=None if after is None else round(after, 3),
        ),
        coverage=_tried_fields(tried),
        links=tuple(filled(FollowedLink, link, rule=link.rule or None) for link in tried.links),
        cut=(
            len(tried.records) < tried.record_count
            or len(tried.links) < tried.link_count
            or tried.unread
        ),
        seconds=round(tried.seconds, 6),
    )


ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/bizs", BizsAnswer)
def list_bizs(call: Call) -> Response[str]:
    """List the tenant's bizs by name, each with its rules and spiders."""
    tenant = call.tenant
    found = sorted(call.tree.bizs.get(tenant, {}).items())
    bizs = (
        BizSummary(
            name=name,
            description=biz.description,
            rules=tuple(sorted(biz.rules)),
            spiders=tuple(sorted(biz.spiders)),
        )
        for name, biz in found
    )
    return shown(200, BizsAnswer(bizs=tuple(bizs)))


@ROUTES.add("GET", "/v1/{biz}/coverage", CoverageAnswer)
def get_coverage(call: Call, biz: str) -> Response[str]:
    """Get in how many records each field has a value, by rule and version."""
    ports = call.context.coverage
    return shown(200, coverage_view(records.coverage(ports, call.tree, call.tenant, biz)))


@ROUTES.add("POST", "/v1/{biz}/rules/try", TriedRule, problems=(413, 429), body=(TrialInput,))
def try_rule(call: Call, biz: str) -> Response[str]:
    """Try a rule on a page that is sent along, or on a URL; nothing is stored."""
    wanted = trial_in(call.body)
    with call.context.submission.ceilings.trial(call.tree, call.tenant):
        tried = call.context.trials.try_rule(call.tree, call.tenant, biz, wanted)
    return shown(200, tried_view(tried))
