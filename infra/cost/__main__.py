"""``python -m infra.cost``: print what pages cost; ``--write`` puts it into the cost page."""

import argparse
import math
import sys
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from infra.cost.inputs import PRICES, Inputs, read
from infra.cost.model import Bill, Line, bill, own_bill
from infra.cost.page import PAGE, VOLUMES, dollars, put_into, share, written
from infra.cost.shapes import COMPARED, shape_of


def main(page: Path = PAGE) -> int:
    """Print, or write into the page."""
    arguments = _arguments()
    inputs = _changed(read(arguments.prices), arguments)
    if arguments.write:
        page.write_text(put_into(page.read_text(), written(inputs)))
        return 0
    pages = arguments.pages
    bills = [bill(inputs, shape_of(stage, inputs.assumed), pages) for stage in COMPARED]
    bills.append(own_bill(inputs, pages))
    console = Console()
    console.print(_table(f"{pages:,.0f} pages, and nothing else", bills[:-1], by_month=False))
    console.print(_table("a month without a page", bills, by_month=True))
    volumes = Table(title="a million pages with their share of the month")
    volumes.add_column("pages a month", justify="right")
    for one in bills:
        volumes.add_column(one.name, justify="right")
    for volume in VOLUMES:
        volumes.add_row(f"{volume:,}", *(share(one, volume) for one in bills))
    console.print(volumes)
    return 0


def _table(title: str, bills: list[Bill], *, by_month: bool) -> Table:
    def lines(one: Bill) -> tuple[Line, ...]:
        return one.by_month if by_month else one.by_pages

    table = Table(title=title)
    table.add_column("line", no_wrap=True)
    for one in bills:
        table.add_column(one.name, justify="right")
    table.add_column("assumption")
    for what in dict.fromkeys(line.what for one in bills for line in lines(one)):
        found = [next((line for line in lines(one) if line.what == what), None) for one in bills]
        hows = dict.fromkeys(line.how for line in found if line)
        amounts = ("" if line is None else dollars(line.usd) for line in found)
        table.add_row(what, *amounts, "\n".join(hows))
    table.add_section()
    table.add_row("together", *(dollars(sum(line.usd for line in lines(one))) for one in bills), "")
    return table


def _changed(inputs: Inputs, arguments: argparse.Namespace) -> Inputs:
    assumed, measured = inputs.assumed, inputs.measured
    if arguments.seconds is not None:
        assumed = replace(assumed, answer_seconds=arguments.seconds)
    if arguments.page_kb is not None:
        assumed = replace(assumed, page_kb=arguments.page_kb)
    if arguments.cpu_ms is not None:
        measured = replace(measured, worker_cpu_ms=arguments.cpu_ms)
    return replace(inputs, assumed=assumed, measured=measured)


def _amount(said: str) -> float:
    """An option's number; argparse names the option."""
    try:
        amount = float(said)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise argparse.ArgumentTypeError(f"{said!r} is no number of 0 or more")
    return amount


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.cost", description=__doc__)
    parser.add_argument("--pages", type=_amount, default=1_000_000, help="default: a million")
    parser.add_argument("--seconds", type=_amount, help="until a site has answered")
    parser.add_argument("--page-kb", type=_amount, help="of a page over the wire")
    parser.add_argument("--cpu-ms", type=_amount, help="of a worker for a page")
    parser.add_argument("--prices", type=Path, default=PRICES, help="another file of inputs")
    parser.add_argument("--write", action="store_true", help="write the page and print nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
