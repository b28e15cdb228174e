"""A compiled rule at work: contexts in, values out. Nothing is decided here that a rule says.

A context is the page itself (:data:`PAGE`), or one match of a selector: an element, a JSON value,
or a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.limits import CONTEXT_UNITS, MATCHES_MAX, UnreadableError

PAGE: Final = None  #: The context of a page's own fields.

Context = object
Read = Callable[["Document", Context], object]
#: Gives the values that a field found, None among them where a match has no such value.
ReadMany = Callable[["Document", Context], Sequence[object]]
#: A value to its final form, or None where it is missing after all.
Finish = Callable[["Document", object], object]


class Query(ABC):
    """A compiled selector. ``within`` is the match that is searched, None for the page.

    An engine says in :meth:`some` how it finds; it overrides what it does faster otherwise.
    """

    __slots__ = ()

    @abstractmethod
    def some(self, document: Document, within: Any, most: int | None) -> list[Any]:
        """Return the first ``most`` matches in document order; None is all."""

    def first(self, document: Document, within: Any) -> Any:
        """Return the first match, or None."""
        return next(iter(self.some(document, within, 1)), None)

    def matches(self, document: Document, within: Any) -> list[Any]:
        """Return all matches.

        Raises UnreadableError: they are too many, too costly to find, or nested too deep.
        """
        found = self.some(document, within, MATCHES_MAX + 1)
        if len(found) > MATCHES_MAX:
            raise UnreadableError(f"more than {MATCHES_MAX:,} matches")
        return found

    def count(self, document: Document, within: Any) -> int:
        """Count the matches."""
        return len(self.some(document, within, None))


class Given(Protocol):
    """The values that a field finds, before it makes of them what it keeps."""

    def single(self, document: Document, context: Context) -> object:
        """Return the first value, or None."""

    def several(self, document: Document, context: Context) -> Sequence[object]:
        """Return all values; one match without a value is a None among them."""


class Finished(NamedTuple):
    """The same values, each in its final form."""

    given: Given
    finish: Finish

    def single(self, document: Document, context: Context) -> object:
        """Return the first value, or None."""
        value = self.given.single(document, context)
        return None if value is None else self.finish(document, value)

    def several(self, document: Document, context: Context) -> Sequence[object]:
        """Return all values; one match without a value is a None among them."""
        values = self.given.several(document, context)
        return [None if value is None else self.finish(document, value) for value in values]


class Group:
    """Fields that are read together; ``scoped`` ones search the branch of each context."""

    __slots__ = ("fields", "names", "scoped")

    def __init__(self, fields: Mapping[str, Read], scoped: int) -> None:
        self.fields = tuple(fields.items())
        self.names = tuple(fields)
        self.scoped = scoped

    def read(self, document: Document, context: Context) -> dict[str, object]:
        """Read the fields of one context."""
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
        """Read the fields of each context; errors carry its number after ``label``."""
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
        """Charge the reading of so many contexts before it is done."""
        document.meter.spend(contexts * CONTEXT_UNITS)
        if not self.scoped or not contexts:
            return
        visits = contexts * document.nodes
        if visits * self.scoped > 10_000_000:
            # Branches lie inside each other no deeper than the page is deep.
            depth = document.depth if document.source == "html" else document.tree_depth
            visits = min(visits, document.nodes * depth)
        document.meter.spend(visits * self.scoped / 4)
