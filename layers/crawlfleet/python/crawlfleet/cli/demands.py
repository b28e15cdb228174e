"""``crawlfleet demands``: what the runs of spiders take of their workers."""

from typing import TYPE_CHECKING

import click

from crawlfleet.cli.connection import speaks_to_api
from crawlfleet.cli.console import counted, draw, emit, moment, note, table
from crawlfleet.cli.failures import Exit

if TYPE_CHECKING:
    from crawlfleet.sdk import Amount, Client, Run, Usage


@click.command()
@click.argument("biz")
@click.argument("spider", required=False)
@click.option("--job", help="What the run of this job took; while it goes on, up to now.")
@speaks_to_api
def demands(fleet: "Client", biz: str, spider: str | None, job: str | None, as_json: bool) -> int:
    """Show what the runs of spiders take of a worker.

    Of all spiders and rules of a biz, or of one SPIDER: on average, and at most in its latest 20
    runs. With --json a line of JSON for each.
    """
    if job is not None:
        if spider is not None:
            raise click.UsageError("give a SPIDER or a --job, not both")
        run = fleet.run(biz, job)
        if as_json:
            emit(run)
        else:
            _show(run)
        return Exit.FINE
    found = fleet.demands(biz) if spider is None else iter([fleet.demand(biz, spider)])
    if as_json:
        for each in found:
            emit(each)
        return Exit.FINE
    rows = [(each.spider, each.runs, *_of(each.usage), moment(each.measured_at)) for each in found]
    if not rows:
        note("nothing was learnt yet: a run is, about a minute after its job has ended")
        return Exit.FINE
    columns = ["spider or rule", "runs>", "memory>", "CPU>", "bandwidth>", "measured"]
    draw(table(columns, rows, title="of each worker: on average / at most"))
    return Exit.FINE


def _show(run: "Run") -> None:
    memory, cpu, bandwidth = _of(run.usage)
    facts = [
        ("job", run.job),
        ("spider", run.spider),
        ("memory, on average / at most", memory),
        ("CPU", cpu),
        ("bandwidth", bandwidth),
        ("time at work", f"{run.seconds:,.1f} s of {counted(run.workers, 'worker')}"),
        ("attempts", f"{run.requests:,}, of which {run.errors:,} failed"),
        ("records", f"{run.records:,}"),
        ("downloaded", f"{run.bytes:,} bytes"),
        ("ended", moment(run.ended_at) if run.ended_at else "not yet"),
        ("learnt", moment(run.learnt_at) if run.learnt_at else "not yet"),
    ]
    drawn = table(["", ""], [fact for fact in facts if fact[1] is not None])
    drawn.show_header = False
    draw(drawn)


def _of(usage: "Usage") -> tuple[str, str, str]:
    """Memory, CPU and bandwidth."""
    return (
        _amount(usage.memory, 2.0**20, "MB"),
        _amount(usage.cpu, 1.0, "GHz"),
        _amount(usage.bandwidth, 1e3, "kB/s"),
    )


def _amount(amount: "Amount", unit: float, name: str) -> str:
    """On average, and at most.

    >>> from crawlfleet.sdk import Amount
    >>> _amount(Amount(average=1_500.0, maximum=42_000.0), 1e3, "kB/s")
    '1.50 / 42.00 kB/s'
    """
    return f"{amount.average / unit:,.2f} / {amount.maximum / unit:,.2f} {name}"
