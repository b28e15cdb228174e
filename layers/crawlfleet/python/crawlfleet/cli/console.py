"""Share options, times, JSON, tables, lists and progress between commands.

Texts from the web or from a server are shown without their control characters: they must not steer
a terminal. Rich is imported only where something is drawn.
"""

import functools
import platform
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from crawlfleet import __version__
from crawlfleet.kernel.errors import InvalidRequestError

if TYPE_CHECKING:
    from rich.table import Table


class Exit(IntEnum):
    """Exit codes, as ``crawlfleet --help`` explains them."""

    FINE = 0
    FAILED = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    TIME_OUT = 5


_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
#: Rows that a table has unless --limit says otherwise, and the most that a page of the API has.
ROWS: Final = 50
_PAGE: Final = 500

json_option = click.option(
    "--json", "as_json", is_flag=True, help="JSON on standard output, for scripts."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many. Default: {ROWS} in a table, all with --json.",
)
url_option = click.option(
    "--url", "urls", multiple=True, help="A page; may be given several times."
)
url_file_option = click.option(
    "--file", "-f", "source", type=click.File("r", encoding="utf-8"), help="A URL a line."
)
entries_option = click.option(
    "--file",
    "-f",
    "source",
    type=click.File("rb"),
    help="A URL, or an entry as a JSON object, per line; - reads standard input.",
)
_api_url = click.option("--api-url", metavar="URL", help="Address of the API.")
_api_key = click.option(
    "--api-key",
    metavar="KEY",
    help="Key of the tenant. Others on this machine can see arguments: prefer the environment.",
)


def api_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that say where the API is, by which key, and ``--json``."""
    return _api_url(_api_key(json_option(command)))


def with_api(*arguments: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Open a client for the command, its first argument, and add what most commands share.

    That is ``arguments``, all that the command has, and the options of :func:`api_options`.
    """

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        @api_options
        @functools.wraps(command)
        def opened(*args: Any, api_url: str | None, api_key: str | None, **options: Any) -> int:
            from crawlfleet.sdk import Client

            with Client(api_url, api_key) as fleet:
                return command(fleet, *args, **options)

        for name in reversed(arguments):
            opened = click.argument(name)(opened)
        return opened

    return decorated


def moment_from(text: str | None, field: str = "since") -> str | datetime | None:
    """Parse a moment: an age such as ``15m``, or a time as the API takes it.

    >>> moment_from("2026-01-31T08:00:00Z")
    '2026-01-31T08:00:00Z'

    Raises:
        InvalidRequestError: it is neither.
    """
    if text is None:
        return None
    age = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if age is None:
        if not _is_time(text):
            message = "must be a time such as 2026-01-31T08:00:00Z, or an age: 15m, 2h, 7d"
            raise InvalidRequestError.of(field, message)
        return text
    return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})


def _is_time(text: str) -> bool:
    if text.isascii() and text.isdigit():
        return True  # epoch milliseconds
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


#: Columns of a table where there is no terminal; what is longer goes on in the next line.
_WIDTH: Final = 120

#: Tells how far something is: how much is done, and of how much (None: nobody knows).
Advance = Callable[[int, int | None], None]


def emit(document: Any) -> Exit:
    """Write one JSON document, on one line; that ends a command well."""
    stream = sys.stdout.buffer
    stream.write(msgspec.json.encode(document) + b"\n")
    stream.flush()
    return Exit.FINE


def deleted(name: str, as_json: bool) -> Exit:
    """Say that something of that name is there no more."""
    return answer({"deleted": name}, as_json, lambda _: click.echo(f"{name} deleted"))


def answer(found: Any, as_json: bool, show: Callable[[Any], None]) -> Exit:
    """Write what was found as JSON, or show it; that ends a command well."""
    if as_json:
        return emit(found)
    show(found)
    return Exit.FINE


def note(message: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(printable(message), err=True)


def counted(number: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "document"), counted(2_000, "document")
    ('1 document', '2,000 documents')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(text: str) -> str:
    r"""Make control characters (but new lines and tabs) visible.

    >>> print(printable("a" + chr(27) + "[31mb"))
    a\x1b[31mb
    """
    return "".join(
        char
        if char in "\n\t" or not (ord(char) < 32 or 127 <= ord(char) < 160)
        else f"\\x{ord(char):02x}"
        for char in text
    )


def moment(value: datetime | None) -> str:
    """Write a time in UTC, to the millisecond where it has any."""
    if value is None:
        return "-"
    text = value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def shown(value: Any) -> str:
    """Write a value as a table cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list | tuple):
        return msgspec.json.encode(value).decode()
    return str(value)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None
) -> "Table":
    """Make a table. Columns that end in ``>`` are set to the right; ids are never cut."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        drawn.add_column(
            column.removesuffix(">"),
            justify="right" if column.endswith(">") else "left",
            overflow="fold",
            no_wrap=column == "id",
        )
    for row in rows:
        drawn.add_row(*(Text(printable(shown(cell))) for cell in row))
    return drawn


def listing(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], below: Sequence[Sequence[str | None]]
) -> Iterator[str]:
    """Yield a table's lines; long texts, such as URLs, stand ``below`` their rows, unbroken.

    Columns that end in ``>`` are set to the right.

    >>> for line in listing(["id", "tries>"], [("7", 12)], [["https://a.example/", None]]):
    ...     print(line)
    id  tries
    ---------
    7      12
      https://a.example/
    """
    titles = [column.removesuffix(">") for column in columns]
    cells = [[printable(shown(cell)) for cell in row] for row in rows]
    widths = [max(map(len, each)) for each in zip(titles, *cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if column.endswith(">") else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    yield line(titles)
    yield "-" * (sum(widths) + 2 * (len(widths) - 1))
    for row, texts in zip(cells, below, strict=True):
        yield line(row)
        for text in filter(None, texts):
            yield from textwrap.wrap(
                printable(text),
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def facts(rows: Iterable[tuple[str, Any]], *, right: bool = False) -> "Table":
    """Make a headless table of names and values; ``right`` sets the values to the right."""
    drawn = table(["", ">" if right else ""], list(rows))
    drawn.show_header = False
    return drawn


def timeline(events: Iterable[Any]) -> "Table":
    """Make a table of a request's events."""
    rows = [(moment(each.at), each.state, each.by, each.why) for each in events]
    return table(["when", "state", "by", "why"], rows, title="timeline")


def page_size(limit: int | None, as_json: bool) -> int:
    """Rows to ask the API for at once: one more than are shown tells whether there are others."""
    rows = limit or (None if as_json else ROWS)
    return min(_PAGE, rows + 1) if rows else _PAGE


def show_first(
    found: Iterable[Any],
    limit: int | None,
    as_json: bool,
    show: Callable[[list[Any]], None],
    *,
    none: str = "there are none",
    narrow: str = "narrow them by a filter, or set --limit",
) -> None:
    """Write everything as lines of JSON, or show the first rows and say whether there are more."""
    each, rows = iter(found), limit or ROWS
    if as_json:
        for one in islice(each, limit):
            emit(one)
        return
    shown = list(islice(each, rows))
    if not shown:
        note(none)
        return
    show(shown)
    if len(shown) == rows and next(each, None) is not None:
        note(f"there are more than these {rows}: {narrow}")


def only_one_choice(
    ids: Sequence[str], meant: dict[str, Any], limit: int | None, *, everything: bool, names: str
) -> None:
    """Refuse to guess which ones are meant: those with these ids, of a filter, or all.

    Raises:
        UsageError: none of them is given, or several; ``names`` say how to give one.
    """
    ways = bool(ids) + bool(meant) + everything
    if not ways:
        raise click.UsageError(f"which ones? {names}, or --all")
    if ways > 1 or (ids and limit):
        given = names.removeprefix("Give ").partition(",")[0]
        raise click.UsageError(f"give {given}, or a filter, or --all: one of them")


def is_confirmed(question: str, meant: dict[str, Any], consequence: str) -> bool:
    """Ask whether all that a filter means is to go; ``question`` has a place for its words.

    Raises:
        UsageError: there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"many would be {consequence}: say --yes where nobody is asked")
    scope = f"with {in_words(meant)}" if meant else "- all of them -"
    return click.confirm(printable(question.format(scope)), err=True)


def in_words(meant: dict[str, Any]) -> str:
    """Write a filter for people."""
    return ", ".join(
        f"{name} {moment(value) if isinstance(value, datetime) else value}"
        for name, value in meant.items()
    )


def lines_of(source: Iterable[str] | None) -> list[str]:
    """Read the lines of a file that are neither blank nor comments."""
    lines = (line.strip() for line in source or ())
    return [line for line in lines if line and not line.startswith("#")]


def place_and_value(text: str, option: str, example: str = "page=2") -> tuple[str, str]:
    """Split an option such as ``--value page=2``.

    Raises:
        UsageError: it has no place, or no ``=``.
    """
    place, equals, value = text.partition("=")
    if not (place and equals):
        raise click.UsageError(f"{option} {text}: such as {example}")
    return place, value


def document_in(file: Path, *, called: str, otherwise: str) -> dict[str, Any]:
    """Read the YAML or JSON object in a file, which messages name as ``called``.

    Raises:
        UsageError: the file cannot be read, or holds no object; then it says ``otherwise``.
    """
    from crawlfleet.cli.config_folder import read_file

    try:
        found = msgspec.json.decode(read_file(file))
    except ValueError as error:
        raise click.UsageError(f"{called}: {error}") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{called}: {otherwise}")
    return found


def draw(*drawn: Any) -> None:
    """Show tables on standard output, as wide as the terminal; elsewhere as wide as one reads."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for each in drawn:
        console.print(each)


@contextmanager
def progress(what: str, *, hidden: bool = False) -> Iterator[Advance]:
    """Show a progress bar on standard error, if that is a terminal."""
    if hidden or not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


@click.command()
@json_option
def version(as_json: bool) -> int:
    """Show the versions of Crawlfleet and Python."""
    if as_json:
        emit({"crawlfleet": __version__, "python": platform.python_version()})
    else:
        click.echo(f"crawlfleet {__version__}, Python {platform.python_version()}")
    return 0
