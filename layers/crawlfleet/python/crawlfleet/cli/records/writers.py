"""Write records as JSON lines, as CSV, or as a table for people."""

import csv
import io
import re
import tempfile
from collections.abc import Sequence
from typing import IO, Any, Final

import msgspec

from crawlfleet.cli import console
from crawlfleet.wire.results import Record

#: Columns of CSV beside the record's own fields; the underscore keeps them apart.
FIXED: Final = ("_id", "_request_id", "_url", "_rule", "_stored_at", "_job")
#: The same of files that an older version has begun.
OLDER: Final = FIXED[:-1]
#: The column of the id of its trace, where any record has one or it is asked for.
_TRACE: Final = "_trace"
#: Columns that may be asked for beside a record's fields.
BESIDE: Final = frozenset({*FIXED, _TRACE})
#: What a spreadsheet takes for a formula, unless it is a number.
_FORMULA: Final = re.compile(r"[=@\t\r]|[+-](?!\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\Z)")
#: A spool above this size goes to disk.
_SPOOL_BYTES: Final = 16 * 1024 * 1024
#: Columns that a table has for fields unless they are named.
_TABLE_FIELDS: Final = 5
#: Signs of a value that a table shows.
_CELL: Final = 60


class Writer:
    """Write a JSON object per line: the record as the API gives it, or these ``fields`` of it.

    Others may hold records back: what they write is complete only after ``finish``, and is let go
    of, written or not, by ``close``.
    """

    def __init__(self, stream: IO[bytes], fields: Sequence[str] | None = None) -> None:
        self._stream = stream
        self._fields = fields
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: Record) -> None:
        """Write one record."""
        if self._fields is not None:
            chosen = {name: record.fields[name] for name in self._fields if name in record.fields}
            record = msgspec.structs.replace(record, fields=chosen)
        self._stream.write(self._encode(record) + b"\n")

    def finish(self) -> None:
        """Write what is still held back: here nothing."""

    def close(self) -> None:
        """Let go of what is held back: here nothing."""


class CsvColumns(Writer):
    """CSV with columns that are known beforehand; other fields are left out."""

    def __init__(self, stream: IO[bytes], columns: Sequence[str], *, header: bool = True) -> None:
        super().__init__(stream)
        self._columns = columns
        self._line = io.StringIO(newline="")
        self._csv = csv.writer(self._line)
        if header:
            self._put(columns)

    def write(self, record: Record) -> None:
        """Write one row."""
        self._put([_cell(_value(record, column)) for column in self._columns])

    def _put(self, row: Sequence[str]) -> None:
        self._csv.writerow(map(_harmless, row))
        self._stream.write(self._line.getvalue().encode())
        self._line.seek(0)
        self._line.truncate()


class CsvOfAll(Writer):
    """CSV with a column for every field that occurs: records are held back until all are known."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._met: dict[str, None] = {}
        self._traced = False
        self._spool = tempfile.SpooledTemporaryFile(  # noqa: SIM115  `close` does
            max_size=_SPOOL_BYTES
        )

    def write(self, record: Record) -> None:
        """Keep one record back."""
        self._met = with_names(self._met, record)
        self._traced = self._traced or record.trace is not None
        self._spool.write(self._encode(record) + b"\n")

    def finish(self) -> None:
        """Write all of them."""
        writer = CsvColumns(self._stream, (*FIXED, *self._met, *([_TRACE] * self._traced)))
        decode = msgspec.json.Decoder(Record).decode
        self._spool.seek(0)
        for line in self._spool:
            writer.write(decode(line))

    def close(self) -> None:
        """Let go of the spool."""
        self._spool.close()


class RecordTable(Writer):
    """A table with a column a field, for people; long values are cut."""

    def __init__(self, stream: IO[bytes], fields: Sequence[str] | None = None) -> None:
        super().__init__(stream, fields)
        self._records: list[Record] = []

    def write(self, record: Record) -> None:
        """Keep one record back."""
        self._records.append(record)

    def finish(self) -> None:
        """Show them all."""
        if not self._records:
            return
        met: dict[str, None] = {}
        for one in self._records:
            met = with_names(met, one)
        names = self._fields or list(met)[:_TABLE_FIELDS]
        beside = ["request", "stored", *([] if "url" in names else ["url"])]
        rows = [
            (
                *(one.request_id, console.to_second(one.stored_at), one.url)[: len(beside)],
                *(_short(_value(one, name)) for name in names),
            )
            for one in self._records
        ]
        columns = [*beside, *names]
        console.draw_table(columns, rows, cut=("url", *names), least=["stored", "request"])
        if left := [name for name in met if name not in names]:
            others = console.counted(len(left), "further field")
            console.note(f"{others}: --fields {left[0]},... shows others, --json all")


def with_names(known: dict[str, None], record: Record) -> dict[str, None]:
    """Return the names of fields with those of one more record, in the order of their rule.

    A record lacks what its page lacks, so a new name stands before the one that follows it there.
    """
    if known.keys() >= record.fields.keys():
        return known
    found = list(known)
    at = len(found)
    for name in reversed(record.fields):
        if name in known:
            at = found.index(name)
        else:
            found.insert(at, name)
    return dict.fromkeys(found)


def columns_of_header(line: bytes) -> list[str]:
    """Return the columns of a file of ours that begins with this line."""
    row = next(csv.reader([line.decode("utf-8", "replace").rstrip("\r\n")]), [])
    return [_meant(name) for name in row]


def _value(record: Record, column: str) -> Any:
    """Return what stands in a column: a field, or what the record has beside its fields."""
    if column in record.fields or column not in BESIDE:
        return record.fields.get(column)
    if column == "_stored_at":
        at = record.stored_at
        return None if at is None else at.isoformat().replace("+00:00", "Z")
    return getattr(record, column[1:])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _harmless(cell: str) -> str:
    """Put an apostrophe before a formula: whoever opens the file runs nothing that a page says.

    >>> _harmless("=1+1"), _harmless("-12.50"), _harmless("-a")
    ("'=1+1", '-12.50', "'-a")
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _meant(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def _short(value: Any) -> str:
    text = " ".join(_cell(value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}\N{HORIZONTAL ELLIPSIS}"
