"""What every group of calls shares: sending one, and reading its answer as a type.

How calls are addressed: paths with quoted segments, parameters as texts.
"""

from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.sdk.errors import ApiError
from crawlfleet.sdk.results import ProblemDocument
from crawlfleet.sdk.transport import Answer, Clock, Transport

T = TypeVar("T")


class Calls:
    """Calls over one transport."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock

    def _get(self, path: str, kind: type[T], params: dict[str, str] | None = None) -> T:
        return self._read(self._transport.call("GET", path, params=params), kind)

    def _post(self, path: str, document: object, kind: type[T], lost: list[str]) -> T:
        body = msgspec.json.encode(document)
        return self._read(self._transport.call("POST", path, body=body, lost=lost), kind)

    def _read(self, answer: Answer, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._strange(answer, str(error)) from error

    def _strange(self, answer: Answer, what: str) -> ApiError:
        """The error of a success that is not what the API describes."""
        return ApiError(
            answer.status,
            ProblemDocument(
                title="which is not what this API describes",
                status=answer.status,
                detail=self._transport.redact(f"not what this API describes: {what}"),
            ),
        )


def path_of(biz: str, *rest: str) -> str:
    """The path of something below a biz; each segment is quoted and must be one.

    >>> path_of("news", "requests", "12 3")
    '/v1/news/requests/12%203'
    """
    for segment in (biz, *rest):
        if segment.strip() in {"", ".", ".."}:
            raise InvalidRequestError.of(
                "biz" if segment is biz else "id", f"{segment!r} cannot be a part of an address"
            )
    return "/v1/" + "/".join(quote(segment, safe="") for segment in (biz, *rest))


def parameters(**given: str | int | None) -> dict[str, str]:
    """The parameters that are given, as texts."""
    return {name: str(value) for name, value in given.items() if value is not None}


def moment_of(value: datetime | str | None, field: str = "since") -> str | None:
    """A moment as the API reads it; a text is passed on for the API to judge."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise InvalidRequestError.of(field, "needs a time zone")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
