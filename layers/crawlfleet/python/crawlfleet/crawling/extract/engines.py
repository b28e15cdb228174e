"""The four ways to find something, in one shape, so that a field need not know which it uses.

Each is compiled for a *place*: the page, or a match of the same engine. A query is loaded with its
engine's library when the first rule needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal, Protocol

from crawlfleet.config.documents.rule import Selector, Source, Structured, Take
from crawlfleet.crawling.extract.casts import to_string
from crawlfleet.crawling.extract.limits import MATCHES_MAX, UnreadableError, bounded

if TYPE_CHECKING:
    from crawlfleet.crawling.extract.document import Document


#: What a context is.
#: ``data`` is JSON in which one value and a list of values mean the same.
Place = Literal["page", "css", "xpath", "json", "data", "text"]
#: What is taken of a match.
ValueReader = Callable[[Any], object]
EngineName = Literal["css", "xpath", "json"]

#: What reads which source; ``regex`` reads all.
READS: dict[Source, tuple[EngineName, ...]] = {
    Source.HTML: ("css", "xpath"),
    Source.XML: ("xpath",),
    Source.JSON: ("json",),
    Source.TEXT: (),
}


class Query(Protocol):
    """A compiled selector. ``within`` is None for the page."""

    def first(self, document: Document, within: Any) -> Any:
        """The first match, or None."""
        ...

    def matches(self, document: Document, within: Any) -> list[Any]:
        """All matches in document order."""
        ...

    def count(self, document: Document, within: Any) -> int:
        """How many there are."""
        ...

    def some(self, document: Document, within: Any, most: int) -> list[Any]:
        """The first of them, where more than are kept may be there."""
        ...


def place_inside(selector: Selector, place: Place) -> Place:
    """What a context is inside of a match of the selector."""
    engine = engine_of(selector)
    if engine == "json" and (selector.structured is not None or place == "data"):
        return "data"
    return engine or place


def engine_of(selector: Selector) -> EngineName | None:
    """The engine that a selector names, ``regex`` aside."""
    if selector.css is not None:
        return "css"
    if selector.xpath is not None:
        return "xpath"
    return "json" if selector.json is not None else None


def compile_query(
    engine: EngineName,
    expression: str,
    source: Source,
    place: Place,
    structured: Structured | None = None,
) -> Query:
    """The engine's query for one place, or for the ``structured`` data of a page.

    Raises:
        ValueError: says what is wrong with the expression.
    """
    if engine == "css":
        from crawlfleet.crawling.extract.css import CssQuery

        return CssQuery(expression)
    if engine == "xpath":
        from crawlfleet.crawling.extract.xpath import XPathQuery

        query: Query = XPathQuery(expression, xml=source is Source.XML)
        return query if place == "page" else _InElements(query)
    from crawlfleet.crawling.extract.jsonpath import JsonPathQuery

    json_query = JsonPathQuery(expression)
    if structured is not None:
        return _Spread(_OfStructured(json_query, structured))
    if place == "data":
        return _Spread(json_query)
    return _OfJsonPage(json_query) if place == "page" else json_query


class _InElements:
    """XPath gives texts too, and in those there is nothing to find."""

    __slots__ = ("_query",)

    def __init__(self, query: Query) -> None:
        self._query = query

    def first(self, document: Document, within: Any) -> Any:
        return self._query.first(document, _element(within))

    def matches(self, document: Document, within: Any) -> list[Any]:
        return self._query.matches(document, _element(within))

    def count(self, document: Document, within: Any) -> int:
        return self._query.count(document, _element(within))

    def some(self, document: Document, within: Any, most: int) -> list[Any]:
        return self._query.some(document, _element(within), most)


def _element(within: Any) -> Any:
    if isinstance(within, str):
        raise UnreadableError("XPath cannot look inside a text or an attribute")
    return within


class _OfJsonPage:
    __slots__ = ("_query",)

    def __init__(self, query: Query) -> None:
        self._query = query

    def _page(self, document: Document) -> Any:
        return document.json

    def first(self, document: Document, within: Any) -> Any:  # noqa: ARG002
        return self._query.first(document, self._page(document))

    def matches(self, document: Document, within: Any) -> list[Any]:  # noqa: ARG002
        return self._query.matches(document, self._page(document))

    def count(self, document: Document, within: Any) -> int:  # noqa: ARG002
        return self._query.count(document, self._page(document))

    def some(self, document: Document, within: Any, most: int) -> list[Any]:  # noqa: ARG002
        return self._query.some(document, self._page(document), most)


class _OfStructured(_OfJsonPage):
    __slots__ = ("_kind",)

    def __init__(self, query: Query, kind: Structured) -> None:
        super().__init__(query)
        self._kind = kind

    def _page(self, document: Document) -> Any:
        return document.structured(self._kind)


class _Spread:
    """What is a list counts as its members."""

    __slots__ = ("_query",)

    def __init__(self, query: Query) -> None:
        self._query = query

    def first(self, document: Document, within: Any) -> Any:
        return next(iter(self.matches(document, within)), None)

    def matches(self, document: Document, within: Any) -> list[Any]:
        return bounded(self.some(document, within, MATCHES_MAX + 1))

    def count(self, document: Document, within: Any) -> int:
        return len(self.matches(document, within))

    def some(self, document: Document, within: Any, most: int) -> list[Any]:
        found: list[Any] = []
        for match in self._query.some(document, within, most):
            if isinstance(match, list):
                found += match[: most - len(found)]
            else:
                found.append(match)
        return found[:most]


def value_reader(place: Place, take: Take, attribute: str | None, source: Source) -> ValueReader:
    """How a value is taken of a match of that place's engine."""
    if place == "css":
        if attribute is not None:
            return lambda node: _css_attribute(node, attribute)
        if take is Take.HTML:
            return lambda node: node.html or ""
        if take is Take.INNER_HTML:
            return lambda node: node.inner_html or ""
        return methodcaller("text")
    if place == "xpath":
        from crawlfleet.crawling.extract import xpath

        if attribute is not None:
            return lambda match: xpath.attribute_of(match, attribute)
        if take is Take.TEXT:
            return xpath.text_of
        inner, xml = take is Take.INNER_HTML, source is Source.XML
        return lambda match: xpath.html_of(match, inner=inner, xml=xml)
    return lambda value: value


def _css_attribute(node: Any, name: str) -> str | None:
    attributes = node.attributes
    return (attributes[name] or "") if name in attributes else None


def source_text(place: Place, source: Source) -> Callable[[Document, Any], str]:
    """What a ``regex`` without another selector reads: the context as it was written."""
    if place == "page":
        return lambda document, _: document.text
    if place == "json":
        return lambda _, value: to_string(value)
    written = value_reader(place, Take.HTML, None, source)
    return lambda _, match: str(written(match))
