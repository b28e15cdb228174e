"""The engines that find something on a page, behind one shape (:class:`.plan.Query`).

Each query is compiled for a *place*: the page, or a match of the same engine. A query is loaded
with its engine's library when the first rule needs it. CSS is lexbor's: standard selectors only;
inside an item they match the item itself too. lexbor tries every way in which ancestors can fill
``a b c d``: the number of ways grows with the depth of the page to the power of the spaces.
Selectors with several of them, with ``~``, ``:has`` or ``:nth-...`` are therefore weighed against
the page before they run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import comb
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Literal

from crawlfleet.config.documents.rule import Selector, Source, Structured, Take
from crawlfleet.crawling.extract.casts import to_string
from crawlfleet.crawling.extract.limits import MATCHES_MAX
from crawlfleet.crawling.extract.plan import Query

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from crawlfleet.crawling.extract.document import Document

#: A kind of context; ``data`` is JSON in which one value and a list of values mean the same.
Place = Literal["page", "css", "xpath", "json", "data", "text"]
#: Takes a value of a match.
ValueReader = Callable[[Any], object]
EngineName = Literal["css", "xpath", "json"]

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
    if engine == "json" and (selector.structured is not None or place == "data"):
        return "data"
    return engine or place


def engine_of(selector: Selector) -> EngineName | None:
    """Return the engine that a selector names, ``regex`` aside."""
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
    """Compile a query for one place, or for the ``structured`` data of a page.

    Raises:
        ValueError: says what is wrong with the expression.
    """
    if engine == "css":
        return CssQuery(expression)
    if engine == "xpath":
        from crawlfleet.crawling.extract.xpath import XPathQuery

        return XPathQuery(expression, xml=source is Source.XML)
    from crawlfleet.crawling.extract.jsonpath import JsonPathQuery

    query = JsonPathQuery(expression)
    if structured is not None:
        return _Spread(_OfPage(query, lambda document: document.structured(structured)))
    if place == "data":
        return _Spread(query)
    return _OfPage(query, lambda document: document.json) if place == "page" else query


class _OfPage(Query):
    """Reads what ``part`` gives of the page."""

    __slots__ = ("_part", "_query")

    def __init__(self, query: Query, part: Callable[[Document], Any]) -> None:
        self._query = query
        self._part = part

    def some(self, document: Document, within: Any, most: int | None) -> list[Any]:  # noqa: ARG002
        return self._query.some(document, self._part(document), most)


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
        most = MATCHES_MAX + 1 if most is None else most
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
        return lambda _, value: to_string(value)
    written = value_reader(place, Take.HTML, None, source)
    return lambda _, match: str(written(match))


_OPAQUE: Final = re.compile(r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|\[[^\]]*+\]|\\.", re.DOTALL)
_TIGHT: Final = re.compile(r"\s*([>+~,|()])\s*")
_SIDEWAYS: Final = re.compile(r"~|:nth-|:only-|:(?:first|last)-of-type")


class CssQuery(Query):
    """A CSS selector.

    Raises:
        ValueError: lexbor cannot read it.
    """

    __slots__ = ("_descents", "_sideways", "expression")

    def __init__(self, expression: str) -> None:
        from selectolax.lexbor import SelectolaxError

        self.expression = expression
        try:
            _nothing().css_first(expression)
        except SelectolaxError as error:
            raise ValueError("not a CSS selector that lexbor reads") from error
        except UnicodeEncodeError as error:
            raise ValueError("not valid Unicode") from error
        self._descents, self._sideways = weigh(expression)

    def first(self, document: Document, within: LexborNode | None) -> LexborNode | None:
        """Return the first match in the page, or in ``within``."""
        self._charge(document)
        return (within or document.lexbor).css_first(self.expression)

    def some(
        self, document: Document, within: LexborNode | None, most: int | None
    ) -> list[LexborNode]:
        """Return the first ``most`` matches; None is all."""
        self._charge(document)
        found = (within or document.lexbor).css(self.expression)
        return found if most is None or len(found) <= most else found[:most]

    def _charge(self, document: Document) -> None:
        if self._descents <= 1 and not self._sideways:
            return
        nodes = document.nodes
        units = float(nodes)
        if self._descents > 1:
            depth = document.depth
            units *= comb(depth, min(self._descents, depth // 2))
        document.meter.spend(units * float(nodes / 2) ** self._sideways)


def weigh(expression: str) -> tuple[int, int]:
    """Count how often a selector searches a whole branch (up or, with ``:has``, down) or siblings.

    >>> weigh("ul li > a[title='x y'] , p"), weigh("li:nth-child(2) ~ li")
    ((1, 0), (0, 2))
    """
    bare = _TIGHT.sub(r"\1", _OPAQUE.sub("x", expression).strip())
    descents = sum(map(str.isspace, re.sub(r"\s+", " ", bare))) + 2 * bare.count(":has(")
    if "(" not in bare and "," in bare:
        descents = max(re.sub(r"\s+", " ", part).count(" ") for part in bare.split(","))
    return descents, len(_SIDEWAYS.findall(bare.lower()))


@cache
def _nothing() -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser("<p>")
