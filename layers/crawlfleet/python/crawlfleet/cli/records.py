"""``crawlfleet rule coverage``: in how many records each field of a rule has a value."""

from typing import TYPE_CHECKING, Final

import click

from crawlfleet.cli.console import counted, draw, emit, note, printable, speaks_to_api, table
from crawlfleet.cli.failures import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, RuleCoverage


#: Characters of a whole bar.
_BAR: Final = 20
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@click.command()
@click.argument("biz")
@click.option("--rule", "name", metavar="NAME", help="Only this rule or spider.")
@click.option("--all", "old", is_flag=True, help="Versions that are not in force any more, too.")
@speaks_to_api
def coverage(fleet: "Client", biz: str, name: str | None, old: bool, as_json: bool) -> int:
    """Show in how many records each field has a value, by rule and version.

    Records count where they were read, also those that were rejected, as the schema or the key did
    not take them. A field that falls from one version to the next, or from one day to the next, is
    one that the site has moved.
    """
    found = [
        one
        for one in fleet.coverage(biz)
        if (one.current or old or as_json) and name in (None, one.rule)
    ]
    if as_json:
        emit({"coverage": found})
        return Exit.FINE
    for one in found:
        _show(one)
    if not found:
        note("nothing was counted yet; --all shows versions that are not in force any more")
    return Exit.FINE


def _show(one: "RuleCoverage") -> None:
    state = "in force" if one.current else "not in force any more"
    amount = f"{counted(one.records, 'record')} of {counted(one.pages, 'page')}"
    if one.rejected:
        amount += f"; {one.rejected:,} of them rejected, not stored: `status` of a request says why"
    # Not as the table's title: that would be as narrow as the table.
    click.echo(printable(f"{one.rule} {one.version} ({state}): {amount}"))
    rows = [
        (field.name, bar(field.share), f"{field.share:.1%}", f"{field.count:,}")
        for field in one.fields
    ]
    draw(table(["field", "has a value", "share>", "records>"], rows))


def bar(share: float) -> str:
    """A bar of that share of a whole one.

    >>> bar(0.5)
    '██████████          '
    """
    eighths = round(min(1.0, max(0.0, share)) * _BAR * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)
