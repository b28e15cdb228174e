"""``crawlfleet stats | status | cancel | requests | explain | ledger``: requests and their bizs."""

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from crawlfleet.cli.console import (
    Exit,
    answer,
    draw,
    emit,
    facts,
    in_words,
    limit_option,
    listing,
    moment,
    moment_from,
    note,
    page_size,
    printable,
    show_first,
    table,
    timeline,
    with_api,
)
from crawlfleet.cli.failures import UnknownJobError
from crawlfleet.kernel.errors import NotFoundError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Explanation, Ledger, RequestStatus, Stats, UrlExplanation


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
@with_api("biz")
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
                    emit(found)
                elif live is not None:
                    live.update(drawn(biz, found), refresh=True)
                else:
                    draw(drawn(biz, found))
    except KeyboardInterrupt:
        if not watch:
            raise
    return Exit.FINE


def drawn(biz: str, found: "Stats") -> Any:
    """Draw the figures as tables side by side."""
    from rich.columns import Columns

    rates = found.rates
    queue = found.queue
    total = sum(found.phases.values()) or 1.0
    phases = table(
        ["phase", "seconds>", "share>"],
        [
            (phase, f"{seconds:.1f}", f"{seconds / total:.0%}")
            for phase, seconds in sorted(found.phases.items(), key=lambda each: -each[1])
        ],
        title="workers' time",
    )
    # A worker has many pages under way: without this one wonders at more seconds than have passed.
    phases.caption = "summed over all pages, also those under way at once"
    phases.caption_justify = "left"
    return Columns(
        [
            table(
                ["state", "requests>"],
                [
                    *([] if found.submitted is None else [("submitted", found.submitted)]),
                    *found.states.items(),
                    ("records", found.records),
                ],
                title=f"{biz}: totals",
            ),
            table(
                ["queue", "requests>"],
                [
                    ("ready", queue.queued),
                    ("leased", queue.leased),
                    ("delayed", queue.delayed),
                    ("oldest since", moment(queue.oldest_at)),
                ],
                title="queue",
            ),
            table(
                ["requests/s over", "1 s>", "5 s>", "60 s>"],
                [
                    (name, *(f"{each:.1f}" for each in (of.per_1s, of.per_5s, of.per_60s)))
                    for name, of in (("submitted", rates.submitted), ("processed", rates.processed))
                ],
                title="rates",
            ),
            phases,
        ]
    )


@click.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID")
@with_api()
def status(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Show everything about one request.

    The exit code tells whether the question could be answered, not how the request is doing.
    """
    found = fleet.get(biz, request_id)
    return answer(found, as_json, _show)


@click.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID")
@with_api()
def cancel(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Cancel a request that no worker has begun."""
    found = fleet.cancel(biz, request_id)
    return answer(found, as_json, lambda one: click.echo(f"{one.id} {one.state}"))


@click.command()
@click.option("--state", help="Only those in this state: pending, leased, waiting, done, dead, ...")
@click.option(
    "--since", metavar="TIME", help="Only those queued since: 2026-01-31T08:00:00Z, or 15m, 2h, 7d."
)
@limit_option
@with_api("biz")
def requests(
    fleet: "Client",
    biz: str,
    state: str | None,
    since: str | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """List the requests of a biz, oldest first.

    With --json a line of JSON for each.
    """
    found = fleet.requests(
        biz, state=state, since=moment_from(since), page_size=page_size(limit, as_json)
    )
    given = {"state": state, "since": since}
    which = in_words({name: value for name, value in given.items() if value is not None})
    show_first(
        found,
        limit,
        as_json,
        _list,
        none=f"there are none with {which}" if which else "there are none",
        narrow="narrow them by --state or --since, or set --limit",
    )
    return Exit.FINE


def _list(shown: "Sequence[RequestStatus]") -> None:
    lines = [
        (each.id, each.state, moment(each.queued_at), each.attempts, each.records) for each in shown
    ]
    columns = ["id", "state", "queued", "tries>", "records>"]
    click.echo("\n".join(listing(columns, lines, [(each.url, each.error) for each in shown])))


def _show(found: "RequestStatus") -> None:
    rows = [
        ("id", found.id),
        ("state", found.state),
        ("url", found.url),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("job", found.job),
        ("priority", found.priority),
        ("queued", moment(found.queued_at)),
        ("attempts", found.attempts),
        ("records", found.records),
        ("worker", found.worker),
        ("due", moment(found.due_at)),
        ("error", found.error),
        ("method", found.method),
        ("headers", found.headers or None),
        ("params", found.params or None),
        ("body", found.body),
        ("meta", found.meta or None),
    ]
    always = {"id", "state", "url", "rule", "queued", "attempts", "records"}
    known = [(name, value) for name, value in rows if name in always or value not in (None, "-")]
    draw(facts(known), timeline(found.timeline))


@click.command()
@click.argument("biz")
@click.argument("what", metavar="ID|URL")
@click.option("--rule", help="Of a URL: only what is of this rule or spider.")
@with_api()
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
    elif rule is not None:
        raise click.UsageError("--rule goes with a URL")
    else:
        found = fleet.explain(biz, what)
        said = f"{found.id} is {found.state}. {found.standing.sentence}"
    if as_json:
        return emit(found)
    click.echo(printable(said))
    draw(
        table(
            ["when", "about", "state", "by", "why"],
            [
                (
                    moment(step.at),
                    f"all of {biz}" if step.kind == "lane" else f"this {step.kind}",
                    step.state,
                    step.by,
                    step.why,
                )
                for step in found.steps
            ],
        )
    )
    if found.missing:
        note(found.missing)
    return Exit.FINE


@click.command()
@click.option("--job", help="Only what was submitted under this job.")
@with_api("biz")
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
        emit(found)
    else:
        click.echo(equation(found))
        if not found.balanced:
            amount = abs(found.difference)
            what = "are in no state" if found.difference > 0 else "were never submitted"
            said = f"difference {found.difference:+,}: {amount:,} requests {what}"
            click.echo(click.style(said, fg="red", bold=True), err=True)
            note(
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
