"""``crawlfleet demands``: what runs of spiders take of workers; what a job is said to take."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Amount, Client, OwnDemand, Run, Usage

#: Units of what a worker has: bytes, GHz, bytes a second; and their names in tables.
_UNITS = {"memory": (2.0**20, "MB"), "cpu": (1.0, "GHz"), "bandwidth": (1e3, "kB/s")}
_OF_ONE = ("average", "maximum")


@click.command()
@click.argument("biz")
@click.argument("spider", required=False)
@click.option("--job", help="What the run of this job took; while it goes on, up to now.")
@console.with_api()
def demands(fleet: "Client", biz: str, spider: str | None, job: str | None, as_json: bool) -> int:
    """Show what the runs of spiders take of a worker.

    Of all spiders and rules of a biz, or of one SPIDER: on average, and at most in its latest 20
    runs. With --json a line of JSON for each.
    """
    if job is not None:
        if spider is not None:
            raise click.UsageError("give a SPIDER or a --job, not both")
        run = fleet.run(biz, job)
        return console.answer(run, as_json, _show_run)
    found = fleet.demands(biz) if spider is None else iter([fleet.demand(biz, spider)])
    if as_json:
        for each in found:
            console.emit(each)
        return Exit.FINE
    rows = [(each.spider, each.runs, *_of(each.usage), each.measured_at) for each in found]
    if not rows:
        console.note("nothing was learnt yet: a run is, about a minute after its job has ended")
        return Exit.FINE
    columns = ["spider or rule", "runs>", "memory>", "CPU>", "bandwidth>", "measured"]
    console.draw_table(columns, rows, title="of each worker: on average / at most")
    return Exit.FINE


def _show_run(run: "Run") -> None:
    memory, cpu, bandwidth = _of(run.usage)
    rows = [
        ("job", run.job),
        ("spider", run.spider),
        ("memory, on average / at most", memory),
        ("CPU", cpu),
        ("bandwidth", bandwidth),
        ("time at work", f"{run.seconds:,.1f} s of {console.counted(run.workers, 'worker')}"),
        ("attempts", f"{run.requests:,}, of which {run.errors:,} failed"),
        ("records", f"{run.records:,}"),
        ("downloaded", f"{run.bytes:,} bytes"),
        ("ended", console.moment(run.ended_at) if run.ended_at else "not yet"),
        ("learnt", console.moment(run.learnt_at) if run.learnt_at else "not yet"),
    ]
    console.draw(console.facts(row for row in rows if row[1] is not None))


def _of(usage: "Usage") -> tuple[str, str, str]:
    """Memory, CPU and bandwidth."""
    return (
        _amount(usage.memory, *_UNITS["memory"]),
        _amount(usage.cpu, *_UNITS["cpu"]),
        _amount(usage.bandwidth, *_UNITS["bandwidth"]),
    )


def _amount(amount: "Amount", unit: float, name: str) -> str:
    """Write an amount on average, and at most.

    >>> from crawlfleet.sdk import Amount
    >>> _amount(Amount(average=1_500.0, maximum=42_000.0), 1e3, "kB/s")
    '1.50 / 42.00 kB/s'
    """
    return f"{amount.average / unit:,.2f} / {amount.maximum / unit:,.2f} {name}"


def demand_of(given: Sequence[str]) -> dict[str, dict[str, float]]:
    """Read what a job is said to take of a worker.

    >>> demand_of(["cpu=0.5", "memory=1..2"])
    {'cpu': {'average': 0.5}, 'memory': {'average': 1048576.0, 'maximum': 2097152.0}}
    """
    found = {}
    for text in given:
        resource, equals, amounts = text.partition("=")
        if not (resource and equals):
            raise click.UsageError(f"--demand {text!r} is no RESOURCE=AMOUNT, such as memory=512")
        if resource in found:
            raise click.UsageError(f"--demand {text}: {resource} is given twice, and has one")
        if resource not in _UNITS:
            raise click.UsageError(f"--demand {text}: a resource is {', '.join(_UNITS)}")
        try:
            numbers = [float(part) * _UNITS[resource][0] for part in amounts.split("..")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= len(_OF_ONE) or not all(map(math.isfinite, numbers)):
            raise click.UsageError(f"--demand {text}: such as memory=300..512")
        found[resource] = dict(zip(_OF_ONE, numbers, strict=False))
    return found


def shown_demand(demand: "OwnDemand | None") -> str | None:
    """Write what a job is said to take of a worker; None where nothing is said."""
    if demand is None:
        return None
    parts = []
    for resource, (unit, name) in _UNITS.items():
        amount = getattr(demand, resource)
        numbers = [] if amount is None else [getattr(amount, each) for each in _OF_ONE]
        if shown := "..".join(f"{one / unit:,.2f}" for one in numbers if one is not None):
            parts.append(f"{resource} {shown} {name}")
    return ", ".join(parts) or None
