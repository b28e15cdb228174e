"""``crawlfleet cost``: what work costs, by line, biz and day."""

from typing import TYPE_CHECKING

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Cost, CostsAnswer


@click.command()
@click.argument("biz", required=False)
@click.option("--period", help="A month or a day of UTC: 2026-11, 2026-11-23. Default: this month.")
@console.with_api()
def cost(fleet: "Client", biz: str | None, period: str | None, as_json: bool) -> int:
    """Show what work costs: of all bizs, or of one BIZ, up to now.

    It is what pages cause: workers' time, bytes, storage, proxies. What the stage costs by the
    month, whatever it does, is on the page of costs of the documentation. What one job costs
    `crawlfleet job show` says.
    """
    found = fleet.costs(biz, period=period)
    if as_json:
        return console.emit(found)
    _show(found, by_biz=biz is None)
    return Exit.FINE


def _show(found: "CostsAnswer", *, by_biz: bool) -> None:
    if not found.days:
        console.note(f"nothing was measured in {found.period}")
        return
    draw_lines(found.cost, f"{found.period}, prices of {found.region} as of {found.prices_of}")
    titles = ["pages>", "USD>", "per 1,000 pages>"]
    if by_biz:
        rows = [(one.biz, *_figures(one.cost)) for one in found.bizs]
        console.draw_table(["biz", *titles], rows, apart=True)
    rows = [(one.day, *_figures(one.cost)) for one in found.days]
    console.draw_table(["day", *titles], rows, apart=True)


def draw_lines(cost: "Cost", title: str) -> None:
    """Draw a table of the lines of a cost, and their sum."""
    each = 1_000 / cost.pages if cost.pages else None
    rows = [
        (line, usd(amount), "-" if each is None else usd(amount * each))
        for line, amount in (*cost.lines.items(), ("together", cost.usd))
    ]
    console.draw_table(["line", "USD>", "per 1,000 pages>"], rows, title=title)


def _figures(cost: "Cost") -> tuple[str, str, str]:
    each = cost.per_1000_pages
    return f"{cost.pages:,}", usd(cost.usd), "-" if each is None else usd(each)


def usd(amount: float) -> str:
    """Write dollars, small ones with as many places as say something.

    >>> usd(1234.5), usd(0.01234), usd(0.0000123), usd(0)
    ('1,234.50', '0.0123', '0.000012', '0.00')
    """
    if amount == 0 or amount >= 1:
        return f"{amount:,.2f}"
    return f"{amount:.4f}" if amount >= 0.001 else f"{amount:.6f}"
