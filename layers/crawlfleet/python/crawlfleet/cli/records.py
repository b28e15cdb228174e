"""``crawlfleet records | visit``: records as JSON lines or CSV, and what is known of pages."""

import csv
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import click
import msgspec

from crawlfleet.cli.console import (
    Exit,
    counted,
    draw,
    emit,
    facts,
    moment,
    note,
    progress,
    with_api,
)
from crawlfleet.cli.failures import UnknownPageError
from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.kernel.validation import named
from crawlfleet.wire.results import Record

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Pages, Visit, VisitTotals


def _in_a_folder(
    _context: click.Context, _option: click.Parameter, path: Path | None
) -> Path | None:
    """Refuse a path whose folder is missing, before anything is asked for."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}")
    return path


@click.command()
@click.option("--follow", is_flag=True, help="Go on with new ones as they come, until Ctrl-C.")
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_in_a_folder,
    help="Write to this file. Replaced when all is there; with --follow or a cursor it grows.",
)
@click.option("--request", "request_id", metavar="ID", help="Only those of this request.")
@click.option("--fields", help="Fields to make columns of in CSV, with commas between them.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--cursor", help="Go on from here: the cursor that an earlier run told.")
@click.option(
    "--cursor-file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_in_a_folder,
    help="Go on from the cursor in this file if it is there, and keep the new one in it.",
)
@with_api("biz")
def records(
    fleet: "Client",
    biz: str,
    follow: bool,
    form: str,
    output: Path | None,
    request_id: str | None,
    fields: str | None,
    limit: int | None,
    cursor: str | None,
    cursor_file: Path | None,
    as_json: bool,
) -> int:
    """Read the records of a biz, oldest first.

    --json is the same as --format jsonl: a line of JSON for each record. A run that goes on from a
    cursor may begin with a few records that the run before has had; their ids are the same.

    \b
    crawlfleet records news --format csv --output news.csv
    crawlfleet records news --follow --cursor-file news.cursor --output news.jsonl
    """  # noqa: D301  click reads this backspace: the lines below it are not to be wrapped
    columns = [field.strip() for field in fields.split(",")] if fields else None
    if as_json and form == "csv":
        raise click.UsageError("--json and --format csv exclude each other")
    if columns is not None and form != "csv":
        raise click.UsageError("--fields is for --format csv")
    if cursor_file is not None and cursor is None and cursor_file.exists():
        cursor = cursor_file.read_text(encoding="utf-8").strip() or None
    grows = follow or cursor is not None
    pages = fleet.records(biz, request_id=request_id, cursor=cursor, follow=follow)
    with (
        _opened(output, grows=grows) as stream,
        closing(_writer(stream, form, columns, output, follow=follow, grows=grows)) as writer,
    ):
        count = _copy(pages, writer, stream, limit, cursor_file, follow=follow)
        if (never := _never_seen(writer)) and not grows and limit is None:
            raise click.UsageError(never)
    if output is not None:
        note(f"{counted(count, 'record')} in {output}")
    if never:
        note(never)
    if pages.cursor is not None and (output is not None or follow) and cursor_file is None:
        note(f"go on from here with --cursor {pages.cursor}")
    return Exit.FINE


def _never_seen(writer: "Writer") -> str:
    """Name the --fields that are in no record; empty where all are."""
    if not isinstance(writer, CsvColumns):
        return ""
    return "; ".join(
        f"no record has the field {field!r}; they have {named(writer.met, field) or 'none'}"
        for field in writer.missed()
    )


def _copy(
    pages: "Pages[Record]",
    writer: "Writer",
    stream: IO[bytes],
    limit: int | None,
    cursor_file: Path | None,
    *,
    follow: bool,
) -> int:
    """Write all records; the cursor is kept only when everything before it is written."""
    count, kept = 0, pages.cursor
    with progress("records", hidden=stream.isatty()) as advance:
        try:
            for record in islice(pages, limit):
                if cursor_file is not None and follow and pages.cursor != kept:
                    stream.flush()
                    kept = _keep(pages.cursor, cursor_file)
                writer.write(record)
                count += 1
                advance(count, None)
                if follow:
                    stream.flush()
        except KeyboardInterrupt:
            if not follow:
                raise
        writer.finish()
        stream.flush()
    if cursor_file is not None and pages.cursor != kept:
        _keep(pages.cursor, cursor_file)
    return count


def _writer(
    stream: IO[bytes],
    form: str,
    columns: list[str] | None,
    output: Path | None,
    *,
    follow: bool,
    grows: bool,
) -> "Writer":

    if form == "jsonl":
        return JsonLines(stream)
    if grows and output is not None and output.stat().st_size:
        with output.open("rb") as begun:
            known = fields_of_header(begun.readline())
        if known is None or (columns is not None and columns != known):
            raise click.UsageError(f"{output} has other columns: choose another --output")
        return CsvColumns(stream, known, header=False)
    if columns is not None:
        return CsvColumns(stream, columns)
    if follow:
        raise click.UsageError(
            "the columns of records to come are not known: name them with --fields title,price"
        )
    return CsvOfAll(stream)


@contextmanager
def _opened(output: Path | None, *, grows: bool) -> Iterator[IO[bytes]]:
    """Standard output, or the file: grown in place, or replaced as a whole at the end."""
    if output is None:
        yield sys.stdout.buffer
        return
    if grows:
        with output.open("ab") as stream:
            yield stream
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


def _keep(cursor: str | None, cursor_file: Path) -> str | None:
    if cursor is not None:
        part = cursor_file.with_name(f".{cursor_file.name}.{os.getpid()}.part")
        part.write_text(f"{cursor}\n", encoding="utf-8")
        part.replace(cursor_file)
    return cursor


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
    """Write a JSON object per line, the record as the API gives it."""

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
        """List the columns that no record had a value for; none where there were no records."""
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
    """Return the fields of a header of ours; None where it is another file's."""
    row = next(csv.reader([line.decode("utf-8", "replace").rstrip("\r\n")]), [])
    return row[len(_FIXED) :] if tuple(row[: len(_FIXED)]) == _FIXED else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@click.command()
@click.argument("biz")
@click.argument("url", required=False)
@with_api()
def visit(fleet: "Client", biz: str, url: str | None, as_json: bool) -> int:
    """Show what is known of a page since it was last read.

    When it is read again, how often it was seen to change, and how many downloads were saved as its
    site said that nothing had changed. Without a URL: of all pages of the biz together.
    """
    if url is None:
        _show_totals(fleet.visits(biz), as_json)
    else:
        try:
            found = fleet.visit(biz, url)
        except NotFoundError as error:
            raise UnknownPageError(str(error)) from error
        _show_page(found, as_json)
    return Exit.FINE


def _show_page(found: "Visit", as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    rows = [
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("read", f"{moment(found.visited_at)}, {found.visits:,} times"),
        ("changed", f"{moment(found.changed_at)}, {found.changes:,} times"),
        ("saved downloads", part_of(found.saved, found.visits)),
        ("interval", span(found.interval_seconds)),
        ("next", moment(found.next_at) if found.next_at else "never by itself"),
        ("etag", found.etag),
        ("last modified", found.last_modified),
    ]
    draw(facts(rows))


def _show_totals(found: "VisitTotals", as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    if not found.pages:
        note("no page is known: none was read yet, or the biz has no recrawl")
        return
    rows = [
        ("pages", f"{found.pages:,}"),
        ("visits", f"{found.visits:,}"),
        ("changes", part_of(found.changes, found.visits)),
        ("saved downloads", part_of(found.saved, found.visits)),
        ("due now", f"{found.due:,}"),
    ]
    draw(facts(rows, right=True))


def part_of(count: int, whole: int) -> str:
    """Write a count, and its share of the whole.

    >>> part_of(1_234, 5_000), part_of(0, 0)
    ('1,234 (25 %)', '0')
    """
    return f"{count:,} ({count / whole:.0%})".replace("%", " %") if whole else f"{count:,}"


def span(seconds: float) -> str:
    """Write a span of time in its largest unit.

    >>> span(90), span(5_400), span(86_400 * 3.14)
    ('1.5 minutes', '1.5 hours', '3.1 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"
