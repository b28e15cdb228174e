"""Regular expressions by RE2: linear in the text whatever a tenant writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from crawlfleet.extract.bounds import MATCHES_MAX, UnreadableError

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


def _sentence(error: Exception) -> str:
    reason = error.args[0] if error.args else "unreadable"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
