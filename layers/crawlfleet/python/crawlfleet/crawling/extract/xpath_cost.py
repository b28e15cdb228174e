"""Charge what an XPath expression may cost on a page, before libxml2 runs it.

libxml2 cannot be interrupted, and its cost is a product: every predicate runs once per candidate,
``//`` inside one searches a branch, an absolute path the whole page, each step's results are
compared with all found before, and two sets of nodes that are compared each node with each other.
Text is charged besides: a function reads all of it below its argument, ``concat`` copies what it
has so far for each argument, and what is searched for or translated is looked for from each
character on. :class:`Cost` keeps the steps and multiplies them out for a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

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
#: These read all text below their arguments.
_READERS: Final = frozenset(
    ("string", "string-length", "normalize-space", "contains", "starts-with", "number", "sum",
     "concat", "translate", "substring", "substring-after", "substring-before", "id", "floor",
     "ceiling", "round")
)  # fmt: skip
#: These look for their second argument, or for each character of it, from each character on.
_SEARCHERS: Final = frozenset(("contains", "substring-after", "substring-before", "translate"))
_AWAY: Final = _WIDE_AXES | {"ancestor", "ancestor-or-self", "parent"}
_PLACES: Final = frozenset((".", "..", "/"))
#: Between these, sets of nodes meet.
_COMPARING: Final = frozenset(("|", "=", "!=", "<", ">", "<=", ">="))
_TOKENS_MAX: Final = 300


class Token(NamedTuple):
    """``kind``: literal, number, symbol, operator, function, test, axis or name."""

    kind: str
    text: str


def tokens_of(expression: str) -> list[Token]:
    """Split an expression into tokens.

    Raises ValueError: it cannot be XPath 1.0, or names what is not offered.

    >>> [token.kind for token in tokens_of("//a[@href]/text()")]
    ['symbol', 'name', 'symbol', 'symbol', 'name', 'symbol', 'symbol', 'test', 'symbol', 'symbol']
    """
    tokens: list[Token] = []
    at, end = 0, len(expression.rstrip())
    while at < end:
        found = _TOKEN.match(expression, at)
        if found is None:
            rest = expression[at:].lstrip()
            raise ValueError(
                f"unexpected {rest[:10]!r}, {at_character(len(expression) - len(rest))}"
            )
        kind = str(found.lastgroup)
        text = found[kind]
        at = found.end()
        if kind == "name":
            try:
                kind = _kind_of_name(text, tokens, expression[at:].lstrip())
            except ValueError as error:
                raise ValueError(f"{error}, {at_character(found.start('name'))}") from None
        elif text == "$":
            raise ValueError(f"variables are not offered, {at_character(at - 1)}")
        elif text == "*" and _ends_operand(tokens):
            kind = "operator"
        elif text == "*":
            kind = "name"
        tokens.append(Token(kind, text))
    if len(tokens) > _TOKENS_MAX:
        raise ValueError(f"more than {_TOKENS_MAX} tokens")
    return tokens


def at_character(index: int) -> str:
    """Say where in an expression something is, counted from 1."""
    return f"at character {index + 1}"


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


_BYTE_UNITS: Final = 0.3  #: Units of reading or copying a character of text.
_ATTRIBUTE_UNITS: Final = 0.03  #: Units of a byte of the page, where only attributes are read.
_PAIR_UNITS: Final = 0.5  #: Units of comparing two nodes, whose texts mostly differ early.
_PAIR_BYTE_UNITS: Final = 0.02  #: Units of a byte of text that both may begin with.


class PageSize(NamedTuple):
    """Upper bounds of a page: its nodes, their depth, its bytes, and its elements of a name.

    ``text`` are the bytes of text of what is searched: the page, or a branch of it.
    """

    nodes: int
    depth: int
    bytes: int
    text: int
    named: Callable[[str], int]


class Step(NamedTuple):
    """A part of an expression.

    ``reach``: child, deep, wide, whole; text (a function reads some, ``weight`` times, and ``name``
    says where: near, all, attributes, or two texts' product); reset (another operand, of two
    sets that meet where ``name`` says so); or into (a predicate, which is ``inner``).
    """

    reach: str
    name: str = ""
    inner: tuple[Step, ...] = ()
    weight: float = 0.0


class Cost:
    """The cost of an expression on a page.

    ``flat``: linear in the page, not worth a charge. ``leaves``: it looks beyond its context.
    """

    __slots__ = ("_steps", "flat", "leaves")

    def __init__(self, tokens: list[Token]) -> None:
        self._steps, _ = _steps(tokens, 0)
        self.leaves = _leave(tokens)
        reaches = [step.reach for step in self._steps]
        self.flat = (
            reaches.count("deep") + reaches.count("whole") <= 1
            and not {"wide", "reset"} & set(reaches)
            and all(0 < step.weight <= 1 for step in self._steps if step.reach == "text")
            and not any(_costly(step.inner) for step in self._steps)
        )

    def units(self, size: PageSize) -> float:
        """Return an upper estimate."""
        return _units(self._steps, 1.0, size)


def _units(steps: tuple[Step, ...], contexts: float, size: PageSize) -> float:
    nodes, depth, whole, text, named = size
    total, running = contexts, contexts
    left: float | None = None  # what the operand before finds that this one meets
    kind = ""  # what that is of: elements near, or attributes
    for reach, name, inner, weight in steps:
        if reach == "reset":
            if left is not None:
                total += _meeting(left, running, contexts, size, kind)
            left, kind = (running if name else None), name
            running = contexts
            continue
        if reach == "into":
            total += _units(inner, running, size)
            continue
        if reach == "text":
            if name == "product":
                total += contexts * text * text * _PAIR_BYTE_UNITS
            elif name == "all":
                total += contexts * text * weight * _BYTE_UNITS
            elif name == "attributes":
                total += max(1.0, contexts / nodes) * whole * weight * _ATTRIBUTE_UNITS
            else:
                nested = text * depth + contexts
                total += min(contexts * text, nested) * weight * _BYTE_UNITS
            continue
        most = nodes if name in {"", "*"} else min(nodes, named(name.rpartition(":")[2]))
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
        total += pairs
        if running > contexts:  # each result is compared with those found before
            total += found * min(found / contexts, most) / 20
        running = min(found, most * contexts)
    if left is not None:
        total += _meeting(left, running, contexts, size, kind)
    return total


def _meeting(left: float, right: float, contexts: float, size: PageSize, kind: str) -> float:
    """Charge two sets of nodes, of all contexts together, each node of which meets each other."""
    nested = size.text * size.depth
    texts = size.bytes if kind == "attributes" else min(left * size.text, nested)
    again = max(1.0, contexts / size.nodes)  # each node is of several contexts then
    compared = min(
        left * min(right / contexts * size.text, nested), right / contexts * texts * again
    )
    return left * right / contexts * _PAIR_UNITS + compared * _PAIR_BYTE_UNITS


def _costly(steps: tuple[Step, ...]) -> bool:
    return any(
        s.reach not in {"child", "reset"} or (s.reach == "reset" and s.name) or _costly(s.inner)
        for s in steps
    )


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
            steps.append(_reading(tokens, at))
        elif kind == "operator" or text in _COMPARING | {",", "+", "-"}:
            if text in _COMPARING - {"|"}:
                steps.append(Step("text", _read_by(tokens, at), weight=1.0))
            meets = text in _COMPARING and _are_sets(tokens, at)
            steps.append(Step("reset", _read_by(tokens, at) if meets else ""))
        elif kind == "name":
            steps.append(Step("child", text))
        at += 1
    return tuple(steps), at


def _reading(tokens: list[Token], at: int) -> Step:
    """Charge a function by its arguments: how often their text is read, and which text it is."""
    arguments = _arguments(tokens, at + 2)
    inside = [token for argument in arguments for token in argument]
    place = "near"
    if any(map(_leave, arguments)):
        place = "all"
    elif inside and all(map(_is_attribute, arguments)):
        place = "attributes"
    name, weight = tokens[at].text, 1.0
    if name == "concat":
        weight = (len(arguments) + 1) / 2  # all that it has is copied for each
    elif name in _SEARCHERS and len(arguments) > 1:
        sought = arguments[1]
        if len(sought) != 1 or sought[0].kind not in {"literal", "number"}:
            return Step("text", "product")
        literal = sought[0].text[1:-1] if sought[0].kind == "literal" else sought[0].text
        # Where the first character does not come again, no two searches go over one character.
        weight = len(literal) if name == "translate" else literal.count(literal[:1] or " ")
    # Each of several texts inside is as long as the page's at most.
    texts = max(1, sum(token.kind in {"name", "test"} or token.text in _PLACES for token in inside))
    return Step("text", place, weight=max(1.0, weight) * texts)


def _read_by(tokens: list[Token], at: int) -> str:
    """Say which text a comparison reads; with numbers and literals of attributes next to none."""
    is_attribute = at > 1 and tokens[at - 2] == Token("symbol", "@")
    is_number = at > 0 and tokens[at - 1].text == ")" and not _are_sets(tokens, at)
    return "attributes" if is_attribute or is_number else "near"


def _leave(tokens: list[Token]) -> bool:
    """Tell whether an expression, or a part of one, looks beyond the branch of its context."""
    return any(
        token.text == ".."
        or (token.kind == "axis" and token.text in _AWAY)
        or (token.kind == "function" and token.text == "id")
        or (token.text in {"/", "//"} and token.kind == "symbol" and not _ends_operand(tokens[:at]))
        for at, token in enumerate(tokens)
    )


def _is_attribute(argument: list[Token]) -> bool:
    if len(argument) == 1:
        return argument[0].kind in {"literal", "number"}
    return argument[:1] == [Token("symbol", "@")] and len(argument) == 2


def _arguments(tokens: list[Token], at: int) -> list[list[Token]]:
    """Split what stands in the parentheses that end behind ``at``."""
    arguments: list[list[Token]] = [[]]
    level = 1
    for token in tokens[at:]:
        if token.kind == "symbol":
            level += (token.text in {"(", "["}) - (token.text in {")", "]"})
        if level == 0:
            break
        if token.text == "," and token.kind == "symbol" and level == 1:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _are_sets(tokens: list[Token], at: int) -> bool:
    """Tell whether the operands around an operator may both be sets of nodes."""
    after = tokens[at + 1] if at + 1 < len(tokens) else Token("symbol", "")
    if after.kind in {"literal", "number", "function"} and after.text != "id":
        return False
    before = tokens[at - 1] if at else Token("symbol", "")
    if before.kind in {"literal", "number"}:
        return False
    if before.text != ")":
        return True
    level = 0
    for place in range(at - 1, -1, -1):
        level += (tokens[place].text == ")") - (tokens[place].text == "(")
        if level == 0:
            opened_by = tokens[place - 1] if place else Token("symbol", "")
            return opened_by.kind != "function" or opened_by.text == "id"
    return True


def _name(tokens: list[Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) and tokens[at].kind == "name" else ""
