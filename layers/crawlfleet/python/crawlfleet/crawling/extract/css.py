"""CSS selectors by lexbor, with the pseudo-elements that Scrapy adds to them.

Standard selectors only; inside an item they match the item itself too. lexbor tries every way in
which ancestors can fill ``a b c d``: the number of ways grows with the depth of the page to the
power of the spaces. Selectors with several of them, with ``~``, ``:has`` or ``:nth-...`` are
therefore weighed against the page before they run.

``::text`` finds the texts that stand directly in the elements, each by itself, and ``::attr(x)``
the attributes of that name, as in Scrapy; the matches are texts then, not elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from math import comb
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crawlfleet.crawling.extract.limits import MATCH_UNITS, position_of
from crawlfleet.crawling.extract.plan import Query

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from crawlfleet.crawling.extract.document import Document

_STRING: Final = r"\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'"
#: What hides nothing that costs: comments, strings, attributes, escaped characters.
_OPAQUE: Final = re.compile(
    rf"/\*.*?\*/|{_STRING}|\[(?:{_STRING}|\\.|[^\]\"'\\])*+\]"
    r"|\\(?:(?P<code>[0-9a-fA-F]{1,6})\s?|(?P<one>.))",
    re.DOTALL,
)
_TIGHT: Final = re.compile(r"\s*([>+~,|()])\s*")
_SIDEWAYS: Final = re.compile(r"~|:nth-|:only-|:(?:first|last)-of-type")


class CssQuery(Query):
    """A CSS selector. Raises ValueError: lexbor cannot read it, and from where on."""

    __slots__ = ("_descents", "_sideways", "expression")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        if not _is_selector(expression):
            where = position_of(expression, _is_readable)
            raise ValueError(f"not a CSS selector that lexbor reads, {where}")
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

    >>> weigh("ul li > a[title='x y'] , p"), weigh("li:nth-child(2) ~ li"), weigh("p:HAS(a)")
    ((1, 0), (0, 2), (2, 0))
    """
    bare = _TIGHT.sub(r"\1", _OPAQUE.sub(_meant, expression).strip()).lower()
    descents = sum(map(str.isspace, re.sub(r"\s+", " ", bare))) + 2 * bare.count(":has(")
    if "(" not in bare and "," in bare:
        descents = max(re.sub(r"\s+", " ", part).count(" ") for part in bare.split(","))
    return descents, len(_SIDEWAYS.findall(bare))


def _meant(found: re.Match[str]) -> str:
    r"""Return what an escape stands for, if it may be part of a name: ``:h\61s`` is ``:has``."""
    text = found["one"] or ""
    if found["code"] is not None:
        code = int(found["code"], 16)
        text = chr(code) if code < 128 else ""
    if found[0].startswith("/*"):
        return " "
    return text if text.isalnum() or text == "-" else "x"


#: ``::text`` or ``::attr(name)`` at the end of a selector.
_TAKEN: Final = re.compile(r"::(?:text|attr\(\s*([^\s()'\"]+)\s*\))\s*\Z")
_BRACED: Final = re.compile(r"\([^()]*\)")


class Taken(NamedTuple):
    """A selector of elements, and what is taken of them: an attribute, or their texts (None)."""

    elements: str
    attribute: str | None


@lru_cache(maxsize=1024)
def taken_by(expression: str) -> Taken | None:
    """Take a selector apart from Scrapy's pseudo-element behind it; None where it has none.

    Raises ValueError: its alternatives do not agree.

    >>> taken_by("li a::attr(href)"), taken_by("ul ::text"), taken_by("a[title='::text']")
    (Taken(elements='li a', attribute='href'), Taken(elements='ul, ul *', attribute=None), None)
    """
    if "::" not in expression:
        return None
    parts = [(part, _TAKEN.search(part)) for part in _alternatives(expression)]
    kinds = {None if found is None else (found[0].strip()[:6], found[1]) for _, found in parts}
    if kinds == {None}:
        return None
    if len(kinds) > 1:
        raise ValueError("says ::text or ::attr() of some alternatives: say the same of each")
    elements = [part[: found.start()] for part, found in parts if found is not None]
    [(_, attribute)] = (kind for kind in kinds if kind is not None)
    return Taken(", ".join(map(_whole, elements)), attribute)


def _whole(part: str) -> str:
    """Write what stands before a pseudo-element as a selector; a blank there means all inside."""
    part = part.removesuffix("*") if part[-2:-1].isspace() else part
    if part.strip()[-1:] in {"", ">", "+", "~"}:
        return f"{part.strip()} *".strip()
    return f"{part.strip()}, {part.strip()} *" if part[-1:].isspace() else part.strip()


def takes_texts(expression: str) -> bool:
    """Tell whether a selector finds texts, and no elements, at least by one alternative."""
    return "::" in expression and any(map(_TAKEN.search, _alternatives(expression)))


def _alternatives(expression: str) -> Iterator[str]:
    """Split a selector at its commas, but for those in strings and brackets."""
    blind = _OPAQUE.sub(lambda found: "x" * len(found[0]), expression)
    while (fewer := _BRACED.sub(lambda found: "x" * len(found[0]), blind)) != blind:
        blind = fewer
    begin = 0
    for comma in (*(at for at, character in enumerate(blind) if character == ","), len(blind)):
        yield expression[begin:comma]
        begin = comma + 1


def css_query(expression: str) -> Query:
    """Compile a selector, Scrapy's pseudo-elements included.

    Raises ValueError: it cannot be read.
    """
    taken = taken_by(expression)
    if taken is None:
        return CssQuery(expression)
    if not _is_selector(taken.elements):
        where = position_of(expression, _is_readable)
        raise ValueError(f"not a CSS selector that lexbor reads, {where}")
    return CssTexts(CssQuery(taken.elements), taken.attribute)


class CssTexts(Query):
    """The texts that stand directly in the elements of a query, or their values of an attribute."""

    __slots__ = ("attribute", "elements")

    def __init__(self, elements: CssQuery, attribute: str | None) -> None:
        self.elements, self.attribute = elements, attribute

    def some(self, document: Document, within: Any, most: int | None) -> list[str]:
        """Return the first ``most`` texts; None is all. Elements without one are no matches."""
        nodes = self.elements.some(document, within, None)
        if self.attribute is None:
            document.meter.spend(document.nodes)
            return list(islice(_texts_of(nodes), most))
        document.meter.spend(len(nodes) * MATCH_UNITS)
        holders = (each for node in nodes if self.attribute in (each := node.attributes))
        return [each[self.attribute] or "" for each in islice(holders, most)]


def _texts_of(nodes: list[LexborNode]) -> Iterator[str]:
    """Yield the texts that stand directly in elements, in the page's order."""
    wanted = {node.mem_id for node in nodes}
    done: set[int] = set()
    for top in nodes:
        waiting = [] if top.mem_id in done else [(True, top.iter(include_text=True))]
        while waiting:
            is_wanted, children = waiting[-1]
            child = next(children, None)
            if child is None:
                waiting.pop()
            elif child.tag == "-text":
                if is_wanted:
                    yield child.text(deep=False)
            elif len(wanted) > 1:
                inner = child.mem_id
                done.add(inner)
                waiting.append((inner in wanted, child.iter(include_text=True)))


def _is_readable(expression: str) -> bool:
    try:
        taken = taken_by(expression)
    except ValueError:
        return False
    read = expression if taken is None else taken.elements
    return _is_selector(read) or _is_selector(f"{read}*")  # so that a combinator may end it


def _is_selector(expression: str) -> bool:
    from selectolax.lexbor import SelectolaxError

    try:
        _nothing().css_first(expression)
    except SelectolaxError:
        return False
    except UnicodeEncodeError as error:
        raise ValueError("not valid Unicode") from error
    return True


@cache
def _nothing() -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser("<p>")
