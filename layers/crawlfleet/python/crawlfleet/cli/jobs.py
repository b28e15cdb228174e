"""``crawlfleet demands``: what the runs of spiders take of their workers.

``crawlfleet job``: runs of spiders, schedules and lists of URLs.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import click

from crawlfleet.cli.console import (
    Exit,
    answer,
    counted,
    draw,
    emit,
    facts,
    limit_option,
    lines_of,
    moment,
    note,
    page_size,
    place_and_value,
    show_first,
    table,
    url_file_option,
    url_option,
    with_api,
)

if TYPE_CHECKING:
    from crawlfleet.sdk import Amount, Client, Job, Run, Usage


@click.command()
@click.argument("biz")
@click.argument("spider", required=False)
@click.option("--job", help="What the run of this job took; while it goes on, up to now.")
@with_api()
def demands(fleet: "Client", biz: str, spider: str | None, job: str | None, as_json: bool) -> int:
    """Show what the runs of spiders take of a worker.

    Of all spiders and rules of a biz, or of one SPIDER: on average, and at most in its latest 20
    runs. With --json a line of JSON for each.
    """
    if job is not None:
        if spider is not None:
            raise click.UsageError("give a SPIDER or a --job, not both")
        run = fleet.run(biz, job)
        return answer(run, as_json, _show_run)
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


def _show_run(run: "Run") -> None:
    memory, cpu, bandwidth = _of(run.usage)
    rows = [
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
    draw(facts(row for row in rows if row[1] is not None))


def _of(usage: "Usage") -> tuple[str, str, str]:
    """Memory, CPU and bandwidth."""
    return (
        _amount(usage.memory, 2.0**20, "MB"),
        _amount(usage.cpu, 1.0, "GHz"),
        _amount(usage.bandwidth, 1e3, "kB/s"),
    )


def _amount(amount: "Amount", unit: float, name: str) -> str:
    """Write an amount on average, and at most.

    >>> from crawlfleet.sdk import Amount
    >>> _amount(Amount(average=1_500.0, maximum=42_000.0), 1e3, "kB/s")
    '1.50 / 42.00 kB/s'
    """
    return f"{amount.average / unit:,.2f} / {amount.maximum / unit:,.2f} {name}"


#: URLs that a job takes at once; a pattern makes any number.
_MOST_URLS = 10_000
_STATES = ("placing", "expanding", "running", "cancelling", "done", "cancelled", "unplaced")


@click.group()
def job() -> None:
    """Start jobs, follow them, cancel them, retry what failed."""


@job.command()
@click.option("--spider", help="A spider that the biz keeps.")
@click.option("--version", type=click.IntRange(min=1), help="Of the spider; else its newest.")
@click.option("--rule", help="A rule, with pages of its own, instead of a spider.")
@url_option
@url_file_option
@click.option("--pattern", help="Pages with places in braces: https://shop.example/{page}.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="PLACE=FIRST..LAST",
    help="Whole numbers that go into a place of the pattern.",
)
@click.option(
    "--value",
    "values",
    multiple=True,
    metavar="PLACE=VALUE",
    help="What goes into a place that the spider's start, or the pattern, leaves open.",
)
@click.option("--priority", type=click.IntRange(0, 10), help="From 0 to 10; usually 5.")
@click.option("--pool", help="Whose workers alone do it. Default: its spider's, or the usual ones.")
@click.option("--name", help="Under one name there is one job.")
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=3600.0, show_default=True, metavar="SECONDS"
)
@with_api("biz")
def start(
    fleet: "Client",
    biz: str,
    spider: str | None,
    version: int | None,
    rule: str | None,
    urls: Sequence[str],
    source: IO[str] | None,
    pattern: str | None,
    ranges: Sequence[str],
    values: Sequence[str],
    priority: int | None,
    pool: str | None,
    name: str | None,
    waits: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Start a job: a run of a spider, or of a rule on pages."""
    pages = [*urls, *lines_of(source)]
    if bool(spider) + bool(pages) + bool(pattern) != 1:
        raise click.UsageError("a job is of a --spider, or of pages: --url, --file or --pattern")
    if len(pages) > _MOST_URLS:
        raise click.UsageError(
            f"a job takes {_MOST_URLS:,} URLs, and these are {len(pages):,}: `crawlfleet submit "
            f"{biz} --file FILE --job NAME` takes any number of them"
        )
    given: dict[str, Any] = {"spider": spider, "version": version, "rule": rule}
    if pages:
        given["urls"] = pages
    if pattern:
        given["start"] = {"pattern": pattern, "values": _ranges(ranges)}
    elif ranges:
        raise click.UsageError("--range is of a --pattern")
    if values:
        given["values"] = dict(place_and_value(value, "--value") for value in values)
    found = fleet.start_job(biz, **given, priority=priority, pool=pool, name=name)
    if waits:
        return _followed(fleet, biz, found.name, timeout, as_json)
    if as_json:
        return emit(found)
    click.echo(f"{found.name} {found.state}, {counted(found.size, 'task')}")
    note(f"to follow it: crawlfleet job wait {biz} {found.name}")
    return Exit.FINE


@job.command("list")
@click.option("--state", multiple=True, type=click.Choice(_STATES), help="In this state.")
@click.option("--spider", help="Runs of this spider.")
@click.option("--schedule", help="Fired by this schedule.")
@limit_option
@with_api("biz")
def list_all(
    fleet: "Client",
    biz: str,
    state: Sequence[str],
    spider: str | None,
    schedule: str | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """List jobs, the newest first.

    With --json a line of JSON for each.
    """
    size = page_size(limit, as_json)
    found = fleet.jobs(
        biz, state=list(state) or None, spider=spider, schedule=schedule, page_size=size
    )
    show_first(
        found,
        limit,
        as_json,
        _list,
        none="there are none: `crawlfleet job start` starts one",
        narrow="narrow them by --state, or set --limit",
    )
    return Exit.FINE


def _list(shown: "Sequence[Job]") -> None:
    draw(
        table(
            ["name", "state", "of", "tasks>", "made>", "started", "ended"],
            [
                (
                    each.name,
                    each.state,
                    each.spider or each.schedule or each.rule,
                    each.size,
                    each.expanded,
                    moment(each.created_at),
                    moment(each.ended_at),
                )
                for each in shown
            ],
        )
    )


@job.command()
@with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one job: how far it is, and where its tasks are."""
    found = fleet.job(biz, name)
    if as_json:
        return emit(found)
    _show(found)
    _advise(biz, found)
    return Exit.FINE


@job.command()
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=3600.0, show_default=True, metavar="SECONDS"
)
@with_api("biz", "name")
def wait(fleet: "Client", biz: str, name: str, timeout: float, as_json: bool) -> int:
    """Wait until a job has ended; fails unless all of its tasks are done."""
    return _followed(fleet, biz, name, timeout, as_json)


@job.command()
@with_api("biz", "name")
def cancel(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Cancel a job: what is open of it ends, downloads under way too."""
    found = fleet.cancel_job(biz, name)
    if as_json:
        return emit(found)
    click.echo(f"{found.name} {found.state}")
    if not found.ended:
        note(f"its tasks are being cancelled: crawlfleet job wait {biz} {found.name}")
    return Exit.FINE


@job.command()
@click.option(
    "--current-rule",
    "current",
    is_flag=True,
    help="Read by the rule as it is now, not as it was when the job was started.",
)
@with_api("biz", "name")
def retry(fleet: "Client", biz: str, name: str, current: bool, as_json: bool) -> int:
    """Have the failed tasks of a job worked on again."""
    done = fleet.retry_job(biz, name, rule="current" if current else "frozen")
    if as_json:
        return emit(done)
    click.echo(f"retried {done.retried}")
    if done.skipped:
        old = counted(done.skipped, "task")
        note(f"left {old} whose time to live has passed: start a job of those pages")
    return Exit.FINE


def _followed(fleet: "Client", biz: str, name: str, timeout: float, as_json: bool) -> int:
    with _bar(hidden=as_json) as reported:
        found = fleet.wait_job(biz, name, timeout, progress=reported)
    if as_json:
        emit(found)
    else:
        said = ", ".join(f"{count} {how}" for how, count in found.counts.items() if count)
        click.echo(f"{found.name} {found.state}" + (f": {said}" if said else ""))
        _advise(biz, found)
    failed = sum(count for how, count in found.counts.items() if how != "done")
    return Exit.FINE if found.state == "done" and not failed else Exit.FAILED


@contextmanager
def _bar(*, hidden: bool) -> Iterator[Callable[["Job"], None]]:
    """Show a bar of the tasks that have ended, and the time that the others will take."""
    reported: set[str] = set()

    def trouble(found: "Job") -> None:
        if found.trouble and found.trouble not in reported and not hidden:
            reported.add(found.trouble)
            note(found.trouble)

    if hidden or not sys.stderr.isatty():
        yield trouble
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("", total=None, left="")

        def advance(found: "Job") -> None:
            trouble(found)
            progress = found.progress
            at = None if progress is None else progress.ends_at
            seconds = 0.0 if at is None else (at - datetime.now(UTC)).total_seconds()
            bar.update(
                task,
                description=found.state,
                completed=0 if progress is None else progress.ended,
                total=found.size if progress is None else progress.tasks,
                left="" if at is None else f"about {_in_words(seconds)} left",
            )

        yield advance


def _in_words(seconds: float) -> str:
    """Write a remaining time.

    >>> [_in_words(each) for each in (3, 125, 7_300)]
    ['3 s', '2 min', '2.0 h']
    """
    if seconds < 90:
        return f"{max(0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3600:.1f} h"


def _show(found: "Job") -> None:
    of = f"{found.spider} (version {found.spider_version})" if found.spider else None
    progress = found.progress
    rows: list[tuple[str, Any]] = [
        ("name", found.name),
        ("state", found.state),
        ("spider", of),
        ("schedule", found.schedule),
        ("rule", f"{found.rule} ({found.rule_version})"),
        ("started by", found.by),
        ("started", moment(found.created_at)),
        ("pattern", found.pattern),
        ("values", ", ".join(f"{place}={value}" for place, value in found.values.items()) or None),
        ("priority", found.priority),
        ("pool", found.pool),
        ("won by", found.worker),
        ("won", moment(found.placed_at) if found.placed_at else None),
        ("demand lowered", f"{found.lowered} times" if found.lowered else None),
        ("tasks", found.size),
        ("made", found.expanded),
        ("refused", found.refused or None),
        (
            "ended tasks",
            progress and f"{progress.ended} of {progress.tasks} ({progress.ended_share:.1%})",
        ),
        ("rate", progress and progress.per_second and f"{progress.per_second:.2f} a second"),
        ("will end", moment(progress.ends_at) if progress and progress.ends_at else None),
        ("cancelled", moment(found.cancelled_at) if found.cancelled_at else None),
        ("ended", moment(found.ended_at) if found.ended_at else None),
        ("trouble", found.trouble),
    ]
    draw(facts((name, value) for name, value in rows if value is not None))
    if found.ledger is not None:
        names = found.ledger.__struct_fields__
        terms = [(name, getattr(found.ledger, name)) for name in names]
        draw(table(["tasks", "number>"], [term for term in terms if term[1] or term[0] == "done"]))
    for why in found.refusals:
        note(f"refused: {why}")


def _advise(biz: str, found: "Job") -> None:
    dead = found.ledger.dead if found.ledger is not None else found.counts.get("dead", 0)
    if dead:
        note(f"what failed: crawlfleet dead list {biz} --job {found.name}")
        if found.state not in {"cancelled", "cancelling"}:
            note(f"to have it worked on again: crawlfleet job retry {biz} {found.name}")


def _ranges(given: Sequence[str]) -> dict[str, dict[str, int]]:
    found = {}
    for text in given:
        place, numbers = place_and_value(text, "--range")
        first, dots, last = numbers.partition("..")
        if not (dots and first.isdigit() and last.isdigit()):
            raise click.UsageError(f"--range {text}: such as page=1..50")
        found[place] = {"first": int(first), "last": int(last)}
    return found
