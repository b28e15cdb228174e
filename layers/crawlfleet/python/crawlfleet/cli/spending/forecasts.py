"""``crawlfleet job forecast``: what a run will take, beside what it took."""

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.place_values import Values, pages_options
from crawlfleet.cli.spending.costs import usd
from crawlfleet.cli.spending.quotas import budget_of
from crawlfleet.cli.terminal import say

if TYPE_CHECKING:
    from crawlfleet.sdk import BudgetForecast, Client, Forecast, Took


@click.command("forecast")
@pages_options
@click.option(
    "--budget",
    metavar="DOLLARS",
    help="Say what part of it this budget in US dollars pays for, and when it is used up.",
)
@console.with_api("biz")
def forecast(
    fleet: "Client",
    biz: str,
    *,
    urls: Sequence[str],
    source: IO[str] | None,
    pattern: str | None,
    values: dict[str, Values],
    budget: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Forecast a job before it is started: pages, bytes, time and cost, each with a range.

    It is said as to `crawlfleet job start`; nothing is started. It rests on what earlier runs of
    the spider, or rule, and of its hosts took.
    """
    pages = [*urls, *console.lines_of(source)]
    if bool(given["spider"]) + bool(pages) + bool(pattern) > 1:
        raise click.UsageError("a job is of a --spider, or of pages: --url, --file or --pattern")
    given |= pages_of(pages, pattern, values)
    if budget is not None:
        given["quotas"] = [budget_of(budget)]
    found = fleet.forecast(biz, **given)
    if as_json:
        return console.emit(found)
    draw_forecast(found, None)
    if found.budget is not None:
        say(budget_text(found.budget))
    return Exit.FINE


def budget_text(budget: "BudgetForecast") -> str:
    """Write what a budget pays for.

    >>> from crawlfleet.sdk import Band, BudgetForecast
    >>> part, pages = Band(low=0.2, likely=0.5, high=1.0), Band(low=20, likely=500, high=900)
    >>> budget_text(BudgetForecast(usd=5.0, part=part, pages=pages, seconds=pages))
    'a budget of 5 USD pays for 50% of it (20% to 100%): 500 pages, used up after 500 s'
    """
    part, pays = budget.part, f"a budget of {budget.usd:g} USD pays for"
    after = f"after {budget.seconds.likely:,.0f} s"
    if part.low >= 1:
        return f"{pays} all of it, which ends {after}"
    ends = "used up" if part.likely < 1 else "and it ends"
    return (
        f"{pays} {part.likely:.0%} of it ({part.low:.0%} to {part.high:.0%}):"
        f" {budget.pages.likely:,.0f} pages, {ends} {after}"
    )


def pages_of(
    pages: Sequence[str], pattern: str | None, values: dict[str, Values]
) -> dict[str, Any]:
    """Say the pages of a job as the SDK takes them.

    >>> pages_of([], "https://a.example/{n}", {"n": ["1", "2"]})["start"]["values"]
    {'n': ['1', '2']}
    """
    given: dict[str, Any] = {"urls": pages} if pages else {}
    if pattern:
        several = {place: each for place, each in values.items() if not isinstance(each, str)}
        given["start"] = {"pattern": pattern, "values": several}
        values = {place: each for place, each in values.items() if place not in several}
    return given | ({"values": values} if values else {})


def draw_forecast(found: "Forecast", took: "Took | None") -> None:
    """Draw a forecast, beside what was taken up to now where anything was."""
    rows = [
        _row("pages", found.pages, None if took is None else took.pages, "{:,.0f}"),
        _row("MB", found.bytes, None if took is None else took.bytes, "{:,.2f}", 1e6),
        _row("seconds", found.seconds, None if took is None else took.seconds, "{:,.0f}"),
        (
            "USD",
            *(usd(amount) for amount in (found.usd.likely, found.usd.low, found.usd.high)),
            "" if took is None else usd(took.usd),
        ),
    ]
    titles = ["forecast", "likely>", "from>", "to>", "took>"]
    kept = len(titles) if took is not None else -1
    console.draw_table(titles[:kept], [row[:kept] for row in rows], apart=True)
    if found.error is not None:
        console.note(f"latest forecasts of it missed the cost by {found.error:.0%}")
    for why in found.why:
        console.note(why)


def _row(name: str, band: Any, took: float | None, form: str, unit: float = 1.0) -> tuple[str, ...]:
    amounts = (band.likely, band.low, band.high)
    shown = (form.format(amount / unit) for amount in amounts)
    return name, *shown, "" if took is None else form.format(took / unit)
