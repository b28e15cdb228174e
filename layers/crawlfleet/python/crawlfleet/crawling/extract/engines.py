"""The engines that find something on a page, behind one shape (:class:`.plan.Query`).

Each query is compiled for a *place*: the page, or a match of the same engine. A query is loaded
with its engine's library when the first rule needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Literal

from crawlfleet.config.documents.rule import Selector, Source, Structured, Take
from crawlfleet.crawling.extract import casts, limits
from crawlfleet.crawling.extract.css import css_query, takes_texts
from crawlfleet.crawling.extract.plan import Query

if TYPE_CHECKING:
    from crawlfleet.crawling.extract.document import Document

#: A kind of context; ``data`` is JSON in which one value and a list of values mean the same.
Place = Literal["page", "css", "xpath", "json", "data", "text"]
#: Takes a value of a match.
ValueReader = Callable[[Any], object]
EngineName = Literal["css", "xpath", "json"]

ENGINES: Final[tuple[EngineName, ...]] = ("css", "xpath", "json")
#: The engines that read a source; ``regex`` reads all.
READS: dict[Source, tuple[EngineName, ...]] = {
    Source.HTML: ("css", "xpath"),
    Source.XML: ("xpath",),
    Source.JSON: ("json",),
    Source.TEXT: (),
}


def place_inside(selector: Selector, place: Place) -> Place:
    """Return the kind of context that a match of the selector is."""
    engine = engine_of(selector)
    if engine == "css" and takes_texts(selector.css or ""):
        return "text"
    if engine == "json" and (selector.structured is not None or place == "data"):
        return "data"
    return engine or place


def engine_of(selector: Selector) -> EngineName | None:
    """Return the engine that a selector names, ``regex`` aside."""
    return next((engine for engine in ENGINES if getattr(selector, engine) is not None), None)


def compile_query(
    engine: EngineName,
    expression: str,
    source: Source,
    place: Place,
    structured: Structured | None = None,
) -> Query:
    """Compile a query for one place, or for the ``structured`` data of a page.

    Raises ValueError: says what is wrong with the expression.
    """
    if engine == "css":
        return css_query(expression)
    if engine == "xpath":
        from crawlfleet.crawling.extract.xpath import XPathQuery

        return XPathQuery(expression, xml=source is Source.XML)
    from crawlfleet.crawling.extract.jsonpath import JsonPathQuery

    if structured is not None:
        return _Spread(JsonPathQuery(expression, lambda document: document.structured(structured)))
    if place == "page":
        return JsonPathQuery(expression, lambda document: document.json)
    query = JsonPathQuery(expression)
    return _Spread(query) if place == "data" else query


class _Spread(Query):
    """Gives the members of each list that is found."""

    __slots__ = ("_query",)

    def __init__(self, query: Query) -> None:
        self._query = query

    def first(self, document: Document, within: Any) -> Any:
        return next(iter(self.matches(document, within)), None)

    def count(self, document: Document, within: Any) -> int:
        return len(self.matches(document, within))

    def some(self, document: Document, within: Any, most: int | None) -> list[Any]:
        most = limits.MATCHES_MAX + 1 if most is None else most
        found: list[Any] = []
        for match in self._query.some(document, within, most):
            if isinstance(match, list):
                found += match[: most - len(found)]
            else:
                found.append(match)
        return found[:most]


def value_reader(place: Place, take: Take, attribute: str | None, source: Source) -> ValueReader:
    """Return what takes a value of a match of that place's engine."""
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
    """Return what a ``regex`` without another selector reads: the context as it was written."""
    if place == "page":
        return lambda document, _: document.text
    if place == "json":
        return lambda _, value: casts.to_string(value)
    written = value_reader(place, Take.HTML, None, source)
    return lambda _, match: str(written(match))
