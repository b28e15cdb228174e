"""Times as people write them at a terminal.

What every command that speaks to the API shares: where it is, the key, ``--json``.

What commands show: JSON for scripts, tables and progress for people.

Texts that came from the web or from a server are shown without their control characters: they
must not steer a terminal. Rich is imported only where something is drawn.

``crawlfleet version``.
"""

import functools
import platform
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from crawlfleet import __version__
from crawlfleet.kernel.errors import InvalidRequestError

if TYPE_CHECKING:
    from rich.table import Table


_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment_from(text: str | None, field: str = "since") -> str | datetime | None:
    """A moment: an age such as ``15m``, or a time as the API takes it.

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


def speaks_to_api(command: Callable[..., int]) -> Callable[..., int]:
    """Open a client for the command, its first argument, and add the options that all share."""

    @click.option("--api-url", metavar="URL", help="Address of the API.")
    @click.option(
        "--api-key",
        metavar="KEY",
        help="Key of the tenant. Others on this machine can see arguments: prefer the environment.",
    )
    @click.option("--json", "as_json", is_flag=True, help="JSON on standard output, for scripts.")
    @functools.wraps(command)
    def opened(*args: Any, api_url: str | None, api_key: str | None, **options: Any) -> int:
        from crawlfleet.sdk import Client

        with Client(api_url, api_key) as fleet:
            return command(fleet, *args, **options)

    return opened


#: Columns of a table where there is no terminal; what is longer goes on in the next line.
_WIDTH: Final = 120

#: Tells how far something is: how much is done, and of how much (None: nobody knows).
Advance = Callable[[int, int | None], None]


def emit(document: Any) -> None:
    """Write one JSON document, on one line."""
    stream = sys.stdout.buffer
    stream.write(msgspec.json.encode(document) + b"\n")
    stream.flush()


def note(message: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(printable(message), err=True)


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "document"), counted(2_000, "document")
    ('1 document', '2,000 documents')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(text: str) -> str:
    r"""The text with control characters (but new lines and tabs) made visible.

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
    """A time as people compare it: UTC, to the millisecond where it has any."""
    if value is None:
        return "-"
    text = value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def shown(value: Any) -> str:
    """A value as a table cell."""
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
    """A table for reading. Columns that end in ``>`` are set to the right; ids are never cut."""
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
    """The lines of a table whose long texts, such as URLs, are ``below`` their rows, unbroken.

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


def draw(*drawn: Any) -> None:
    """Show tables on standard output, as wide as the terminal; elsewhere as wide as one reads."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for each in drawn:
        console.print(each)


@contextmanager
def progress(what: str, *, hidden: bool = False) -> Iterator[Advance]:
    """A progress bar on standard error; nothing where that is no terminal."""
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
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output, for scripts.")
def version(as_json: bool) -> int:
    """Show the versions of Crawlfleet and Python."""
    if as_json:
        emit({"crawlfleet": __version__, "python": platform.python_version()})
    else:
        click.echo(f"crawlfleet {__version__}, Python {platform.python_version()}")
    return 0
