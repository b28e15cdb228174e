"""Text and JSON values to the types of fields. Strict: what is not plainly of a type is an error.

``integer`` and ``number`` read ASCII digits with an optional sign; commas may separate thousands in
groups of three, the point is the decimal mark: ``1,234.50``. The continental ``1.234,50`` is an
error, never a guess: narrow or split it with ``regex``. Integers fit 64 bits with a sign, numbers
are finite. ``boolean`` reads true/false, yes/no, on/off, 1/0. ``date`` reads ISO 8601 and RFC 2822
and gives ISO 8601 with its zone; without one it is taken for UTC. ``json`` parses text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from crawlfleet.config.documents.rule import Cast
from crawlfleet.crawling.extract.limits import UnreadableError

_INTEGER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)", re.ASCII)
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII
)
BOOLEANS: Final = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
_LONGEST: Final = 64
_INT64: Final = 2**63
_JSON_DEPTH_MAX: Final = 64  #: MongoDB holds documents 100 levels deep; a record uses some itself.


def cast(kind: Cast, value: object) -> object:
    """Convert ``value``, a text or what JSON held, to ``kind``. Raises UnreadableError: it is none.

    >>> cast(Cast.INTEGER, "1,234"), cast(Cast.NUMBER, " 1,234.50 "), cast(Cast.BOOLEAN, "Yes")
    (1234, 1234.5, True)
    >>> cast(Cast.DATE, "Tue, 05 Mar 2024 10:00:00 +0100")
    '2024-03-05T10:00:00+01:00'
    """
    return CASTS[kind](value)


def to_string(value: object) -> str:
    """Return text as it is, anything else as compact JSON.

    >>> to_string(1.5), to_string(True), to_string({"a": [1]})
    ('1.5', 'true', '{"a":[1]}')
    """
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def to_integer(value: object) -> int:
    """Convert to a whole number of 64 bits with a sign.

    >>> to_integer("-1,234,567"), to_integer(3.0)
    (-1234567, 3)
    """
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST or not _INTEGER.fullmatch(text):
            raise _no("an integer", value)
        number = int(text.replace(",", ""))
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise _no("an integer", value)
    if not -_INT64 <= number < _INT64:
        raise UnreadableError("an integer of more than 64 bits")
    return number


def to_number(value: object) -> float:
    """Convert to a finite number.

    >>> to_number("1,234.50"), to_number(3)
    (1234.5, 3.0)
    """
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
            raise _no("a number", value)
        number = float(text.replace(",", ""))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    else:
        raise _no("a number", value)
    if not math.isfinite(number):
        raise UnreadableError("a number too large to keep")
    return number


def to_boolean(value: object) -> bool:
    """Convert to true or false."""
    if isinstance(value, bool):
        return value
    key = value.strip().lower() if isinstance(value, str) else value
    key = str(key) if isinstance(key, int) else key
    if isinstance(key, str) and key in BOOLEANS:
        return BOOLEANS[key]
    raise _no("a boolean", value)


def to_date(value: object) -> str:
    """Convert to ISO 8601 with its zone.

    >>> to_date("2024-03-05")
    '2024-03-05T00:00:00+00:00'
    """
    text = value.strip() if isinstance(value, str) else ""
    if not 8 <= len(text) <= _LONGEST:
        raise _no("a date", value)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = _rfc2822(text)
    try:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()
    except (ValueError, OverflowError) as error:
        raise _no("a date", value) from error


def _rfc2822(text: str) -> datetime:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise _no("a date", text) from error


def to_json(value: object) -> object:
    """Parse text as JSON; keep what JSON held already."""
    return parse_json(value.encode("utf-8", "replace")) if isinstance(value, str) else value


def parse_json(text: bytes) -> Any:
    """Parse a JSON document, which must be one that a record can hold."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise UnreadableError(f"no JSON: {error}") from error
    _check_storable(value)
    return value


def _check_storable(value: object) -> None:
    """Check MongoDB's limits: depth, 64-bit integers, keys without NUL."""
    level: list[object] = [value]
    for _ in range(_JSON_DEPTH_MAX):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                if any("\x00" in key for key in item):
                    raise UnreadableError("JSON with a NUL in a key")
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, int) and not -_INT64 <= item < _INT64:
                raise UnreadableError("JSON with an integer of more than 64 bits")
        if not below:
            return
        level = below
    raise UnreadableError(f"JSON nested over {_JSON_DEPTH_MAX} deep")


def _no(what: str, value: object) -> UnreadableError:
    shown = repr(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return UnreadableError(f"{shown[:80]} is not {what}")


CASTS: Final[dict[Cast, Callable[[object], object]]] = {
    Cast.STRING: to_string,
    Cast.INTEGER: to_integer,
    Cast.NUMBER: to_number,
    Cast.BOOLEAN: to_boolean,
    Cast.DATE: to_date,
    Cast.JSON: to_json,
}
