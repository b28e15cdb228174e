"""``crawlfleet seeds``: URLs that are accepted once a segment."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli.console import (
    Exit,
    counted,
    draw,
    emit,
    entries_option,
    facts,
    is_confirmed,
    json_option,
    limit_option,
    listing,
    moment,
    note,
    only_one_choice,
    page_size,
    progress,
    show_first,
    table,
    with_api,
)
from crawlfleet.cli.failures import UnknownSegmentError
from crawlfleet.cli.submission import Entries
from crawlfleet.kernel.validation import named

if TYPE_CHECKING:
    from crawlfleet.sdk import Changed, Client, Seed, SeedOffer


#: Refusals that are shown one by one.
_SHOWN: Final = 20

_STATES = click.Choice(["ready", "handed", "finished", "failed"])


@click.group()
def seeds() -> None:
    """Offer URLs once a segment; see what became of them."""


@seeds.command()
@click.argument("biz")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@entries_option
@click.option("--rule", help="Rule or spider for those that name none.")
@click.option("--job", help="Job for those that name none: what they are counted under.")
@click.option(
    "--starts-at", metavar="TIME", help="Not before: 2026-01-31T08:00:00Z. It decides the segment."
)
@with_api()
def offer(
    fleet: "Client",
    biz: str,
    urls: Sequence[str],
    source: IO[bytes] | None,
    rule: str | None,
    job: str | None,
    starts_at: str | None,
    as_json: bool,
) -> int:
    """Offer URLs as seeds.

    A page is accepted once a segment, however often and by whichever of its URLs it is offered: the
    others are duplicates, which is no failure. `crawlfleet seeds key` tells what makes two URLs one
    page. With --json a line of JSON for each.
    """
    if not urls and source is None:
        raise click.UsageError("there is nothing to offer: give URLs, or --file with lines of them")
    entries = Entries(urls, source)
    accepted = duplicates = rejected = 0
    with progress("offered", hidden=as_json) as advance:
        answers = fleet.offer_each_seed(biz, entries, rule=rule, job=job, starts_at=starts_at)
        for answer in answers:
            accepted += answer.accepted
            duplicates += answer.duplicate
            if answer.error is not None:
                rejected += 1
                if not as_json and rejected <= _SHOWN:
                    note(f"{entries.place(answer.index)}: {_wrong(answer)}")
            if as_json:
                emit(answer)
            advance(accepted + duplicates + rejected, None)
    rejected += len(entries.refusals)
    for refusal in entries.refusals[:_SHOWN]:
        note(f"line {refusal.line}: {refusal.message}")
    if not as_json:
        click.echo(f"accepted {accepted}, duplicates {duplicates}, rejected {rejected}")
    if not accepted + duplicates + rejected:
        raise click.UsageError("there was nothing to offer: the file has no entries")
    return Exit.BAD_INPUT if rejected else Exit.FINE


@seeds.command("list")
@click.option("--segment", help="Of this segment, such as 2026-03-01.")
@click.option(
    "--state", type=_STATES, help="In this state; ready ones whose time is to come are waiting."
)
@limit_option
@with_api("biz")
def list_all(
    fleet: "Client",
    biz: str,
    segment: str | None,
    state: str | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """List seeds, by segment and key.

    Ready ones that are due later are shown as waiting, which is what `totals` counts them as. With
    --json a line of JSON for each, as the API has it.
    """
    size = page_size(limit, as_json)
    show_first(
        fleet.seeds(biz, segment=segment, state=state, page_size=size), limit, as_json, _list
    )
    return Exit.FINE


def _list(shown: "Sequence[Seed]") -> None:
    now = datetime.now(UTC)
    lines = [(each.id, _stands(each, now), moment(each.due_at), each.tries) for each in shown]
    below = [(each.url, each.why) for each in shown]
    click.echo("\n".join(listing(["id", "state", "due", "tries>"], lines, below)))


@seeds.command()
@with_api("biz")
def totals(fleet: "Client", biz: str, as_json: bool) -> int:
    """Count the seeds of the newest segments by state."""
    found = fleet.seed_totals(biz)
    if as_json:
        return emit(found)
    if not found:
        note("there are none")
        return Exit.FINE
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
    draw(table(columns, lines))
    return Exit.FINE


@seeds.command()
@click.argument("biz")
@click.argument("ids", nargs=-1, metavar="[SEGMENT/KEY]...")
@click.option("--segment", help="Those of this segment.")
@click.option("--state", type=click.Choice(["failed", "finished"]), help="Failed if not said.")
@click.option("--all", "everything", is_flag=True, help="Every failed seed of the biz.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@with_api()
def release(
    fleet: "Client",
    biz: str,
    ids: Sequence[str],
    segment: str | None,
    state: str | None,
    everything: bool,
    limit: int | None,
    as_json: bool,
) -> int:
    """Make seeds that have ended ready again: named ones, or those of a filter."""
    meant = _meant(ids, segment, state, everything=everything, limit=limit)
    if ids:
        return _named("released", fleet.release_seeds(biz, ids), ids, as_json)
    with progress("released", hidden=as_json) as advance:
        done = fleet.seeds(biz, **meant).release(
            limit=limit, everything=everything, progress=advance
        )
    if not done.count:
        _refuse_unknown(fleet, biz, segment)
    return _announce("released", done, as_json)


@seeds.command()
@click.argument("biz")
@click.argument("ids", nargs=-1, metavar="[SEGMENT/KEY]...")
@click.option("--segment", help="Those of this segment.")
@click.option("--state", type=_STATES, help="Those in this state.")
@click.option("--all", "everything", is_flag=True, help="Every seed of the biz.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@click.option("--yes", is_flag=True, help="Do not ask before many are forgotten.")
@with_api()
def forget(
    fleet: "Client",
    biz: str,
    ids: Sequence[str],
    segment: str | None,
    state: str | None,
    everything: bool,
    limit: int | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove seeds, so that their URLs are accepted anew: named ones, or those of a filter."""
    meant = _meant(ids, segment, state, everything=everything, limit=limit)
    if ids:
        return _named("forgot", fleet.forget_seeds(biz, ids), ids, as_json)
    _refuse_unknown(fleet, biz, segment)
    if not yes and not is_confirmed(f"Forget the seeds of {biz} {{}}?", meant, "forgotten"):
        note("nothing was forgotten")
        return Exit.FAILED
    with progress("forgot", hidden=as_json) as advance:
        done = fleet.seeds(biz, **meant).forget(
            limit=limit, everything=everything, progress=advance
        )
    return _announce("forgot", done, as_json)


@seeds.command()
@click.argument("url")
@click.option("--ignore", multiple=True, metavar="NAME", help="A parameter that does not count.")
@click.option("--keep", multiple=True, metavar="NAME", help="A parameter that does.")
@click.option("--only", multiple=True, metavar="NAME", help="No parameters count but these.")
@click.option("--ignore-scheme", is_flag=True, help="http and https are one.")
@click.option("--ignore-www", is_flag=True, help="A host is one with and without www.")
@click.option("--fragment", is_flag=True, help="What follows # counts.")
@json_option
def key(
    url: str,
    ignore: tuple[str, ...],
    keep: tuple[str, ...],
    only: tuple[str, ...],
    ignore_scheme: bool,
    ignore_www: bool,
    fragment: bool,
    as_json: bool,
) -> int:
    """Explain the key of a URL: its canonical form, and what of it does not count.

    Nobody is asked: the options stand for the seeds.keys of a biz's document. Names may end in *.
    """
    from crawlfleet.config.documents.policies import KeyRules
    from crawlfleet.crawling.frontier.fingerprint import canonical, seed_key
    from crawlfleet.kernel.urls import problem_with

    fault = problem_with(url)
    if fault is not None:
        raise click.UsageError(f"URL {fault}")
    rules = KeyRules(
        ignore=ignore,
        keep=keep,
        only=only,
        ignore_scheme=ignore_scheme,
        ignore_www=ignore_www,
        fragment=fragment,
    )
    found = canonical(url, rules)
    made = seed_key(url, rules).hex()
    if as_json:
        return emit({"key": made, "canonical": found.url, "dropped": found.dropped})
    draw(facts([("key", made), ("canonical", found.url)]))
    if found.dropped:
        draw(table(["dropped", "why"], [(each.what, each.why) for each in found.dropped]))
    return Exit.FINE


def _wrong(answer: "SeedOffer") -> str:
    error = answer.error
    if error is None or not error.errors:
        return "" if error is None else error.detail or error.title
    return "; ".join(map(str, error.errors))


def _meant(
    ids: Sequence[str],
    segment: str | None,
    state: str | None,
    *,
    everything: bool,
    limit: int | None,
) -> dict[str, Any]:
    """Return the filter; refuse to guess which seeds are meant."""
    given = {"segment": segment, "state": state}
    meant = {name: value for name, value in given.items() if value is not None}
    names = "Give SEGMENT/KEY, or a filter such as --segment"
    only_one_choice(ids, meant, limit, everything=everything, names=names)
    return meant


def _stands(seed: "Seed", now: datetime) -> str:
    """Name the state as `totals` does."""
    later = seed.state == "ready" and seed.due_at is not None and seed.due_at > now
    return "waiting" if later else seed.state


def _refuse_unknown(fleet: "Client", biz: str, segment: str | None) -> None:
    """Refuse a segment without seeds: perhaps another one was meant.

    Raises:
        UnknownSegmentError: there is no seed in it.
    """
    if segment is None or next(iter(fleet.seeds(biz, segment=segment, page_size=1)), None):
        return
    there = named((each.segment for each in fleet.seed_totals(biz)), segment)
    raise UnknownSegmentError(f"no seed is in segment {segment!r}; there are {there or 'none'}")


def _named(word: str, count: int, ids: Sequence[str], as_json: bool) -> int:
    """Tell how many of those that were named were changed."""
    left = len(dict.fromkeys(ids)) - count
    if as_json:
        emit({word: count, "left": left})
    else:
        click.echo(f"{word} {count}")
        if left:
            note(f"{counted(left, 'seed')} left alone: not there, or not in a state for it")
    return Exit.NOT_FOUND if left else Exit.FINE


def _announce(word: str, done: "Changed", as_json: bool) -> int:
    if as_json:
        return emit({word: done.count, "more": done.more})
    click.echo(f"{word} {done.count}")
    if done.more:
        note("there are more")
    return Exit.FINE
