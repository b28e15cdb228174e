"""``crawlfleet doctor``: is the deployment well, seen from outside; if not, what to do next."""

from pathlib import Path

import click

from crawlfleet.cli.console import emit, note, printable
from crawlfleet.cli.diagnosis import EXITS, NAMES, Level, Saying, worst
from crawlfleet.cli.failures import Exit

_COLOURS = {
    Level.FINE: "green",
    Level.NOTE: "cyan",
    Level.LOOK: "yellow",
    Level.YOURS: "red",
    Level.BROKEN: "red",
}


@click.command()
@click.option("--api-url", metavar="URL", help="Address of the API.")
@click.option(
    "--api-key",
    metavar="KEY",
    help="Key of the tenant. Others on this machine can see arguments: prefer the environment.",
)
@click.option("--biz", "bizs", multiple=True, help="Examine this biz too; may be repeated.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare what is in force with this folder of a configuration.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output, for scripts.")
def doctor(
    api_url: str | None,
    api_key: str | None,
    bizs: tuple[str, ...],
    folder: Path | None,
    as_json: bool,
) -> int:
    r"""Examine a deployment from outside and say what is wrong and what to do.

    Address, key, TLS, clocks, health of the parts, what runs, whether anybody works while there is
    work, lateness, dead letters; with an operator's key the whole fleet, with --biz a biz and its
    ledger, with --folder whether what is in force is what it says. Nothing is changed.

    \b
    Exit codes:
      0  all is well, or worth a note at most
      1  it works, but something needs to be looked at
      2  the address, the key, the folder, the biz or this machine's clock is wrong
      3  it cannot be reached or cannot do its work
    """
    from crawlfleet.cli.doctor_checks import examine

    sayings: list[Saying] = []
    for saying in examine(api_url, api_key, bizs, folder):
        sayings.append(saying)
        if not as_json:
            _announce(saying)
    level = worst(sayings)
    if as_json:
        emit(
            {
                "level": NAMES[level],
                "checks": [
                    {"check": s.check, "level": NAMES[s.level], "said": s.said, "do": s.do}
                    for s in sayings
                ],
            }
        )
    elif level <= Level.NOTE:
        note("all is well")
    return Exit(EXITS[level])


def _announce(saying: Saying) -> None:
    level = click.style(f"{NAMES[saying.level]:<7}", fg=_COLOURS[saying.level])
    click.echo(f"{level}{saying.check:<14}{printable(saying.said)}")
    if saying.do:
        click.echo(f"{'':21}{printable(saying.do)}")
