"""What commands show: JSON for scripts, tables and progress for people.

Texts that came from the web or from a server are shown without their control characters: they
must not steer a terminal. Rich is imported only where something is drawn.
"""

import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

if TYPE_CHECKING:
    from rich.table import Table

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
