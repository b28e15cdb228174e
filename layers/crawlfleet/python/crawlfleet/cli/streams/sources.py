"""``crawlfleet source``: the channels and feeds of subscriptions, as they are read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from crawlfleet.cli import console

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, StreamFigures, StreamSource


@click.group()
def source() -> None:
    """Show the channels and feeds that are read, and how they do."""


@source.command("list")
@console.limit_option
@console.with_api("biz")
def list_all(fleet: "Client", biz: str, limit: int | None, as_json: bool) -> int:
    """List the channels and feeds that a biz subscribes to. With --json a line of JSON for each.

    Rates are of the last one to two hours; a lag is from publication until it was read.
    """
    return console.show_first(
        fleet.sources(biz),
        limit,
        as_json,
        _list,
        none="there are none: `crawlfleet subscription put --help` says how one is subscribed to",
        narrow="set --limit",
    )


def _list(shown: "Sequence[StreamSource]") -> None:
    rows = [
        (
            *(one.name, one.kind, one.state, len(one.subscriptions), rate(one.figures)),
            *(seconds(one.figures.lag_p95_seconds), console.to_second(one.last_item_at)),
        )
        for one in shown
    ]
    columns = ["source", "kind", "state", "subscriptions>", "a minute>", "lag p95>", "last item"]
    console.draw_table(columns, rows, least=["kind", "last item", "subscriptions>"])


@source.command()
@click.argument("biz")
@click.argument("name")
@console.with_api()
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one channel, by its NAME, or one feed, by its URL."""
    return console.answer(fleet.source(biz, name), as_json, _show)


def _show(one: "StreamSource") -> None:
    _list([one])
    facts = [
        ("subscriptions", ", ".join(one.subscriptions)),
        ("read by", ", ".join(one.readers) or "nobody"),
        ("since", console.moment(one.since)),
        ("connections", one.connections),
        ("items a second", f"{one.per_second:.3g}"),
        ("asked next", None if one.due_at is None else console.moment(one.due_at)),
        *figures(one.figures),
        ("faults", one.faults),
        ("last fault", one.last_fault),
        ("met", None if one.last_fault_at is None else console.moment(one.last_fault_at)),
    ]
    rows = [fact for fact in facts if fact[1] not in (None, "")]
    console.draw_table(["field", "value"], rows, apart=True)


def figures(found: "StreamFigures") -> list[tuple[str, str]]:
    """Write figures as facts."""
    dropped = ", ".join(f"{reason} {count:,}" for reason, count in sorted(found.dropped.items()))
    lags = f"{seconds(found.lag_p50_seconds)} median, {seconds(found.lag_p95_seconds)} p95"
    minutes = f"{found.seconds / 60:.0f} min"
    return [
        (f"read in {minutes}", f"{found.read:,}"),
        ("dropped", dropped),
        ("lag", lags if found.lag_p50_seconds is not None else ""),
    ]


def rate(found: "StreamFigures") -> str:
    """Write how many items were read a minute."""
    return f"{60 * found.read / max(1.0, found.seconds):.3g}"


def seconds(value: float | None) -> str:
    """Write a lag.

    >>> seconds(0.31), seconds(90), seconds(None)
    ('0.31 s', '90 s', '-')
    """
    return "-" if value is None else f"{value:.3g} s"
