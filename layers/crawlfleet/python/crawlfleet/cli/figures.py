"""``crawlfleet stats``: a biz at a glance, once or again and again."""

import sys
import time
from contextlib import nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from crawlfleet.cli.connection import speaks_to_api
from crawlfleet.cli.console import draw, emit, moment, table
from crawlfleet.cli.failures import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Stats


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
