"""How a file of separated values is written: lines within bounds, and the delimiter found out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final

from crawlfleet.executors.base import Context

#: Characters of a row, over all of its lines.
ROW_CHARACTERS_MAX: Final = 1_000_000
#: Cells of a row.
CELLS_MAX: Final = 2_000

# A cell is bounded by its row; the csv module's own bound, which is the process's, is an eighth.
csv.field_size_limit(ROW_CHARACTERS_MAX)

_DELIMITERS: Final = (",", ";", "\t", "|")
#: Rows, and characters of them, that a delimiter is judged by.
_SAMPLE_ROWS: Final = 30
_SAMPLE_CHARACTERS: Final = 65_536


class TooLongRowError(Exception):
    """A row is longer than it may be; the next line begins another one."""


class Lines:
    """Lines as the csv module takes them; none of its rows can take more than the bound.

    Attributes:
        number: Lines given so far.
        row_started: Number of the first line of the row that is being read.
    """

    def __init__(self, text: io.TextIOWrapper, context: Context) -> None:
        self._text = text
        self._context = context
        self._row = 0
        self.number = 0
        self.row_started = 1

    def begin_row(self) -> None:
        """To be called before each row."""
        self._row = 0
        self.row_started = self.number + 1
        if self.number & 1023 == 0:
            self._context.tick()

    def skip(self, count: int) -> None:
        """Leave out lines."""
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
    r"""The delimiter that cuts the first rows into equally many cells; a comma where none does.

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
    rows = reader_of(lines, delimiter, quote, strict=False)
    try:
        for row in rows:
            if row:
                widths.append(len(row))
            if len(widths) >= _SAMPLE_ROWS:
                break
    except csv.Error:
        pass  # what was read until here tells
    return widths


def reader_of(
    lines: Iterable[str], delimiter: str, quote: str | None, *, strict: bool = True
) -> Iterator[list[str]]:
    """Rows of cells; ``quote`` is None where quotes mean nothing."""
    if quote is None:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=strict)
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=strict)
