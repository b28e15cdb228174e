"""What every group of calls shares: sending one, and reading its answer as a type."""

from typing import TypeVar

import msgspec

from crawlfleet.sdk.faults import ApiError
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
