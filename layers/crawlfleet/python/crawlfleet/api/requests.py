"""The API's calls about why, whether everything is there, who works, and what is known of pages.

Why, whether everything is there, and who works: as the API shows it.
"""

from collections.abc import Callable

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api import inputs
from crawlfleet.api.records import coverage_view
from crawlfleet.api.responses import View, at, shown
from crawlfleet.api.routing import Call
from crawlfleet.api.visits import VisitsView, totals_view, visit_view
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.time import from_ms
from crawlfleet.monitoring.explain.models import Explanation, Step, UrlExplanation
from crawlfleet.requests.ledger import Ledger


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


class LedgerView(View, frozen=True, kw_only=True):
    """Where everything is: ``submitted`` is the sum of the others, or ``difference`` tells."""

    job: str | None
    submitted: int
    pending: int
    leased: int
    waiting: int
    done: int
    dead: int
    cancelled: int
    expired: int
    others: int
    difference: int
    balanced: bool


class WorkerView(View, frozen=True, kw_only=True):
    """A worker. ``held`` is what it holds of this biz; ``since`` when it began, where it says so.

    ``phi`` is how sure the detector is that it is dead, as a power of ten, by the silence that was
    watched; ``silent_seconds`` is the time since its last beat. ``unwatched`` is one that was
    silent for long while nobody watched. ``pool`` is the kind of worker that it is. ``done`` and
    ``failed`` are requests of all bizs since it began, dealt with and of these given up on; to
    operators alone, 0 to others.
    """

    worker: str
    health: str
    phi: float
    silent_seconds: float
    since: str | None
    held: int
    pool: str
    done: int
    failed: int


class WorkersView(View, frozen=True, kw_only=True):
    """The workers of the fleet that are known now."""

    workers: list[WorkerView]


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


def ledger_view(ledger: Ledger, job: str | None) -> LedgerView:
    """Every term of the ledger."""
    return LedgerView(
        job=job,
        submitted=ledger.submitted,
        pending=ledger.pending,
        leased=ledger.leased,
        waiting=ledger.waiting,
        done=ledger.done,
        dead=ledger.dead,
        cancelled=ledger.cancelled,
        expired=ledger.expired,
        others=ledger.others,
        difference=ledger.difference,
        balanced=ledger.difference == 0,
    )


def worker_view(status: WorkerStatus) -> WorkerView:
    """A worker, with what it holds of the one biz that its card was cut down to."""
    started = status.card.started_ms
    return WorkerView(
        worker=status.worker,
        health=status.health.value,
        phi=round(status.phi, 2),
        silent_seconds=round(max(status.beat_ms, status.silent_ms) / 1000, 3),
        since=at(from_ms(started)) if started else None,
        held=sum(status.card.held.values()),
        pool=status.card.pool,
        done=status.card.done,
        failed=status.card.failed,
    )


class InsightCalls(Call):
    """Explain, ledger, workers, coverage, visits."""

    def _explain_request(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        explained = self._operations.explain(tenant, biz, id)
        label = self._operations.label(tenant, biz)
        return shown(200, explanation_view(explained, label))

    def _explain_url(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        label = self._operations.label(tenant, biz)  # a biz that there is not is told first
        url = query.get("url")
        if url is None:
            raise InvalidRequestError.of("url", "is missing")
        explained = self._operations.explain_url(tenant, biz, url, query.get("rule"))
        return shown(200, url_explanation_view(explained, biz, label))

    def _get_ledger(self, tenant: str, biz: str) -> Response[str]:
        job = inputs.job_in(self._query().get("job"))
        return shown(200, ledger_view(self._operations.ledger(tenant, biz, job), job))

    def _list_workers(self, tenant: str, biz: str) -> Response[str]:
        found = self._operations.workers(tenant, biz)
        return shown(
            200,
            WorkersView(workers=[worker_view(status) for status in found]),
        )

    def _get_coverage(self, tenant: str, biz: str) -> Response[str]:
        return shown(200, coverage_view(self._operations.coverage(tenant, biz)))

    def _get_visits(self, tenant: str, biz: str) -> Response[str]:
        url = self._query().get("url")
        if url is not None:
            visit = visit_view(self._operations.visit(tenant, biz, url))
            return shown(200, VisitsView(visit=visit, totals=None))
        totals = totals_view(self._operations.visit_totals(tenant, biz))
        return shown(200, VisitsView(visit=None, totals=totals))
