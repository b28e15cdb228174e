"""Requests in the API: submit, get, list, cancel."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import (
    IDEMPOTENCY_KEY,
    Batch,
    idempotency_key_in,
    submissions_in,
    time_in,
)
from crawlfleet.api.responses import at, document_of, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, SINCE, Call, Parameter, Routes
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError, Problem
from crawlfleet.kernel.ids import State
from crawlfleet.requests.models import Event, Tracked
from crawlfleet.requests.submission import service
from crawlfleet.requests.submission.admission import Accepted, Receipt, Refused, Submission
from crawlfleet.wire.requests import (
    BatchAnswer,
    RequestsPage,
    RequestStatus,
    SubmissionAnswer,
    TimelineEvent,
)

#: The header of an answer that had been given before.
REPLAYED: Final = "Idempotent-Replayed"
_PENDING: Final = State.PENDING.label


class SubmittedView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one page: it is persisted under this id.

    ``repeated`` says that it was before, under the same key or client id; ``state`` is left out
    then: it is not read.
    """

    id: str
    state: str | None = None
    repeated: bool = False


def submitted_view(accepted: Accepted) -> SubmittedView:
    """Shape the answer to one page."""
    return SubmittedView(id=str(accepted.id), state=_state_of(accepted), repeated=accepted.repeated)


def entry_view(receipt: Receipt) -> SubmissionAnswer:
    """Shape the answer to one entry of a batch."""
    if isinstance(receipt, Accepted):
        return SubmissionAnswer(
            id=str(receipt.id), state=_state_of(receipt), repeated=receipt.repeated
        )
    return SubmissionAnswer(error=document_of(receipt.error))


def _state_of(accepted: Accepted) -> str | None:
    """Return the state of a new request; one that was accepted before may be long done."""
    return None if accepted.repeated else _PENDING


def request_view(tracked: Tracked, label: Callable[[int], str]) -> RequestStatus:
    """Shape a request; ``label`` names its state, which may be one of the biz's own."""
    request, body = tracked.request, tracked.request.body
    # Written out, as `filled` takes twice the time: a page has up to 1,000 of them.
    return RequestStatus(
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
        due_at=None if tracked.due_at is None else at(tracked.due_at),
        timeline=events(tracked.timeline),
        job=request.job,
        priority=request.priority,
        pool=request.pool,
    )


def events(timeline: Iterable[Event]) -> tuple[TimelineEvent, ...]:
    """Shape a timeline."""
    return tuple(
        [
            TimelineEvent(at=at(event.at), state=event.state.label, by=event.by, why=event.why)
            for event in timeline
        ]
    )


def labels_of(call: Call, biz: str) -> Callable[[int], str]:
    """Name states as the biz does."""
    _, found = biz_of(call.tree, call.tenant, biz)
    return lambda flag: service.state_label(found, flag)


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

ROUTES: Final = Routes()


@ROUTES.add(
    "POST",
    "/v1/{biz}/requests",
    {202: BatchAnswer},
    problems=(409, 413, 422, 429),
    body=(Submission, Batch),
    headers=(_KEY,),
    answer_headers=(_REPEATED,),
)
def submit_requests(call: Call, biz: str) -> Response[str]:
    """Submit one page, or up to 1,000, to be downloaded. Each entry is answered."""
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
    view = BatchAnswer(
        accepted=accepted,
        rejected=len(receipts) - accepted,
        requests=tuple(entry_view(receipt) for receipt in receipts),
    )
    return shown(202, view, headers)


def _repeated(receipts: list[Receipt]) -> bool:
    """Tell whether all accepted entries had been accepted before."""
    accepted = [receipt for receipt in receipts if isinstance(receipt, Accepted)]
    return bool(accepted) and all(receipt.repeated for receipt in accepted)


def _error_of_all(receipts: list[Receipt]) -> CrawlfleetError:
    """Return the error of a batch of which nothing was stored: every entry's together."""
    errors = [receipt.error for receipt in receipts if isinstance(receipt, Refused)]
    problems: list[Problem] = []
    for error in errors:
        if not isinstance(error, InvalidRequestError):
            return error
        problems.extend(error.problems)
    return InvalidRequestError(problems)


@ROUTES.add("GET", "/v1/{biz}/requests", RequestsPage, parameters=(_STATE, SINCE, CURSOR, LIMIT))
def list_requests(call: Call, biz: str) -> Response[str]:
    """List requests by time of queueing, oldest first."""
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
        RequestsPage,
        lambda tracked: request_view(tracked, labels_of(call, biz)),
    )


@ROUTES.add("GET", "/v1/{biz}/requests/{id}", RequestStatus)
def get_request(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Get one request: state, timeline, attempts, worker, error, readable body."""
    tracked = call.context.tracking.look_up(call.tree, call.tenant, biz, id)
    return shown(200, request_view(tracked, labels_of(call, biz)))


@ROUTES.add("DELETE", "/v1/{biz}/requests/{id}", RequestStatus, problems=(409,))
def cancel_request(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Cancel a request that no worker has leased yet."""
    tracked = call.context.tracking.cancel(call.tree, call.tenant, biz, id, call.now)
    return shown(200, request_view(tracked, labels_of(call, biz)))
