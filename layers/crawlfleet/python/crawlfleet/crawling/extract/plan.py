"""A compiled rule at work: contexts in, values out. Nothing is decided here that a rule says.

A context is the page itself (:data:`PAGE`), or one match of a selector: an element, a JSON value,
or a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from crawlfleet.crawling.extract.limits import CONTEXT_UNITS, UnreadableError

if TYPE_CHECKING:
    from crawlfleet.crawling.extract.document import Document


#: The context of a page's own fields.
PAGE: Final = None

Context = object
Read = Callable[["Document", Context], object]
#: Gives the values that a field found, None among them where a match has no such value.
ReadMany = Callable[["Document", Context], Sequence[object]]
#: A value to its final form, or None where it is missing after all.
Finish = Callable[["Document", object], object]


class Given(Protocol):
    """The values that a field finds, before it makes of them what it keeps."""

    def single(self, document: Document, context: Context) -> object:
        """The first value, or None."""
        ...

    def several(self, document: Document, context: Context) -> Sequence[object]:
        """All values; one match without a value is a None among them."""
        ...

    def finished(self, finish: Finish) -> Given:
        """The same values, each in its final form."""
        ...


class Named(NamedTuple):
    """A field of a group."""

    name: str
    read: Read


class Group:
    """Fields that are read together; ``scoped`` ones search the branch of each context."""

    __slots__ = ("fields", "names", "scoped")

    def __init__(self, fields: Sequence[Named], scoped: int) -> None:
        self.fields = tuple(fields)
        self.names = tuple(field.name for field in fields)
        self.scoped = scoped

    def read(self, document: Document, context: Context) -> dict[str, object]:
        """The fields of one context."""
        values: dict[str, object] = {}
        for name, read in self.fields:
            try:
                values[name] = read(document, context)
            except UnreadableError as error:
                raise error.within(name) from error.__cause__
        return values

    def read_all(
        self, document: Document, contexts: Sequence[Context], label: str
    ) -> list[dict[str, object]]:
        """The fields of each context; errors carry its number after ``label``."""
        self.charge(document, len(contexts))
        found: list[dict[str, object]] = []
        for number, context in enumerate(contexts):
            document.meter.tick()
            try:
                found.append(self.read(document, context))
            except UnreadableError as error:
                if error.path:
                    error.path = f"{label}[{number}].{error.path}"
                raise
        return found

    def charge(self, document: Document, contexts: int) -> None:
        """Branches lie inside each other no deeper than the page is deep."""
        document.meter.spend(contexts * CONTEXT_UNITS)
        if not self.scoped or not contexts:
            return
        visits = contexts * document.nodes
        if visits * self.scoped > 10_000_000:
            depth = document.depth if document.source == "html" else document.tree_depth
            visits = min(visits, document.nodes * depth)
        document.meter.spend(visits * self.scoped / 4)
