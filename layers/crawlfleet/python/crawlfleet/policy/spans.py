"""Spans of time as people say them."""

from collections.abc import Mapping
from typing import Final

_SPANS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "min": 60}


def span(seconds: float) -> str:
    """A span of time in words, to two units.

    >>> span(0.25), span(42), span(600), span(5_430), span(200_000)
    ('0.2 s', '42 s', '10 min', '1 h 30 min', '2 d 7 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    whole = int(min(seconds, 1e12))
    said: list[tuple[int, str]] = []
    for unit, size in _SPANS.items():
        if whole >= size or said:
            count, whole = divmod(whole, size)
            said.append((count, unit))
    return " ".join(f"{count:,} {unit}" for count, unit in said[:2] if count)
