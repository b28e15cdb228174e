"""XPath 1.0 by libxml2, without extensions. Inside an item ``.`` is the item.

In XML, names match whatever their namespace: ``title`` finds every element of that local name,
``media:title`` those that the document writes with that prefix. A query may give elements,
attributes, text, or one string, number or boolean.

What an expression may cost on a page is charged before it runs (``xpath_cost``).
"""

from __future__ import annotations

from html import escape
from typing import Any, Final, TypeAlias

from lxml import etree

from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.limits import UnreadableError
from crawlfleet.crawling.extract.plan import Query
from crawlfleet.crawling.extract.xpath_cost import Cost, PageSize, Token, at_character, tokens_of


def qualify(tokens: list[Token]) -> str:
    """Match names by local name, prefixed ones as the document writes them.

    >>> qualify(tokens_of("//item/media:thumb/@xlink:href"))
    "// * [local-name()='item'] / * [name()='media:thumb'] / @ * [name()='xlink:href']"
    """
    parts: list[str] = []
    for at, token in enumerate(tokens):
        text = token.text
        if token.kind == "name" and text != "*":
            attribute = at > 0 and (
                tokens[at - 1].text == "@"
                or (tokens[at - 1].text == "::" and tokens[at - 2].text == "attribute")
            )
            if text.endswith(":*"):
                text = f"* [starts-with(name(),'{text[:-1]}')]"
            elif ":" in text:
                text = f"* [name()='{text}']"
            elif not attribute:
                text = f"* [local-name()='{text}']"
        parts.append(text)
    return " ".join(parts)


_TEXT: Final = etree.XPath("string()", smart_strings=False)
_LENGTH: Final[Any] = etree.XPath("string-length()")

#: What a match is. lxml gives the type of its elements no other name.
Match: TypeAlias = etree._Element | str  # noqa: SLF001


class XPathQuery(Query):
    """An XPath expression. ``xml`` says that names are matched without their namespaces.

    Raises ValueError: it is no XPath 1.0, or uses variables, extensions or, in HTML, prefixes.
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
            log: list[Any] = list(getattr(error, "error_log", ()))
            where = f", {at_character(log[-1].column)}" if log else ""
            raise ValueError(f"not an XPath 1.0 expression: {error}{where}") from error

    def some(
        self, document: Document, within: etree._Element | None, most: int | None
    ) -> list[Match]:
        """Return the first ``most`` matches; a string, number or boolean is one match, as text."""
        found = self._evaluate(document, within)
        if isinstance(found, list):
            kept = [item for item in found if isinstance(item, str | etree._Element)]  # noqa: SLF001
            return kept[:most]
        if isinstance(found, bool):
            return ["true" if found else "false"]
        if isinstance(found, float):
            return [str(int(found)) if found.is_integer() else repr(found)]
        return [str(found)]

    def first(self, document: Document, within: etree._Element | None) -> Match | None:
        """Return the first match; more than a field may have are refused here, too."""
        found = self.matches(document, within)
        return found[0] if found else None

    def count(self, document: Document, within: etree._Element | None) -> int:
        """Count the matches."""
        found = self._evaluate(document, within)
        return len(found) if isinstance(found, list) else 1

    def _evaluate(self, document: Document, within: Match | None) -> Any:
        if isinstance(within, str):
            raise UnreadableError("XPath cannot look inside a text or an attribute")
        context = document.tree if within is None else within
        if not self._cost.flat:
            branch = document.tree if self._cost.leaves else context
            size = PageSize(
                nodes=document.nodes * 2,
                depth=document.tree_depth,
                bytes=len(document.utf8),
                text=int(_LENGTH(branch)),
                named=document.named,
            )
            document.meter.spend(self._cost.units(size))
        try:
            return self._compiled(context)
        except (etree.LxmlError, ValueError) as error:
            raise UnreadableError(f"XPath: {error}") from error


def text_of(match: Match) -> str:
    """Return the text of an element and all below it; comments and instructions hold none.

    Raises:
        UnreadableError: it is no Unicode: a reference such as ``&#xD800;`` names half a character.
    """
    try:
        return match if isinstance(match, str) else str(_TEXT(match))
    except UnicodeDecodeError as error:
        raise UnreadableError(f"the text of an element cannot be read: {error}") from error


def html_of(match: Match, *, inner: bool, xml: bool) -> str:
    """Return the markup of an element, or (``inner``) of what is in it."""
    if isinstance(match, str):
        return match
    method = "xml" if xml else "html"
    try:
        if not inner:
            return etree.tostring(match, encoding="unicode", method=method, with_tail=False)
        parts = [escape(match.text or "", quote=False)]
        parts += [etree.tostring(item, encoding="unicode", method=method) for item in match]
    except (etree.LxmlError, ValueError) as error:
        raise UnreadableError(f"the element cannot be written as markup: {error}") from error
    return "".join(parts)


def attribute_of(match: Match, name: str) -> str | None:
    """Return an attribute of an element, which must be Unicode as in :func:`text_of`."""
    try:
        return None if isinstance(match, str) else match.get(name)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"the attribute {name} cannot be read: {error}") from error
