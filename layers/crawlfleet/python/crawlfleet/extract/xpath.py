"""XPath 1.0 by libxml2, without extensions. Inside an item ``.`` is the item.

In XML, names match whatever their namespace: ``title`` finds every element of that local name,
``media:title`` those that the document writes with that prefix. A query may give elements,
attributes, text, or one string, number or boolean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lxml import etree

from crawlfleet.extract.bounds import UnreadableError, bounded
from crawlfleet.extract.xpath_cost import Cost, qualify, tokens_of

if TYPE_CHECKING:
    from crawlfleet.extract.document import Document

_TEXT: Final = etree.XPath("string()", smart_strings=False)

#: What a match is. lxml gives the type of its elements no other name.
Match: TypeAlias = etree._Element | str  # noqa: SLF001


class XPathQuery:
    """One expression. ``xml`` says that names are matched without their namespaces.

    Raises:
        ValueError: it is no XPath 1.0, or uses variables, extensions or, in HTML, prefixes.
    """

    __slots__ = ("_compiled", "_cost")

    def __init__(self, expression: str, *, xml: bool) -> None:
        tokens = tokens_of(expression)
        self._cost = Cost(tokens)
        try:
            etree.XPath(expression, regexp=False)
            self._compiled = etree.XPath(
                qualify(tokens) if xml else expression, regexp=False, smart_strings=False
            )
        except (etree.LxmlError, ValueError) as error:
            raise ValueError(f"not an XPath 1.0 expression: {error}") from error

    def matches(self, document: Document, within: etree._Element | None) -> list[Match]:
        """All matches in document order; a string, number or boolean is one match, as text.

        Raises:
            UnreadableError: too many, too costly, or the evaluation failed.
        """
        found = self._evaluate(document, within)
        if isinstance(found, list):
            bounded(found)
        return self._listed(found)

    def some(self, document: Document, within: etree._Element | None, most: int) -> list[Match]:
        """The first of them."""
        found = self._evaluate(document, within)
        return self._listed(found[:most] if isinstance(found, list) else found)

    def _listed(self, found: Any) -> list[Match]:
        if isinstance(found, list):
            return [item for item in found if isinstance(item, str | etree._Element)]  # noqa: SLF001
        if isinstance(found, bool):
            return ["true" if found else "false"]
        if isinstance(found, float):
            return [str(int(found)) if found.is_integer() else repr(found)]
        return [str(found)]

    def first(self, document: Document, within: etree._Element | None) -> Match | None:
        """The first of them."""
        found = self.matches(document, within)
        return found[0] if found else None

    def count(self, document: Document, within: etree._Element | None) -> int:
        """How many there are."""
        found = self._evaluate(document, within)
        return len(found) if isinstance(found, list) else 1

    def _evaluate(self, document: Document, within: etree._Element | None) -> Any:
        context = document.tree if within is None else within
        if not self._cost.flat:
            document.meter.spend(
                self._cost.units(document.nodes * 2, document.tree_depth, document.named)
            )
        try:
            return self._compiled(context)
        except (etree.LxmlError, ValueError) as error:
            raise UnreadableError(f"XPath: {error}") from error


def text_of(match: Match) -> str:
    """The text of an element and all below it; comments and instructions hold none."""
    return match if isinstance(match, str) else str(_TEXT(match))


def html_of(match: Match, *, inner: bool, xml: bool) -> str:
    """The markup of an element, or of what is in it."""
    if isinstance(match, str):
        return match
    method = "xml" if xml else "html"
    try:
        if not inner:
            return etree.tostring(match, encoding="unicode", method=method, with_tail=False)
        parts = [_escaped(match.text or "")]
        parts += [etree.tostring(item, encoding="unicode", method=method) for item in match]
    except (etree.LxmlError, ValueError) as error:
        raise UnreadableError(f"the element cannot be written as markup: {error}") from error
    return "".join(parts)


def attribute_of(match: Match, name: str) -> str | None:
    """An attribute of an element."""
    return None if isinstance(match, str) else match.get(name)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
