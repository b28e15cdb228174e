"""``crawlfleet delivery``: what subscriptions were not delivered, and conversations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from crawlfleet.cli import console
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Conversation, UndeliveredItem

_of_subscription = click.option("--subscription", help="Of this subscription.")
_of_reason = click.option(
    "--reason",
    type=click.Choice(["refused", "too_large", "tried_out", "away"]),
    help="Given up for this.",
)


@click.group()
def delivery() -> None:
    """Replay what was not delivered; read conversations."""


@delivery.command("list")
@_of_subscription
@_of_reason
@console.limit_option
@console.with_api("biz")
def list_all(
    fleet: "Client",
    biz: str,
    subscription: str | None,
    reason: str | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """List items that were not delivered and are given up, oldest first.

    With --json a line of JSON for each.
    """
    found = fleet.undelivered(biz, subscription=subscription, reason=reason)
    return console.show_first(
        found, limit, as_json, _list, none="there are none: nothing was given up on"
    )


def _list(shown: "Sequence[UndeliveredItem]") -> None:
    columns = ["id", "given up", "subscription", "reason", "tries>"]
    lines = [
        (one.id, console.to_second(one.dead_at), one.subscription, one.reason, one.tries)
        for one in shown
    ]
    below = [(f"{one.channel} {one.item}", one.error) for one in shown]
    console.listing(columns, lines, below, least=["tries", "given up"])


@delivery.command()
@click.argument("biz")
@click.argument("message", metavar="ID")
@console.with_api()
def show(fleet: "Client", biz: str, message: str, as_json: bool) -> int:
    """Show one item that was not delivered, by the id of its message."""
    return console.answer(fleet.undelivered_item(biz, message), as_json, _show)


def _show(one: "UndeliveredItem") -> None:
    _list([one])
    facts = [
        *((f"to {kind}", address) for kind, address in one.target.items()),
        ("taken", console.moment(one.accepted_at)),
        ("can be replayed until", console.moment(one.expires_at)),
    ]
    console.draw_table(["field", "value"], facts, apart=True)


@delivery.command()
@click.argument("biz")
@click.argument("message", metavar="[ID]", required=False)
@_of_subscription
@_of_reason
@click.option("--all", "everything", is_flag=True, help="Every one.")
@console.with_api()
def replay(
    fleet: "Client",
    biz: str,
    message: str | None,
    subscription: str | None,
    reason: str | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Deliver again what was given up, to where its subscription delivers now."""
    chosen = [message is not None, subscription is not None or reason is not None, everything]
    if sum(chosen) != 1:
        raise click.UsageError("name an ID, or say --subscription, --reason or --all")
    if message is not None:
        fleet.redeliver(biz, message)
        count = 1
    else:
        count = fleet.redeliver_all(
            biz, subscription=subscription, reason=reason, everything=everything
        )
    return console.answer(
        {"replayed": count}, as_json, lambda _: say(f"{count:,} will be delivered again")
    )


@delivery.command()
@click.argument("biz")
@click.argument("channel")
@click.argument("item")
@console.with_api()
def conversation(fleet: "Client", biz: str, channel: str, item: str, as_json: bool) -> int:
    """Show the conversation that an item of a channel is in."""
    return console.answer(fleet.conversation(biz, channel, item), as_json, _tree)


def _tree(found: "Conversation") -> None:
    for turn in found.turns:
        text = "(not there)" if turn.placeholder else " ".join((turn.title or turn.text).split())
        author = f"{turn.author}: " if turn.author else ""
        say(f"{'  ' * turn.depth}{turn.id} {author}{text[:200]}")
