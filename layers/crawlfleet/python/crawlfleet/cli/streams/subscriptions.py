"""``crawlfleet subscription``: who wants what of which stream."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click
import msgspec

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.spending.quotas import quota_of, quota_text
from crawlfleet.cli.streams.verdicts import show_explained, show_tried
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import InvalidRequestError, Problem

if TYPE_CHECKING:
    from crawlfleet.sdk import (
        Client,
        Subscription,
        SubscriptionFigures,
        TakenItem,
        TriedItem,
    )

#: Items that are tried by one call, and the characters that their texts have at most; one item may
#: have more than that.
_ITEMS: Final = 500
_CHARACTERS: Final = 200_000
#: How the API names an item of a call.
_ITEM: Final = re.compile(r"items\[(\d+)\]\.?")

_revision = click.option(
    "--revision", help="Refuse the change unless this is the revision now (see `show --json`)."
)


@click.group()
def subscription() -> None:
    """Subscribe to streams; try filters on saved items."""


@subscription.command("list")
@console.limit_option
@console.with_api("biz")
def list_all(fleet: "Client", biz: str, limit: int | None, as_json: bool) -> int:
    """List the subscriptions of a biz. With --json a line of JSON for each."""
    return console.show_first(
        fleet.subscriptions(biz),
        limit,
        as_json,
        _show,
        none="there are none: `crawlfleet subscription put --help` says how one is made",
        narrow="set --limit",
    )


@subscription.command()
@console.with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one subscription, what it took of late, and what waits for its receiver."""
    found = fleet.subscription(biz, name)
    seen = fleet.subscription_figures(biz, name)
    if as_json:
        figures = msgspec.to_builtins(seen)
        return console.emit({**msgspec.to_builtins(found), "figures": figures})
    _show([found])
    facts = [
        ("filter", found.filter),
        ("canonical", found.canonical if found.canonical != found.filter else None),
        *(("feed", feed) for feed in found.feeds),
        ("channel", found.channel),
        ("user", found.user),
        *((f"delivered to {kind}", to) for kind, to in (found.deliver or {}).items()),
        *(("active", each) for each in _hours(found)),
        *(("quota", quota_text(each)) for each in found.quotas),
        ("over", found.over),
        ("revision", found.revision),
        ("created", console.moment(found.created_at)),
        *_figures(seen),
    ]
    rows = [fact for fact in facts if fact[1] not in (None, "")]
    console.draw_table(["field", "value"], rows, apart=True)
    return Exit.FINE


@subscription.command()
@click.option(
    "--file",
    "-f",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The whole subscription as YAML or JSON; nothing else but --revision is given then.",
)
@click.option("--filter", "wanted", help="What is wanted: 'climate (\"green deal\" OR #cop31)'.")
@click.option("--feed", "feeds", multiple=True, help="URL of a feed; may be given several times.")
@click.option("--channel", help="A channel of the stage, instead of feeds.")
@click.option(
    "--kind",
    type=click.Choice(["rss", "x_stream", "ndjson_stream"]),
    help="Of the channel; with --feed it is rss.",
)
@console.user_option
@click.option(
    "--deliver",
    metavar="KIND=TARGET",
    help="Where items are pushed to: sqs=ARN, sns=ARN, eventbridge=ARN or redis_stream=NAME.",
)
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="UNIT=MOST[/PERIOD]",
    help="The most that it takes: items=500/day, usd=5.00/month. It may be given several times.",
)
@_revision
@console.with_api("biz", "name")
def put(
    fleet: "Client",
    biz: str,
    name: str,
    *,
    source: Path | None,
    wanted: str | None,
    revision: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Subscribe to a stream, or replace the subscription of that name.

    It is to feeds, or to a channel of the stage. Hours at which it is active are said in --file.
    """
    given = {name: value for name, value in options.items() if value}
    if source is not None:
        if wanted is not None or given:
            raise click.UsageError(
                "--file says all of the subscription: leave the other options out"
            )
        otherwise = "is no subscription: it begins with no field, such as filter:"
        document = console.document_in(source, called=str(source), otherwise=otherwise)
        found = fleet.put_subscription_document(biz, name, document, revision=revision)
    else:
        if wanted is None:
            raise click.UsageError("a subscription needs --filter, or all of it in --file")
        if not given.get("feeds") and not (given.get("channel") and given.get("kind")):
            raise click.UsageError("say what it is to: --feed, or --channel with its --kind")
        given["deliver"] = _target(given.get("deliver"))
        given["quotas"] = [_quota(text) for text in given.get("quotas", ())]
        found = fleet.put_subscription(biz, name, filter=wanted, revision=revision, **given)
    if as_json:
        return console.emit(found)
    _show([found])
    console.note(f"to try it: crawlfleet subscription try {biz} {name} --items ITEMS")
    return Exit.FINE


@subscription.command()
@_revision
@console.with_api("biz", "name")
def end(fleet: "Client", biz: str, name: str, revision: str | None, as_json: bool) -> int:
    """End a subscription; what was taken for it stays."""
    fleet.end_subscription(biz, name, revision=revision)
    return console.answer({"ended": name}, as_json, lambda _: say(f"{name} ended"))


@subscription.command()
@click.option("--cursor", help="Go on from here: the cursor that an earlier run told.")
@console.limit_option
@console.with_api("biz")
def items(fleet: "Client", biz: str, cursor: str | None, limit: int | None, as_json: bool) -> int:
    """List items that subscriptions have taken, oldest first.

    With --json a line of JSON for each, to keep them; on standard error then stands the cursor to
    go on by. Items are kept for two weeks.
    """
    found = fleet.stream_items(biz, cursor=cursor)
    code = console.show_first(
        found,
        limit,
        as_json,
        _show_items,
        none="there are none: nothing was taken in the last two weeks",
        narrow="set --limit",
    )
    if as_json and found.cursor is not None:
        console.note(f"go on from here with --cursor {found.cursor}")
    return code


def _show_items(shown: "Sequence[TakenItem]") -> None:
    rows = [
        (
            *(one.id, console.to_second(one.accepted_at), one.subscription),
            " ".join(str(one.item.get("title") or one.item.get("text", "")).split()),
        )
        for one in shown
    ]
    columns = ["id", "taken", "subscription", "item"]
    console.draw_table(columns, rows, cut=["item"], least=["id", "taken"])


@subscription.command("try")
@click.argument("biz")
@click.argument("name", required=False)
@click.option("--filter", "wanted", help="A filter, instead of the NAME of a subscription.")
@click.option(
    "--items",
    "source",
    type=click.File("rb"),
    help='A JSON object per line, such as {"id": "7", "text": "..."}; - reads standard input.',
)
@click.option(
    "--stored",
    type=click.IntRange(1, 10_000),
    metavar="COUNT",
    help="Instead of --items: the first items that the biz's subscriptions have taken.",
)
@console.with_api()
def try_filter(
    fleet: "Client",
    biz: str,
    name: str | None,
    *,
    wanted: str | None,
    source: IO[bytes] | None,
    stored: int | None,
    as_json: bool,
) -> int:
    """Try a filter on saved items: which it takes, by which terms, and what others lack.

    An item has a text, and perhaps an id, an author, a language, hashtags and mentions; whatever
    else is in it is left unread. Nothing is stored. With --json a line of JSON for each item.
    """
    if (wanted is None) is (name is None):
        raise click.UsageError("give the NAME of a subscription, or --filter")
    if (source is None) is (stored is None):
        raise click.UsageError("say what it is tried on: --items FILE, or --stored COUNT")
    lines_of_items = _stored(fleet, biz, stored or 0) if source is None else source
    tried: list[tuple[int, TriedItem]] = []
    canonical = ""
    for lines, items in _batches(lines_of_items):
        try:
            answer = fleet.try_filter(biz, items, filter=wanted, subscription=name)
        except InvalidRequestError as error:
            raise InvalidRequestError(_by_line(error.problems, lines)) from error
        canonical = answer.filter
        if as_json:
            for line, one in zip(lines, answer.items, strict=True):
                console.emit({"line": line, **msgspec.to_builtins(one)})
        tried += zip(lines, answer.items, strict=True)
    if not tried:
        which = "--items: there is no item in it" if stored is None else "no item is stored yet"
        raise click.UsageError(which)
    if not as_json:
        show_tried(tried)
        taken = sum(one.taken for _, one in tried)
        console.note(f"{canonical} takes {taken:,} of {console.counted(len(tried), 'item')}")
    return Exit.FINE


@subscription.command()
@click.argument("biz")
@click.argument("item", metavar="ITEM_ID")
@click.option("--subscription", "name", help="Only this subscription.")
@click.option("--channel", help="Its channel, or the URL of its feed.")
@console.with_api()
def explain(
    fleet: "Client", biz: str, item: str, name: str | None, channel: str | None, as_json: bool
) -> int:
    """Explain which subscriptions took an item, why others did not, where it was delivered.

    ITEM_ID is the item's id in its channel, or the id of a message. Items that no subscription of
    the biz has taken are not kept: `crawlfleet subscription try` says of any text what a filter
    makes of it.
    """
    found = fleet.explain_item(biz, item, channel=channel, subscription=name)
    return console.answer(found, as_json, show_explained)


def _stored(fleet: "Client", biz: str, count: int) -> Iterator[bytes]:
    """Write items that subscriptions have taken as lines, as a file of saved items has them."""
    fields = ("id", "text", "author", "language", "hashtags", "mentions")
    seen: set[tuple[str, str]] = set()
    for one in fleet.stream_items(biz):
        if len(seen) == count:
            return
        known = one.channel, str(one.item["id"])
        if known not in seen:
            seen.add(known)
            yield msgspec.json.encode({name: one.item[name] for name in fields})


def _batches(source: Iterable[bytes]) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """Yield items with their lines, as many as one call takes."""
    lines: list[int] = []
    items: list[dict[str, Any]] = []
    length = 0
    for number, text in enumerate(source, 1):
        if not text.strip():
            continue
        try:
            item = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise click.UsageError(f"--items: line {number}: {error}") from error
        if not isinstance(item, dict):
            raise click.UsageError(f"--items: line {number}: expected an object with a text")
        size = len(str(item.get("text", "")))
        if items and (len(items) == _ITEMS or length + size > _CHARACTERS):
            yield lines, items
            lines, items, length = [], [], 0
        lines.append(number)
        items.append(item)
        length += size
    if items:
        yield lines, items


def _by_line(problems: Sequence[Problem], lines: Sequence[int]) -> list[Problem]:
    """Name items by their lines.

    >>> _by_line([Problem("items[1].text", "is missing"), Problem("filter", "is none")], [4, 7])
    [Problem(field='line 7: text', message='is missing'), Problem(field='filter', \
message='is none')]
    """
    return [
        Problem(_ITEM.sub(lambda at: f"line {lines[int(at[1])]}: ", one.field), one.message)
        for one in problems
    ]


def _quota(text: str) -> dict[str, Any]:
    """Read a quota of the command line; at its end a subscription always waits.

    >>> _quota("items=500/day"), _quota("usd=5")
    ({'unit': 'items', 'most': 500, 'per': 'day'}, {'unit': 'usd', 'most': 5.0})
    """
    quota = quota_of(text)
    quota.pop("at_limit", None)
    return quota


def _target(text: str | None) -> dict[str, str] | None:
    """Read a target of the command line.

    >>> _target("redis_stream=items")
    {'redis_stream': 'items'}
    """
    if text is None:
        return None
    kind, equals, to = text.partition("=")
    if not equals or not kind or not to:
        said = "is a kind of target and its name: sqs=ARN, or redis_stream=NAME"
        raise click.BadParameter(f"{text}: {said}", param_hint="--deliver")
    return {kind: to}


def _show(found: "Sequence[Subscription]") -> None:
    rows = [
        (each.name, each.kind, _source(each), each.filter, _state(each), each.changed_at)
        for each in found
    ]
    columns = ["name", "kind", "of", "filter", "state", "changed"]
    console.draw_table(columns, rows, cut=["of", "filter"], least=["kind", "changed", "of"])


def _state(found: "Subscription") -> str:
    """Write the state, and when a quota that is used up begins anew."""
    if found.state != "over-quota":
        return found.state
    back = "with a higher limit" if found.back_at is None else f"at {console.moment(found.back_at)}"
    return f"quota used, back {back}"


def _source(found: "Subscription") -> str | None:
    if len(found.feeds) > 1:
        return console.counted(len(found.feeds), "feed")
    return found.feeds[0] if found.feeds else found.channel


def _hours(found: "Subscription") -> Iterator[str]:
    active = found.active or {}
    for each in active.get("hours", ()):
        days = ",".join(each["days"])
        yield f"{days} {each['begins']}-{each['ends']} {active['time_zone']}"


def _figures(seen: "SubscriptionFigures") -> Iterator[tuple[str, str | None]]:
    """Write what a subscription took, how late it was delivered, and what waits."""
    found = seen.figures
    share = f", {found.matched / found.read:.2%} of {found.read:,}" if found.read else ""
    yield f"taken in {found.seconds / 60:.0f} min", f"{found.matched:,}{share}"
    yield "delivered", f"{found.delivered:,}"
    if found.lag_p50_seconds is not None and found.lag_p95_seconds is not None:
        lag = f"{found.lag_p50_seconds:.3g} s median, {found.lag_p95_seconds:.3g} s p95"
        yield "lag from publication", lag
    at = seen.last_delivered_at
    yield "last delivery", None if at is None else console.moment(at)
    yield "waiting", f"{seen.pending:,}" if seen.pending else None
    yield "given up", f"{seen.dead:,}" if seen.dead else None
    if seen.receiver_error:
        since = "" if seen.failing_since is None else f"since {console.moment(seen.failing_since)}"
        yield "receiver fails", f"{since}: {seen.receiver_error}".lstrip(": ")
