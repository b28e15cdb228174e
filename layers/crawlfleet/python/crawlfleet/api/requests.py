"""Requests in the API: submit, get, list, cancel."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import (
    IDEMPOTENCY_KEY,
    Batch,
    caller_in,
    idempotency_key_in,
    job_in,
    newest_first_in,
    read,
    submissions_in,
    time_in,
)
from crawlfleet.api.quotas import must_have_room
from crawlfleet.api.responses import at, document_of, page_of, shown
from crawlfleet.api.routing import (
    CURSOR,
    JOB,
    LIMIT,
    PAGE_URL,
    SINCE,
    TRACED,
    Call,
    Parameter,
    Routes,
    order_by,
)
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError, Problem
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.redaction import masked_headers
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.models import Body, Event, Tracked
from crawlfleet.requests.submission.admission import (
    BATCH_LIMIT,
    Accepted,
    Receipt,
    Refused,
    Submission,
)
from crawlfleet.requests.submission.tracking import state_label
from crawlfleet.wire.requests import (
    BatchAnswer,
    RequestsPage,
    RequestStatus,
    SubmissionAnswer,
    TimelineEvent,
    TransitionAnswer,
    TransitionsAnswer,
)

if TYPE_CHECKING:
    from crawlfleet.requests.submission.transitions import Answered

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


StateName = Annotated[str, Meta(min_length=1, max_length=32)]


class TransitionInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transition: the state that is expected, the one that is wanted; the timeline says why."""

    from_state: StateName
    to_state: StateName
    why: Annotated[str, Meta(max_length=500)] = ""


class TransitionsInput(TransitionInput, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transition of several requests, named by their ids; each is answered on its own."""

    requests: Annotated[
        list[Annotated[str, Meta(max_length=36)]], Meta(min_length=1, max_length=BATCH_LIMIT)
    ]


def transition_view(answer: "Answered", label: Callable[[int], str]) -> TransitionAnswer:
    """Shape a request's answer to a transition."""
    return TransitionAnswer(
        id=str(answer.id),
        state=None if answer.state is None else label(answer.state),
        repeated=answer.repeated,
        error=None if answer.error is None else document_of(answer.error),
    )


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
        headers=masked_headers(body.headers),
        params=body.params,
        body=body.body,
        meta=body.meta,
        attempts=tracked.attempts,
        worker=tracked.worker,
        error=tracked.error,
        records=tracked.records,
        due_at=None if tracked.due_at is None else at(tracked.due_at),
        timeline=events(tracked.timeline, label),
        job=request.job,
        priority=request.priority,
        pool=request.pool,
        user=request.user,
    )


def events(timeline: Iterable[Event], label: Callable[[int], str]) -> tuple[TimelineEvent, ...]:
    """Shape a timeline; ``label`` names states, also those of the biz's own."""
    return tuple(
        [
            TimelineEvent(
                at=at(event.at),
                state=label(event.state),
                by=event.by,
                why=event.why,
                peers=event.peers,
            )
            for event in timeline
        ]
    )


def labels_of(call: Call, biz: str) -> Callable[[int], str]:
    """Name states as the biz does."""
    _, found = biz_of(call.tree, call.tenant, biz)
    return lambda flag: state_label(found, flag)


_STATE: Final = Parameter(
    name="state",
    meaning="Only requests in this state: a state of every biz, or one of this biz's own.",
    shape={"type": "string", "maxLength": 32},
)

_URL: Final = msgspec.structs.replace(
    PAGE_URL, meaning="Only requests for this page, by any URL that is the same page to the biz."
)
_ORDER: Final = order_by("By the time of queueing")

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
    headers=(_KEY, TRACED),
    answer_headers=(_REPEATED,),
)
def submit_requests(call: Call, biz: str) -> Response[str]:
    """Submit one page, or up to 1,000, to be downloaded. Each entry is answered."""
    key = idempotency_key_in(call.event)
    submissions, batch = submissions_in(call.body)
    ports, tree = call.context.submission, call.tree
    owners = [(one.user, one.job) for one in submissions if isinstance(one, Submission)]
    if not must_have_room(call, biz, owners or [(None, None)]):
        # A worker would only find out that it has to wait.
        ports = replace(ports, wakes=False)
    receipts = ports.submit(
        *(tree, call.tenant, biz, submissions, call.now),
        single=not batch,
        key=key,
        caller=caller_in(call.event),
    )
    _note_jobs(call, biz, submissions, receipts)
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


def _note_jobs(
    call: Call,
    biz: str,
    submissions: Sequence[Submission | InvalidRequestError],
    receipts: Sequence[Receipt],
) -> None:
    """Note the jobs under whose names something was accepted."""
    names = {
        one.job
        for one, receipt in zip(submissions, receipts, strict=True)
        if isinstance(one, Submission) and isinstance(receipt, Accepted) and one.job is not None
    }
    if names:
        call.context.submitted.note(call.tenant, biz, names, call.now)


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


@ROUTES.add(
    "GET",
    "/v1/{biz}/requests",
    RequestsPage,
    parameters=(_STATE, JOB, _URL, SINCE, _ORDER, CURSOR, LIMIT),
)
def list_requests(call: Call, biz: str) -> Response[str]:
    """List requests by time of queueing, oldest first; all filters must hold.

    The cursor may be kept to come back, with the same filters and order. Of a page's ``url`` an
    answer may be short, or empty, although ``more`` is true: it looks at so many requests at once.
    """
    job = job_in(call.query.get("job"))
    query, label = call.query, labels_of(call, biz)
    is_wanted = _is_page(call, biz, query["url"]) if "url" in query else None
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
            job=job,
            is_wanted=is_wanted,
            newest=newest_first_in(query.get("order")),
        ),
        RequestsPage,
        lambda tracked: request_view(tracked, label),
    )


def _is_page(call: Call, biz: str, url: str) -> Callable[[Body], bool]:
    """Return a test that tells requests for a page, by any URL that is the same page to the biz.

    Raises:
        InvalidRequestError: it is no URL.
    """
    from crawlfleet.crawling.frontier.fingerprint import is_page, keys_of

    _, document = biz_of(call.tree, call.tenant, biz)
    if fault := problem_with(url):
        raise InvalidRequestError.of("url", fault)
    resolver = call.context.seeds.resolver
    return is_page(keys_of(url, document, resolver), document, resolver)


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


@ROUTES.add(
    "POST",
    "/v1/{biz}/requests/{id}/transition",
    RequestStatus,
    problems=(409, 413),
    body=(TransitionInput,),
)
def change_request_state(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Change a request to one of the biz's own states, or back, if it is in the state expected.

    Repeated, it changes nothing more.
    """
    asked = read(call.body, TransitionInput)
    tracked = call.context.transitions.change_one(
        call.tree,
        call.tenant,
        biz,
        id,
        asked.from_state,
        asked.to_state,
        by=call.by,
        why=asked.why,
        now=call.now,
    )
    return shown(200, request_view(tracked, labels_of(call, biz)))


@ROUTES.add(
    "POST",
    "/v1/{biz}/requests/transition",
    TransitionsAnswer,
    problems=(413,),
    body=(TransitionsInput,),
)
def change_request_states(call: Call, biz: str) -> Response[str]:
    """Change up to 1,000 requests to one of the biz's own states, or back. Each is answered."""
    asked, label = read(call.body, TransitionsInput), labels_of(call, biz)
    answers = call.context.transitions.change(
        call.tree,
        call.tenant,
        biz,
        asked.requests,
        asked.from_state,
        asked.to_state,
        by=call.by,
        why=asked.why,
        now=call.now,
    )
    refused = sum(one.error is not None for one in answers)
    repeated = sum(one.repeated for one in answers)
    view = TransitionsAnswer(
        changed=len(answers) - refused - repeated,
        repeated=repeated,
        refused=refused,
        requests=tuple(transition_view(one, label) for one in answers),
    )
    return shown(200, view)
