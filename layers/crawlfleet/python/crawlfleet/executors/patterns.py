"""Which URLs are taken: patterns of a tenant, on RE2, so that none takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from crawlfleet.errors import ExtractError, Problem

#: Bytes that one compiled expression may use.
_MEMORY_MAX: Final = 8_388_608


class Patterns:
    """A URL is taken where one of ``include`` matches (or there is none) and none of ``exclude``.

    >>> Patterns([r"/news/"], [r"[.]pdf$"]).take("https://example.org/news/1.pdf")
    False
    """

    __slots__ = ("_exclude", "_include")

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        self._include = [_compiled(pattern) for pattern in include]
        self._exclude = [_compiled(pattern) for pattern in exclude]

    def take(self, url: str) -> bool:
        """Whether it is one of those that are wanted."""
        if self._include and not any(pattern.search(url) for pattern in self._include):
            return False
        return not any(pattern.search(url) for pattern in self._exclude)


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
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unreadable"
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ExtractError("pattern", said) from error
    except UnicodeEncodeError as error:
        raise ExtractError("pattern", "not valid Unicode") from error
