"""Write the output of commands as JSON, tables and lists; add the options that they share.

What goes to a terminal goes through :mod:`crawlfleet.cli.terminal`. Rich is imported only where
something is drawn.
"""

import functools
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from crawlfleet.cli.fitting import GAP, LEAST, fit, shortened
from crawlfleet.cli.terminal import output, printable, say

if TYPE_CHECKING:
    from rich.table import Table

#: A command's function; what it returns is the exit code.
Command = Callable[..., int]


class Exit(IntEnum):
    """Exit codes, as ``crawlfleet --help`` explains them."""

    FINE = 0
    FAILED = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    TIME_OUT = 5


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
segment_option = click.option(
    "--segment",
    type=click.Choice(["job", "biz", "hour", "day", "week", "month"]),
    help="A page that links lead to is read once in it: in each job (default), or in the biz's.",
)
user_option = click.option(
    "--user", help="Whom it is for, by a name of yours: the tenant's document may limit each user."
)
traceparent_option = click.option(
    "--traceparent",
    envvar="TRACEPARENT",
    show_envvar=True,
    help="Trace the requests in a trace of yours that is recorded (W3C Trace Context).",
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
order_option = click.option(
    "--order",
    type=click.Choice(["newest", "oldest"]),
    help="Which come first. Default: the newest in a table, else the oldest.",
)
_api_url = click.option("--api-url", metavar="URL", help="Address of the API.")
_api_key = click.option(
    "--api-key",
    metavar="KEY",
    help="Key of the tenant. Others on this machine can see arguments: prefer the environment.",
)


def api_options(command: Command) -> Command:
    """Add the options that say where the API is, by which key, and ``--json``."""
    return _api_url(_api_key(json_option(command)))


def with_api(*arguments: str) -> Callable[[Command], Command]:
    """Open a client for the command, its first argument, and add what most commands share.

    That is ``arguments``, all that the command has, and the options of :func:`api_options`. What it
    was given is kept for the advice that goes with an error.
    """

    def decorated(command: Command) -> Command:
        @api_options
        @functools.wraps(command)
        def opened(*args: Any, api_url: str | None, api_key: str | None, **options: Any) -> int:
            from crawlfleet.sdk import Client

            context = click.get_current_context()
            context.ensure_object(dict).update(context.params)
            with Client(api_url, api_key) as fleet:
                return command(fleet, *args, **options)

        for name in reversed(arguments):
            opened = click.argument(name)(opened)
        return opened

    return decorated


#: Columns of a table where there is no terminal, and none are said by COLUMNS.
_WIDTH: Final = 120
#: Columns, and names of facts, whose words have a colour; and the words by what they mean.
_COLOURED: Final = frozenset({"state", "outcome"})
_COLOURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("dead", "expired", "unplaced", "failed"), "red"),
    **dict.fromkeys(("waiting", "cancelled", "cancelling", "skipped", "unfinished"), "yellow"),
    **dict.fromkeys(("leased", "running", "expanding", "placing"), "cyan"),
    **dict.fromkeys(("done", "started"), "green"),
}
#: Tells how far something is: how much is done, and of how much (None: nobody knows).
Advance = Callable[[int, int | None], None]


def width() -> int:
    """Return the columns that there are: the terminal's, or those that COLUMNS says."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(LEAST, shutil.get_terminal_size((_WIDTH, 24)).columns)
    return _WIDTH


def emit(document: Any) -> Exit:
    """Write one JSON document, on one line; that ends a command well."""
    stream = output()
    stream.write(msgspec.json.encode(document) + b"\n")
    stream.flush()
    return Exit.FINE


def deleted(name: str, as_json: bool) -> Exit:
    """Say that something of that name is there no more."""
    return answer({"deleted": name}, as_json, lambda _: say(f"{name} deleted"))


def answer(found: Any, as_json: bool, show: Callable[[Any], None]) -> Exit:
    """Write what was found as JSON, or show it; that ends a command well."""
    if as_json:
        return emit(found)
    show(found)
    return Exit.FINE


def note(message: str) -> None:
    """Say something beside the result, on standard error."""
    say(message, err=True)


def counted(number: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "document"), counted(2_000, "document")
    ('1 document', '2,000 documents')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def moment(value: datetime | None) -> str:
    """Write a time in UTC, to the millisecond where it has any."""
    if value is None:
        return "-"
    text = value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def to_second(value: datetime | None) -> datetime | None:
    """Return a time as lists have it, without its milliseconds."""
    return None if value is None else value.replace(microsecond=0)


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
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str | None = None,
    cut: Collection[str] = (),
    least: Sequence[str] = (),
) -> "Table":
    """Make a table as wide as there is room. Columns that end in ``>`` are set to the right.

    What is too long in the columns to ``cut`` ends in three dots, in others it is folded; those
    that matter ``least`` are left out first. Ids are never cut.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(shown(cell)) for cell in row] for row in rows]
    found = fit(columns, cells, width(), cut=cut, least=least)
    _say_left_out(found.left_out)
    drawn = Table(
        title=title and printable(title),
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        min_width=found.width if found.width > width() else None,
    )
    for at, size in found.widths.items():
        drawn.add_column(
            columns[at].removesuffix(">"),
            justify="right" if columns[at].endswith(">") else "left",
            overflow="fold",
            width=size,
        )
    for row in cells:
        words = _words(columns, row)
        drawn.add_row(
            *(
                Text(
                    shortened(row[at], size) if columns[at] in cut else row[at],
                    _COLOURS.get(words[at], ""),
                )
                for at, size in found.widths.items()
            )
        )
    return drawn


def _say_left_out(names: Sequence[str]) -> None:
    if names:
        note(f"no room in {width()} columns for {', '.join(names)}: --json has all")


def _words(columns: Sequence[str], row: Sequence[str]) -> list[str]:
    """Return the words of a row that have a colour: its states, but for those of nothing."""
    none = row[1:] == ["0"]
    is_fact = list(columns) == ["", ""] and row[0] in _COLOURED
    return [
        word if not none and (column in _COLOURED or (is_fact and at)) else ""
        for at, (column, word) in enumerate(zip(columns, row, strict=True))
    ]


def listing(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    below: Sequence[Sequence[str | None]],
    *,
    least: Sequence[str] = (),
) -> None:
    """Show a table as plain lines; long texts, such as URLs, stand ``below`` their rows, unbroken.

    Columns that end in ``>`` are set to the right; those that matter ``least`` are left out first.

    >>> listing(["id", "tries>"], [("7", 12)], [["https://a.example/", None]])
    id   tries
    ----------
    7       12
      https://a.example/
    """
    # A line is a row.
    cells = [[printable(shown(cell)).replace("\n", "\\n") for cell in row] for row in rows]
    found = fit(columns, cells, width(), least=least)
    _say_left_out(found.left_out)

    def line(row: Sequence[str], words: Sequence[str]) -> str:
        padded = (
            f"{shortened(row[at], size):{'>' if columns[at].endswith('>') else '<'}{size}}"
            for at, size in found.widths.items()
        )
        return (" " * GAP).join(map(_coloured, padded, (words[at] for at in found.widths))).rstrip()

    unbroken = textwrap.TextWrapper(
        width(),
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [
        line([column.removesuffix(">") for column in columns], [""] * len(columns)),
        _rule() * found.width,
    ]
    for row, texts in zip(cells, below, strict=True):
        lines.append(line(row, _words(columns, row)))
        for text in filter(None, texts):
            lines += unbroken.wrap(printable(text))
    click.echo("\n".join(lines))


def _coloured(text: str, word: str) -> str:
    colour = None if os.environ.get("NO_COLOR") else _COLOURS.get(word)
    return click.style(text, fg=colour) if colour else text


def _rule() -> str:
    """Return what a rule is made of, as Rich's tables have it."""
    encoding = sys.stdout.encoding or ""
    return "\N{BOX DRAWINGS LIGHT HORIZONTAL}" if encoding.lower().startswith("utf") else "-"


def facts(rows: Iterable[tuple[str, Any]], *, right: bool = False) -> "Table":
    """Make a headless table of names and values; ``right`` sets the values to the right."""
    drawn = table(["", ">" if right else ""], list(rows))
    drawn.show_header = False
    return drawn


def _reason(event: Any) -> str:
    """Write why something happened, with the addresses that an attempt asked."""
    return f"{event.why} (asked {', '.join(event.peers)})" if event.peers else str(event.why)


def timeline(events: Sequence[Any], about: Callable[[Any], str] | None = None) -> None:
    """List what happened and what each was ``about``; who did it and why stand below."""
    names = ["when", "state"] if about is None else ["when", "about", "state"]
    rows = [(each.at, *([about(each)] if about else []), each.state) for each in events]
    say()
    listing(names, rows, [(f"by {each.by}: {_reason(each)}",) for each in events])


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
) -> Exit:
    """Write everything as lines of JSON, or show the first rows and say whether there are more."""
    each, rows = iter(found), limit or ROWS
    if as_json:
        for one in islice(each, limit):
            emit(one)
    elif shown := list(islice(each, rows)):
        show(shown)
        if len(shown) == rows and next(each, None) is not None:
            note(f"there are more than these {rows}: {narrow}")
    else:
        note(none)
    return Exit.FINE


def lines_of(source: Iterable[str] | None) -> list[str]:
    """Read the lines of a file that are neither blank nor comments."""
    lines = (line.strip() for line in source or ())
    return [line for line in lines if line and not line.startswith("#")]


def document_in(file: Path, *, called: str, otherwise: str) -> dict[str, Any]:
    """Read the YAML or JSON object in a file, which messages name as ``called``.

    A file that cannot be read is a usage error, and one without an object: it says ``otherwise``.
    """
    from crawlfleet.cli.config_folder import read_file

    try:
        found = msgspec.json.decode(read_file(file))
    except ValueError as error:
        raise click.UsageError(f"{called}: {error}") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{called}: {otherwise}")
    return found


def draw_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str | None = None,
    cut: Collection[str] = (),
    least: Sequence[str] = (),
    apart: bool = False,
) -> None:
    """Show one table on standard output; ``apart`` from what stands above it."""
    if apart:
        click.echo()
    draw(table(columns, rows, title=title, cut=cut, least=least))


def draw(*drawn: Any) -> None:
    """Show tables on standard output, as wide as the terminal; elsewhere as wide as one reads."""
    from rich.console import Console

    console = Console(width=max(width(), *(getattr(each, "min_width", 0) or 0 for each in drawn)))
    for at, each in enumerate(drawn):
        if at:
            console.print()
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
