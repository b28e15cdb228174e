"""The API's explanations: the decisions that brought a request or a URL where it is."""

from collections.abc import Callable
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.requests import labels_of
from crawlfleet.api.responses import View, at, shown
from crawlfleet.api.routing import ANY, PAGE_URL, Call, Route, word
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.monitoring.explain import service, urls
from crawlfleet.monitoring.explain.models import Explanation, Step, UrlExplanation


class StepView(View, frozen=True, kw_only=True):
    """One decision. ``kind`` is ``request``, or ``lane`` for what befell the biz's whole queue.

    Of a URL also ``seed`` and ``visit``.
    """

    at: str
    kind: str
    state: str | None
    by: str
    why: str


class StandingView(View, frozen=True, kw_only=True):
    """Where the request stands now: a sentence, and its facts by name."""

    sentence: str
    facts: dict[str, str | int | float | bool | None]


class ExplanationView(View, frozen=True, kw_only=True):
    """The chain of decisions in the order of time. ``missing`` says what of it is not kept."""

    id: str
    biz: str
    url: str
    state: str
    flag: int
    attempts: int
    standing: StandingView
    steps: list[StepView]
    missing: str | None


class UrlExplanationView(View, frozen=True, kw_only=True):
    """What became of a URL: its seeds, the last one's request, its visit. ``keys`` say which page.

    ``missing`` says what of it is not known.
    """

    url: str
    biz: str
    keys: list[str]
    standing: StandingView
    steps: list[StepView]
    missing: str | None


def explanation_view(explained: Explanation, label: Callable[[int], str]) -> ExplanationView:
    """Why a request is where it is."""
    tracked, request = explained.tracked, explained.tracked.request
    return ExplanationView(
        id=str(request.id),
        biz=request.biz,
        url=request.body.url,
        state=label(tracked.state),
        flag=tracked.state,
        attempts=tracked.attempts,
        standing=StandingView(sentence=explained.standing.sentence, facts=explained.standing.facts),
        steps=[_step_view(step, label) for step in explained.steps],
        missing=explained.missing,
    )


def url_explanation_view(
    explained: UrlExplanation, biz: str, label: Callable[[int], str]
) -> UrlExplanationView:
    """Why a URL was or was not crawled."""
    facts = explained.standing.facts
    flag = facts.get("request_state")
    if isinstance(flag, int):
        facts = {**facts, "request_state": label(flag)}
    return UrlExplanationView(
        url=explained.url,
        biz=biz,
        keys=list(explained.keys),
        standing=StandingView(sentence=explained.standing.sentence, facts=facts),
        steps=[_step_view(step, label) for step in explained.steps],
        missing=explained.missing,
    )


def _step_view(step: Step, label: Callable[[int], str]) -> StepView:
    return StepView(
        at=at(step.at),
        kind=step.kind.value,
        state=None if step.state is None else label(step.state),
        by=step.by,
        why=step.why,
    )


def _explain_request(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    ports = call.context.explaining
    explained = service.explain(ports, call.tree, call.tenant, biz, id, call.now)
    return shown(200, explanation_view(explained, labels_of(call, biz)))


def _explain_url(call: Call, biz: str) -> Response[str]:
    label = labels_of(call, biz)  # a biz that there is not is told first
    url, rule = call.query.get("url"), call.query.get("rule")
    if url is None:
        raise InvalidRequestError.of("url", "is missing")
    ports = call.context.explaining_urls
    explained = urls.explain_url(ports, call.tree, call.tenant, biz, url, rule, call.now)
    return shown(200, url_explanation_view(explained, biz, label))


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="explainRequest",
        handler=_explain_request,
        method="GET",
        path="/v1/{biz}/requests/{id}/explain",
        summary="Why a request is where it is: every decision, and where it stands now.",
        answers={200: ExplanationView},
        problems=ANY,
    ),
    Route(
        operation="explainUrl",
        handler=_explain_url,
        method="GET",
        path="/v1/{biz}/explain",
        summary="Why a URL was or was not crawled: its seeds, their last request, its page.",
        parameters=(PAGE_URL, word("rule", "Only what is of this rule or spider.")),
        answers={200: UrlExplanationView},
        problems=ANY,
    ),
)
