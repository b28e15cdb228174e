"""The JSON shapes that the API writes and the SDK reads, one module a resource.

Every field but those that tell what a thing is has a default, so that a client reads the answers of
an older API; fields that a newer one adds are ignored. The API fills all of them. A moment is a
``datetime`` to those who read; the API writes it as RFC 3339 in UTC with milliseconds
(:func:`crawlfleet.api.responses.at`).
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from crawlfleet.kernel.errors import Problem

_KINDS: Final = [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]
#: Values by name. The API sends no others than these kinds; the client takes whatever a newer one
#: sends.
Scalars: TypeAlias = Annotated[
    dict[str, Any], Meta(extra_json_schema={"additionalProperties": {"anyOf": _KINDS}})
]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Base of a page of a list, whose first field has the entries; ``cursor`` is where to go on."""

    cursor: str | None = None
    more: bool = False

    @property
    def items(self) -> tuple[Any, ...]:
        """The entries."""
        found: tuple[Any, ...] = getattr(self, self.__struct_fields__[0])
        return found


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem (RFC 9457): why the API refused or failed.

    ``errors`` names each field that is wrong; ``type`` is stable, for programs. Where a limit
    stands against the call, ``limit`` is its setting, of which there is ``used`` where ``allowed``
    is the most.
    """

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    errors: tuple[Problem, ...] = ()
    limit: str = ""
    used: float | None = None
    allowed: float | None = None

    def __str__(self) -> str:
        said = self.detail or self.title
        named = "; ".join(map(str, self.errors))
        return named if named and said in named else ": ".join(filter(None, (said, named)))
