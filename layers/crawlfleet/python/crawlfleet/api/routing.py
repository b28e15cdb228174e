"""The call at hand: whose it is, what it asks for. Operations are methods of classes above this.

What a call of the API is described by, and what many calls share.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from aws_lambda_powertools.event_handler import APIGatewayRestResolver

from crawlfleet.api import responses as views
from crawlfleet.api.inputs import LARGEST_PAGE, PAGE
from crawlfleet.api.operations import Operations


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


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the query or a header: what it means and its JSON schema."""

    name: str
    meaning: str
    shape: dict[str, object]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One call. ``answers`` gives the shape by status; ``problems`` the statuses of its errors.

    ``headers`` are what the call may carry, ``told`` what its answers may.
    """

    operation: str
    method: str
    path: str
    summary: str
    answers: dict[int, type[views.View] | None]
    problems: tuple[int, ...] = ()
    body: tuple[type[msgspec.Struct], ...] = ()
    body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    told: tuple[Parameter, ...] = ()
    open: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the query parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


CURSOR: Final = Parameter(
    name="cursor",
    meaning="Where to go on: the cursor of an earlier answer.",
    shape={"type": "string", "maxLength": 200},
)
LIMIT: Final = Parameter(
    name="limit",
    meaning="Most entries of one page; it holds fewer where they are large.",
    shape={"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE},
)

#: What any call to a biz may answer: no tenant, no such biz, a part is down.
ANY: Final = (400, 403, 404, 503)
