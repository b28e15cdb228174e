"""The API's requests: submitted, looked up, listed, cancelled."""

from collections.abc import Callable
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import (
    IDEMPOTENCY_KEY,
    Batch,
    idempotency_key_in,
    submissions_in,
    time_in,
)
from crawlfleet.api.responses import (
    ProblemDocument,
    View,
    at,
    document_of,
    maybe_at,
    page_of,
    shown,
)
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, SINCE, Call, Parameter, Route
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError, Problem
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY
from crawlfleet.requests.models import Event, Tracked
from crawlfleet.requests.submission import service
from crawlfleet.requests.submission.admission import Accepted, Receipt, Refused, Submission

#: The header of an answer that had been given before.
REPLAYED: Final = "Idempotent-Replayed"
_PENDING: Final = State.PENDING.label


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


def labels_of(call: Call, biz: str) -> Callable[[int], str]:
    """Name states as the biz does."""
    _, found = biz_of(call.tree, call.tenant, biz)
    return lambda flag: service.state_label(found, flag)


def _submit(call: Call, biz: str) -> Response[str]:
    key = idempotency_key_in(call.event)
    submissions, batch = submissions_in(call.body)
    ports, tree = call.context.submission, call.tree
    receipts = ports.submit(
        tree, call.tenant, biz, submissions, call.now, single=not batch, key=key
    )
    headers = {REPLAYED: "true"} if _repeated(receipts) else {}
    if not batch:
        receipt = receipts[0]
        if isinstance(receipt, Refused):
            raise receipt.error
        return shown(202, submitted_view(receipt), headers)
    accepted = sum(isinstance(receipt, Accepted) for receipt in receipts)
    if accepted == 0:
        raise _error_of_all(receipts)
    view = BatchView(
        accepted=accepted,
        rejected=len(receipts) - accepted,
        requests=[entry_view(receipt) for receipt in receipts],
    )
    return shown(202, view, headers)


def _repeated(receipts: list[Receipt]) -> bool:
    """Whether all that was accepted had been accepted before."""
    accepted = [receipt for receipt in receipts if isinstance(receipt, Accepted)]
    return bool(accepted) and all(receipt.repeated for receipt in accepted)


def _error_of_all(receipts: list[Receipt]) -> CrawlfleetError:
    """The one error of a batch of which nothing was stored: every entry's mistakes together."""
    errors = [receipt.error for receipt in receipts if isinstance(receipt, Refused)]
    problems: list[Problem] = []
    for error in errors:
        if not isinstance(error, InvalidRequestError):
            return error
        problems.extend(error.problems)
    return InvalidRequestError(problems)


def _list(call: Call, biz: str) -> Response[str]:
    query = call.query
    return page_of(
        call.limit,
        lambda limit: call.context.tracking.list_requests(
            call.tree,
            call.tenant,
            biz,
            state=query.get("state"),
            since=time_in(query.get("since"), "since"),
            cursor=call.cursor,
            limit=limit,
            now=call.now,
        ),
        lambda page: RequestsView(
            requests=[request_view(tracked, labels_of(call, biz)) for tracked in page.items],
            cursor=page.cursor,
            more=page.more,
        ),
    )


def _get(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    tracked = call.context.tracking.look_up(call.tree, call.tenant, biz, id)
    return shown(200, request_view(tracked, labels_of(call, biz)))


def _cancel(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    tracked = call.context.tracking.cancel(call.tree, call.tenant, biz, id, call.now)
    return shown(200, request_view(tracked, labels_of(call, biz)))


_STATE: Final = Parameter(
    name="state",
    meaning="Only requests in this state: a state of every biz, or one of this biz's own.",
    shape={"type": "string", "maxLength": 32},
)

_KEY: Final = Parameter(
    name=IDEMPOTENCY_KEY,
    meaning="Under one key a submission is one, however often it is sent.",
    shape={"type": "string", "pattern": "^[!-~]{1,255}$"},
)

_REPEATED: Final = Parameter(
    name=REPLAYED,
    meaning="`true` when all of it had been accepted before, under this key or its client ids.",
    shape={"type": "string", "const": "true"},
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="submitRequests",
        handler=_submit,
        method="POST",
        path="/v1/{biz}/requests",
        summary="Submit one page, or up to 1,000, to be downloaded. Each entry is answered.",
        body=(Submission, Batch),
        headers=(_KEY,),
        reported=(_REPEATED,),
        answers={202: BatchView},
        problems=(*ANY, 409, 413, 422, 429),
    ),
    Route(
        operation="listRequests",
        handler=_list,
        method="GET",
        path="/v1/{biz}/requests",
        summary="Requests by time of queueing, oldest first.",
        parameters=(_STATE, SINCE, CURSOR, LIMIT),
        answers={200: RequestsView},
        problems=ANY,
    ),
    Route(
        operation="getRequest",
        handler=_get,
        method="GET",
        path="/v1/{biz}/requests/{id}",
        summary="One request: state, timeline, attempts, worker, error, readable body.",
        answers={200: RequestView},
        problems=ANY,
    ),
    Route(
        operation="cancelRequest",
        handler=_cancel,
        method="DELETE",
        path="/v1/{biz}/requests/{id}",
        summary="Cancel a request that nobody works on yet.",
        answers={200: RequestView},
        problems=(*ANY, 409),
    ),
)
