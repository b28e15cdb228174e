"""``crawlfleet stats``: a biz at a glance, once or again and again.

``crawlfleet status | cancel | requests``: what became of requests.
"""

import sys
import time
from contextlib import nullcontext
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli.console import (
    draw,
    emit,
    listing,
    moment,
    moment_from,
    note,
    speaks_to_api,
    table,
)
from crawlfleet.cli.failures import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, RequestStatus, Stats


@click.command()
@click.argument("biz")
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--times", type=click.IntRange(min=1), help="Stop watching after so many looks.")
@speaks_to_api
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
    """The figures as tables side by side."""
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


#: Requests that the table shows unless told otherwise.
_ROWS: Final = 50


@click.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID")
@speaks_to_api
def status(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Show everything about one request.

    The exit code tells whether the question could be answered, not how the request is doing.
    """
    found = fleet.get(biz, request_id)
    if as_json:
        emit(found)
    else:
        _show(found)
    return Exit.FINE


@click.command()
@click.argument("biz")
@click.argument("request_id", metavar="ID")
@speaks_to_api
def cancel(fleet: "Client", biz: str, request_id: str, as_json: bool) -> int:
    """Cancel a request that no worker has begun."""
    found = fleet.cancel(biz, request_id)
    if as_json:
        emit(found)
    else:
        click.echo(f"{found.id} {found.state}")
    return Exit.FINE


@click.command()
@click.argument("biz")
@click.option("--state", help="Only those in this state: pending, leased, waiting, done, dead, ...")
@click.option(
    "--since", metavar="TIME", help="Only those queued since: 2026-01-31T08:00:00Z, or 15m, 2h, 7d."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many. Default: {_ROWS} in a table, all with --json.",
)
@speaks_to_api
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
    rows = limit or (None if as_json else _ROWS)
    size = min(500, rows + 1) if rows else 500
    found = fleet.requests(biz, state=state, since=moment_from(since), page_size=size)
    if as_json:
        for each in islice(found, limit):
            emit(each)
        return Exit.FINE
    shown = list(islice(found, rows))
    if not shown:
        given = {"state": state, "since": since}
        which = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
        note(f"there are none with {which}" if which else "there are none")
        return Exit.FINE
    lines = [
        (each.id, each.state, moment(each.queued_at), each.attempts, each.records) for each in shown
    ]
    columns = ["id", "state", "queued", "tries>", "records>"]
    below = [(each.url, each.error) for each in shown]
    click.echo("\n".join(listing(columns, lines, below)))
    if len(shown) == rows and next(found, None) is not None:
        note(f"there are more than these {rows}: narrow them by --state or --since, or set --limit")
    return Exit.FINE


def _show(found: "RequestStatus") -> None:
    facts = [
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
    rows = [(name, value) for name, value in facts if name in always or value not in (None, "-")]
    drawn = table(["", ""], rows)
    drawn.show_header = False
    events = [(moment(each.at), each.state, each.by, each.why) for each in found.timeline]
    draw(drawn, table(["when", "state", "by", "why"], events, title="timeline"))
