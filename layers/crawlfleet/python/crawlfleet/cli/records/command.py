"""``crawlfleet records``: a table for people, JSON lines or CSV for programs and files."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import choice, console, terminal
from crawlfleet.cli.console import Exit
from crawlfleet.cli.records.writers import (
    BESIDE,
    FIXED,
    OLDER,
    CsvColumns,
    CsvOfAll,
    RecordTable,
    Writer,
    columns_of_header,
    with_names,
)
from crawlfleet.kernel.errors import CrawlfleetError, NotFoundError
from crawlfleet.kernel.validation import named
from crawlfleet.wire.results import Record

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Pages


#: Jobs that are named where the one that was meant is not there.
_NEWEST: Final = 5
#: Records of those that are asked for in which a field is looked for that nothing has counted.
_LOOKED_AT: Final = 100


def _in_a_folder(_context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a path whose folder is missing, before anything is asked for."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {str(path.parent)!r}")
    return path


@click.command()
@click.option("--follow", is_flag=True, help="Go on with new ones as they come, until Ctrl-C.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "csv"]),
    help="Default: a table in a terminal, jsonl elsewhere.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_in_a_folder,
    help="Write to this file. Replaced when all is there; with --follow or a cursor it grows.",
)
@click.option("--request", "request_id", metavar="ID", help="Only those of this request.")
@click.option(
    "--job",
    help="Only those of this job: one run of a spider or a schedule. Records that older versions "
    "stored have none.",
)
@click.option("--rule", help="Only those that this rule, or spider, has read.")
@click.option("--rule-version", metavar="VERSION", help="Only those of this version of it.")
@click.option("--host", help="Only those of this host.")
@click.option(
    "--field",
    metavar="NAME[=VALUE]",
    help="Only those in which this field has a value, or this value; of a list: this member.",
)
@click.option("--since", metavar="TIME", help="Stored since: 2026-01-31T08:00:00Z, or 15m, 2h, 7d.")
@click.option("--until", metavar="TIME", help="Stored before: a time or an age, as with --since.")
@console.order_option
@click.option(
    "--fields",
    help="Fields to show or to write, with commas between them; the columns of CSV, in this order. "
    "Beside fields these may be _url, _job, _rule, _stored_at, _id, _request_id and _trace.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many. Default: {console.ROWS} in a table, else all.",
)
@click.option("--cursor", help="Go on from here: the cursor that an earlier run told.")
@click.option(
    "--cursor-file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_in_a_folder,
    help="Go on from the cursor in this file if it is there, and keep the new one in it.",
)
@choice.filtered(*("request_id", "job", "rule", "rule_version", "host", "field", "since", "until"))
@console.with_api("biz")
def records(
    fleet: "Client",
    biz: str,
    *,
    meant: dict[str, Any],
    follow: bool,
    form: str | None,
    output: Path | None,
    order: str | None,
    fields: str | None,
    limit: int | None,
    cursor: str | None,
    cursor_file: Path | None,
    as_json: bool,
) -> int:
    """Read the records of a biz: as a table in a terminal, as lines of JSON elsewhere.

    --json is the same as --format jsonl: a line of JSON for each record. A run that goes on from a
    cursor may begin with a few records that the run before has had; their ids are the same.

    \b
    crawlfleet records news --job nightly.20260131 --field price
    crawlfleet records news --format csv --output news.csv
    crawlfleet records news --follow --cursor-file news.cursor --output news.jsonl
    """  # noqa: D301  click reads this backspace: the lines below it are not to be wrapped
    columns = [field.strip() for field in fields.split(",")] if fields else None
    if as_json and form not in {None, "jsonl"}:
        raise click.UsageError(f"--json and --format {form} exclude each other")
    goes_on = follow or cursor is not None or cursor_file is not None
    if form is None:
        plain = as_json or goes_on or output is not None or not sys.stdout.isatty()
        form = "jsonl" if plain else "table"
    if form == "table" and (goes_on or output is not None):
        raise click.UsageError("--format table is for reading: files and cursors take jsonl or csv")
    newest = (order or ("newest" if form == "table" else "oldest")) == "newest"
    if newest and goes_on:
        raise click.UsageError("--follow and cursors go with --order oldest")
    if cursor_file is not None and cursor is None and cursor_file.exists():
        cursor = cursor_file.read_text(encoding="utf-8").strip() or None
    grows = follow or cursor is not None
    if "request_id" not in meant:
        meant["newest_first"] = newest
    rows = limit or (console.ROWS if form == "table" else None)
    if rows is not None:
        meant["page_size"] = console.page_size(rows, as_json=False)
    if columns and (never := _never_seen(fleet, biz, columns, meant)):
        if not grows:  # those to come may have it
            raise click.UsageError(never)
        console.note(never)
    pages = fleet.records(biz, cursor=cursor, follow=follow, **meant)
    with (
        _opened(output, grows=grows) as stream,
        closing(_writer(stream, form, columns, output, follow=follow, grows=grows)) as writer,
    ):
        count = _copy(pages, writer, stream, rows, cursor_file, follow=follow)
        writer.finish()
        stream.flush()
    if output is not None:
        console.note(f"{console.counted(count, 'record')} in {output}")
    if form == "table":
        _say_the_rest(pages, count, limit, biz)
    _say_what_lacks(fleet, biz, pages, count, meant, whole=rows is None and not grows)
    told = cursor_file is None and (follow or (output is not None and count > 0))
    if told and pages.cursor is not None and not _has_ended(fleet, biz, **meant):
        console.note(f"go on from here with --cursor {pages.cursor}")
    return Exit.FINE


def _say_the_rest(pages: "Pages[Record]", count: int, limit: int | None, biz: str) -> None:
    if not count:
        said = f"`crawlfleet requests {biz}` shows what became of pages"
        console.note(f"there are none: {said}")
    elif count == (limit or console.ROWS) and next(pages, None) is not None:
        console.note(f"there are more than these {count}: narrow them by a filter, or set --limit")


def _say_why_none(
    fleet: "Client", biz: str, pages: "Pages[Record]", rule: str | None = None, **meant: Any
) -> None:
    if pages.note is not None:
        now = f"crawlfleet records {biz}" + (f" --rule {rule}" if rule else "")
        console.note(f"{pages.note}; as they are now: {now}")
    _name_unknown(fleet, biz, rule=rule, **meant)


def _say_what_lacks(
    fleet: "Client",
    biz: str,
    pages: "Pages[Record]",
    count: int,
    meant: Mapping[str, Any],
    *,
    whole: bool,
) -> None:
    """Say why there are no records, or of how many of a job they are what is left."""
    if not count:
        _say_why_none(fleet, biz, pages, **meant)
        return
    if not whole or not {"job"} <= {*meant} <= {"job", "rule", "newest_first"}:
        return
    with suppress(CrawlfleetError):  # the records are written
        read = fleet.job(biz, meant["job"]).coverage
        stored = sum(each.records for each in read if meant.get("rule") in {None, each.rule})
        if stored > count:
            console.note(
                f"the job has stored {stored:,} records, and {count:,} of them are its own still: "
                "one with a key is that of the page that has saved it last, in this run or in a "
                "later one; others may have expired"
            )


def _name_unknown(
    fleet: "Client",
    biz: str,
    job: str | None = None,
    rule: str | None = None,
    field: str | None = None,
    **_: object,
) -> None:
    """Name the job, the rule and the field of a filter that there is not, and those there are."""
    with suppress(CrawlfleetError):  # that there are no records was said
        if field is not None:
            name = field.partition("=")[0]
            known = _known_fields(fleet, biz)
            if known and name not in known:
                own = named(known, name)
                console.note(f"no record has the field {name!r}; they have {own}")
        if rule is not None:
            there = [one.name for one in fleet.spiders(biz)]
            if rule not in there:
                own = named(there, rule) or "none"
                console.note(f"there is no rule or spider {rule!r}; this biz has {own}")
        if job is not None:
            try:
                fleet.job(biz, job)
            except NotFoundError:
                newest = [one.name for one in islice(fleet.jobs(biz, page_size=_NEWEST), _NEWEST)]
                own = ", ".join(newest) or "none"
                console.note(f"there is no job {job!r}; the newest are {own}")


def _has_ended(fleet: "Client", biz: str, job: str | None = None, **_: object) -> bool:
    """Tell whether records of a job are asked for that has ended: no more will follow."""
    if job is not None:
        with suppress(CrawlfleetError):  # the records are written
            return fleet.job(biz, job).ended
    return False


def _never_seen(fleet: "Client", biz: str, columns: Sequence[str], meant: Mapping[str, Any]) -> str:
    """Name the --fields that no record has, and those there are; empty where all are known.

    They are known by the rules and by what was counted of their records, or else by the first of
    those that are asked for. Where there are none nothing is wrong yet.
    """
    known = _known_fields(fleet, biz)
    if {*columns} <= {*known, *BESIDE}:
        return ""
    for record in islice(fleet.records(biz, **{**meant, "page_size": _LOOKED_AT}), _LOOKED_AT):
        known = with_names(known, record)
    return "; ".join(
        f"no record has the field {field!r}; they have {named(known, field)}"
        for field in columns
        if known and field not in known and field not in BESIDE
    )


def _known_fields(fleet: "Client", biz: str) -> dict[str, None]:
    """Return the fields of the rules in force, and those that records were counted to have."""
    known: dict[str, None] = {}
    with suppress(CrawlfleetError):  # what is read says enough
        for rule in fleet.coverage(biz):
            known |= {one.name: None for one in rule.fields if one.count or rule.current}
    return known


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
    with console.progress("records", hidden=stream.isatty()) as advance:
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
        return Writer(stream, columns)
    if form == "table":
        return RecordTable(stream, columns)
    if grows and output is not None and output.stat().st_size:
        with output.open("rb") as begun:
            header = columns_of_header(begun.readline())
        # Before all of the fields, and in files of older versions, stands what is beside them.
        beside = next((each for each in (FIXED, OLDER) if header[: len(each)] == [*each]), ())
        if not (beside if columns is None else columns in (header, header[len(beside) :])):
            raise click.UsageError(f"{output} has other columns: choose another --output")
        return CsvColumns(stream, header, header=False)
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
        yield terminal.output()
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
