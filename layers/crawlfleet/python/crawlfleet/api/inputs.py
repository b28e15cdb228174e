"""Inputs of calls: read bodies and query parameters; every validation error names its field."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from crawlfleet.api.responses import TooLargeBodyError
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.time import from_ms
from crawlfleet.kernel.tracing import Caller, caller_of
from crawlfleet.kernel.validation import decode, join, named
from crawlfleet.requests.dead_letters.models import host_named
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Submission

T = TypeVar("T")
N = TypeVar("N", bound=str | None)
#: A synchronous Lambda invocation carries 6 MB; what is beyond never gets here on AWS.
BODY_LIMIT: Final = 6_000_000
#: Entries of one page of a list, unless the call has a limit.
PAGE: Final = 100
LARGEST_PAGE: Final = 1_000
#: Things that one call changes, unless it has a limit.
CHANGES: Final = 500
#: The header that makes a repeated submission one.
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
TRACEPARENT: Final = "traceparent"
IF_NONE_MATCH: Final = "if-none-match"
Url = Annotated[str, Meta(min_length=1, max_length=8_000)]


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several entries, each answered on its own."""

    requests: Annotated[list[Submission], Meta(min_length=1, max_length=BATCH_LIMIT)]


_batch = msgspec.json.Decoder(Batch)
_JOB: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}\Z")
#: Fields of a batch.
_BATCH: Final = frozenset({"requests"})
#: What msgspec raises for bytes that are not what was asked for; some it finds to be no UTF-8 late.
UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeError)


def body_of(event: Mapping[str, Any]) -> bytes:
    """Read the call's body.

    Raises:
        TooLargeBodyError: it is longer than :data:`BODY_LIMIT` bytes.
        InvalidRequestError: it claims to be base64 and is not.
    """
    text: str = event.get("body") or ""
    if event.get("isBase64Encoded"):
        try:
            body = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequestError.of("body", "is no base64") from error
    else:
        body = text.encode("utf-8", "surrogatepass")
    if len(body) > BODY_LIMIT:
        message = f"a call may carry {BODY_LIMIT:,} bytes, this one has {len(body):,}"
        raise TooLargeBodyError(message)
    return body


def submissions_in(body: bytes) -> tuple[list[Submission | InvalidRequestError], bool]:
    """Read the entries of a submission, and whether it is a batch.

    An entry of a batch that is wrong is its error: the others go on without it.

    Raises:
        InvalidRequestError: the body is neither one entry nor a batch of 1 to 1,000.
    """
    try:
        return list(_batch.decode(body).requests), True
    except UNREADABLE:
        pass
    top = read(body, dict[str, msgspec.Raw])
    if "requests" not in top:
        return [_lone(body, top)], False
    entries = entries_in(top, "requests", Submission)
    return [
        entry_in(raw, Submission, f"requests[{index}]") for index, raw in enumerate(entries)
    ], True


def entries_in(
    top: Mapping[str, msgspec.Raw], name: str, shape: type[msgspec.Struct]
) -> list[msgspec.Raw]:
    """Read the entries of a batch: a list of that ``name``, with nothing beside it.

    Raises:
        InvalidRequestError: it is none, or not one of 1 to 1,000.
    """
    problems = [
        Problem(join("", other), _beside(other, name, shape)) for other in top if other != name
    ]
    entries, wrong = decode(bytes(top.get(name, b"null")), list[msgspec.Raw])
    problems += [Problem(name, p.message if name in top else "is missing") for p in wrong]
    if problems or entries is None:
        raise InvalidRequestError(sorted(problems, key=lambda problem: problem.field))
    if not 1 <= len(entries) <= BATCH_LIMIT:
        message = f"must have 1 to {BATCH_LIMIT:,} entries, has {len(entries):,}"
        raise InvalidRequestError.of(name, message)
    return entries


def entry_in(raw: msgspec.Raw, shape: type[T], where: str) -> T | InvalidRequestError:
    """Read one entry of a batch, or return its error: the others go on without it."""
    entry, problems = decode(bytes(raw), shape)
    if entry is not None:
        return entry
    return InvalidRequestError(
        Problem(f"{where}.{p.field}".rstrip("."), p.message) for p in problems
    )


def _lone(body: bytes, top: Mapping[str, msgspec.Raw]) -> Submission:
    """Read the one entry of a body; a misspelled ``requests`` is the only error then."""
    for name in () if "url" in top else top:
        if name not in Submission.__struct_fields__ and get_close_matches(name[:64], _BATCH):
            message = 'is no field; a batch is {"requests": [...]}: did you mean requests?'
            raise InvalidRequestError.of(join("", name), message)
    return read(body, Submission)


def _beside(other: str, name: str, shape: type[msgspec.Struct]) -> str:
    """Say what is wrong with a field beside a batch's entries."""
    if other in shape.__struct_fields__:
        return f'belongs to each entry of "{name}", not beside them'
    return f"is no field of a batch; it has {named({name}, other)}"


def time_in(text: str | None, field: str) -> datetime | None:
    """Read a moment: RFC 3339 with a zone, or epoch milliseconds."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 14:
        return from_ms(int(text))
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = "must be a time such as 2026-01-31T08:00:00Z, or epoch milliseconds"
    raise InvalidRequestError.of(field, message)


def limit_in(text: str | None) -> int:
    """Read the most entries of a page."""
    return PAGE if text is None else number_in(text, "limit", 1, LARGEST_PAGE)


def number_in(text: str, field: str, least: int, largest: int) -> int:
    """Read a whole number in digits."""
    if text.isascii() and text.isdigit() and len(text) < 8 and least <= int(text) <= largest:
        return int(text)
    raise InvalidRequestError.of(field, f"must be a number from {least} to {largest:,}")


def job_in(text: N) -> N:
    """Check the name of a job, as requests.submission.admission.JobName does; None is none."""
    if text is None or _JOB.match(text):
        return text
    raise InvalidRequestError.of("job", "must be 1 to 64 letters, digits, '.', '_' or '-'")


def newest_first_in(order: str | None) -> bool:
    """Read which entries of a list come first.

    Raises:
        InvalidRequestError: it is no order.
    """
    if order not in {None, "oldest", "newest"}:
        raise InvalidRequestError.of("order", "must be oldest or newest")
    return order == "newest"


def host_in(text: str | None, field: str) -> str | None:
    """Read a host, without a port or a scheme that was copied with it; None is none."""
    host = None if text is None else host_named(text)
    if text is not None and host is None:
        raise InvalidRequestError.of(field, "is no host, such as shop.example")
    return host


def _header_in(event: Mapping[str, Any], header: str) -> list[str]:
    """Return the values of a header, whose name is of any case."""
    many: Mapping[str, Sequence[str]] = event.get("multiValueHeaders") or {}
    last: Mapping[str, str] = event.get("headers") or {}
    return [
        value
        for name, values in (many or {name: (value,) for name, value in last.items()}).items()
        if name.lower() == header.lower()
        for value in values
    ]


def caller_in(event: Mapping[str, Any]) -> Caller | None:
    """Read whose trace a call is in by its ``traceparent``; of several none is it (W3C)."""
    given = _header_in(event, TRACEPARENT)
    return caller_of(given[0]) if len(given) == 1 else None


def idempotency_key_in(event: Mapping[str, Any]) -> str | None:
    """Read the idempotency key of a submission; the header's name is of any case.

    Raises:
        InvalidRequestError: there are several, or it is not 1 to 255 visible ASCII signs.
    """
    given = _header_in(event, IDEMPOTENCY_KEY)
    if not given:
        return None
    if len(given) > 1:
        raise InvalidRequestError.of(IDEMPOTENCY_KEY, f"is given {len(given)} times, but takes one")
    if not _KEY.match(given[0]):
        raise InvalidRequestError.of(IDEMPOTENCY_KEY, "must be 1 to 255 visible ASCII signs")
    return given[0]


def if_none_match_in(event: Mapping[str, Any]) -> frozenset[str]:
    """Read the tags of the answers that a caller has (RFC 9110); weak ones are as good here.

    >>> sorted(if_none_match_in({"headers": {"if-none-match": 'W/"a", "b"'}}))
    ['"a"', '"b"']
    """
    given = ",".join(_header_in(event, IF_NONE_MATCH)).split(",")
    return frozenset(tag.strip().removeprefix("W/") for tag in given if tag.strip())


def known_parameters(given: Mapping[str, Sequence[str]], known: frozenset[str]) -> None:
    """Refuse query parameters that mean nothing here: a misspelled filter must not be silent.

    Raises:
        InvalidRequestError: names each unknown one, and each that has several values.
    """
    problems = []
    for name, values in sorted(given.items()):
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            message = f"is no parameter of this call; it takes {listed}"
            problems.append(Problem(name[:64], message))
        elif len(values) > 1:
            problems.append(Problem(name, f"has {len(values)} values, but takes one"))
    if problems:
        raise InvalidRequestError(problems)


def read_or(default: T, body: bytes) -> T:
    """Decode the body as JSON of that shape; no body is the default."""
    return read(body, type(default)) if body.strip() else default


def read(body: bytes, shape: type[T]) -> T:
    """Decode the body as JSON of that shape; every error is named."""
    if not body.strip():
        raise InvalidRequestError.of("body", "is missing: send JSON")
    value, problems = decode(body, shape)
    if value is None:
        raise InvalidRequestError([Problem(p.field or "body", p.message) for p in problems])
    return value
