"""``crawlfleet dead``: what was given up on; read it, have it worked on again, remove it."""

import functools
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli.console import (
    Exit,
    counted,
    draw,
    emit,
    facts,
    in_words,
    is_confirmed,
    limit_option,
    listing,
    moment,
    moment_from,
    note,
    only_one_choice,
    page_size,
    printable,
    progress,
    show_first,
    table,
    timeline,
    with_api,
)
from crawlfleet.cli.failures import judge
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.requests.outcomes import REASONS

if TYPE_CHECKING:
    from crawlfleet.sdk import Changed, Client, DeadLetter


#: Fields that a list has of a dead letter: the rest, such as its timeline, `dead show` has.
_LISTED: Final = (
    "id",
    "biz",
    "queued_at",
    "url",
    "rule",
    "rule_version",
    "job",
    "attempts",
    "reason",
    "error",
    "status",
    "answer",
)
_NAMES: Final = "Give IDs, or a filter such as --host"
#: A filter, as the SDK takes it.
Meant = dict[str, Any]


@click.group()
def dead() -> None:
    """Read, replay and purge dead letters."""


def _filtered(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that say which letters are meant; the command gets them as ``meant``."""

    @click.option("--reason", help=f"Given up on for this: {', '.join(REASONS)}.")
    @click.option(
        "--status", type=click.IntRange(0, 999), help="The site's last answer; 0: there was none."
    )
    @click.option("--rule", help="Of this rule.")
    @click.option("--host", help="Of this host.")
    @click.option("--job", help="Of this job.")
    @click.option("--text", help="With this text in their error or their URL.")
    @click.option(
        "--since", metavar="TIME", help="Queued since: 2026-01-31T08:00:00Z, or 15m, 2h, 7d."
    )
    @click.option(
        "--until", metavar="TIME", help="Queued before: a time or an age, as with --since."
    )
    @functools.wraps(command)
    def filtered(*args: Any, since: str | None, until: str | None, **options: Any) -> int:
        names = ("reason", "status", "rule", "host", "job", "text")
        meant: Meant = {name: options.pop(name) for name in names}
        meant |= {"since": moment_from(since), "until": moment_from(until, "until")}
        given = {name: value for name, value in meant.items() if value is not None}
        return command(*args, meant=given, **options)

    return filtered


@dead.command("list")
@_filtered
@limit_option
@with_api("biz")
def list_all(fleet: "Client", biz: str, meant: Meant, limit: int | None, as_json: bool) -> int:
    """List dead letters, oldest first.

    With --json a line of JSON for each.
    """
    found = iter(fleet.dead_letters(biz, **meant, page_size=page_size(limit, as_json)))
    if as_json:
        for each in islice(found, limit):
            emit({name: getattr(each, name) for name in _LISTED})
        return Exit.FINE
    none = f"there are none with {in_words(meant)}" if meant else "there are none"
    show_first(found, limit, as_json, _list, none=none)
    return Exit.FINE


def _list(shown: "Sequence[DeadLetter]") -> None:
    lines = [
        (each.id, moment(each.queued_at), each.reason, each.status or None, each.attempts)
        for each in shown
    ]
    columns = ["id", "queued", "reason", "status>", "tries>"]
    click.echo("\n".join(listing(columns, lines, [(each.url, each.error) for each in shown])))


@dead.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID")
@with_api()
def show(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Show one dead letter with the site's last answer and the beginning of its body."""
    found = fleet.dead_letter(biz, request_id)
    if as_json:
        return emit(found)
    _show(found)
    note(f"when its cause is mended: crawlfleet dead replay {biz} {found.id}")
    return Exit.FINE


@dead.command()
@click.argument("biz")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_filtered
@click.option("--all", "everything", is_flag=True, help="Every dead letter of the biz.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option(
    "--current-rule",
    "current",
    is_flag=True,
    help="Read by the rule as it is now, not as it was when they were submitted.",
)
@with_api()
def replay(
    fleet: "Client",
    biz: str,
    ids: Sequence[str],
    meant: Meant,
    everything: bool,
    limit: int | None,
    current: bool,
    as_json: bool,
) -> int:
    """Have dead letters worked on again: those of the IDs, or those that a filter means."""
    rule = "current" if current else "frozen"
    only_one_choice(ids, meant, limit, everything=everything, names=_NAMES)
    if ids:
        return _each("replayed", ids, lambda one: fleet.replay(biz, one, rule=rule), as_json)
    with progress("replayed", hidden=as_json) as advance:
        done = fleet.dead_letters(biz, **meant).replay(
            rule=rule, limit=limit, everything=everything, progress=advance
        )
    return _announce("replayed", done, as_json)


@dead.command()
@click.argument("biz")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_filtered
@click.option("--all", "everything", is_flag=True, help="Every dead letter of the biz.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--yes", is_flag=True, help="Do not ask before many are removed.")
@with_api()
def purge(
    fleet: "Client",
    biz: str,
    ids: Sequence[str],
    meant: Meant,
    everything: bool,
    limit: int | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove dead letters for ever: those of the IDs, or those that a filter means.

    The ledger still counts them as dead.
    """
    only_one_choice(ids, meant, limit, everything=everything, names=_NAMES)
    if ids:
        return _each("purged", ids, lambda one: fleet.purge(biz, one), as_json)
    question = f"Remove the dead letters of {biz} {{}} for ever?"
    if not yes and not is_confirmed(question, meant, "removed for ever"):
        note("nothing was removed")
        return Exit.FAILED
    with progress("purged", hidden=as_json) as advance:
        done = fleet.dead_letters(biz, **meant).purge(
            limit=limit, everything=everything, progress=advance
        )
    return _announce("purged", done, as_json)


def _each(word: str, ids: Sequence[str], change: Callable[[str], object], as_json: bool) -> int:
    """Change one by one; what fails does not stop the others, unless it is the only one.

    The exit code is the one that each alone would have; of different ones, bad input's comes first.
    """
    failed: dict[str, str] = {}
    codes: set[Exit] = set()
    with progress(word, hidden=as_json) as advance:
        for place, one in enumerate(ids, start=1):
            try:
                change(one)
            except CrawlfleetError as error:
                if len(ids) == 1:
                    raise
                failed[one] = str(error)
                codes.add(judge(error)[0])
            advance(place, len(ids))
    if as_json:
        emit({word: len(ids) - len(failed), "failed": failed})
    else:
        for one, why in failed.items():
            note(f"{one}: {why}")
        click.echo(f"{word} {len(ids) - len(failed)}")
    if Exit.BAD_INPUT in codes:
        return Exit.BAD_INPUT
    return (codes or {Exit.FINE}).pop() if len(codes) < 2 else Exit.FAILED


def _announce(word: str, done: "Changed", as_json: bool) -> int:
    if as_json:
        return emit({word: done.count, "skipped": done.skipped, "more": done.more})
    click.echo(f"{word} {done.count}")
    if done.skipped:
        old = counted(done.skipped, "letter")
        note(f"left {old} whose time to live has passed: submit those pages anew")
    if done.more:
        note("there are more")
    return Exit.FINE


def _show(found: "DeadLetter") -> None:
    answer = found.answer
    rows: list[tuple[str, Any]] = [
        ("id", found.id),
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("job", found.job),
        ("queued", moment(found.queued_at)),
        ("attempts", found.attempts),
        ("worker", found.worker),
        ("reason", found.reason),
        ("error", found.error),
        ("answered", answer and (answer.status or "nothing")),
        ("answered by", (answer and answer.url != found.url and answer.url) or None),
        ("took", answer and f"{answer.seconds:.3f} s"),
    ]
    draw(facts((name, value) for name, value in rows if value is not None))
    draw(timeline(found.timeline))
    if answer is not None and answer.headers:
        draw(table(["header", "value"], sorted(answer.headers.items()), title="last answer"))
    if found.sample is not None:
        click.echo(f"the body's beginning ({found.sample.encoding}):")
        click.echo(printable(found.sample.content))
