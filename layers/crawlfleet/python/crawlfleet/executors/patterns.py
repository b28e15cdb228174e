"""Which URLs are taken: patterns of a tenant, on RE2, bounded as in ``extract.regex``.

A search is linear in the URL, and in the pattern with its repetitions written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from crawlfleet.errors import ExtractError, Problem

#: Bytes that one compiled expression may use.
_MEMORY_MAX: Final = 8_388_608
#: Instructions that it may have.
_PROGRAM_MAX: Final = 10_000
#: Where these times the characters are more the clock is read first.
_LONG: Final = 1_000_000


class Patterns:
    """A URL is taken where one of ``include`` matches (or there is none) and none of ``exclude``.

    >>> Patterns([r"/news/"], [r"[.]pdf$"]).take("https://example.org/news/1.pdf")
    False
    """

    __slots__ = ("_exclude", "_include")

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        self._include = [_compiled(pattern) for pattern in include]
        self._exclude = [_compiled(pattern) for pattern in exclude]

    def take(self, url: str, tick: Callable[[], object] = int) -> bool:
        """Whether it is one of those that are wanted. ``tick`` is called before long searches."""

        def found(pattern: Any) -> bool:
            if pattern.programsize * len(url) > _LONG:
                tick()
            return pattern.search(url) is not None

        if self._include and not any(map(found, self._include)):
            return False
        return not any(map(found, self._exclude))


def pattern_problems(place: str, patterns: Iterable[str]) -> Iterator[Problem]:
    """What RE2 cannot read."""
    for index, pattern in enumerate(patterns):
        try:
            _compiled(pattern)
        except ExtractError as error:
            yield Problem(f"{place}[{index}]", str(error).removeprefix(f"{error.field}: "))


def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unreadable"
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ExtractError("pattern", said) from error
    except UnicodeEncodeError as error:
        raise ExtractError("pattern", "not valid Unicode") from error
    if compiled.programsize > _PROGRAM_MAX:
        raise ExtractError("pattern", "is too large once its repetitions are written out")
    return compiled
