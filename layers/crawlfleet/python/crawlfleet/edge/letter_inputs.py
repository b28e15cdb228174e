"""Which dead letters a client means, and what is to become of them."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from crawlfleet.edge.inputs import LARGEST_PAGE, job_in, number_in, read, time_in
from crawlfleet.errors import InvalidRequestError, Problem
from crawlfleet.model.letter import LetterFilter, host_named
from crawlfleet.model.submission import JobName
from crawlfleet.policy.retry import REASONS

T = TypeVar("T")

#: Letters that one call changes unless it asks for fewer or more.
CHANGES: Final = 500
#: No answer of the web has a larger status; 0 is no answer at all.
LARGEST_STATUS: Final = 999

Word = Annotated[str, Meta(min_length=1, max_length=255)]
#: The enumeration is told; what is none of it is found below, which names them all.
Reason = Annotated[
    str, Meta(min_length=1, max_length=255, extra_json_schema={"enum": list(REASONS)})
]
Moment = Annotated[str, Meta(max_length=40)]


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
    """How one dead letter is replayed: by the rule as it was then, or as it is now."""

    rule: Literal["frozen", "current"] = "frozen"


class ReplaysInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are replayed, and how. All of them are ``all``, not an empty filter.

    ``cursor`` is that of the answer before, where a call did not come to the end.
    """

    filter: FilterInput = FilterInput()
    all: bool = False
    rule: Literal["frozen", "current"] = "frozen"
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = CHANGES
    cursor: Annotated[str, Meta(max_length=200)] | None = None


class PurgesInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are removed. All of them are ``all``, not an empty filter.

    ``cursor`` is that of the answer before, where a call did not come to the end.
    """

    filter: FilterInput = FilterInput()
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = CHANGES
    cursor: Annotated[str, Meta(max_length=200)] | None = None


def letters_in(query: Mapping[str, str]) -> LetterFilter:
    """The filter in the parameters of a list."""
    for name in ("reason", "rule", "host", "text"):
        if not 1 <= len(query.get(name, "x")) <= 255:
            raise InvalidRequestError.of(name, "must be 1 to 255 signs")
    status = query.get("status")
    return LetterFilter(
        reason=_reason(query.get("reason"), "reason"),
        status=None if status is None else number_in(status, "status", 0, LARGEST_STATUS),
        rule=query.get("rule"),
        host=_host(query.get("host"), "host"),
        job=job_in(query.get("job")),
        text=query.get("text"),
        since=time_in(query.get("since"), "since"),
        until=time_in(query.get("until"), "until"),
    )


def replay_in(body: bytes) -> ReplayInput:
    """How one letter is replayed; no body is the default."""
    return read(body, ReplayInput) if body.strip() else ReplayInput()


def replays_in(body: bytes) -> tuple[ReplaysInput, LetterFilter]:
    """What is replayed, and how."""
    given = _read(body, ReplaysInput)
    return given, _meant(given.filter, all_of_them=given.all)


def purges_in(body: bytes) -> tuple[PurgesInput, LetterFilter]:
    """What is removed."""
    given = _read(body, PurgesInput)
    return given, _meant(given.filter, all_of_them=given.all)


def _read(body: bytes, shape: type[T]) -> T:
    """The body; of ``all`` in the wrong place it is said where the right one is."""
    try:
        return read(body, shape)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            Problem("filter.all", 'stands beside "filter", not in it')
            if problem.field == "filter.all"
            else problem
            for problem in error.problems
        ) from error


def _reason(text: str | None, field: str) -> str | None:
    if text is not None and text not in REASONS:
        raise InvalidRequestError.of(field, f"is none of {', '.join(REASONS)}")
    return text


def _host(text: str | None, field: str) -> str | None:
    """The host, without the port or the scheme that somebody has copied with it."""
    host = None if text is None else host_named(text)
    if text is not None and host is None:
        raise InvalidRequestError.of(field, "is no host, such as shop.example")
    return host


def _meant(given: FilterInput, *, all_of_them: bool) -> LetterFilter:
    """The filter; nobody changes everything by a typo.

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
    return LetterFilter(
        reason=_reason(given.reason, "filter.reason"),
        status=given.status,
        rule=given.rule,
        host=_host(given.host, "filter.host"),
        job=given.job,
        text=given.text,
        since=time_in(given.since, "filter.since"),
        until=time_in(given.until, "filter.until"),
    )
