"""Regular expressions by RE2: linear in the text whatever a tenant writes.

Linear is not quick: where RE2 cannot keep its states it carries each of them from byte to byte, at
some 15 ns an instruction, so ``(?:(?:a|ab){1,30}){1,30}x`` would read a page of a megabyte for a
minute. Nothing can interrupt it. So what a search may cost at worst is bounded before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Protocol

from crawlfleet.crawling.extract.limits import (
    MATCHES_MAX,
    OUTPUT_BYTES_MAX,
    Meter,
    UnreadableError,
    position_of,
)

MEMORY_MAX: Final = 8_388_608  #: Bytes that one compiled expression may use.
#: Instructions that one compiled expression may have. A class of all letters has 1,200.
PROGRAM_MAX: Final = 10_000
#: Instructions times characters of one search: at worst some 20 seconds.
SEARCH_MAX: Final = 1_000_000_000
_LONG: Final = 20_000  #: After so many, at worst some 0.4 ms, the clock is read.


class Ticking(Protocol):
    """Bound the time of a page: a rule's meter, or the context of an executor."""

    def tick(self) -> object:
        """Raise where the page has taken too long."""
        ...


class RegexQuery:
    r"""A compiled expression. A match counts as its first group, or the whole where it has none.

    ``placed`` says whether an error names the place, which takes compiling it again and again.

    Raises:
        ValueError: RE2 cannot read the expression (it has no look-around and no back-references).

    >>> from crawlfleet.crawling.extract.limits import Meter
    >>> list(RegexQuery(r"(\d+) EUR").values("3 EUR, 4 EUR", Meter()))
    ['3', '4']
    """

    __slots__ = ("_group", "_pattern", "_size")

    def __init__(self, expression: str, memory: int = MEMORY_MAX, *, placed: bool = True) -> None:
        import re2

        options = re2.Options()
        options.max_mem = memory
        options.log_errors = False
        try:
            self._pattern: Any = re2.compile(expression, options)
        except re2.error as error:
            where = ""
            if placed:
                where = f", {position_of(expression, partial(_is_readable, options=options))}"
            raise ValueError(f"{_sentence(error)}{where}") from error
        except UnicodeEncodeError as error:
            raise ValueError("not valid Unicode") from error
        self._group = 1 if self._pattern.groups else 0
        self._size: int = self._pattern.programsize
        if self._size > PROGRAM_MAX:
            raise ValueError("is too large once its repetitions are written out")

    def _afford(self, length: int, meter: Ticking | None) -> None:
        cost = self._size * length
        if cost > SEARCH_MAX:
            raise UnreadableError(f"the expression is too costly for {length:,} characters")
        if cost > _LONG and meter is not None:
            meter.tick()

    def first(self, text: str, meter: Meter | None = None) -> str | None:
        """Return the first match; None without one, or where the group took no part in it.

        Raises UnreadableError: the text is too long for the expression, or the page took too long.
        """
        self._afford(len(text), meter)
        found = self._pattern.search(text)
        value: str | None = found[self._group] if found else None
        return value

    def found_in(self, text: str, meter: Ticking | None = None) -> bool:
        """Tell whether there is a match; raises as :meth:`first`."""
        self._afford(len(text), meter)
        return self._pattern.search(text) is not None

    def values(self, text: str, meter: Meter) -> list[str]:
        """Return all matches in order, without those in which the group took no part.

        Raises UnreadableError: they are too many, or take too long to find.
        """
        groups = (found[self._group] for found in self._matches(text, meter))
        return [value for value in groups if value is not None]

    def _matches(self, text: str, meter: Meter) -> Iterator[Any]:
        self._afford(len(text), meter)
        at = 0
        for count, found in enumerate(self._pattern.finditer(text)):
            if count >= MATCHES_MAX:
                raise UnreadableError(f"more than {MATCHES_MAX:,} matches")
            # Each search may look as far as the end of the text.
            meter.spend((len(text) - at) / 100)
            if count % 64 == 0 or self._size * (len(text) - at) > _LONG:
                meter.tick()
            at = found.end()
            yield found

    def replacement(self, template: str) -> list[str | int]:
        r"""Split a template into its texts and the numbers of the groups between them.

        Raises ValueError: it names a group that the expression has not.

        >>> RegexQuery(r"(\d+)-(\d+)").replacement(r"\2/\1")
        ['', 2, '/', 1, '']
        """
        parts: list[str | int] = []
        text = ""
        at = 0
        while at < len(template):
            character = template[at]
            following = template[at + 1 : at + 2]
            if character == "\\" and following.isdecimal() and following.isascii():
                if int(following) > self._pattern.groups:
                    raise ValueError(f"there is no group {following} in the pattern")
                parts += [text, int(following)]
                text = ""
            elif character == "\\" and following in {"n", "t", "\\"}:
                text += {"n": "\n", "t": "\t"}.get(following, following)
            elif character == "\\":
                raise ValueError("a backslash stands before a digit, n, t or a backslash")
            else:
                text += character
                at -= 1
            at += 2
        return [*parts, text]

    def replaced(self, text: str, replacement: list[str | int], meter: Meter) -> str:
        """Replace every match; raises as :meth:`values`, or where the text would be too long."""
        parts: list[str] = []
        at = size = 0
        for found in self._matches(text, meter):
            new = "".join(p if isinstance(p, str) else found[p] or "" for p in replacement)
            parts += [text[at : found.start()], new]
            size += len(new)
            if size > OUTPUT_BYTES_MAX:
                raise UnreadableError(f"more than {OUTPUT_BYTES_MAX:,} characters")
            at = found.end()
        return "".join((*parts, text[at:]))


def _is_readable(expression: str, options: Any) -> bool:
    import re2

    try:
        re2.compile(expression, options)
    except re2.error:
        return False
    return True


def _sentence(error: Exception) -> str:
    reason = error.args[0] if error.args else "unreadable"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
