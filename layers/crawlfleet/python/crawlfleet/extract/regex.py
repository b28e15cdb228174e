"""Regular expressions by RE2: linear in the text whatever a tenant writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from crawlfleet.extract.bounds import MATCHES_MAX, OUTPUT_BYTES_MAX, UnreadableError

if TYPE_CHECKING:
    from crawlfleet.extract.bounds import Meter

#: Bytes that one compiled expression may use.
_MEMORY_MAX: Final = 8_388_608


class RegexQuery:
    r"""One compiled expression. A match counts as its first group, or the whole where it has none.

    Raises:
        ValueError: RE2 cannot read the expression (it has no look-around and no back-references).

    >>> from crawlfleet.extract.bounds import Meter
    >>> list(RegexQuery(r"(\d+) EUR").values("3 EUR, 4 EUR", Meter()))
    ['3', '4']
    """

    __slots__ = ("_group", "_pattern")

    def __init__(self, expression: str) -> None:
        import re2

        options = re2.Options()
        options.max_mem = _MEMORY_MAX
        options.log_errors = False
        try:
            self._pattern: Any = re2.compile(expression, options)
        except re2.error as error:
            raise ValueError(_sentence(error)) from error
        except UnicodeEncodeError as error:
            raise ValueError("not valid Unicode") from error
        self._group = 1 if self._pattern.groups else 0

    def first(self, text: str) -> str | None:
        """The first match, or None; also None where the group took no part in it."""
        found = self._pattern.search(text)
        value: str | None = found[self._group] if found else None
        return value

    def found_in(self, text: str) -> bool:
        """Whether there is a match."""
        return self._pattern.search(text) is not None

    def values(self, text: str, meter: Meter) -> list[str]:
        """All matches in order, without those in which the group took no part.

        Raises:
            UnreadableError: too many, or too long to find.
        """
        values: list[str] = []
        at = 0
        for count, found in enumerate(self._pattern.finditer(text)):
            if count >= MATCHES_MAX:
                raise UnreadableError(f"more than {MATCHES_MAX:,} matches")
            # Each search may look as far as the end of the text.
            meter.spend((len(text) - at) / 100)
            if count % 64 == 0:
                meter.tick()
            at = found.end()
            if found[self._group] is not None:
                values.append(found[self._group])
        return values

    def replacement(self, template: str) -> list[str | int]:
        r"""A template's texts and the numbers of the groups between them.

        Raises:
            ValueError: it names a group that the expression has not.

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
        """The text with every match replaced.

        Raises:
            UnreadableError: too many matches, too long to find, or the text would become too long.
        """
        parts: list[str] = []
        at = size = 0
        for count, found in enumerate(self._pattern.finditer(text)):
            if count >= MATCHES_MAX:
                raise UnreadableError(f"more than {MATCHES_MAX:,} matches")
            meter.spend((len(text) - at) / 100)
            if count % 64 == 0:
                meter.tick()
            new = "".join(p if isinstance(p, str) else found[p] or "" for p in replacement)
            parts += [text[at : found.start()], new]
            size += len(new)
            if size > OUTPUT_BYTES_MAX:
                raise UnreadableError(f"more than {OUTPUT_BYTES_MAX:,} characters")
            at = found.end()
        return "".join((*parts, text[at:]))


def _sentence(error: Exception) -> str:
    reason = error.args[0] if error.args else "unreadable"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
