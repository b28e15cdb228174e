"""Answers as API Gateway takes them: a view, a page of a list, a problem.

Errors as problem documents (RFC 9457), each with the one status it has everywhere.

What the API shows: the shapes of its answers, and how models become them.

Ids are strings (they pass 2^53), times are RFC 3339 in UTC with milliseconds.
"""

import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.kernel import errors
from crawlfleet.kernel.errors import BacklogFullError, CrawlfleetError, Problem
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY
from crawlfleet.kernel.time import from_ms
from crawlfleet.requests.models import Event, Record, Tracked
from crawlfleet.requests.queue.stats import Rates, Stats
from crawlfleet.requests.submission.models import Accepted, Receipt


class Page(Protocol):
    """A page of a list."""

    @property
    def items(self) -> list[Any]:
        """Its entries."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


#: Seconds after which a caller may try again what failed for want of a part.
RETRY_AFTER_SECONDS: Final = 5

CONTENT_TYPE: Final = "application/problem+json"


class TooLargeBodyError(errors.RejectedError):
    """The call's body is longer than a call may be."""


class MethodNotAllowedError(errors.RejectedError):
    """The path is there, but not for this method; ``allowed`` are those it is there for."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        super().__init__(message)


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong. ``errors`` names each field; ``type`` is stable, for programs."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[Problem, ...] = ()


#: By class, the most special first: status, and the title that people read.
_STATUS: Final[tuple[tuple[type[CrawlfleetError], int, str], ...]] = (
    (TooLargeBodyError, 413, "The body is too large"),
    (MethodNotAllowedError, 405, "No such method here"),
    (errors.InvalidRequestError, 400, "The request is not valid"),
    (errors.UnknownBizError, 404, "No such biz"),
    (errors.UnknownTenantError, 403, "No tenant"),
    (errors.NotOperatorError, 403, "Operators only"),
    (errors.UnknownRuleError, 400, "No such rule"),
    (errors.NotFoundError, 404, "Not found"),
    (errors.ConflictError, 409, "The state forbids it"),
    (errors.KeyReusedError, 422, "The key stands for something else"),
    (errors.BacklogFullError, 429, "Come back later"),
    (errors.QuotaExceededError, 429, "The quota is used up"),
    (errors.RejectedError, 400, "The request is not valid"),
    (errors.ConsumersBusyError, 503, "All consumers are at work"),
    (errors.StoreUnavailableError, 503, "A part does not answer"),
    (errors.IdsError, 503, "No ids can be issued"),
    (errors.ConfigError, 503, "There is no valid configuration"),
)
_INTERNAL: Final = (500, "Internal error")


def status_of(error: Exception) -> int:
    """The HTTP status of an error: 500 for whatever nobody foresaw."""
    return _known(error)[0]


def is_fault(error: Exception) -> bool:
    """Whether somebody has to look after it: neither the caller's mistake nor a mere wait."""
    return status_of(error) >= 500 and not isinstance(error, errors.ConsumersBusyError)


def document_of(error: Exception) -> ProblemDocument:
    """The problem document of an error. Of what nobody foresaw nothing inside is shown."""
    status, title = _known(error)
    if status == 500:
        detail = "The fault is ours and has been logged; trying again may help."
    elif isinstance(error, errors.ConsumersBusyError):
        detail = str(error)
    elif status == 503:
        # What is wrong inside is for the log: it may name addresses, secrets, other tenants.
        told = "the call was not done, or not in whole; try again."
        detail = f"{_part(error)} cannot be used now: {told}"
    else:
        detail = str(error)
    name = type(error).__name__.removesuffix("Error") if status != 500 else "Internal"
    return ProblemDocument(
        type=f"urn:crawlfleet:problem:{_dashed(name)}",
        title=title,
        status=status,
        detail=detail,
        errors=error.problems if isinstance(error, errors.InvalidRequestError) else (),
    )


def _part(error: Exception) -> str:
    if isinstance(error, errors.StoreUnavailableError):
        return error.part
    return "id-issuer" if isinstance(error, errors.IdsError) else "configuration"


def _known(error: Exception) -> tuple[int, str]:
    for kind, status, title in _STATUS:
        if isinstance(error, kind):
            return status, title
    return _INTERNAL


def _dashed(name: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


_PENDING: Final = State.PENDING.label


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every answer's shape."""


class SubmittedView(View, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one page: it is persisted under this id.

    ``repeated`` says that it was before, under the same key or client id; ``state`` is left out
    then, because nobody looked how it is by now.
    """

    id: str
    state: str | None = None
    repeated: bool = False


class EntryView(View, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted entry of a batch, or the problem that kept it from being stored.

    ``repeated`` says that it was stored before, under the same key or client id; ``state`` is left
    out then, because nobody looked how it is by now.
    """

    id: str | None = None
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None


class BatchView(View, frozen=True, kw_only=True):
    """One answer an entry, in the order of the entries."""

    accepted: int
    rejected: int
    requests: list[EntryView]


class EventView(View, frozen=True, kw_only=True):
    """One line of the timeline."""

    at: str
    state: str
    by: str
    why: str


class RequestView(View, frozen=True, kw_only=True):
    """A request, with its body readable and its timeline whole."""

    id: str
    biz: str
    state: str
    flag: int
    queued_at: str
    url: str
    rule: str
    rule_version: str
    method: str
    headers: dict[str, str]
    params: dict[str, str]
    body: str | None
    meta: dict[str, str | int | float | bool | None]
    attempts: int
    worker: str | None
    error: str | None
    records: int
    due_at: str | None
    timeline: list[EventView]
    job: str | None = None
    priority: int = DEFAULT_PRIORITY
    pool: str | None = None


class RequestsView(View, frozen=True, kw_only=True):
    """A page of requests; ``cursor`` is where to go on."""

    requests: list[RequestView]
    cursor: str | None
    more: bool


class RecordView(View, frozen=True, kw_only=True):
    """A record."""

    id: str
    request_id: str
    url: str
    rule: str
    rule_version: str
    stored_at: str
    fields: dict[str, Any]


class RecordsView(View, frozen=True, kw_only=True):
    """A page of records; ``cursor`` is where to go on, now or later."""

    records: list[RecordView]
    cursor: str | None
    more: bool


class QueueView(View, frozen=True, kw_only=True):
    """The queue's depth."""

    queued: int
    leased: int
    delayed: int
    oldest_at: str | None


class RatesView(View, frozen=True, kw_only=True):
    """Requests per second over the last full 1, 5 and 60 seconds."""

    submitted: dict[str, float]
    processed: dict[str, float]


class StatsView(View, frozen=True, kw_only=True):
    """Totals, depth, rates, and the workers' time by phase in seconds.

    ``submitted`` is how many there ever were, the sum of all states.
    """

    submitted: int
    states: dict[str, int]
    records: int
    queue: QueueView
    rates: RatesView
    phases: dict[str, float]


def at(moment: datetime) -> str:
    """A moment as clients read it.

    >>> at(from_ms(1767225600123))
    '2026-01-01T00:00:00.123Z'
    """
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe_at(moment: datetime | None) -> str | None:
    """The same, where there may be none."""
    return None if moment is None else at(moment)


def submitted_view(accepted: Accepted) -> SubmittedView:
    """The answer to one page."""
    return SubmittedView(id=str(accepted.id), state=_state_of(accepted), repeated=accepted.repeated)


def entry_view(receipt: Receipt) -> EntryView:
    """The answer to one entry of a batch."""
    if isinstance(receipt, Accepted):
        return EntryView(id=str(receipt.id), state=_state_of(receipt), repeated=receipt.repeated)
    return EntryView(error=document_of(receipt.error))


def _state_of(accepted: Accepted) -> str | None:
    """What is new is pending; what was accepted before may be long done."""
    return None if accepted.repeated else _PENDING


def request_view(tracked: Tracked, label: Callable[[int], str]) -> RequestView:
    """A request; ``label`` names its state, which may be one of the biz's own."""
    request, body = tracked.request, tracked.request.body
    return RequestView(
        id=str(request.id),
        biz=request.biz,
        state=label(tracked.state),
        flag=tracked.state,
        queued_at=at(request.queued_at),
        url=body.url,
        rule=body.rule,
        rule_version=body.rule_version,
        method=body.method,
        headers=body.headers,
        params=body.params,
        body=body.body,
        meta=body.meta,
        attempts=tracked.attempts,
        worker=tracked.worker,
        error=tracked.error,
        records=tracked.records,
        due_at=maybe_at(tracked.due_at),
        timeline=[event_view(event) for event in tracked.timeline],
        job=request.job,
        priority=request.priority,
        pool=request.pool,
    )


def event_view(event: Event) -> EventView:
    """A line of the timeline."""
    return EventView(at=at(event.at), state=event.state.label, by=event.by, why=event.why)


def record_view(record: Record) -> RecordView:
    """A record."""
    return RecordView(
        id=record.id,
        request_id=str(record.request_id),
        url=record.url,
        rule=record.rule,
        rule_version=record.rule_version,
        stored_at=at(record.stored_at),
        fields=record.fields,
    )


def stats_view(stats: Stats) -> StatsView:
    """Totals, depth and rates."""
    oldest = stats.depth.oldest_ts
    return StatsView(
        submitted=stats.ledger.submitted,
        states=stats.states,
        records=stats.records,
        queue=QueueView(
            queued=stats.depth.queued,
            leased=stats.depth.leased,
            delayed=stats.depth.delayed,
            oldest_at=None if oldest is None else at(from_ms(oldest)),
        ),
        rates=RatesView(submitted=rates_of(stats.submitted), processed=rates_of(stats.processed)),
        phases={phase: round(seconds, 3) for phase, seconds in stats.phases.items()},
    )


def rates_of(rates: Rates) -> dict[str, float]:
    """Rates by their span."""
    return {"1s": rates.per_1s, "5s": rates.per_5s, "60s": rates.per_60s}


JSON: Final = "application/json"
#: A synchronous Lambda invocation answers with 6 MB at most, or not at all.
ANSWER_LIMIT: Final = 6_000_000


def shown(status: int, view: View, headers: dict[str, str] | None = None) -> Response[str]:
    """A view."""
    # Powertools tells a list of values from one by its type, so its signature is the wider one.
    return Response(status, JSON, msgspec.json.encode(view).decode(), {**(headers or {})})


def page_of(limit: int, ask: Callable[[int], Page], view: Callable[[Page], View]) -> Response[str]:
    """A page that the answer of a Lambda can hold: one of fewer entries where they are large."""
    while True:
        page = ask(limit)
        answer = shown(200, view(page))
        if len(page.items) <= 1 or _fits(str(answer.body)):
            return answer
        limit = len(page.items) // 2


def problem_of(error: Exception) -> Response[str]:
    """An error, with when to come back where that helps."""
    problem = document_of(error)
    headers: dict[str, str | list[str]] = {}
    if problem.status in (429, 503):
        headers["Retry-After"] = str(_retry_after(error))
    return Response(problem.status, CONTENT_TYPE, _written(problem), headers)


def _retry_after(error: Exception) -> int:
    if isinstance(error, BacklogFullError):
        return max(1, math.ceil(error.retry_after_seconds))
    return RETRY_AFTER_SECONDS


def _written(problem: ProblemDocument) -> str:
    try:
        return msgspec.json.encode(problem).decode()
    except UnicodeEncodeError:  # it quotes half a surrogate pair, which UTF-8 cannot carry
        return json.dumps(msgspec.to_builtins(problem))


def _fits(body: str) -> bool:
    """Whether a body, as the string it becomes in the answer's JSON, is within the limit.

    A character is twelve there at most; only where that could be too much is it counted.
    """
    return len(body) * 12 <= ANSWER_LIMIT or len(json.dumps(body)) <= ANSWER_LIMIT
