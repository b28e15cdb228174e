"""How records are written: JSON lines, or CSV."""

import csv
import io
import tempfile
from collections.abc import Sequence
from typing import IO, Any, Final, Protocol

import msgspec

from crawlfleet.sdk.results import Record

#: Columns beside the record's own fields; the underscore keeps them apart.
_FIXED: Final = ("_id", "_request_id", "_url", "_rule", "_stored_at")
#: A spool above this size goes to disk.
_SPOOL_BYTES: Final = 16 * 1024 * 1024
#: More names of fields are not remembered.
_MET: Final = 10_000


class Writer(Protocol):
    """Writes records to a stream; complete only after ``finish``, done with after ``close``."""

    def write(self, record: Record) -> None:
        """Write one record."""
        ...

    def finish(self) -> None:
        """Write what is still held back."""
        ...

    def close(self) -> None:
        """Let go of what is held back, written or not."""
        ...


class JsonLines:
    """A JSON object per line, the record as the API gives it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: Record) -> None:
        """Write one record."""
        self._stream.write(self._encode(record) + b"\n")

    def finish(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held back."""


class CsvColumns:
    """CSV with columns that are known beforehand; other fields are left out.

    ``met`` are the fields that records have had.
    """

    def __init__(self, stream: IO[bytes], fields: Sequence[str], *, header: bool = True) -> None:
        self._stream = stream
        self.met: dict[str, None] = {}
        self._fields = fields
        self._line = io.StringIO(newline="")
        self._csv = csv.writer(self._line)
        if header:
            self._put((*_FIXED, *fields))

    def write(self, record: Record) -> None:
        """Write one record."""
        if len(self.met) < _MET and not self.met.keys() >= record.fields.keys():
            self.met.update(dict.fromkeys(record.fields))
        stored_at = record.stored_at
        self._put(
            (
                record.id,
                record.request_id,
                record.url,
                record.rule,
                "" if stored_at is None else stored_at.isoformat().replace("+00:00", "Z"),
                *(_cell(record.fields.get(field)) for field in self._fields),
            )
        )

    def missed(self) -> list[str]:
        """The columns that no record has had a value for; none where there were no records."""
        if not self.met or len(self.met) >= _MET:
            return []
        return [field for field in self._fields if field not in self.met]

    def finish(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held back."""

    def _put(self, row: Sequence[Any]) -> None:
        self._csv.writerow(row)
        self._stream.write(self._line.getvalue().encode())
        self._line.seek(0)
        self._line.truncate()


class CsvOfAll:
    """CSV with a column for every field that occurs: records are held back until all are known."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._fields: dict[str, None] = {}
        self._spool = tempfile.SpooledTemporaryFile(  # noqa: SIM115  `close` does
            max_size=_SPOOL_BYTES
        )

    def write(self, record: Record) -> None:
        """Hold one record back."""
        self._fields.update(dict.fromkeys(record.fields))
        self._spool.write(msgspec.json.encode(record) + b"\n")

    def finish(self) -> None:
        """Write all of them."""
        writer = CsvColumns(self._stream, tuple(self._fields))
        decode = msgspec.json.Decoder(Record).decode
        self._spool.seek(0)
        for line in self._spool:
            writer.write(decode(line))

    def close(self) -> None:
        """Let go of the spool."""
        self._spool.close()


def fields_of_header(line: bytes) -> list[str] | None:
    """The fields whose columns a file of ours begins with; None where it is no such file."""
    row = next(csv.reader([line.decode("utf-8", "replace").rstrip("\r\n")]), [])
    return row[len(_FIXED) :] if tuple(row[: len(_FIXED)]) == _FIXED else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
