"""Bound what reading one page by a rule may cost: limits, their meter, what is compiled once.

A rule and a page are both the tenant's, and the tenant is taken for the attacker (SPEC.md H5).
No engine here can be interrupted, so what an expression may cost is estimated before it runs and
charged in units of about ten nanoseconds; the processor's clock is read between engine calls.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from itertools import takewhile
from threading import Lock
from time import thread_time
from typing import Any, Final, Generic, TypeVar

from crawlfleet.config.documents.rule import Rule, Spider

MATCHES_MAX: Final = 10_000  #: Matches of one field, or items of a page.
#: Bytes of all values of a page together, in UTF-8; a value counts eight at least.
OUTPUT_BYTES_MAX: Final = 5_000_000
UNITS_MAX: Final = 300_000_000  #: Units a page may cost.
#: Units of reading the fields of one context, and of one match beside what finding it costs.
CONTEXT_UNITS: Final = 1_000
MATCH_UNITS: Final = 100
CPU_SECONDS_MAX: Final = 10.0  #: CPU seconds a page may cost, checked between engine calls.
#: Levels of nested fields, ``fields`` of the rule being the first.
LEVELS_MAX: Final = 8
FIELDS_MAX: Final = 500  #: Fields of a rule, nested ones included.
#: Options of libxml2's parsers of XML: nothing is trusted; depth and text are bounded.
XML_OPTIONS: Final[Mapping[str, Any]] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "huge_tree": False,
}
#: CPU seconds in which the place of an error is looked for: to compile an expression takes some.
_PLACING_SECONDS: Final = 0.1
#: Characters that an error quotes of an expression, from the place where it goes wrong.
_REST_SHOWN: Final = 40


class UnreadableError(Exception):
    """A value could not be read; it becomes an ``ExtractError`` once its whole path is known."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.path = ""
        super().__init__(message)

    def within(self, part: str) -> "UnreadableError":
        """Prefix the error's path with one level further out.

        >>> UnreadableError("no").within("price").within("offers[2]").path
        'offers[2].price'
        """
        dot = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{part}{dot}{self.path}"
        return self


class Meter:
    """The cost of a page so far."""

    __slots__ = ("_bytes", "_cpu_seconds", "_deadline", "_units")

    def __init__(self, cpu_seconds: float = CPU_SECONDS_MAX) -> None:
        self._bytes = 0
        self._units = 0.0
        self._cpu_seconds = cpu_seconds
        self._deadline = thread_time() + cpu_seconds

    def spend(self, units: float) -> None:
        """Charge before doing; raises UnreadableError beyond the bound."""
        self._units += units
        if self._units > UNITS_MAX:
            raise UnreadableError("the rule is too costly for a page of this size and depth")

    def tick(self) -> None:
        """Look at the clock; raises UnreadableError where the page has taken too long."""
        if thread_time() > self._deadline:
            raise UnreadableError(f"the page took more than {self._cpu_seconds:g} CPU seconds")

    def keep(self, value: object) -> None:
        """Charge a value that goes into a record; raises UnreadableError beyond the bound."""
        size = 8
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
        self.keep_bytes(size)

    def keep_bytes(self, size: int) -> None:
        """Charge ``size`` bytes of output."""
        self._bytes += size
        if self._bytes > OUTPUT_BYTES_MAX:
            raise UnreadableError(f"the page gives more than {OUTPUT_BYTES_MAX:,} bytes of values")


D = TypeVar("D", Rule, Spider)
M = TypeVar("M")


class Kept(Generic[D, M]):
    """Keep what is made of rules or spiders; the least recently used goes first. Thread-safe."""

    def __init__(self, make: Callable[[D], M], most: int) -> None:
        self._make: Callable[[D], M] = make
        self._most = most
        self._made: OrderedDict[tuple[str, Hashable], M] = OrderedDict()
        self._last: tuple[D, Hashable, M] | None = None
        self._lock = Lock()

    def of(self, document: D, owner: Hashable = None) -> M:
        """Return what was made of the document for its owner, made now if need be."""
        last = self._last
        if last is not None and last[0] is document and last[1] == owner:
            return last[2]
        # It holds mappings and has no hash; its version stands for all it says.
        version = document.version, owner
        with self._lock:
            made = self._made.get(version)
            if made is not None:
                self._made.move_to_end(version)
        if made is None:
            made = self._make(document)
            with self._lock:
                self._made[version] = made
                while len(self._made) > self._most:
                    self._made.popitem(last=False)
        self._last = (document, owner, made)
        return made


def position_of(expression: str, is_readable: Callable[[str], bool]) -> str:
    """Say from which character on an expression cannot be read: behind its longest right beginning.

    >>> position_of("a > > b", lambda text: text in {"a", "a "})
    "from character 3 on: '> > b'"
    """
    until = thread_time() + _PLACING_SECONDS
    ends = takewhile(lambda _: thread_time() < until, range(len(expression) - 1, 0, -1))
    at = next((end for end in ends if is_readable(expression[:end])), 0)
    rest = expression[at:] or expression
    at += len(rest) - len(rest.lstrip())
    return f"from character {at + 1} on: {expression[at:][:_REST_SHOWN]!r}"
