"""Answers as API Gateway takes them: a shape, a page of a list, a problem document (RFC 9457).

Ids are strings (they pass 2^53), times are RFC 3339 in UTC with milliseconds. An error has the one
status that it has everywhere.
"""

import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.kernel import errors
from crawlfleet.kernel.errors import BacklogFullError, CrawlfleetError
from crawlfleet.kernel.paging import Listing, T
from crawlfleet.wire import ProblemDocument

S = TypeVar("S", bound=msgspec.Struct)

#: Seconds after which a caller may try again what failed for want of a part.
RETRY_AFTER_SECONDS: Final = 5
CONTENT_TYPE: Final = "application/problem+json"


class TooLargeBodyError(errors.RejectedError):
    """The call's body is longer than a call may be."""


class MethodNotAllowedError(errors.RejectedError):
    """The path does not take this method; ``allowed`` are those it takes."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        super().__init__(message)


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
    (errors.TenantSuspendedError, 403, "The tenant is suspended"),
    (errors.BacklogFullError, 429, "Come back later"),
    (errors.QuotaExceededError, 429, "The quota is used up"),
    (errors.RejectedError, 400, "The request is not valid"),
    (errors.TrialsBusyError, 503, "Too many rules are tried now"),
    (errors.TrialLateError, 503, "The trial took too long"),
    (errors.StoreUnavailableError, 503, "A part does not answer"),
    (errors.IdsError, 503, "No ids can be issued"),
    (errors.ConfigError, 503, "There is no valid configuration"),
)

_INTERNAL: Final = (500, "Internal error")


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error: 500 for an unexpected one."""
    return _known(error)[0]


def is_fault(error: Exception) -> bool:
    """Tell whether an error is a fault of ours: neither the caller's nor a mere wait."""
    return status_of(error) >= 500 and not isinstance(error, errors.TrialsBusyError)


def document_of(error: Exception) -> ProblemDocument:
    """Return the problem document of an error; an unexpected one shows nothing of its inside."""
    status, title = _known(error)
    if status == 500:
        detail = "The fault is ours and has been logged; trying again may help."
    elif isinstance(error, errors.TrialsBusyError | errors.TrialLateError):
        detail = str(error)
    elif status == 503:
        # What is wrong inside is for the log: it may name addresses, secrets, other tenants.
        reported = "the call was not done, or not in whole; try again."
        detail = f"{_part(error)} cannot be used now: {reported}"
    else:
        detail = str(error)
    name = type(error).__name__.removesuffix("Error") if status != 500 else "Internal"
    full = error if isinstance(error, BacklogFullError) else None
    return ProblemDocument(
        limit="" if full is None else full.limit,
        used=None if full is None else full.used,
        allowed=None if full is None else full.allowed,
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


def at(moment: datetime) -> Any:
    """Write a moment as clients read it: a text, where the shape has what they make of it.

    >>> from crawlfleet.kernel.time import from_ms
    >>> at(from_ms(1767225600123))
    '2026-01-01T00:00:00.123Z'
    """
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def filled(shape: type[S], source: object, **given: Any) -> S:
    """Fill a shape: with what is ``given``, and for the rest with attributes of ``source``.

    Moments are written as clients read them.
    """
    for name in shape.__struct_fields__:
        value = given[name] if name in given else getattr(source, name)
        given[name] = at(value) if isinstance(value, datetime) else value
    return shape(**given)


JSON: Final = "application/json"
#: A synchronous Lambda invocation answers with 6 MB at most, or not at all.
ANSWER_LIMIT: Final = 6_000_000


def shown(
    status: int, shape: msgspec.Struct, headers: dict[str, str] | None = None
) -> Response[str]:
    """Answer with a shape."""
    # Powertools tells a list of values from one by its type, so its signature is the wider one.
    return Response(status, JSON, msgspec.json.encode(shape).decode(), {**(headers or {})})


def no_content() -> Response[str]:
    """Answer without content."""
    return Response(204, JSON, "")


def page_of(
    limit: int,
    ask: Callable[[int], Listing[T]],
    kind: Callable[..., msgspec.Struct],
    shape: Callable[[T], msgspec.Struct],
) -> Response[str]:
    """Answer with a page that a Lambda can send: of fewer entries where they are large."""
    while True:
        page = ask(limit)
        entries = [shape(item) for item in page.items]
        answer = shown(200, kind(entries, cursor=page.cursor, more=page.more))
        if len(entries) <= 1 or _fits(str(answer.body)):
            return answer
        limit = len(entries) // 2


def problem_of(error: Exception) -> Response[str]:
    """Answer with an error's problem document, with Retry-After where that helps."""
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
    """Tell whether a body, as the string it becomes in the answer's JSON, is within the limit.

    A character is twelve there at most; only where that could be too much is it counted.
    """
    return len(body) * 12 <= ANSWER_LIMIT or len(json.dumps(body)) <= ANSWER_LIMIT
