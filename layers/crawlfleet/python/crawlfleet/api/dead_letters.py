"""Dead letters in the API: list, get, replay, purge; one by its id, or those of a filter."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import (
    CHANGES,
    LARGEST_PAGE,
    host_in,
    job_in,
    number_in,
    read,
    read_or,
    time_in,
)
from crawlfleet.api.requests import events, labels_of, request_view
from crawlfleet.api.responses import at, filled, no_content, page_of, shown
from crawlfleet.api.routing import CURSOR, JOB, LIMIT, SINCE, Call, Parameter, Routes, word
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.page import Answer
from crawlfleet.kernel.redaction import masked_headers
from crawlfleet.requests.dead_letters.models import DeadLetterFilter
from crawlfleet.requests.models import Tracked
from crawlfleet.requests.outcomes import REASONS
from crawlfleet.requests.submission.admission import JobName
from crawlfleet.wire import Page
from crawlfleet.wire.dead_letters import (
    DeadLetter,
    DeadLetterSummary,
    PurgedAnswer,
    ReplayedAnswer,
    Sample,
    SiteAnswer,
)
from crawlfleet.wire.requests import RequestStatus

#: No answer of the web has a larger status; 0 is no answer at all.
LARGEST_STATUS: Final = 999
Word = Annotated[str, Meta(min_length=1, max_length=255)]
#: The schema has the enumeration; another value is refused below, where all are named.
Reason = Annotated[
    str, Meta(min_length=1, max_length=255, extra_json_schema={"enum": list(REASONS)})
]
Moment = Annotated[str, Meta(max_length=40)]
M = TypeVar("M", bound="PurgesInput")


class FilterInput(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Dead letters of which all that is given holds.

    ``reason`` is the error's kind, such as ``PageGone``; ``status`` the site's last answer, 0 for
    none; ``host`` may have its port or scheme, which do not matter; ``text`` stands somewhere in
    the error or the URL; ``since`` and ``until`` are about when the request was queued: RFC 3339
    with a zone, or epoch milliseconds.
    """

    reason: Reason | None = None
    status: Annotated[int, Meta(ge=0, le=LARGEST_STATUS)] | None = None
    rule: Word | None = None
    host: Word | None = None
    job: JobName | None = None
    text: Word | None = None
    since: Moment | None = None
    until: Moment | None = None


class ReplayInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choice of a replay's rule: as it was then, or as it is now."""

    rule: Literal["frozen", "current"] = "frozen"


class PurgesInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selection of dead letters to remove. All of them are ``all``, not an empty filter.

    ``cursor`` is that of the answer before, where a call did not come to the end.
    """

    filter: FilterInput = FilterInput()
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = CHANGES
    cursor: Annotated[str, Meta(max_length=200)] | None = None


class ReplaysInput(PurgesInput, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selection of dead letters to replay, like that of those to remove, and their rule."""

    rule: Literal["frozen", "current"] = "frozen"


def filter_in(query: Mapping[str, str]) -> DeadLetterFilter:
    """Read the filter in the parameters of a list."""
    for name in ("reason", "rule", "host", "text"):
        if not 1 <= len(query.get(name, "x")) <= 255:
            raise InvalidRequestError.of(name, "must be 1 to 255 signs")
    status = query.get("status")
    return DeadLetterFilter(
        reason=_reason(query.get("reason"), "reason"),
        status=None if status is None else number_in(status, "status", 0, LARGEST_STATUS),
        rule=query.get("rule"),
        host=host_in(query.get("host"), "host"),
        job=job_in(query.get("job")),
        text=query.get("text"),
        since=time_in(query.get("since"), "since"),
        until=time_in(query.get("until"), "until"),
    )


def _many_in(body: bytes, shape: type[M]) -> tuple[M, DeadLetterFilter]:
    """Read which dead letters are changed; name the right place of a misplaced ``all``."""
    try:
        given = read(body, shape)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            Problem("filter.all", 'stands beside "filter", not in it')
            if problem.field == "filter.all"
            else problem
            for problem in error.problems
        ) from error
    return given, _meant(given.filter, all_of_them=given.all)


def _reason(text: str | None, field: str) -> str | None:
    if text is not None and text not in REASONS:
        raise InvalidRequestError.of(field, f"is none of {', '.join(REASONS)}")
    return text


def _meant(given: FilterInput, *, all_of_them: bool) -> DeadLetterFilter:
    """Read the filter; an empty one must not change everything by a typo.

    Raises:
        InvalidRequestError: it is empty and nothing says ``all``, or says both.
    """
    empty = given == FilterInput()
    if empty and not all_of_them:
        message = 'is empty: name what is meant, or say "all": true for every dead letter'
        raise InvalidRequestError.of("filter", message)
    if all_of_them and not empty:
        message = "must not be true beside a filter: it means every dead letter"
        raise InvalidRequestError.of("all", message)
    return DeadLetterFilter(
        reason=_reason(given.reason, "filter.reason"),
        status=given.status,
        rule=given.rule,
        host=host_in(given.host, "filter.host"),
        job=given.job,
        text=given.text,
        since=time_in(given.since, "filter.since"),
        until=time_in(given.until, "filter.until"),
    )


_CHARSET: Final = re.compile(r"charset\s*=\s*\"?'?([\w.:-]+)", re.IGNORECASE)
#: Most bytes of one sign of UTF-8 that a cut may have taken away.
_CUT: Final = 3


class DeadLettersPage(Page, frozen=True):
    """A page of dead letters; ``cursor`` is where to go on."""

    dead_letters: list[DeadLetterSummary]


def dead_letter_view(dead: Tracked) -> DeadLetterSummary:
    """Shape a dead letter of a list."""
    return DeadLetterSummary(**_summary(dead))


def whole_dead_letter_view(dead: Tracked, label: Callable[[int], str]) -> DeadLetter:
    """Shape a dead letter alone."""
    body, answer = dead.request.body, dead.answer
    return filled(
        DeadLetter,
        body,
        **_summary(dead),
        headers=masked_headers(body.headers),
        biz=dead.request.biz,
        worker=dead.worker,
        state=label(dead.state),
        sample=None if answer is None or not answer.sample else sample_view(answer),
        timeline=events(dead.timeline, label),
    )


def _summary(dead: Tracked) -> dict[str, Any]:
    request, body, answer = dead.request, dead.request.body, dead.answer
    return {
        "id": str(request.id),
        "queued_at": at(request.queued_at),
        "url": body.url,
        "rule": body.rule,
        "rule_version": body.rule_version,
        "job": request.job,
        "attempts": dead.attempts,
        "reason": dead.reason,
        "error": dead.error,
        "status": 0 if answer is None else answer.status,
        "answer": answer and filled(SiteAnswer, answer, seconds=round(answer.seconds, 3)),
    }


def sample_view(answer: Answer) -> Sample:
    """Shape the sample: as text where it is UTF-8 and not declared otherwise, else as base64.

    >>> sample_view(Answer(url="u", sample="Börse".encode()))
    Sample(encoding='text', content='Börse')
    >>> sample_view(Answer(url="u", sample=bytes([255, 0]))).encoding
    'base64'
    """
    text = _text(answer)
    if text is None:
        return Sample(encoding="base64", content=base64.b64encode(answer.sample).decode())
    return Sample(encoding="text", content=text)


def _text(answer: Answer) -> str | None:
    said = _CHARSET.search(answer.headers.get("content-type", ""))
    if said and said[1].lower() not in {"utf-8", "utf8", "us-ascii", "ascii"}:
        return None
    try:
        return answer.sample.decode()
    except UnicodeDecodeError as error:
        # A sample ends where it was cut, which may be within a sign.
        if error.reason == "unexpected end of data" and error.start >= len(answer.sample) - _CUT:
            return answer.sample[: error.start].decode()
        return None


_FILTER: Final = (
    Parameter(
        name="reason",
        meaning="Only those given up on for this kind of error.",
        shape={"type": "string", "enum": list(REASONS)},
    ),
    Parameter(
        name="status",
        meaning="Only those whose last answer had this status; 0: there was none.",
        shape={"type": "integer", "minimum": 0, "maximum": LARGEST_STATUS},
    ),
    word("rule", "Only those of this rule."),
    word("host", "Only those whose URL has this host; a port or a scheme does not matter."),
    JOB,
    word("text", "Only those with this text in their error or their URL."),
    SINCE,
    Parameter(
        name="until",
        meaning="Only requests queued before this time: RFC 3339 with a zone, or epoch ms.",
        shape={"type": "string", "maxLength": 40},
    ),
)

ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/dead-letters", DeadLettersPage, parameters=(*_FILTER, CURSOR, LIMIT))
def list_dead_letters(call: Call, biz: str) -> Response[str]:
    """List requests that were given up on, oldest first: why, and the site's last answer."""
    meant, ports = filter_in(call.query), call.context.dead_letters
    return page_of(
        call.limit,
        lambda limit: ports.list_dead_letters(
            call.tree, call.tenant, biz, meant, cursor=call.cursor, limit=limit, now=call.now
        ),
        DeadLettersPage,
        dead_letter_view,
    )


@ROUTES.add("GET", "/v1/{biz}/dead-letters/{id}", DeadLetter, problems=(409,))
def get_dead_letter(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Get one dead letter whole, with the beginning of the last answer's body."""
    found = call.context.dead_letters.get_dead_letter(call.tree, call.tenant, biz, id)
    return shown(200, whole_dead_letter_view(found, labels_of(call, biz)))


@ROUTES.add(
    "POST",
    "/v1/{biz}/dead-letters/{id}/replay",
    RequestStatus,
    problems=(409, 413),
    body=(ReplayInput,),
    body_required=False,
)
def replay_dead_letter(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Replay a dead letter, by its rule as it was or as it is now."""
    current, ports = read_or(ReplayInput(), call.body).rule == "current", call.context.dead_letters
    tracked = ports.replay_one(
        call.tree, call.tenant, biz, id, current_rule=current, by=call.by, now=call.now
    )
    return shown(200, request_view(tracked, labels_of(call, biz)))


@ROUTES.add("DELETE", "/v1/{biz}/dead-letters/{id}", {204: None}, problems=(409,))
def purge_dead_letter(call: Call, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
    """Remove a dead letter; the ledger still counts it as dead."""
    ports = call.context.dead_letters
    ports.purge_one(call.tree, call.tenant, biz, id, by=call.by, now=call.now)
    return no_content()


@ROUTES.add(
    "POST", "/v1/{biz}/dead-letters/replay", ReplayedAnswer, problems=(413,), body=(ReplaysInput,)
)
def replay_dead_letters(call: Call, biz: str) -> Response[str]:
    """Replay the dead letters of a filter, some at a time."""
    given, meant = _many_in(call.body, ReplaysInput)
    ours = (call.tree, call.tenant, biz, meant)
    current = given.rule == "current"
    did = call.context.dead_letters.replay(
        *ours,
        current_rule=current,
        by=call.by,
        limit=given.limit,
        now=call.now,
        cursor=given.cursor,
    )
    view = ReplayedAnswer(replayed=did.count, skipped=did.skipped, cursor=did.cursor, more=did.more)
    return shown(200, view)


@ROUTES.add(
    "POST", "/v1/{biz}/dead-letters/purge", PurgedAnswer, problems=(413,), body=(PurgesInput,)
)
def purge_dead_letters(call: Call, biz: str) -> Response[str]:
    """Remove the dead letters of a filter, some at a time."""
    given, meant = _many_in(call.body, PurgesInput)
    ours = (call.tree, call.tenant, biz, meant)
    did = call.context.dead_letters.purge(
        *ours, by=call.by, limit=given.limit, now=call.now, cursor=given.cursor
    )
    view = PurgedAnswer(purged=did.count, skipped=did.skipped, cursor=did.cursor, more=did.more)
    return shown(200, view)
