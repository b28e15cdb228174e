"""Errors between a caller and the API.

::

    CrawlfleetError
    ├─ RejectedError and its kinds   the API refused; rebuilt from its problem document
    │  └─ InvalidRequestError
    │     └─ AllRefusedError         not one entry was accepted; ``results`` says why
    ├─ ConfigError                   no address or no key could be found, or one is unusable
    ├─ ApiError                      any other answer that is no success: ``status``, ``problem``
    │  ├─ NoApiError                 a page or a text of another service: no API answers there
    │  └─ UnavailableError*          429, 502, 503 or 504, still after the last try
    ├─ UnreachableError*             no connection, or no whole answer in time
    ├─ UncertainError                the answer to a submission was lost: it may have been accepted
    ├─ PartlySubmittedError          a submission broke off; ``results`` holds what was answered
    └─ WaitTimeoutError*             not everything was finished in time; ``pending`` says what

``*``: trying again may help. No error ever holds the API key, not even where a server echoes it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    NotOperatorError,
    Problem,
    QuotaExceededError,
    RejectedError,
    TenantSuspendedError,
    UnknownBizError,
    UnknownRuleError,
    UnknownTenantError,
)
from crawlfleet.sdk.entries import Submitted
from crawlfleet.wire import ProblemDocument
from crawlfleet.wire.requests import RequestStatus

#: Characters that are quoted of an answer of the wrong shape.
_QUOTED_CHARACTERS: Final = 300
#: Bytes of a page that are searched for its title.
_READ_BYTES: Final = 10_000
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]+)", re.IGNORECASE)
#: The type of the problem that is made up where another service answered.
_OTHER_SERVICE: Final = "urn:crawlfleet:no-api"
#: Answers that say "not now": the same call may succeed later.
LATER: Final = frozenset({429, 502, 503, 504})


class ApiError(CrawlfleetError):
    """The API answered with something that is no success and no refusal of a known kind."""

    def __init__(self, status: int, problem: ProblemDocument) -> None:
        self.status = status
        self.problem = problem
        super().__init__(f"the API answered {status}: {problem}")


class NoApiError(ApiError):
    """Another service answered: it sent neither our JSON nor that of the gateway before us."""

    def __init__(self, status: int, problem: ProblemDocument) -> None:
        super().__init__(status, problem)
        self.args = (f"no Crawlfleet API answers there ({status}): {problem}",)


class CallTooLargeError(RejectedError):
    """The call's body is larger than the API takes; nothing of it was done."""


class UnavailableError(ApiError):
    """The API asks to come back later. ``retry_after_seconds`` when it said how much later."""

    retryable = True

    def __init__(
        self, status: int, problem: ProblemDocument, *, retry_after_seconds: float | None = None
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(status, problem)


class UnreachableError(CrawlfleetError):
    """There was no connection, or no whole answer in time."""

    retryable = True


class UncertainError(CrawlfleetError):
    """The answer to a submission was lost on its way: the API may have accepted it, or not.

    Submitted again under ``idempotency_key``, with the same entries, it is stored once.
    """

    def __init__(self, message: str, *, idempotency_key: str) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(message)


class PartlySubmittedError(CrawlfleetError):
    """A submission broke off after some of it was answered: those are ``results``, in order.

    The error that broke it is ``__cause__``. Continue with the entry after the last result; if the
    cause is an :class:`UncertainError`, submit all again under its key: nothing is stored twice.
    """

    def __init__(self, results: tuple[Submitted, ...], cause: CrawlfleetError) -> None:
        self.results = results
        super().__init__(f"broke off after {len(results)} entries were answered: {cause}")


#: Problems that the error of a whole submission names.
_NAMED_PROBLEMS: Final = 10


class AllRefusedError(InvalidRequestError):
    """Not one entry of a submission was accepted; ``results`` are the answers, in order.

    ``problems`` are the first ones, by entry: ``requests[0].url``.
    """

    def __init__(self, results: tuple[Submitted, ...]) -> None:
        self.results = results
        each = [
            Problem(f"requests[{one.index}].{own.field}", own.message)
            for one in results
            if one.error is not None
            for own in one.error.errors or (Problem("", one.error.detail or one.error.title),)
        ]
        found = [Problem(one.field.removesuffix("."), one.message) for one in each]
        left = len(found) - _NAMED_PROBLEMS
        if left > 0:
            more = f"have {left:,} more problems: `results` of this error has them all"
            found[_NAMED_PROBLEMS:] = [Problem("requests", more)]
        super().__init__(found)


class WaitTimeoutError(CrawlfleetError):
    """Not everything reached a final state in time.

    ``pending`` holds the ids that did not; it is empty where a whole biz was waited for, and
    ``unfinished`` is their number in both cases. ``finished`` are the states of those that did.
    Where a ``job`` of a ``biz`` was waited for, these are their names.
    """

    retryable = True

    def __init__(
        self,
        seconds: float,
        unfinished: int,
        pending: tuple[str, ...] = (),
        finished: tuple[RequestStatus, ...] = (),
        *,
        biz: str = "",
        job: str = "",
    ) -> None:
        self.biz, self.job = biz, job
        self.pending = pending
        self.finished = finished
        self.unfinished = unfinished
        what = "1 request was" if unfinished == 1 else f"{unfinished} requests were"
        if job:
            left = f": {unfinished:,} of its tasks are open" if unfinished else ""
            super().__init__(f"the job {job} has not ended within {seconds:g} seconds{left}")
        else:
            super().__init__(f"{what} not finished within {seconds:g} seconds")


_KINDS: Final[Mapping[str, type[RejectedError]]] = {
    "unknown-biz": UnknownBizError,
    "unknown-tenant": UnknownTenantError,
    "not-operator": NotOperatorError,
    "tenant-suspended": TenantSuspendedError,
    "unknown-rule": UnknownRuleError,
    "not-found": NotFoundError,
    "conflict": ConflictError,
    "key-reused": KeyReusedError,
    "quota-exceeded": QuotaExceededError,
    "too-large-body": CallTooLargeError,
}
#: The error by status, where the problem's type is unknown.
_BY_STATUS: Final[Mapping[int, type[RejectedError]]] = {
    401: UnknownTenantError,
    403: UnknownTenantError,
    404: NotFoundError,
    409: ConflictError,
    413: CallTooLargeError,
}


def read_problem(status: int, body: bytes, redact: Callable[[str], str]) -> ProblemDocument:
    """Read the problem document of an answer; make one up from whatever else came.

    ``redact`` is applied to every text of it. API Gateway's own ``{"message": ...}`` is understood.
    """
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raw = None
        if body.strip():
            return ProblemDocument(
                type=_OTHER_SERVICE, title=_of_other_service(body, redact), status=status
            )
    if not isinstance(raw, dict) or not raw.keys() & {"title", "detail", "message", "errors"}:
        quoted = body[:_QUOTED_CHARACTERS].decode("utf-8", "replace").strip()
        return ProblemDocument(
            title="no problem document came with it", status=status, detail=redact(quoted)
        )
    errors = raw.get("errors")
    return ProblemDocument(
        type=redact(_text(raw.get("type")) or "about:blank"),
        title=redact(_text(raw.get("title"))),
        status=status,
        detail=redact(_text(raw.get("detail") or raw.get("message"))),
        errors=tuple(
            Problem(redact(_text(error.get("field"))), redact(_text(error.get("message"))))
            for error in (errors if isinstance(errors, list) else ())
            if isinstance(error, dict)
        ),
    )


def _of_other_service(body: bytes, redact: Callable[[str], str]) -> str:
    """Quote a page by its title, any other text by its beginning; never a page's markup."""
    text = " ".join(redact(body[:_READ_BYTES].decode("utf-8", "replace")).split())
    if not text.startswith("<"):
        return text[:_QUOTED_CHARACTERS]
    title = _TITLE.search(text)
    return f"a page that is called {title[1].strip()[:80]!r}" if title else "a page"


def error_of(
    status: int, problem: ProblemDocument, retry_after_seconds: float | None = None
) -> CrawlfleetError:
    """Return the error that an unsuccessful answer stands for.

    >>> error_of(404, ProblemDocument(type="/problems/unknown-biz", detail="no biz 'x'"))
    UnknownBizError("no biz 'x'")
    """
    if problem.type == _OTHER_SERVICE and status not in LATER:
        return NoApiError(status, problem)
    kind = _slug(problem.type)
    if kind == "invalid-request" or (status in {400, 422} and kind not in _KINDS):
        return InvalidRequestError(
            problem.errors or (Problem("request", problem.detail or problem.title),)
        )
    if kind == "backlog-full":
        return BacklogFullError(
            str(problem),
            retry_after_seconds=retry_after_seconds or 0.0,
            limit=problem.limit,
            used=problem.used,
            allowed=problem.allowed,
        )
    rejected = _KINDS.get(kind) or _BY_STATUS.get(status)
    if rejected is CallTooLargeError and not kind.startswith("too-large"):
        # API Gateway's own word is "Request Too Long", whatever was sent.
        return CallTooLargeError(f"the call is larger than the API takes: {problem}")
    if rejected is not None:
        return rejected(str(problem))
    if status in LATER:
        return UnavailableError(status, problem, retry_after_seconds=retry_after_seconds)
    return ApiError(status, problem)


def is_passing(status: int, problem: ProblemDocument) -> bool:
    """Tell whether the same call may succeed in a moment; a quota lasts until something ends.

    >>> is_passing(503, ProblemDocument()), is_passing(429, ProblemDocument(type="quota-exceeded"))
    (True, False)
    """
    return status in LATER and _slug(problem.type) != "quota-exceeded"


def _slug(problem_type: str) -> str:
    """``https://x/problems/unknown-biz``, ``urn:x:UnknownBizError`` -> ``unknown-biz``."""
    last = re.split(r"[/:#]", problem_type)[-1].removesuffix("Error")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", last).lower().replace("_", "-")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
