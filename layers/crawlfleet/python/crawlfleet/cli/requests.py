"""``crawlfleet stats | status | cancel | requests | explain | ledger``: requests and their bizs."""

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import choice, console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import UnknownJobError
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Explanation, Ledger, RequestStatus, Stats, UrlExplanation


#: Refused transitions that are told one by one.
_SHOWN: Final = 10


@click.command()
@console.with_api()
def bizs(fleet: "Client", as_json: bool) -> int:
    """List your bizs, with their rules and spiders."""
    found = fleet.bizs()
    if as_json:
        return console.emit({"bizs": found})
    if not found:
        console.note("there are none: `crawlfleet config push FOLDER --stage STAGE` pushes them")
        return Exit.FINE
    rows = [
        (each.name, ", ".join(each.rules), ", ".join(each.spiders), each.description)
        for each in found
    ]
    console.draw_table(["name", "rules", "spiders", "description"], rows)
    return Exit.FINE


@click.command()
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--times", type=click.IntRange(min=1), help="Stop watching after so many looks.")
@console.with_api("biz")
def stats(
    fleet: "Client", biz: str, watch: bool, interval: float, times: int | None, as_json: bool
) -> int:
    """Show totals, queue, rates and where the time goes.

    With --watch --json a line of JSON for each look.
    """
    looks = range(times) if times else count() if watch else range(1)
    screen: Any = nullcontext()
    if watch and not as_json and sys.stdout.isatty():
        from rich.live import Live

        screen = Live(auto_refresh=False)
    try:
        with screen as live:
            for look in looks:
                if look:
                    time.sleep(interval)
                found = fleet.stats(biz)
                if as_json:
                    console.emit(found)
                elif live is not None:
                    live.update(drawn(biz, found), refresh=True)
                else:
                    console.draw(drawn(biz, found))
    except KeyboardInterrupt:
        if not watch:
            raise
    return Exit.FINE


def drawn(biz: str, found: "Stats") -> Any:
    """Draw the figures as tables side by side."""
    from rich.columns import Columns

    queue = found.queue
    total = sum(found.phases.values()) or 1.0
    longest = sorted(found.phases.items(), key=lambda each: -each[1])
    times = [(phase, f"{seconds:.1f}", f"{seconds / total:.0%}") for phase, seconds in longest]
    phases = console.table(["phase", "seconds>", "share>"], times, title="workers' time")
    # A worker has many pages under way: without this one wonders at more seconds than have passed.
    phases.caption = "summed over all pages, also those under way at once"
    phases.caption_justify = "left"
    totals = [
        *([] if found.submitted is None else [("submitted", found.submitted)]),
        *found.states.items(),
        ("records", found.records),
    ]
    waiting = [("ready", queue.queued), ("leased", queue.leased), ("delayed", queue.delayed)]
    ages = [("oldest since", queue.oldest_at)]
    rates = [
        (name, *(f"{each:.1f}" for each in (of.per_1s, of.per_5s, of.per_60s)))
        for name, of in (("submitted", found.rates.submitted), ("processed", found.rates.processed))
    ]
    return Columns(
        [
            console.table(["state", "requests>"], totals, title=f"{biz}: totals"),
            console.table(["queue", "requests>"], [*waiting, *ages], title="queue"),
            console.table(["requests/s over", "1 s>", "5 s>", "60 s>"], rates, title="rates"),
            phases,
        ]
    )


@click.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID", callback=choice.request_id)
@console.with_api()
def status(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Show everything about one request.

    The exit code tells whether the question could be answered, not how the request is doing.
    """
    return console.answer(fleet.get(biz, request_id), as_json, _show)


@click.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID", callback=choice.request_id)
@console.with_api()
def cancel(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Cancel a request that no worker has begun."""
    found = fleet.cancel(biz, request_id)
    return console.answer(found, as_json, lambda one: say(f"{one.id} {one.state}"))


@click.command()
@click.argument("biz")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--from", "from_state", required=True, help="State that they are in.")
@click.option("--to", "to_state", required=True, help="State that they are to be in.")
@click.option("--why", default="", help="Reason, for the timeline.")
@console.with_api()
def transition(fleet: "Client", biz: str, ids: Sequence[str], as_json: bool, **asked: Any) -> int:
    """Change requests to a biz's own states, and back.

    The biz's document has its `states` and `transitions`. Those that are in another state than
    --from stay as they are. An ID of - reads IDs from standard input, one a line. With --json a
    line of JSON for each.
    """
    given = (line.strip() for line in sys.stdin) if tuple(ids) == ("-",) else ids
    changed = repeated = refused = 0
    with console.progress("changed", hidden=as_json) as advance:
        for answer in fleet.transition_each(biz, filter(None, given), **asked):
            if answer.error is not None:
                refused += 1
                if not as_json and refused <= _SHOWN:
                    console.note(f"{answer.id}: {answer.error}")
            elif answer.repeated:
                repeated += 1
            else:
                changed += 1
            if as_json:
                console.emit(answer)
            advance(changed + repeated + refused, None)
    if not as_json:
        already = f", {repeated} were already" if repeated else ""
        say(f"changed {changed}, refused {refused}{already}")
    return Exit.FAILED if refused else Exit.FINE


@click.command()
@click.option("--state", help="Only those in this state: pending, leased, waiting, done, dead, ...")
@click.option("--job", help="Only those of this job.")
@click.option("--url", help="Only those for this page, by any URL that is the same page.")
@click.option(
    "--since", metavar="TIME", help="Only those queued since: 2026-01-31T08:00:00Z, or 15m, 2h, 7d."
)
@console.order_option
@console.limit_option
@choice.filtered("state", "job", "url", "since")
@console.with_api("biz")
def requests(
    fleet: "Client",
    biz: str,
    *,
    meant: dict[str, Any],
    order: str | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """List the requests of a biz.

    With --json a line of JSON for each.
    """
    newest = (order or ("oldest" if as_json else "newest")) == "newest"
    size = console.page_size(limit, as_json)
    found = fleet.requests(biz, **meant, newest_first=newest, page_size=size)
    which = choice.in_words(meant)
    none = f"there are none with {which}" if which else "there are none: none came, or all expired"
    narrow = "narrow them by --state, --job, --url or --since, or set --limit"
    return console.show_first(found, limit, as_json, _list, none=none, narrow=narrow)


def _list(shown: "Sequence[RequestStatus]") -> None:
    lines = [
        (
            *(each.id, each.state, each.job, console.to_second(each.queued_at)),
            *(each.attempts, each.records),
        )
        for each in shown
    ]
    columns = ["id", "state", "job", "queued", "tries>", "records>"]
    below = [(each.url, each.error) for each in shown]
    console.listing(columns, lines, below, least=["tries", "records", "queued"])


def _show(found: "RequestStatus") -> None:
    rows = [
        ("id", found.id),
        ("state", found.state),
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("job", found.job),
        ("priority", found.priority),
        ("queued", console.moment(found.queued_at)),
        ("attempts", found.attempts),
        ("records", found.records),
        ("worker", found.worker),
        ("due", console.moment(found.due_at)),
        ("error", found.error),
        ("method", found.method),
        ("headers", found.headers or None),
        ("params", found.params or None),
        ("body", found.body),
        ("meta", found.meta or None),
    ]
    always = {"id", "state", "url", "rule", "queued", "attempts", "records"}
    known = [(name, value) for name, value in rows if name in always or value not in (None, "-")]
    console.draw(console.facts(known))
    console.timeline(found.timeline)


@click.command()
@click.argument("biz")
@click.argument("what", metavar="ID|URL")
@click.option("--rule", help="Of a URL: only what is of this rule or spider.")
@console.with_api()
def explain(fleet: "Client", biz: str, what: str, rule: str | None, as_json: bool) -> int:
    """Explain why a request, or a URL, is where it is.

    Every decision in the order of time, those about the whole biz among them, and where the request
    stands now. A URL is told by its seeds, the last one's request and what is known of its page,
    and what would become of it now.
    """
    found: Explanation | UrlExplanation
    if "://" in what:
        found = fleet.explain_url(biz, what, rule=rule)
        said = found.standing.sentence
    elif "/" in what or "." in what:
        raise click.BadParameter(
            f"{what!r} is neither an id nor a URL: a URL begins with https:// or http://",
            param_hint="ID|URL",
        )
    elif rule is not None:
        raise click.UsageError("--rule goes with a URL")
    else:
        try:
            found = fleet.explain(biz, what)
        except InvalidRequestError as error:
            if {problem.field for problem in error.problems} != {"id"}:
                raise
            raise click.BadParameter(
                f"{what!r} is neither a URL nor an id, which has up to 19 digits, 24 hex digits or "
                f"is a UUID; `crawlfleet requests {biz}` lists them",
                param_hint="ID|URL",
            ) from error
        said = f"{found.id} is {found.state}. {found.standing.sentence}"
    if as_json:
        return console.emit(found)
    say(said)
    about = {"lane": f"all of {biz}"}
    if found.steps:
        console.timeline(found.steps, lambda step: about.get(step.kind, f"this {step.kind}"))
    if trace_url := getattr(found, "trace_url", None):
        console.note(f"its trace: {trace_url}")
    if found.missing:
        console.note(found.missing)
    return Exit.FINE


@click.command()
@click.option("--job", help="Only what was submitted under this job.")
@console.with_api("biz")
def ledger(fleet: "Client", biz: str, job: str | None, as_json: bool) -> int:
    """Tell where everything is that was ever submitted.

    The exit code is 1 where something is in no state at all.
    """
    try:
        found = fleet.ledger(biz, job=job)
    except NotFoundError as error:
        if job is None:
            raise
        raise UnknownJobError(str(error)) from error
    if as_json:
        console.emit(found)
    else:
        say(equation(found))
        if not found.balanced:
            amount = abs(found.difference)
            what = "are in no state" if found.difference > 0 else "were never submitted"
            said = f"difference {found.difference:+,}: {amount:,} requests {what}"
            say(said, fg="red", bold=True, err=True)
            console.note(
                "Ask again in a minute: recovery corrects what it finds. If it stays, keep this "
                'output and see "When the ledger does not balance" in docs/guides/trouble.md.'
            )
    return Exit.FINE if found.balanced else Exit.FAILED


def equation(found: "Ledger") -> str:
    """Write the ledger as an equation.

    >>> from crawlfleet.sdk import Ledger
    >>> print(equation(Ledger(submitted=1_000, pending=10, done=990)))
    submitted 1,000 = pending 10 + leased 0 + waiting 0 + done 990 + dead 0 + cancelled 0 + ...
    """
    terms = {name: count for name, count in found.terms.items() if count or name != "others"}
    total = f"submitted {found.submitted:,}"
    sign = "=" if found.balanced else "\N{NOT EQUAL TO}"
    return f"{total} {sign} " + " + ".join(f"{name} {count:,}" for name, count in terms.items())
