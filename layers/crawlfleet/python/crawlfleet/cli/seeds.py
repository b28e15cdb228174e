"""``crawlfleet seeds``: URLs that are accepted once a segment."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import choice, console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NamingGroup, UnknownSegmentError
from crawlfleet.cli.submission import Entries, waiting
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.validation import named

if TYPE_CHECKING:
    from crawlfleet.sdk import Changed, Client, Seed, SeedOffer, SegmentTotals


#: Refusals that are shown one by one.
_SHOWN: Final = 20
_NONE: Final = "there are none: `crawlfleet seeds offer --help` says how URLs become seeds"

_STATES = click.Choice(["ready", "handed", "finished", "failed"])


def _chosen(every: str) -> Callable[[console.Command], console.Command]:
    """Add the options that say which seeds are meant, by their ids or a filter."""
    named = "SEGMENT/KEY"
    with_choice = choice.with_choice(named, named=named, filtered_by="--segment", every=every)
    return lambda command: choice.filtered("segment", "state")(with_choice(command))


@click.group(cls=NamingGroup)
def seeds() -> None:
    """Offer URLs once a segment; see what became of them."""


@seeds.command()
@click.argument("biz")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@console.entries_option
@click.option("--rule", help="Rule or spider for those that name none.")
@click.option("--job", help="Job for those that name none: what they are counted under.")
@click.option(
    "--starts-at", metavar="TIME", help="Not before: 2026-01-31T08:00:00Z. It decides the segment."
)
@console.traceparent_option
@console.with_api()
def offer(
    fleet: "Client",
    biz: str,
    urls: Sequence[str],
    source: IO[bytes] | None,
    as_json: bool,
    **common: Any,
) -> int:
    """Offer URLs as seeds.

    A page is accepted once a segment, however often and by whichever of its URLs it is offered: the
    others are duplicates, which is no failure. `crawlfleet seeds key` tells what makes two URLs one
    page. A biz that has as much as it may is waited for with --file, not with URLs. With --json a
    line of JSON for each.
    """
    if not urls and source is None:
        raise click.UsageError("there is nothing to offer: give URLs, or --file with lines of them")
    entries = Entries(urls, source)
    accepted = duplicates = rejected = 0
    with console.progress("offered", hidden=as_json) as advance:
        on_wait = None if source is None else waiting(biz, lambda: accepted)
        for answer in fleet.offer_each_seed(biz, entries, on_wait=on_wait, **common):
            accepted += answer.accepted
            duplicates += answer.duplicate
            if answer.error is not None:
                rejected += 1
                if not as_json and rejected <= _SHOWN:
                    console.note(f"{entries.place(answer.index)}: {_wrong(answer)}")
            if as_json:
                console.emit(answer)
            advance(accepted + duplicates + rejected, None)
    rejected += len(entries.refusals)
    for refusal in entries.refusals[:_SHOWN]:
        console.note(f"line {refusal.line}: {refusal.message}")
    if not as_json:
        say(f"accepted {accepted}, duplicates {duplicates}, rejected {rejected}")
    if not accepted + duplicates + rejected:
        raise click.UsageError("there was nothing to offer: the file has no entries")
    return Exit.BAD_INPUT if rejected else Exit.FINE


@seeds.command("list")
@click.option("--segment", help="Of this segment, such as 2026-03-01.")
@click.option(
    "--state", type=_STATES, help="In this state; ready ones whose time is to come are waiting."
)
@console.limit_option
@console.with_api("biz")
def list_all(fleet: "Client", biz: str, limit: int | None, as_json: bool, **meant: Any) -> int:
    """List seeds, by segment and key.

    Ready ones that are due later are shown as waiting, which is what `totals` counts them as. With
    --json a line of JSON for each, as the API has it.
    """
    size = console.page_size(limit, as_json)
    found = fleet.seeds(biz, **meant, page_size=size)
    which = choice.in_words({name: one for name, one in meant.items() if one is not None})
    none = f"there are none with {which}" if which else _NONE
    return console.show_first(found, limit, as_json, _list, none=none)


def _list(shown: "Sequence[Seed]") -> None:
    now = datetime.now(UTC)
    lines = [(each.id, _stands(each, now), each.due_at, each.tries) for each in shown]
    below = [(each.url, each.why) for each in shown]
    console.listing(["id", "state", "due", "tries>"], lines, below, least=["tries", "due"])


@seeds.command()
@console.with_api("biz")
def totals(fleet: "Client", biz: str, as_json: bool) -> int:
    """Count the seeds of the newest segments by state."""
    return console.answer(fleet.seed_totals(biz), as_json, _show_totals)


def _show_totals(found: "Sequence[SegmentTotals]") -> None:
    if not found:
        console.note(_NONE)
        return
    columns = ["segment", "ready>", "waiting>", "handed>", "finished>", "failed>", "filter KB>"]
    lines = [
        (
            each.segment,
            *(f"{n:,}" for n in (each.ready, each.waiting, each.handed, each.finished)),
            f"{each.failed:,}",
            f"{each.filter_bytes / 1_000:,.0f}",
        )
        for each in found
    ]
    console.draw_table(columns, lines)


@seeds.command()
@click.argument("biz")
@click.option("--segment", help="Those of this segment.")
@click.option("--state", type=click.Choice(["failed", "finished"]), help="Failed if not said.")
@_chosen("failed seed")
@console.with_api()
def release(fleet: "Client", biz: str, chosen: choice.Choice, as_json: bool) -> int:
    """Make seeds that have ended ready again: named ones, or those of a filter."""
    if chosen.ids:
        return _named("released", fleet.release_seeds(biz, chosen.ids), chosen.ids, as_json)
    done = chosen.change("released", fleet.seeds(biz, **chosen.meant).release, as_json)
    if not done.count:
        _refuse_unknown(fleet, biz, chosen.meant.get("segment"))
    return _announce("released", done, as_json)


@seeds.command()
@click.argument("biz")
@click.option("--segment", help="Those of this segment.")
@click.option("--state", type=_STATES, help="Those in this state.")
@_chosen("seed")
@click.option("--yes", is_flag=True, help="Do not ask before many are forgotten.")
@console.with_api()
def forget(fleet: "Client", biz: str, chosen: choice.Choice, yes: bool, as_json: bool) -> int:
    """Remove seeds, so that their URLs are accepted anew: named ones, or those of a filter."""
    if chosen.ids:
        return _named("forgot", fleet.forget_seeds(biz, chosen.ids), chosen.ids, as_json)
    _refuse_unknown(fleet, biz, chosen.meant.get("segment"))
    question = f"Forget the seeds of {biz}", "?"
    if not yes and not choice.is_confirmed(question, chosen.meant, "forgotten"):
        console.note("nothing was forgotten")
        return Exit.FAILED
    done = chosen.change("forgot", fleet.seeds(biz, **chosen.meant).forget, as_json)
    return _announce("forgot", done, as_json)


@seeds.command()
@click.argument("url")
@click.option("--ignore", multiple=True, metavar="NAME", help="A parameter that does not count.")
@click.option("--keep", multiple=True, metavar="NAME", help="A parameter that does.")
@click.option("--only", multiple=True, metavar="NAME", help="No parameters count but these.")
@click.option("--ignore-scheme", is_flag=True, help="http and https are one.")
@click.option("--ignore-www", is_flag=True, help="A host is one with and without www.")
@click.option("--fragment", is_flag=True, help="What follows # counts.")
@click.option("--method", default="GET", help="Of a request that is no GET: a part of its key.")
@click.option("--body", help="The body of such a request: another part.")
@console.json_option
def key(url: str, method: str, body: str | None, as_json: bool, **rules: Any) -> int:
    """Explain the key of a URL: its canonical form, and what of it does not count.

    Nobody is asked: the options stand for the seeds.keys of a biz's document. Names may end in *.
    """
    from crawlfleet.config.documents.policies import KeyRules
    from crawlfleet.crawling.frontier.fingerprint import canonical, seed_key
    from crawlfleet.kernel.urls import problem_with

    fault = problem_with(url)
    if fault is not None:
        raise click.UsageError(f"URL {fault}")
    keys = KeyRules(**rules)
    content = None if body is None else body.encode()
    found, made = canonical(url, keys), seed_key(url, keys, method=method, body=content).hex()
    if as_json:
        return console.emit({"key": made, "canonical": found.url, "dropped": found.dropped})
    console.draw(console.facts([("key", made), ("canonical", found.url)]))
    if found.dropped:
        console.draw_table(
            ["dropped", "why"], [(each.what, each.why) for each in found.dropped], apart=True
        )
    return Exit.FINE


def _wrong(answer: "SeedOffer") -> str:
    error = answer.error
    if error is None or not error.errors:
        return "" if error is None else error.detail or error.title
    return "; ".join(map(str, error.errors))


def _stands(seed: "Seed", now: datetime) -> str:
    """Name the state as `totals` does."""
    later = seed.state == "ready" and seed.due_at is not None and seed.due_at > now
    return "waiting" if later else seed.state


def _refuse_unknown(fleet: "Client", biz: str, segment: str | None) -> None:
    """Raise an UnknownSegmentError for a segment without seeds: another one may be meant."""
    if segment is None or next(iter(fleet.seeds(biz, segment=segment, page_size=1)), None):
        return
    there = named((each.segment for each in fleet.seed_totals(biz)), segment)
    raise UnknownSegmentError(f"no seed is in segment {segment!r}; there are {there or 'none'}")


def _named(word: str, count: int, ids: Sequence[str], as_json: bool) -> int:
    """Tell how many of those that were named were changed."""
    left = len(dict.fromkeys(ids)) - count
    if as_json:
        console.emit({word: count, "left": left})
    else:
        say(f"{word} {count}")
        if left:
            console.note(
                f"{console.counted(left, 'seed')} left alone: not there, or not in a state for it"
            )
    return Exit.NOT_FOUND if left else Exit.FINE


def _announce(word: str, done: "Changed", as_json: bool) -> int:
    if as_json:
        return console.emit({word: done.count, "more": done.more})
    say(f"{word} {done.count}")
    if done.more:
        console.note("there are more")
    return Exit.FINE
