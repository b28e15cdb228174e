"""The call at hand: whose it is, what it asks for. Operations are methods of classes above this."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver

from crawlfleet.edge.operations import Operations


class Call:
    """What every operation of the API reads of the event.

    Args:
        operations: Gives what the API works on; asked at each call until it succeeds, so that a
            part that cannot be opened is a problem document too.
    """

    def __init__(self, operations: Callable[[], Operations]) -> None:
        self._open = operations
        self._opened: Operations | None = None
        self._app = APIGatewayRestResolver()

    @property
    def _operations(self) -> Operations:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @property
    def _event(self) -> Mapping[str, Any]:
        event: Mapping[str, Any] = self._app.current_event.raw_event
        return event

    def _tenant(self) -> str:
        identity = (self._event.get("requestContext") or {}).get("identity") or {}
        return self._operations.tenant(identity.get("apiKeyId"))

    def _query(self) -> Mapping[str, str]:
        return {name: values[-1] for name, values in self._parameters().items() if values}

    def _parameters(self) -> Mapping[str, Sequence[str]]:
        """Every value of each parameter.

        API Gateway's test page sends the last ones alone; other proxies send only all of them.
        """
        many: Mapping[str, Sequence[str]] = self._event.get("multiValueQueryStringParameters") or {}
        last: Mapping[str, str] = self._event.get("queryStringParameters") or {}
        return many or {name: (value,) for name, value in last.items()}
