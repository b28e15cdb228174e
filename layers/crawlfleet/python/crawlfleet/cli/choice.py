"""Choose the entries that a command changes: those of ids, of a filter, or all of a biz."""

import functools
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from crawlfleet.cli import console
from crawlfleet.cli.terminal import printable
from crawlfleet.kernel.advice import filled
from crawlfleet.kernel.errors import InvalidRequestError

if TYPE_CHECKING:
    from crawlfleet.sdk import Changed

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def filtered(*names: str) -> Callable[[console.Command], console.Command]:
    """Hand the options of these names to the command as ``meant``, a filter as the SDK takes it."""

    def decorated(command: console.Command) -> console.Command:
        @functools.wraps(command)
        def with_filter(*args: Any, **options: Any) -> int:
            given = {name: options.pop(name) for name in names}
            meant = {name: value for name, value in given.items() if value is not None}
            for name in ("since", "until"):
                if name in meant:
                    meant[name] = moment_from(meant[name], name)
            return command(*args, meant=meant, **options)

        return with_filter

    return decorated


def moment_from(text: str, field: str) -> str | datetime:
    """Parse a moment: an age such as ``15m``, or a time as the API takes it.

    >>> moment_from("2026-01-31T08:00:00Z", "since")
    '2026-01-31T08:00:00Z'

    Raises:
        InvalidRequestError: it is neither.
    """
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


def request_id(ctx: click.Context, _: click.Parameter, value: str) -> str:
    """Return the id of a request that was given; a URL is named as what it is, a usage error."""
    if "://" in value:
        hint = (
            "a URL is no id: `crawlfleet requests BIZ --url URL` lists its requests, `crawlfleet "
            "explain BIZ URL` says what became of it"
        )
        raise click.BadParameter(filled(hint, {"BIZ": ctx.params.get("biz", "BIZ"), "URL": value}))
    return value


class Choice(NamedTuple):
    """The entries that a command changes: those of ids, of a filter, or all."""

    ids: Sequence[str]
    meant: dict[str, Any]
    everything: bool
    limit: int | None

    def change(
        self, word: str, change: "Callable[..., Changed]", as_json: bool, **options: Any
    ) -> "Changed":
        """Change all that the filter means under a progress bar."""
        with console.progress(word, hidden=as_json) as advance:
            return change(limit=self.limit, everything=self.everything, progress=advance, **options)


def with_choice(
    metavar: str, *, named: str, filtered_by: str, every: str
) -> Callable[[console.Command], console.Command]:
    """Add ids, --all and --limit; the command gets them and ``meant`` as one ``chosen``.

    Which ones are meant is not guessed: none of ids, filter and --all, or several of them, is a
    usage error, which says what ids are ``named`` and an option that one may be ``filtered_by``.
    """

    def decorated(command: console.Command) -> console.Command:
        @click.argument("ids", nargs=-1, metavar=f"[{metavar}]...")
        @click.option("--all", "everything", is_flag=True, help=f"Every {every} of the biz.")
        @click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
        @functools.wraps(command)
        def choosing(*args: Any, **options: Any) -> int:
            chosen = Choice(**{name: options.pop(name) for name in Choice._fields})
            ways = bool(chosen.ids) + bool(chosen.meant) + chosen.everything
            if not ways:
                raise click.UsageError(
                    f"which ones? Give {named}, or a filter such as {filtered_by}, or --all"
                )
            if ways > 1 or (chosen.ids and chosen.limit):
                raise click.UsageError(f"give {named}, or a filter, or --all: one of them")
            return command(*args, chosen=chosen, **options)

        return choosing

    return decorated


def is_confirmed(question: tuple[str, str], meant: dict[str, Any], consequence: str) -> bool:
    """Ask whether all that a filter means is to go; its words stand between ``question``'s halves.

    Where there is no terminal to ask at, that is a usage error.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"many would be {consequence}: say --yes where nobody is asked")
    scope = f"with {in_words(meant)}" if meant else "- all of them -"
    return click.confirm(printable(f" {scope}".join(question)), err=True)


def in_words(meant: dict[str, Any]) -> str:
    """Write a filter for people."""
    return ", ".join(
        f"{name} {console.moment(value) if isinstance(value, datetime) else value}"
        for name, value in meant.items()
    )
