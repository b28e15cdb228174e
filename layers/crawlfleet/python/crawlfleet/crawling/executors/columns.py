"""Cells of a table to values: what a column is called, where it is, what type it has.

People who write tables have decimal commas, so numbers are read by what the spider says of them,
not as rules read them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.crawling.executors.limits import read_date
from crawlfleet.kernel.validation import Document, named

_INT64: Final = 2**63
_LONGEST: Final = 64
_BOOLEANS: Final = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip
_SHOWN: Final = 60


class ColumnType(StrEnum):
    """The type of a column's values. ``date`` values are ISO 8601 strings in records."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"


class Decimal(StrEnum):
    """The decimal mark; the other one, spaces and apostrophes may separate thousands."""

    POINT = "."
    COMMA = ","


class Column(Document, frozen=True, kw_only=True):
    """Where a field is, by the ``header`` of its column (the field's own name unless it is said).

    Or by ``index``, from 0. An empty cell is ``default``, or a mistake of the row where the column
    is ``required``.
    """

    header: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    index: Annotated[int, Meta(ge=0, le=1_999)] | None = None
    type: ColumnType = ColumnType.STRING
    required: bool = False
    default: str | int | float | bool | None = None


class CellError(Exception):
    """A cell could not be read."""


Read = Callable[[str], object]


class Placed(msgspec.Struct, frozen=True):
    """A column of a file that has been opened."""

    name: str
    index: int
    read: Read
    required: bool
    default: str | int | float | bool | None

    def value(self, cells: Sequence[str]) -> object:
        """The field's value in a row.

        Raises:
            CellError: there is none, or it is of another type.
        """
        cell = cells[self.index] if self.index < len(cells) else ""
        if not cell or cell.isspace():
            if self.required:
                raise CellError("is missing, and required")
            return self.default
        return self.read(cell)


def place_columns(
    columns: Mapping[str, Column], header: Sequence[str] | None, decimal: Decimal
) -> list[Placed]:
    """The columns of a file with this header.

    Raises:
        CellError: names a column that the file does not have.
    """
    places = {title: index for index, title in reversed(list(enumerate(header or ())))}
    placed = []
    for name, column in columns.items():
        index = column.index
        if index is None:
            title = column.header or name
            if title not in places:
                there = named(places, title) or "no header"
                raise CellError(f"columns.{name}: there is no column {title!r}; there is {there}")
            index = places[title]
        read = reader(column.type, decimal)
        placed.append(Placed(name, index, read, column.required, column.default))
    return placed


def reader(kind: ColumnType, decimal: Decimal) -> Read:
    """What makes a value of a cell that is not empty.

    >>> reader(ColumnType.NUMBER, Decimal.COMMA)("1.234,50")
    1234.5
    >>> reader(ColumnType.INTEGER, Decimal.POINT)("-1,234")
    -1234
    """
    if kind is ColumnType.STRING:
        return str.strip
    if kind is ColumnType.BOOLEAN:
        return _boolean
    if kind is ColumnType.DATE:
        return _date
    return _number(decimal, whole=kind is ColumnType.INTEGER)


def _number(decimal: Decimal, *, whole: bool) -> Read:
    thousands = "." if decimal is Decimal.COMMA else ","
    form = re.compile(
        rf"[+-]?(?:\d{{1,3}}(?:[{thousands} '\xa0\u202f]\d{{3}})+|\d+)"
        rf"(?:[{decimal.value}](?P<fraction>\d*))?(?:[eE][+-]?\d{{1,3}})?",
        re.ASCII,
    )
    drop = str.maketrans(dict.fromkeys(f"{thousands} '\xa0\u202f") | {decimal.value: "."})
    kind = "an integer" if whole else "a number"

    def read(cell: str) -> object:
        text = cell.strip()
        found = form.fullmatch(text) if len(text) <= _LONGEST else None
        if found is None or (whole and (found["fraction"] or "e" in text.lower())):
            raise CellError(f"{cell[:_SHOWN]!r} is not {kind}")
        plain = text.translate(drop)
        value: int | float = int(plain.rstrip(".")) if whole else float(plain)
        if not (-_INT64 <= value < _INT64 if whole else math.isfinite(value)):
            raise CellError(f"{cell[:_SHOWN]!r} is too large to keep")
        return value

    return read


def _boolean(cell: str) -> object:
    value = _BOOLEANS.get(cell.strip().lower())
    if value is None:
        raise CellError(f"{cell[:_SHOWN]!r} is not a boolean")
    return value


def _date(cell: str) -> object:
    at = read_date(cell)
    if at is None:
        raise CellError(f"{cell[:_SHOWN]!r} is not a date")
    return at.isoformat()
