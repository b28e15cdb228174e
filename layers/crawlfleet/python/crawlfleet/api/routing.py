"""A call of the API, and the route that describes it: what the handlers of all resources share."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.context import Context
from crawlfleet.api.inputs import LARGEST_PAGE, PAGE, body_of, limit_in
from crawlfleet.api.responses import View
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import tenant_of


class Call:
    """One call.

    Args:
        event: API Gateway's.
        opened: Gives the context; asked when something of it is needed, so that a part that cannot
            be opened is a problem document too.
    """

    def __init__(self, event: Mapping[str, Any], opened: Callable[[], Context]) -> None:
        self.event = event
        self._opened = opened

    @property
    def context(self) -> Context:
        """The context that the call works on."""
        return self._opened()

    @cached_property
    def tenant(self) -> str:
        """The tenant of the call's API key."""
        identity = (self.event.get("requestContext") or {}).get("identity") or {}
        default = self.context.settings.default_api_key_id
        return tenant_of(self.tree, identity.get("apiKeyId"), default)

    @property
    def by(self) -> str:
        """The tenant's name in the timeline of a request."""
        return f"api:{self.tenant}"

    @property
    def tree(self) -> Tree:
        """The configuration in force."""
        return self.context.config.current()

    @property
    def now(self) -> datetime:
        """The time."""
        return self.context.now()

    @property
    def body(self) -> bytes:
        """The body, within its bounds."""
        return body_of(self.event)

    @property
    def query(self) -> Mapping[str, str]:
        """The query's parameters, each with its last value."""
        return {name: values[-1] for name, values in self.parameters.items() if values}

    @property
    def cursor(self) -> str | None:
        """The place in a list where the call goes on."""
        return self.query.get("cursor")

    @property
    def limit(self) -> int:
        """The most entries that a page may have."""
        return limit_in(self.query.get("limit"))

    @property
    def parameters(self) -> Mapping[str, Sequence[str]]:
        """Every value of each parameter.

        API Gateway's test page sends the last ones alone; other proxies send only all of them.
        """
        many: Mapping[str, Sequence[str]] = self.event.get("multiValueQueryStringParameters") or {}
        last: Mapping[str, str] = self.event.get("queryStringParameters") or {}
        return many or {name: (value,) for name, value in last.items()}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the query or a header: what it means and its JSON schema."""

    name: str
    meaning: str
    shape: dict[str, object]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. ``handler`` is called with the :class:`Call` and what stands in its path.

    ``answers`` gives the shape by status; ``problems`` the statuses of its errors. ``headers`` are
    what the call may carry, ``told`` what its answers may.
    """

    operation: str
    handler: Callable[..., Response[str]]
    method: str
    path: str
    summary: str
    answers: dict[int, type[View] | None]
    problems: tuple[int, ...] = ()
    body: tuple[type[msgspec.Struct], ...] = ()
    body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    reported: tuple[Parameter, ...] = ()
    open: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the query parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


def word(name: str, meaning: str) -> Parameter:
    """A parameter that is a text of some length."""
    return Parameter(
        name=name, meaning=meaning, shape={"type": "string", "minLength": 1, "maxLength": 255}
    )


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

SINCE: Final = Parameter(
    name="since",
    meaning="Only requests queued at this time or later: RFC 3339 with a zone, or epoch ms.",
    shape={"type": "string", "maxLength": 40},
)

PAGE_URL: Final = Parameter(
    name="url",
    meaning="The page, by any URL that is the same page to the biz.",
    shape={"type": "string", "minLength": 1, "maxLength": 8_000},
)

JOB: Final = Parameter(
    name="job",
    meaning="Only what belongs to this job.",
    shape={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
)

#: What any call to a biz may answer: no tenant, no such biz, a part is down.
ANY: Final = (400, 403, 404, 503)
