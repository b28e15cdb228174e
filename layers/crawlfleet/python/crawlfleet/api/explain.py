"""Explanations in the API: decisions about a request or a URL; visits of pages (SPEC.md H7)."""

from collections.abc import Callable, Iterable
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.requests import labels_of
from crawlfleet.api.responses import filled, shown
from crawlfleet.api.routing import PAGE_URL, Call, Routes, word
from crawlfleet.crawling.recrawl import service as recrawl
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.tracing import trace_url
from crawlfleet.monitoring.explain import service
from crawlfleet.requests.visits import Visit as KnownVisit
from crawlfleet.wire.explain import (
    Explanation,
    Standing,
    Step,
    UrlExplanation,
    Visit,
    VisitsAnswer,
    VisitTotals,
)


def explanation_view(
    explained: service.Explanation, label: Callable[[int], str], template: str | None = None
) -> Explanation:
    """Shape the explanation of a request; by ``template`` its trace is found."""
    tracked, request = explained.tracked, explained.tracked.request
    return filled(
        Explanation,
        explained,
        id=str(request.id),
        biz=request.biz,
        url=request.body.url,
        state=label(tracked.state),
        flag=tracked.state,
        attempts=tracked.attempts,
        standing=filled(Standing, explained.standing),
        steps=_steps(explained.steps, label),
        trace=request.trace,
        trace_url=None if request.trace is None else trace_url(request.trace, template),
    )


def url_explanation_view(
    explained: service.UrlExplanation, biz: str, label: Callable[[int], str]
) -> UrlExplanation:
    """Shape the explanation of a URL."""
    facts = explained.standing.facts
    flag = facts.get("request_state")
    if isinstance(flag, int):
        facts = {**facts, "request_state": label(flag)}
    return filled(
        UrlExplanation,
        explained,
        biz=biz,
        standing=filled(Standing, explained.standing, facts=facts),
        steps=_steps(explained.steps, label),
    )


def _steps(steps: Iterable[service.Step], label: Callable[[int], str]) -> tuple[Step, ...]:
    return tuple(
        filled(
            Step,
            step,
            kind=step.kind.value,
            state=None if step.state is None else label(step.state),
        )
        for step in steps
    )


def visit_view(visit: KnownVisit) -> Visit:
    """Shape a page as it was last read."""
    return filled(
        Visit,
        visit,
        interval_seconds=round(visit.interval_seconds, 3),
        etag=visit.validators.etag,
        last_modified=visit.validators.last_modified,
    )


ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/requests/{id}/explain", Explanation)
def explain_request(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Explain a request: every decision about it, and its present state."""
    explainer = call.context.explaining
    explained = explainer.explain(call.tree, call.tenant, biz, id, call.now)
    return shown(200, explanation_view(explained, labels_of(call, biz), call.tree.stage.trace_url))


@ROUTES.add(
    "GET",
    "/v1/{biz}/explain",
    UrlExplanation,
    parameters=(PAGE_URL, word("rule", "Only what is of this rule or spider.")),
)
def explain_url(call: Call, biz: str) -> Response[str]:
    """Explain why a URL was or was not crawled: its seeds, their last request, its page."""
    label = labels_of(call, biz)  # an unknown biz is reported first
    url, rule = call.query.get("url"), call.query.get("rule")
    if url is None:
        raise InvalidRequestError.of("url", "is missing")
    explainer = call.context.explaining_urls
    explained = explainer.explain(call.tree, call.tenant, biz, url, rule, call.now)
    return shown(200, url_explanation_view(explained, biz, label))


@ROUTES.add("GET", "/v1/{biz}/visits", VisitsAnswer, parameters=(PAGE_URL,))
def get_visits(call: Call, biz: str) -> Response[str]:
    """Get the last visit of a page, or the totals of all pages."""
    context, url = call.context, call.query.get("url")
    if url is None:
        found = recrawl.totals(context.visits, call.tree, call.tenant, biz, call.now)
        return shown(200, VisitsAnswer(totals=filled(VisitTotals, found)))
    visit = recrawl.get_visit(
        context.visits, call.tree, call.tenant, biz, url, context.seeds.resolver
    )
    return shown(200, VisitsAnswer(visit=visit_view(visit)))
