"""CSS selectors by lexbor. Standard selectors only; inside an item they match the item itself too.

lexbor tries every way in which ancestors can fill ``a b c d``: the number of ways grows with the
depth of the page to the power of the spaces. Selectors with several of them, with ``~``, ``:has``
or ``:nth-...`` are therefore weighed against the page before they run.
"""

from __future__ import annotations

import re
from functools import cache
from math import comb
from typing import TYPE_CHECKING, Final

from crawlfleet.crawling.extract.limits import bounded

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from crawlfleet.crawling.extract.document import Document


_OPAQUE: Final = re.compile(r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|\[[^\]]*+\]|\\.", re.DOTALL)
_TIGHT: Final = re.compile(r"\s*([>+~,|()])\s*")
_SIDEWAYS: Final = re.compile(r"~|:nth-|:only-|:(?:first|last)-of-type")


class CssQuery:
    """One selector.

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
        """The first match in the page, or in ``within``."""
        if self._descents > 1 or self._sideways:
            self._charge(document)
        return (within or document.lexbor).css_first(self.expression)

    def matches(self, document: Document, within: LexborNode | None) -> list[LexborNode]:
        """All matches in document order.

        Raises:
            UnreadableError: too many, or too costly to find.
        """
        found = self._all(document, within)
        bounded(found)  # type: ignore[arg-type]  # only its length is looked at
        return found

    def count(self, document: Document, within: LexborNode | None) -> int:
        """How many there are."""
        return len(self._all(document, within))

    def some(self, document: Document, within: LexborNode | None, most: int) -> list[LexborNode]:
        """The first of them."""
        return self._all(document, within)[:most]

    def _all(self, document: Document, within: LexborNode | None) -> list[LexborNode]:
        if self._descents > 1 or self._sideways:
            self._charge(document)
        return (within or document.lexbor).css(self.expression)

    def _charge(self, document: Document) -> None:
        nodes = document.nodes
        units = float(nodes)
        if self._descents > 1:
            depth = document.depth
            units *= comb(depth, min(self._descents, depth // 2))
        document.meter.spend(units * float(nodes / 2) ** self._sideways)


def weigh(expression: str) -> tuple[int, int]:
    """How often a selector looks up (or, with ``:has``, down) a whole branch, and along siblings.

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
