"""JSONPath (RFC 9535) by python-jsonpath, metered: filters are data, functions are ours.

Inside an item ``$`` is the item. ``match`` and ``search`` run on RE2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Final

from jsonpath import JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathError
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.parse import Parser
from jsonpath.segments import JSONPathChildSegment, JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.stream import TokenStream

from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.limits import Meter, UnreadableError
from crawlfleet.crawling.extract.plan import Query
from crawlfleet.crawling.extract.regex import RegexQuery

_NODE_UNITS: Final = 150  #: Units of looking at one node.
_CHARACTERS_A_UNIT: Final = 50  #: Characters that are searched for a unit.
#: What patterns of filters may be, which a page may have written: their length, the memory and the
#: units that each takes until it is compiled, and how many stay compiled.
_PATTERN_LENGTH: Final = 1_000
_PATTERN_MEMORY: Final = 1_048_576
_PATTERN_UNITS: Final = 1_500_000
_PATTERNS_KEPT: Final = 32
_SEARCHED: Final = 100_000  #: Characters of a text that a pattern is searched in.
_SEARCH_UNITS: Final = 200
_METER: Final = "meter"  #: Under this name the meter goes along with the evaluation.
#: The same for functions in filters, which know nothing of the evaluation.
_metering: Final[ContextVar[Meter | None]] = ContextVar("metering", default=None)


class JsonPathQuery(Query):
    """A JSONPath expression; ``part`` gives what of the page it reads, where that is no match.

    Raises ValueError: it is no JSONPath.
    """

    __slots__ = ("_part", "_path")

    def __init__(self, expression: str, part: Callable[[Document], object] | None = None) -> None:
        self._part = part
        try:
            self._path = _environment().compile(expression)
        except (JSONPathError, RecursionError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            token = getattr(error, "token", None)
            if token is not None:
                at = len(expression) if token.index < 0 else token.index
                reason += f", at character {at + 1}"
            raise ValueError(f"not a JSONPath: {reason}") from error

    def some(self, document: Document, within: object, most: int | None) -> list[object]:
        """Return the first ``most`` matches, JSON's own null among them; None is all."""
        within = within if self._part is None else self._part(document)
        if not isinstance(within, dict | list):
            # The library would take a text for a document.
            return [within] if str(self._path) == "$" else []
        asked_by = _metering.set(document.meter)
        try:
            found = self._path.finditer(within, filter_context={_METER: document.meter})
            return [match.obj for match in islice(found, most)]
        except (JSONPathError, RecursionError, ArithmeticError, TypeError) as error:
            raise UnreadableError(f"JSONPath: {str(error).partition(chr(10))[0]}") from error
        finally:
            _metering.reset(asked_by)


class _MeteredMatch(JSONPathMatch):
    """Charges every node that is visited, and keeps no path to it."""

    __slots__ = ()

    def new_child(self, obj: object, key: int | str) -> _MeteredMatch:  # noqa: ARG002
        context = self._filter_context
        meter = context.get(_METER) if context else None
        if meter is not None:
            meter.spend(_NODE_UNITS)
        return _MeteredMatch(
            filter_context=context, obj=obj, parent=None, parts=(), path="", root=self.root
        )

    def add_child(self, *children: JSONPathMatch) -> None:
        """Do nothing: the children of a match are never read."""


def _metered(node: JSONPathMatch) -> JSONPathMatch:
    if isinstance(node, _MeteredMatch):
        return node
    return _MeteredMatch(
        filter_context=node.filter_context(),
        obj=node.obj,
        parent=None,
        parts=(),
        path="",
        root=node.root,
    )


class _Child(JSONPathChildSegment):
    def resolve(self, nodes: Iterable[JSONPathMatch]) -> Iterable[JSONPathMatch]:
        return super().resolve(map(_metered, nodes))


class _Descent(JSONPathRecursiveDescentSegment):
    def resolve(self, nodes: Iterable[JSONPathMatch]) -> Iterable[JSONPathMatch]:
        return super().resolve(map(_metered, nodes))


class _Parser(Parser):
    """Every query, those inside filters too, begins with a metered node."""

    def parse_query(self, stream: TokenStream) -> Iterable[JSONPathSegment]:
        for segment in super().parse_query(stream):
            child = isinstance(segment, JSONPathChildSegment)
            metered: type[_Child | _Descent] = _Child if child else _Descent
            yield metered(env=segment.env, token=segment.token, selectors=segment.selectors)


class _Matches(FilterFunction):
    """``match`` and ``search`` without a back-tracking engine."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012  the library's shape
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._form = r"\A(?:%s)\z" if whole else "%s"

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        if len(pattern) > _PATTERN_LENGTH:
            return False
        text, meter, expression = text[:_SEARCHED], _metering.get(), self._form % pattern
        if meter is not None:
            meter.spend(_SEARCH_UNITS + len(text) / _CHARACTERS_A_UNIT)
        query = _patterns.get(expression)
        if query is None:
            if meter is not None:
                meter.spend(_PATTERN_UNITS)
                meter.tick()
            query = _compiled(expression)
            while len(_patterns) >= _PATTERNS_KEPT:
                _patterns.pop(next(iter(_patterns)), None)
            _patterns[expression] = query
        return query is not _NO_PATTERN and query.found_in(text, meter)


#: A pattern that cannot be compiled finds nothing.
_NO_PATTERN: Final = RegexQuery(".")
_patterns: dict[str, RegexQuery] = {}


def _compiled(expression: str) -> RegexQuery:
    try:
        return RegexQuery(expression, memory=_PATTERN_MEMORY, placed=False)
    except ValueError:
        return _NO_PATTERN


class _Environment(JSONPathEnvironment):
    match_class = _MeteredMatch
    parser_class = _Parser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Matches(whole=True)
        self.function_extensions["search"] = _Matches(whole=False)


@cache
def _environment() -> _Environment:
    return _Environment(strict=True)
