"""The API's visits: the state of pages since they were last read (SPEC.md H7)."""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import View, at, maybe_at, shown
from crawlfleet.api.routing import ANY, PAGE_URL, Call, Route
from crawlfleet.crawling.recrawl import service
from crawlfleet.requests.models import Visit, VisitTotals


class VisitView(View, frozen=True, kw_only=True):
    """A page as it was last read. ``saved`` counts the visits that were answered with 304.

    ``interval_seconds`` is how often it is read at the present rate of changes; ``next_at`` is null
    where pages are not read again by themselves.
    """

    url: str
    key: str
    rule: str
    rule_version: str
    depth: int
    visited_at: str
    changed_at: str
    next_at: str | None
    interval_seconds: float
    visits: int
    changes: int
    saved: int
    etag: str | None
    last_modified: str | None
    content: str


class VisitTotalsView(View, frozen=True, kw_only=True):
    """All pages that are known, and the sums of their counts; ``due`` are to be read again now."""

    pages: int
    visits: int
    changes: int
    saved: int
    due: int


class VisitsView(View, frozen=True, kw_only=True):
    """One page where a URL was given, else the totals; the other is null."""

    visit: VisitView | None
    totals: VisitTotalsView | None


def visit_view(visit: Visit) -> VisitView:
    """One page."""
    return VisitView(
        url=visit.url,
        key=visit.key,
        rule=visit.rule,
        rule_version=visit.rule_version,
        depth=visit.depth,
        visited_at=at(visit.visited_at),
        changed_at=at(visit.changed_at),
        next_at=maybe_at(visit.next_at),
        interval_seconds=round(visit.interval_seconds, 3),
        visits=visit.visits,
        changes=visit.changes,
        saved=visit.saved,
        etag=visit.validators.etag,
        last_modified=visit.validators.last_modified,
        content=visit.content,
    )


def totals_view(totals: VisitTotals) -> VisitTotalsView:
    """All pages together."""
    return VisitTotalsView(
        pages=totals.pages,
        visits=totals.visits,
        changes=totals.changes,
        saved=totals.saved,
        due=totals.due,
    )


def _get_visits(call: Call, biz: str) -> Response[str]:
    context, url = call.context, call.query.get("url")
    if url is None:
        found = service.totals(context.visits, call.tree, call.tenant, biz, call.now)
        return shown(200, VisitsView(visit=None, totals=totals_view(found)))
    visit = service.get_visit(
        context.visits, call.tree, call.tenant, biz, url, context.seeds.resolver
    )
    return shown(200, VisitsView(visit=visit_view(visit), totals=None))


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="getVisits",
        handler=_get_visits,
        method="GET",
        path="/v1/{biz}/visits",
        summary="What is known of a page since it was last read, or of all pages together.",
        parameters=(PAGE_URL,),
        answers={200: VisitsView},
        problems=ANY,
    ),
)
