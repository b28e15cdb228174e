"""``crawlfleet incidents``: what is wrong, where, since when, how bad, and what to do next."""

from itertools import islice
from typing import TYPE_CHECKING

import click

from crawlfleet.cli.console import emit, listing, moment, note, speaks_to_api
from crawlfleet.cli.failures import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client


_ROWS = 50


@click.command()
@click.option("--all", "ended", is_flag=True, help="Also what is over, for three months.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many. Default: {_ROWS} in a table, all with --json.",
)
@speaks_to_api
def incidents(fleet: "Client", ended: bool, limit: int | None, as_json: bool) -> int:
    """Show what is wrong, and what to do next.

    Where, since when, how bad: of the key's own bizs; an operator's key shows everybody's and the
    platform's own. The exit code is 1 while anything is open. With --json a line of JSON for each.
    """
    rows = limit or (None if as_json else _ROWS)
    found = fleet.incidents(ended=ended, page_size=min(500, rows + 1) if rows else 500)
    shown = list(islice(found, rows))
    code = Exit.FAILED if any(each.state == "open" for each in shown) else Exit.FINE
    if as_json:
        for each in shown:
            emit(each)
        return code
    if not shown:
        note("nothing has been wrong" if ended else "nothing is wrong")
        return code
    columns = ["state", "severity", "where", "what", "since", "until"]
    lines = [
        (
            each.state,
            each.severity,
            each.place,
            each.title,
            moment(each.since),
            moment(each.over_at if each.state == "over" else None),
        )
        for each in shown
    ]
    below = [
        (
            f"{each.said}{_counted(each.returns)}",
            f"What next: {each.do}" if each.state == "open" else None,
            f"people still have to be told: {each.owed}" if each.owed else None,
        )
        for each in shown
    ]
    click.echo("\n".join(listing(columns, lines, below)))
    if len(shown) == rows and next(found, None) is not None:
        note(f"there are more than these {rows}: set --limit")
    return code


def _counted(returns: int) -> str:
    """How often it has come back, if it has.

    >>> _counted(0), _counted(2)
    ('', '; it has come back 2 times')
    """
    return f"; it has come back {returns:,} times" if returns else ""
