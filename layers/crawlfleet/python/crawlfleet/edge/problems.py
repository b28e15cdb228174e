"""Errors as problem documents (RFC 9457), each with the one status it has everywhere."""

from typing import Final

import msgspec

from crawlfleet import errors
from crawlfleet.errors import CrawlfleetError, Problem

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
