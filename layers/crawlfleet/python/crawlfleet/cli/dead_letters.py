"""``crawlfleet dead``: what was given up on; read it, have it worked on again, remove it."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import choice, console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NamingGroup, judge
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.requests.outcomes import OF_RULE, OVER_QUOTA, REASONS, ROBOTS_DENIED, replay_of

if TYPE_CHECKING:
    from crawlfleet.sdk import Changed, Client, DeadLetter, Job


#: Dead letters of a job that are looked at for their reasons.
_LOOKED_AT: Final = 100
#: Fields that a list has of a dead letter: the rest, such as its timeline, `dead show` has.
_LISTED: Final = (
    *("id", "biz", "queued_at", "url", "rule", "rule_version", "job"),
    *("attempts", "reason", "error", "status", "answer"),
)


@click.group(cls=NamingGroup)
def dead() -> None:
    """Read, replay and purge dead letters."""


def _filtered(command: console.Command) -> console.Command:
    """Add the options that say which dead letters are meant; the command gets them as ``meant``."""

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
    @choice.filtered("reason", "status", "rule", "host", "job", "text", "since", "until")
    @functools.wraps(command)
    def filtered(*args: Any, **options: Any) -> int:
        return command(*args, **options)

    return filtered


_chosen = choice.with_choice("ID", named="IDs", filtered_by="--host", every="dead letter")


@dead.command("list")
@_filtered
@console.limit_option
@console.with_api("biz")
def list_all(
    fleet: "Client", biz: str, meant: dict[str, Any], limit: int | None, as_json: bool
) -> int:
    """List dead letters, oldest first.

    With --json a line of JSON for each.
    """
    size = console.page_size(limit, as_json)
    found: Iterable[Any] = fleet.dead_letters(biz, **meant, page_size=size)
    if as_json:
        found = ({name: getattr(each, name) for name in _LISTED} for each in found)
    none = (
        f"there are none with {choice.in_words(meant)}"
        if meant
        else "there are none: nothing was given up on"
    )
    return console.show_first(found, limit, as_json, _list, none=none)


def _list(shown: "Sequence[DeadLetter]") -> None:
    lines = [
        (
            *(each.id, console.to_second(each.queued_at), each.reason),
            *(each.status or None, each.attempts),
        )
        for each in shown
    ]
    columns = ["id", "queued", "reason", "status>", "tries>"]
    below = [(each.url, each.error) for each in shown]
    console.listing(columns, lines, below, least=["tries", "queued", "status"])


@dead.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID", callback=choice.request_id)
@console.with_api()
def show(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Show one dead letter with the site's last answer and the beginning of its body."""
    return console.answer(fleet.dead_letter(biz, request_id), as_json, lambda one: _show(biz, one))


@dead.command()
@click.argument("biz")
@_filtered
@_chosen
@click.option(
    "--current-rule",
    "current",
    is_flag=True,
    help="Read by the rule as it is now, not as it was when they were submitted.",
)
@console.with_api()
def replay(fleet: "Client", biz: str, chosen: choice.Choice, current: bool, as_json: bool) -> int:
    """Have dead letters worked on again: those of the IDs, or those that a filter means."""
    rule = "current" if current else "frozen"
    if chosen.ids:
        return _each("replayed", chosen.ids, lambda one: fleet.replay(biz, one, rule=rule), as_json)
    letters = fleet.dead_letters(biz, **chosen.meant)
    done = chosen.change("replayed", letters.replay, as_json, rule=rule)
    return _announce("replayed", done, as_json)


@dead.command()
@click.argument("biz")
@_filtered
@_chosen
@click.option("--yes", is_flag=True, help="Do not ask before many are removed.")
@console.with_api()
def purge(fleet: "Client", biz: str, chosen: choice.Choice, yes: bool, as_json: bool) -> int:
    """Remove dead letters for ever: those of the IDs, or those that a filter means.

    The ledger still counts them as dead.
    """
    if chosen.ids:
        return _each("purged", chosen.ids, lambda one: fleet.purge(biz, one), as_json)
    question = f"Remove the dead letters of {biz}", " for ever?"
    if not yes and not choice.is_confirmed(question, chosen.meant, "removed for ever"):
        console.note("nothing was removed")
        return Exit.FAILED
    done = chosen.change("purged", fleet.dead_letters(biz, **chosen.meant).purge, as_json)
    return _announce("purged", done, as_json)


def _each(word: str, ids: Sequence[str], change: Callable[[str], object], as_json: bool) -> int:
    """Change one by one; what fails does not stop the others, unless it is the only one.

    The exit code is the one that each alone would have; of different ones, bad input's comes first.
    """
    failed: dict[str, str] = {}
    codes: set[Exit] = set()
    with console.progress(word, hidden=as_json) as advance:
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
        console.emit({word: len(ids) - len(failed), "failed": failed})
    else:
        for one, why in failed.items():
            console.note(f"{one}: {why}")
        say(f"{word} {len(ids) - len(failed)}")
    if Exit.BAD_INPUT in codes:
        return Exit.BAD_INPUT
    return (codes or {Exit.FINE}).pop() if len(codes) < 2 else Exit.FAILED


def _announce(word: str, done: "Changed", as_json: bool) -> int:
    if as_json:
        return console.emit({word: done.count, "skipped": done.skipped, "more": done.more})
    say(f"{word} {done.count}")
    if done.skipped:
        old = console.counted(done.skipped, "dead letter")
        console.note(f"left {old} whose time to live has passed: submit those pages anew")
    if done.more:
        console.note("there are more")
    return Exit.FINE


def _show(biz: str, found: "DeadLetter") -> None:
    answer = found.answer
    rows: list[tuple[str, Any]] = [
        ("id", found.id),
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("job", found.job),
        ("queued", found.queued_at),
        ("attempts", found.attempts),
        ("worker", found.worker),
        ("reason", found.reason),
        ("error", found.error),
        ("answered", answer and (answer.status or "nothing")),
        ("answered by", (answer and answer.url != found.url and answer.url) or None),
        ("took", answer and f"{answer.seconds:.3f} s"),
    ]
    facts = console.facts((name, value) for name, value in rows if value is not None)
    console.draw(facts)
    console.timeline(found.timeline)
    if answer is not None and answer.headers:
        console.draw_table(
            ["header", "value"], sorted(answer.headers.items()), title="last answer", apart=True
        )
    if found.sample is not None:
        say(f"the body's beginning ({found.sample.encoding}):")
        say(found.sample.content)
    if found.reason == ROBOTS_DENIED:
        console.note("it would end so again while the site forbids it")
        return
    again = replay_of(biz, found.id, found.reason or "")
    console.note(f"when its cause is mended: {again}")


def say_why_dead(fleet: "Client", biz: str, job: "Job") -> None:
    """Say for which reasons tasks of a job were given up on, and what helps.

    The most frequent first, each with one of its pages: what is wrong with one is so with most.
    """
    console.note(f"what failed: crawlfleet dead list {biz} --job {job.name}")
    looked: list[DeadLetter] = []
    with suppress(CrawlfleetError):  # how many died was said
        looked += islice(fleet.dead_letters(biz, job=job.name, page_size=_LOOKED_AT), _LOOKED_AT)
    counts = Counter(one.reason for one in looked)
    for reason, count in counts.most_common():
        of = next(one for one in looked if one.reason == reason)
        if reason == OVER_QUOTA:
            console.note(
                f"{count:,} {reason}, as {of.url} ({of.error}): they would end so again until "
                f"that limit is higher. `crawlfleet quota show --biz {biz} --job {job.name}` shows "
                "it, `crawlfleet quota set --help` says how to raise one of the job"
            )
            continue
        if reason != ROBOTS_DENIED:
            console.note(f"{count:,} {reason}, as {of.url} ({of.error})")
            continue
        console.note(
            f"robots.txt forbids {'some' if len(counts) > 1 else 'them'}, as {of.url} "
            f"({of.error}): they would end so again. Where the site has agreed to it, "
            "`politeness: {robots: ignore}` in the biz's document reads them; else `deny` of "
            "the rule's `follow` leaves them out"
        )
    if len(looked) == _LOOKED_AT:
        console.note(f"that is of the first {_LOOKED_AT}")
    if set(counts) == {ROBOTS_DENIED} or job.state in {"cancelled", "cancelling"}:
        return
    again = f"crawlfleet job retry {biz} {job.name}"
    only_quota = set(counts) == {OVER_QUOTA}
    when = "once the limit is higher" if only_quota else "to have it worked on again"
    console.note(f"{when}: {again}")
    if not counts or OF_RULE & set(counts):
        console.note(f"by its rule as it is now, if that was mended: {again} --current-rule")
