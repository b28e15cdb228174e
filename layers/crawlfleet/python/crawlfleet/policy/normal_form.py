"""A record's fields in the one form that every store takes them in (SPEC.md B9).

===================================  =============================================================
what comes                           what is stored
===================================  =============================================================
text that is no Unicode              halves of surrogate pairs are joined; one alone is U+FFFD
an integer beyond 64 bits            its digits as text: a float would lose some of them
NaN, infinity                        null, as JSON has neither
a date or a time                     ISO 8601, a decimal number or a UUID as text
a name that is no text               as text; NUL, which MongoDB takes in no name, is U+FFFD
a name with ``$`` or ``.``           as it is: MongoDB 5 and later keep both below the top level
any other kind of value              refused, and so is what is nested or as large as below
===================================  =============================================================

NUL in a text is kept: MongoDB and JSON hold it.
"""

from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID

from crawlfleet.errors import InvalidRequestError

#: The largest record, in bytes of UTF-8 and :data:`VALUE_BYTES` for each value. A quarter of what
#: MongoDB takes of one document, and what the API can still give in one answer.
LARGEST_BYTES: Final = 4_000_000
#: What a value takes at least: more than its type, its place in a list and a number do in BSON.
VALUE_BYTES: Final = 20
#: How deep lists and mappings may be nested; MongoDB takes about 100 levels.
DEEPEST: Final = 64

_SMALLEST_INTEGER: Final = -(2**63)
_LARGEST_INTEGER: Final = 2**63 - 1
#: About 3,000 digits; Python itself refuses to write out more than 4,300.
_MOST_BITS: Final = 10_000
_LONGEST_NAME: Final = 64


def normal_form(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields as they are stored; a form that is normal stays as it is.

    >>> normal_form({"n": float("nan"), "big": 2**64, "of": ("a", None)})
    {'n': None, 'big': '18446744073709551616', 'of': ['a', None]}

    Raises:
        InvalidRequestError: names the field that no store can take.
    """
    form = _Form()
    try:
        return form.mapping(fields, 1)
    except _MisfitError as misfit:
        raise InvalidRequestError.of(path_of(misfit.path[::-1]), misfit.message) from None


def path_of(path: list[str | int]) -> str:
    """A place in a record as people write it; long names are cut, and so is a long way.

    >>> path_of(["offers", 2, "price"])
    'offers[2].price'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step[:_LONGEST_NAME].encode("utf-8", "replace").decode()
            text += f".{name}" if text else name
        if len(text) > 4 * _LONGEST_NAME:
            return text[: 4 * _LONGEST_NAME] + "..."
    return text


class _MisfitError(Exception):
    """A value that no store takes; ``path`` is where, innermost first."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.path: list[str | int] = []


class _Form:
    """One record on its way; ``left`` is what it may still take."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LARGEST_BYTES

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        if depth > DEEPEST:
            raise _MisfitError(f"is nested more than {DEEPEST} levels deep")
        made: dict[str, Any] = {}
        for name, item in value.items():
            key = name
            if type(name) is not str or not name.isascii():
                key = self._text(name if isinstance(name, str) else str(name))
            else:
                self.left -= len(name)
            if "\0" in key:
                key = key.replace("\0", "\ufffd")
            try:
                made[key] = self._value(item, depth)
            except _MisfitError as misfit:
                misfit.path.append(key)
                raise
        return made

    def _several(self, values: Any, depth: int) -> list[Any]:
        if depth > DEEPEST:
            raise _MisfitError(f"is nested more than {DEEPEST} levels deep")
        made: list[Any] = []
        for item in values:
            try:
                made.append(self._value(item, depth))
            except _MisfitError as misfit:
                misfit.path.append(len(made))
                raise
        return made

    def _value(self, value: Any, depth: int) -> Any:
        self.left -= VALUE_BYTES
        if self.left < 0:
            raise _too_large()
        # The commonest first: this is done for every value of every record.
        kind = type(value)
        if kind is str and value.isascii():
            self.left -= len(value)
            if self.left < 0:
                raise _too_large()
            return value
        if isinstance(value, str):
            return self._text(value)
        if kind is dict:
            return self.mapping(value, depth + 1)
        if value is None or kind is bool:
            return value
        if isinstance(value, int):
            return self._integer(int(value))
        if isinstance(value, float):
            return float(value) if isfinite(value) else None
        if isinstance(value, Mapping):
            return self.mapping(value, depth + 1)
        if isinstance(value, list | tuple):
            return self._several(value, depth + 1)
        return self._text(_told(value))

    def _text(self, value: str) -> str:
        if type(value) is not str:  # such as a parser's own class, which holds on to its document
            value = str.__str__(value)
            value = "".join(value) if type(value) is not str else value
        if value.isascii():
            self.left -= len(value)
        else:
            try:
                self.left -= len(value.encode())
            except UnicodeEncodeError:
                value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                self.left -= len(value.encode())
        if self.left < 0:
            raise _too_large()
        return value

    def _integer(self, value: int) -> int | str:
        if _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
            return value
        if value.bit_length() > _MOST_BITS:
            raise _MisfitError("is a number of thousands of digits")
        return self._text(str(value))


def _told(value: object) -> str:
    """The text of what JSON has no kind of its own for."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise _MisfitError(f"is a {type(value).__name__}, which no record can hold")


def _too_large() -> _MisfitError:
    return _MisfitError(f"makes the record larger than {LARGEST_BYTES:,} bytes")
