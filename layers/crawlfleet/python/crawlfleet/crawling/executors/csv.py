"""``csv``: a table of separated values, row by row, however large.

Rows are read within bounds, the delimiter is found out, and columns become fields. People who write
tables have decimal commas, so numbers are read by what the spider says of them, not as by rules.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.rule import Name
from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters, read_date
from crawlfleet.crawling.executors.bodies import codec_of, open_text
from crawlfleet.crawling.executors.page import LinkField, with_links
from crawlfleet.crawling.executors.runner import BadRecords
from crawlfleet.crawling.extract.casts import BOOLEANS
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import Document, named

_INT64: Final = 2**63
_LONGEST: Final = 64
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
    """The place of a field, by the ``header`` of its column (else its own name) or by ``index``.

    Indexes count from 0. An empty cell is ``default``, or an error of the row where the column is
    ``required``.
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
        """Return the field's value in a row.

        Raises CellError: there is none, or it is of another type.
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
    """Place the columns of a file with this header.

    Raises CellError: names a column that the file does not have.
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
    """Return what makes a value of a cell that is not empty.

    >>> reader(ColumnType.NUMBER, Decimal.COMMA)("1.234,50")
    1234.5
    >>> reader(ColumnType.INTEGER, Decimal.POINT)("-1,234")
    -1234
    """
    plain: dict[ColumnType, Read] = {
        ColumnType.STRING: str.strip, ColumnType.BOOLEAN: _boolean, ColumnType.DATE: _date
    }  # fmt: skip
    return plain.get(kind) or _number(decimal, whole=kind is ColumnType.INTEGER)


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
    if (value := BOOLEANS.get(cell.strip().lower())) is None:
        raise CellError(f"{cell[:_SHOWN]!r} is not a boolean")
    return value


def _date(cell: str) -> object:
    if (at := read_date(cell)) is None:
        raise CellError(f"{cell[:_SHOWN]!r} is not a date")
    return at.isoformat()


ROW_CHARACTERS_MAX: Final = 1_000_000  #: Characters of a row, over all of its lines.
CELLS_MAX: Final = 2_000  #: Cells of a row.

# A cell is bounded by its row; the csv module's own bound, which is the process's, is an eighth.
csv.field_size_limit(ROW_CHARACTERS_MAX)

_DELIMITERS: Final = (",", ";", "\t", "|")
#: Rows, and characters of them, that a delimiter is judged by.
_SAMPLE_ROWS: Final = 30
_SAMPLE_CHARACTERS: Final = 65_536


class TooLongRowError(Exception):
    """A row is longer than it may be; the next line begins another one."""


class Lines:
    """Lines as the csv module takes them; none of its rows can take more than the bound."""

    def __init__(self, text: io.TextIOWrapper, context: Context) -> None:
        self._text = text
        self._context = context
        self._row = 0
        self.number = 0  #: Lines given so far.
        self.row_started = 1  #: Number of the first line of the row that is being read.

    def begin_row(self) -> None:
        """Begin the next row."""
        self._row = 0
        self.row_started = self.number + 1
        if self.number & 1023 == 0:
            self._context.tick()

    def skip(self, count: int) -> None:
        """Skip lines."""
        for _ in range(count):
            if not self._text.readline(ROW_CHARACTERS_MAX):
                return
            self.number += 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(ROW_CHARACTERS_MAX + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._row += len(line)
        if self._row > ROW_CHARACTERS_MAX:
            while line and not line.endswith(("\n", "\r")):
                self._context.tick()
                line = self._text.readline(ROW_CHARACTERS_MAX)
            raise TooLongRowError
        return line


def find_delimiter(sample: str, quote: str | None) -> str:
    r"""Find the delimiter that cuts the first rows into equally many cells, or a comma.

    >>> find_delimiter('name;price\n"a, b";1,5\n"c;d";2,5\n', '"')
    ';'
    >>> find_delimiter("just one column\nof words\n", '"')
    ','
    """
    best, best_score = ",", (0.0, 1)
    lines = sample[:_SAMPLE_CHARACTERS].splitlines(keepends=True)
    if len(sample) >= _SAMPLE_CHARACTERS and len(lines) > 1:
        lines.pop()  # it may be half a line
    for delimiter in _DELIMITERS:
        widths = _widths(lines, delimiter, quote)
        if not widths or widths[0] < 2:
            continue
        score = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _widths(lines: list[str], delimiter: str, quote: str | None) -> list[int]:
    widths: list[int] = []
    with suppress(csv.Error):  # what was read until then tells
        for row in filter(None, reader_of(lines, delimiter, quote, strict=False)):
            widths.append(len(row))
            if len(widths) >= _SAMPLE_ROWS:
                break
    return widths


def reader_of(
    lines: Iterable[str], delimiter: str, quote: str | None, *, strict: bool = True
) -> Iterator[list[str]]:
    """Read rows of cells; ``quote`` is None where quotes mean nothing."""
    if quote is None:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=strict)
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=strict)


class CsvParameters(Parameters, frozen=True, kw_only=True):
    """A byte order mark says the encoding, then ``encoding``, then the header of the answer.

    ``delimiter`` is found out unless it is said. ``quote`` is null where quotes mean nothing.
    ``skip`` lines come before the header; without ``header`` the first row is data, and columns
    are called by ``names``, or ``column_1`` and so on. ``columns`` says which columns become which
    fields; without it each becomes one, as text. ``decimal`` is the decimal mark of all numbers.
    ``bad_rows`` says what becomes of rows with too few or too many cells, or cells of a wrong type.
    """

    encoding: Annotated[str, Meta(min_length=1, max_length=40)] | None = None
    delimiter: Annotated[str, Meta(min_length=1, max_length=1)] | None = None
    quote: Annotated[str, Meta(min_length=1, max_length=1)] | None = '"'
    skip: Annotated[int, Meta(ge=0, le=10_000)] = 0
    header: bool = True
    names: Annotated[tuple[Name, ...], Meta(max_length=CELLS_MAX)] = ()
    columns: Annotated[dict[Name, Column], Meta(max_length=500)] = {}  # noqa: RUF012  structs copy it
    decimal: Decimal = Decimal.POINT
    bad_rows: BadRecords = BadRecords.FAIL
    link: LinkField | None = None


class CsvFile(Executor[CsvParameters]):
    """A record of each row."""

    name = "csv"
    Parameters = CsvParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the rows in order; a row's place is the line it begins at."""
        yield from with_links(self._rows(page, context), self.parameters.link, context)

    def _rows(self, page: Page, context: Context) -> Iterator[Found]:
        table, bad = _Table(self.parameters, page, context), self.parameters.bad_rows
        placed = table.placed()
        width = len(table.titles)
        for place, row in table:
            if isinstance(row, str):
                yield bad.left_out(place, row)
                continue
            cells = row
            while len(cells) > width and not cells[-1]:
                cells.pop()
            if len(cells) != width:
                why = f"has {len(cells)} cells where there are {width} columns"
                yield bad.left_out(place, why)
                continue
            if placed is None:
                yield dict(zip(table.titles, cells, strict=True))
                continue
            record: dict[str, object] = {}
            try:
                for column in placed:
                    record[column.name] = column.value(cells)
            except CellError as error:
                yield bad.left_out(f"{place}.{column.name}", str(error))
                continue
            yield record

    @classmethod
    def problems(cls, parameters: CsvParameters) -> Iterable[Problem]:
        """Check that the encoding exists, marks differ and columns can be found."""
        if parameters.encoding is not None and codec_of(parameters.encoding) is None:
            yield Problem("encoding", f"{parameters.encoding!r} is no encoding of text")
        for name in ("delimiter", "quote"):
            if getattr(parameters, name) in ("\n", "\r", " "):
                yield Problem(name, "must be no space and no end of a line")
        if parameters.delimiter is not None and parameters.delimiter == parameters.quote:
            yield Problem("quote", "is the delimiter, too")
        for name, column in parameters.columns.items():
            if column.header is not None and column.index is not None:
                yield Problem(f"columns.{name}", "has a header and an index: one says where it is")
            named = parameters.header or parameters.names
            if not named and column.index is None:
                yield Problem(f"columns.{name}.index", "is missing: there is no header")
            if column.required and column.default is not None:
                yield Problem(f"columns.{name}.default", "never applies to a required column")
        fields = cls.fields(parameters)
        if parameters.link is not None and fields is not None:
            yield from parameters.link.problems(fields)

    @classmethod
    def fields(cls, parameters: CsvParameters) -> Iterable[str] | None:
        """Name the given fields; without names the file says it."""
        return parameters.columns or parameters.names or None


class _Table:
    """An opened file: its columns' titles, then its rows, each with its place."""

    def __init__(self, parameters: CsvParameters, page: Page, context: Context) -> None:
        self._parameters = parameters
        text = open_text(page, parameters.encoding)
        delimiter = parameters.delimiter
        if delimiter is None:
            sample = open_text(page, parameters.encoding)
            Lines(sample, context).skip(parameters.skip)
            delimiter = find_delimiter(sample.read(_SAMPLE_CHARACTERS), parameters.quote)
        self._lines = Lines(text, context)
        self._lines.skip(parameters.skip)
        self._reader = reader_of(self._lines, delimiter, parameters.quote)
        self._first: tuple[str, list[str] | str] | None = None
        self.titles = self._titles()

    def _titles(self) -> list[str]:
        first = self._next()
        if first is None:
            return list(self._parameters.names)
        place, row = first
        if isinstance(row, str):
            raise ExtractError(place, row)
        if not self._parameters.header:
            self._first = first
            return list(self._parameters.names) or [f"column_{n + 1}" for n in range(len(row))]
        while len(row) > 1 and not row[-1].strip():
            row.pop()
        return list(self._parameters.names) or _unique(row)

    def placed(self) -> list[Placed] | None:
        """Place the columns that become fields; None where all do as they are."""
        if not self._parameters.columns:
            return None
        try:
            return place_columns(self._parameters.columns, self.titles, self._parameters.decimal)
        except CellError as error:
            field, _, why = str(error).partition(": ")
            raise ExtractError(field, why) from error

    def __iter__(self) -> Iterator[tuple[str, list[str] | str]]:
        if self._first is not None:
            yield self._first
        while (row := self._next()) is not None:
            yield row

    def _next(self) -> tuple[str, list[str] | str] | None:
        """Return the next row that is not empty, or why there is none at that place."""
        row: list[str] | str | None = []
        while not row and row is not None:
            self._lines.begin_row()
            try:
                row = next(self._reader, None)
            except csv.Error as error:
                row = str(error)
            except TooLongRowError:
                why = f"a row of more than {ROW_CHARACTERS_MAX:,} characters"
                row = f"{why}; is a quote not closed?"
            if isinstance(row, list) and len(row) > CELLS_MAX:
                row = f"has more than {CELLS_MAX:,} cells"
        return None if row is None else (f"line {self._lines.row_started}", row)


def _unique(row: Sequence[str]) -> list[str]:
    """Make titles differ: an empty one has its place, a repeated one the number of the repeat.

    >>> _unique(["a", "a", "", "a_2"])
    ['a', 'a_3', 'column_3', 'a_2']
    """
    plain = [
        cell.replace("\x00", "").strip() or f"column_{index + 1}" for index, cell in enumerate(row)
    ]
    taken, seen = set(plain), Counter[str]()
    titles: list[str] = []
    for title in plain:
        seen[title] += 1
        name, number = title, seen[title]
        while number > 1 and name in taken:
            name, number = f"{title}_{number}", number + 1
        taken.add(name)
        titles.append(name)
    return titles
