"""What a call of the API is described by, and what many calls share."""

from typing import Final

import msgspec

from crawlfleet.edge import views
from crawlfleet.edge.inputs import LARGEST_PAGE, PAGE


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
