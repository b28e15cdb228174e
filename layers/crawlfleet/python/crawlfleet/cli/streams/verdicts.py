"""Verdicts of filters on items, as ``crawlfleet subscription try`` and ``explain`` show them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from crawlfleet.cli import console

if TYPE_CHECKING:
    from crawlfleet.sdk import ExplainedItem, ItemVerdict, TriedItem


def show_tried(tried: "Sequence[tuple[int, TriedItem]]") -> None:
    """Show of items, by the lines that they came from, whether a filter takes them, and why not."""
    rows = [
        (
            *(line, one.id, one.taken, " ".join(one.found)),
            *(" ".join(one.missing), " ".join(one.excluded_by)),
        )
        for line, one in tried
    ]
    columns = ["line>", "id", "taken", "found", "missing", "excluded by"]
    console.draw_table(columns, rows)


def show_explained(found: "ExplainedItem") -> None:
    """Show an item, and of each subscription to its channel what became of it."""
    text = " ".join((found.title or found.text).split())
    facts = [
        ("item", found.item),
        ("channel", found.channel),
        ("text", text[:200]),
        ("author", found.author),
        ("published", console.moment(found.published_at)),
        ("read", console.moment(found.received_at)),
        ("withdrawn", console.moment(found.withdrawn_at) if found.withdrawn_at else None),
    ]
    rows = [fact for fact in facts if fact[1] not in (None, "")]
    console.draw_table(["field", "value"], rows, apart=True)
    columns = ["subscription", "taken", "found", "missing", "excluded by", "delivery"]
    verdicts = [
        (
            *(one.subscription, one.taken, " ".join(one.found), " ".join(one.missing)),
            *(" ".join(one.excluded_by), "" if one.delivery is None else one.delivery.state),
        )
        for one in found.verdicts
    ]
    console.listing(columns, verdicts, [tuple(_said(one)) for one in found.verdicts])
    if found.more:
        console.note("there are further subscriptions: name one by --subscription")


def _said(one: "ItemVerdict") -> Iterator[str]:
    """Say in words what a table has no room for."""
    if one.why:
        yield one.why
    if (at := one.delivery) is None:
        return
    where = ", ".join(f"{kind} {address}" for kind, address in at.target.items())
    told = "the withdrawal " if at.withdrawal else ""
    if at.state == "delivered":
        yield f"{told}delivered to {where or 'its receiver'} at {console.moment(at.delivered_at)}"
    elif at.state == "pending":
        due = f", due {console.moment(at.due_at)}" if at.due_at else ""
        yield f"{told}waits for {where or 'its receiver'}{due}"
    elif at.state == "dead":
        yield f"given up as {at.reason} at {console.moment(at.dead_at)}; message {at.id}"
    else:
        yield f"kept since {console.moment(at.accepted_at)}, as no target is named"
    if at.error:
        yield at.error
