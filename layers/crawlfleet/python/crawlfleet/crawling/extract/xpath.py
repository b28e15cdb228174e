"""XPath 1.0 by libxml2, without extensions. Inside an item ``.`` is the item.

In XML, names match whatever their namespace: ``title`` finds every element of that local name,
``media:title`` those that the document writes with that prefix. A query may give elements,
attributes, text, or one string, number or boolean.

libxml2 cannot be interrupted, and its cost is a product: every predicate runs once per candidate,
``//`` inside one searches a branch, an absolute path the whole page, and each step's results are
compared with all found before. :class:`Cost` keeps the steps and multiplies them out for a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lxml import etree

from crawlfleet.crawling.extract.limits import UnreadableError
from crawlfleet.crawling.extract.plan import Query

if TYPE_CHECKING:
    from crawlfleet.crawling.extract.document import Document


_TOKEN: Final = re.compile(
    r"\s*(?:(?P<literal>\"[^\"]*\"|'[^']*')|(?P<number>\d+(?:\.\d*)?|\.\d+)"
    r"|(?P<symbol>//|::|\.\.|!=|<=|>=|[/@\[\]().,|+=<>*$-])"
    r"|(?P<name>[^\W\d][\w.-]*(?::(?!:)(?:[^\W\d][\w.-]*|\*))?))"
)
_FUNCTIONS: Final = frozenset(
    (
        "boolean", "ceiling", "concat", "contains", "count", "false", "floor", "id", "lang", "last",
        "local-name", "name", "namespace-uri", "normalize-space", "not", "number", "position",
        "round", "starts-with", "string", "string-length", "substring", "substring-after",
        "substring-before", "sum", "translate", "true",
    )
)  # fmt: skip
_NODE_TESTS: Final = frozenset(("node", "text", "comment", "processing-instruction"))
_OPERATORS: Final = frozenset(("and", "or", "div", "mod"))
_DEEP_AXES: Final = frozenset(("descendant", "descendant-or-self", "ancestor", "ancestor-or-self"))
_WIDE_AXES: Final = frozenset(
    ("following", "preceding", "following-sibling", "preceding-sibling", "namespace")
)
_AXES: Final = _DEEP_AXES | _WIDE_AXES | {"self", "child", "parent", "attribute"}
#: These read all text below their argument.
_READERS: Final = frozenset(
    ("string", "string-length", "normalize-space", "contains", "starts-with", "number", "sum",
     "concat", "translate", "substring", "substring-after", "substring-before", "boolean")
)  # fmt: skip
#: Between these, sets of nodes meet.
_COMPARING: Final = frozenset(("|", "=", "!=", "<", ">", "<=", ">="))
_TOKENS_MAX: Final = 300


class Token(NamedTuple):
    """``kind``: literal, number, symbol, operator, function, test, axis or name."""

    kind: str
    text: str


def tokens_of(expression: str) -> list[Token]:
    """Split an expression into tokens.

    Raises:
        ValueError: it cannot be XPath 1.0, or names what is not offered.

    >>> [token.kind for token in tokens_of("//a[@href]/text()")]
    ['symbol', 'name', 'symbol', 'symbol', 'name', 'symbol', 'symbol', 'test', 'symbol', 'symbol']
    """
    tokens: list[Token] = []
    at, end = 0, len(expression.rstrip())
    while at < end:
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ValueError(f"unexpected {expression[at : at + 10]!r}")
        kind = str(found.lastgroup)
        text = found[kind]
        at = found.end()
        if kind == "name":
            kind = _kind_of_name(text, tokens, expression[at:].lstrip())
        elif text == "$":
            raise ValueError("variables are not offered")
        elif text == "*" and _ends_operand(tokens):
            kind = "operator"
        elif text == "*":
            kind = "name"
        tokens.append(Token(kind, text))
    if len(tokens) > _TOKENS_MAX:
        raise ValueError(f"more than {_TOKENS_MAX} tokens")
    return tokens


def _kind_of_name(text: str, before: list[Token], after: str) -> str:
    if text in _OPERATORS and _ends_operand(before):
        return "operator"
    if after.startswith("::"):
        if text not in _AXES:
            raise ValueError(f"no axis is called {text}")
        return "axis"
    if after.startswith("("):
        if text in _NODE_TESTS:
            return "test"
        if text not in _FUNCTIONS:
            raise ValueError(f"no function of XPath 1.0 is called {text}")
        return "function"
    return "name"


def _ends_operand(tokens: list[Token]) -> bool:
    if not tokens:
        return False
    last = tokens[-1]
    return last.kind in {"literal", "number", "name"} or last.text in {")", "]", ".", ".."}


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


class Step(NamedTuple):
    """``reach``: child, deep, wide, whole, reset, or into (a predicate, which is ``inner``)."""

    reach: str
    name: str = ""
    inner: tuple[Step, ...] = ()


class Cost:
    """The cost of an expression on a page. ``flat``: linear in the page, not worth a charge."""

    __slots__ = ("_steps", "flat")

    def __init__(self, tokens: list[Token]) -> None:
        self._steps, _ = _steps(tokens, 0)
        reaches = [step.reach for step in self._steps]
        self.flat = (
            reaches.count("deep") + reaches.count("whole") <= 1
            and not {"wide", "reset"} & set(reaches)
            and not any(_costly(step.inner) for step in self._steps)
        )

    def units(self, nodes: int, depth: int, named: Callable[[str], int]) -> float:
        """Return an upper estimate; ``named`` bounds the elements of a name."""
        return _units(self._steps, 1.0, nodes, depth, named, top=True)


def _costly(steps: tuple[Step, ...]) -> bool:
    return any(s.reach not in {"child", "reset"} or _costly(s.inner) for s in steps)


def _steps(tokens: list[Token], at: int) -> tuple[tuple[Step, ...], int]:
    steps: list[Step] = []
    while at < len(tokens):
        kind, text = tokens[at]
        operand = at > 0 and (_ends_operand(tokens[:at]) and tokens[at - 1].text != "[")
        if text == "]":
            return tuple(steps), at + 1
        if text == "[":
            inner, at = _steps(tokens, at + 1)
            steps.append(Step("into", inner=inner))
            continue
        if text in {"//", "/"} and kind == "symbol":
            if not operand:
                steps.append(Step("whole", _name(tokens, at + 1) if text == "//" else ""))
            elif text == "//":
                steps.append(Step("deep", _name(tokens, at + 1)))
        elif kind == "axis" and text in _WIDE_AXES | _DEEP_AXES:
            reach = "wide" if text in _WIDE_AXES else "deep"
            steps.append(Step(reach, _name(tokens, at + 2)))
        elif kind == "function" and text in _READERS:
            steps.append(Step("deep"))
        elif kind == "operator" or text in _COMPARING | {",", "+", "-"}:
            # Comparing compares sets of nodes by their text.
            steps.append(Step("reset", "|" if text in _COMPARING else ""))
        elif kind == "name":
            steps.append(Step("child", text))
        at += 1
    return tuple(steps), at


def _name(tokens: list[Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) and tokens[at].kind == "name" else ""


def _units(
    steps: tuple[Step, ...],
    contexts: float,
    nodes: int,
    depth: int,
    named: Callable[[str], int],
    *,
    top: bool,
) -> float:
    total, running = contexts, contexts
    for reach, name, inner in steps:
        if reach == "reset":
            total += running * min(running, nodes) / 20 if name and top else 0
            running = contexts
            continue
        if reach == "into":
            total += _units(inner, running, nodes, depth, named, top=False)
            continue
        most = nodes if not name or name == "*" else min(nodes, named(name.rpartition(":")[2]))
        if reach == "child":
            running = min(running * most, max(running, most))
            total += running
            continue
        if reach == "deep":
            pairs = min(running * nodes, max(running, nodes) * depth)
            found = min(running * most, max(running, most) * depth)
        else:
            pairs = running * nodes
            found = running * most
        several = running > 1
        total += pairs
        if several and top:
            total += found * most / 20  # each result is compared with those found before
        running = min(found, most) if top else found
    return total


_TEXT: Final = etree.XPath("string()", smart_strings=False)

#: What a match is. lxml gives the type of its elements no other name.
Match: TypeAlias = etree._Element | str  # noqa: SLF001


class XPathQuery(Query):
    """An XPath expression. ``xml`` says that names are matched without their namespaces.

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

    def some(
        self, document: Document, within: etree._Element | None, most: int | None
    ) -> list[Match]:
        """Return the first ``most`` matches; a string, number or boolean is one match, as text."""
        found = self._evaluate(document, within)
        if isinstance(found, list):
            return [item for item in found[:most] if isinstance(item, str | etree._Element)]  # noqa: SLF001
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
            document.meter.spend(
                self._cost.units(document.nodes * 2, document.tree_depth, document.named)
            )
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
        parts = [_escaped(match.text or "")]
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


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
