"""What a rule yields, as the API shows it (SPEC.md H8)."""

from typing import Any

from crawlfleet.edge.coverage_views import FieldCoverageView, field_views
from crawlfleet.edge.views import View
from crawlfleet.errors import Problem
from crawlfleet.model.harvest import Link
from crawlfleet.model.trial import Failure, Seen, Tried


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
