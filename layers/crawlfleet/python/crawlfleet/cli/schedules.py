"""``crawlfleet schedule``: timed collections."""

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import click

from crawlfleet.cli.connection import speaks_to_api
from crawlfleet.cli.console import draw, emit, moment, table
from crawlfleet.cli.failures import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Schedule


@click.group()
def schedule() -> None:
    """Manage timed collections."""


@schedule.command("list")
@click.argument("biz")
@speaks_to_api
def list_all(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the schedules of a biz."""
    found = fleet.schedules(biz)
    if as_json:
        emit({"schedules": found})
    else:
        _show(found)
    return Exit.FINE


@schedule.command()
@click.argument("biz")
@click.argument("name")
@speaks_to_api
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one schedule with its URLs."""
    found = fleet.schedule(biz, name)
    if as_json:
        emit(found)
    else:
        _show([found])
        draw(table(["url"], [(url,) for url in found.urls]))
    return Exit.FINE


@schedule.command()
@click.argument("biz")
@click.argument("name")
@click.option("--cron", required=True, help='Five fields: "0 3 * * *" is every night at three.')
@click.option("--time-zone", default="UTC", show_default=True, help="Such as Europe/Berlin.")
@click.option("--rule", required=True, help="Rule that reads the pages.")
@click.option("--url", "urls", multiple=True, help="A page; may be given several times.")
@click.option(
    "--file", "-f", "source", type=click.File("r", encoding="utf-8"), help="A URL a line."
)
@click.option(
    "--missed",
    type=click.Choice(["all", "latest"]),
    default="all",
    show_default=True,
    help="Fire times to make up for after a stop.",
)
@click.option("--disabled", is_flag=True, help="Keep it, but let it rest.")
@speaks_to_api
def put(
    fleet: "Client",
    biz: str,
    name: str,
    cron: str,
    time_zone: str,
    rule: str,
    urls: Sequence[str],
    source: IO[str] | None,
    missed: str,
    disabled: bool,
    as_json: bool,
) -> int:
    """Create a schedule, or replace the one of that name."""
    lines = (line.strip() for line in source or ())
    pages = [*urls, *(line for line in lines if line and not line.startswith("#"))]
    if not pages:
        raise click.UsageError("a schedule needs pages: give --url, or --file with a URL a line")
    found = fleet.put_schedule(
        biz,
        name,
        cron=cron,
        urls=pages,
        rule=rule,
        time_zone=time_zone,
        missed=missed,
        enabled=not disabled,
    )
    if as_json:
        emit(found)
    else:
        _show([found])
    return Exit.FINE


@schedule.command()
@click.argument("biz")
@click.argument("name")
@speaks_to_api
def delete(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Remove a schedule; requests that it made stay."""
    fleet.delete_schedule(biz, name)
    if as_json:
        emit({"deleted": name})
    else:
        click.echo(f"{name} deleted")
    return Exit.FINE


def _show(found: "Sequence[Schedule]") -> None:
    draw(
        table(
            ["name", "cron", "time zone", "rule", "urls>", "enabled", "next", "last"],
            [
                (
                    each.name,
                    each.cron,
                    each.time_zone,
                    each.rule,
                    len(each.urls),
                    each.enabled,
                    moment(each.next_at),
                    moment(each.last_fired_at),
                )
                for each in found
            ],
        )
    )
