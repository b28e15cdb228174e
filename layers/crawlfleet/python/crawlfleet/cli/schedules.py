"""``crawlfleet schedule``: timed collections."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NamingGroup, RunningError
from crawlfleet.cli.place_values import Values, in_words, value_option
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import ConflictError, CrawlfleetError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, NextRun, Schedule

#: States of jobs that have not ended.
_OPEN: Final = ("placing", "expanding", "running", "cancelling")
#: Fires of which a list says why they have started no job.
_MOST_REASONS: Final = 10
_BECAME: Final = defaultdict(
    lambda: "started no job",
    failed="could not start its job",
    waiting="waits to start its job",
    skipped="was skipped",
)


@click.group(cls=NamingGroup)
def schedule() -> None:
    """Manage timed collections."""


@schedule.command("list")
@console.with_api("biz")
def list_all(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the schedules of a biz."""
    found = fleet.schedules(biz)
    if not found and not as_json:
        console.note("there are none: `crawlfleet schedule put --help` says how one is made")
        return Exit.FINE
    code = console.answer({"schedules": found}, as_json, lambda _: _show(found))
    if not as_json:
        _tell_why(biz, found)
    return code


def _tell_why(biz: str, found: "Sequence[Schedule]") -> None:
    """Say of fires that have started no job why."""
    without = [one for one in found if one.last_outcome and one.last_outcome.job is None]
    for one in without[:_MOST_REASONS]:
        last = one.last_outcome
        if last is not None and last.why:
            fire = console.moment(last.fire_at)
            console.note(f"{one.name}: the fire of {fire} {_BECAME[last.outcome]}: {last.why}")
    if len(without) > _MOST_REASONS:
        more = len(without) - _MOST_REASONS
        console.note(f"and {more:,} more: `crawlfleet schedule show {biz} NAME` says why")


@schedule.command()
@console.with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one schedule: what it crawls, and what became of its last fire time."""
    found = fleet.schedule(biz, name)
    if as_json:
        return console.emit(found)
    _show([found])
    console.draw_table(["field", "value"], _rest(found), apart=True)
    if found.urls:
        console.draw_table(["url"], [(url,) for url in found.urls], apart=True)
    return Exit.FINE


@schedule.command()
@click.option("--cron", required=True, help='Five fields: "0 3 * * *" is every night at three.')
@click.option("--time-zone", default="UTC", show_default=True, help="Such as Europe/Berlin.")
@click.option("--rule", help="Rule that reads the pages.")
@console.url_option
@console.url_file_option
@click.option(
    "--start",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML or JSON: a pattern, and what goes into its places.",
)
@click.option("--spider", help="A kept spider, instead of --rule and pages.")
@click.option("--spider-version", "version", type=click.IntRange(1), help="Not its newest version.")
@value_option("--set", "What goes into a place that its pattern, or its spider's, leaves open.")
@click.option("--priority", type=click.IntRange(0, 10), help="Of its jobs; 10 is the most urgent.")
@console.segment_option
@console.user_option
@click.option(
    "--overlap",
    type=click.Choice(["allow", "skip", "queue", "replace"]),
    default="allow",
    show_default=True,
    help="What a fire does while an earlier job has not ended.",
)
@click.option(
    "--missed",
    type=click.Choice(["all", "latest", "skip"]),
    default="all",
    show_default=True,
    help="Fire times to make up for after a stop.",
)
@click.option(
    "--tolerance",
    "tolerance_seconds",
    type=click.IntRange(60, 86_400),
    help="Seconds that --missed skip lets a fire be late by.  [default: 300]",
)
@click.option(
    "--jitter",
    "jitter_seconds",
    type=click.IntRange(0, 3_600),
    default=0,
    show_default=True,
    help="Seconds that fires are spread over.",
)
@click.option("--disabled", is_flag=True, help="Keep it, but let it rest.")
@console.with_api("biz", "name")
def put(
    fleet: "Client",
    biz: str,
    name: str,
    *,
    urls: Sequence[str],
    source: IO[str] | None,
    start: Path | None,
    values: dict[str, Values],
    disabled: bool,
    as_json: bool,
    **plan: Any,
) -> int:
    """Create a schedule, or replace the one of that name.

    What it crawls is said by --spider, or by --rule with --url, --file or --start. Without these
    the rule's own parameters say it, as start_url of a list does.
    """
    pages = [*urls, *console.lines_of(source)]
    if plan["spider"] is None and plan["rule"] is None:
        raise click.UsageError("a schedule needs --rule, or --spider")
    begin: dict[str, Any] | None = None
    if start is not None:
        otherwise = "holds no pattern and no urls"
        begin = console.document_in(start, called=f"--start {start}", otherwise=otherwise)
    if not disabled:
        _say_paused(fleet, biz, name)
    found = fleet.put_schedule(
        biz,
        name,
        urls=pages,
        enabled=not disabled,
        start=begin,
        values=values,
        **plan,
    )
    return _answer(found, as_json)


def _say_paused(fleet: "Client", biz: str, name: str) -> None:
    """Say of a schedule that rests that it will fire again."""
    with suppress(CrawlfleetError):  # there is none; or the command itself says what is wrong
        if not fleet.schedule(biz, name).enabled:
            console.note(f"{name} was paused, and fires again from now on: --disabled lets it rest")


@schedule.command("next")
@click.argument("biz")
@click.argument("name", required=False)
@click.option("--cron", help="Preview this line instead of a schedule that there is.")
@click.option("--time-zone", default="UTC", show_default=True, help="Of --cron.")
@click.option(
    "--jitter",
    "jitter_seconds",
    type=click.IntRange(0, 3_600),
    default=0,
    help="Of --cron, in seconds.",
)
@click.option(
    "--count", "-n", type=click.IntRange(1, 50), default=5, show_default=True, help="How many."
)
@console.with_api()
def next_runs(
    fleet: "Client",
    biz: str,
    name: str | None,
    cron: str | None,
    count: int,
    as_json: bool,
    **line: Any,
) -> int:
    """Show the next runs of a schedule, or of a --cron line; nothing is kept."""
    if cron is not None:
        runs = fleet.preview_schedule(biz, cron, name=name, count=count, **line)
    elif name is not None:
        runs = fleet.schedule_runs(biz, name, count)
    else:
        raise click.UsageError("give the NAME of a schedule, or --cron")
    columns, rows = ["local time", "UTC", "clocks", "state"], [_when(run) for run in runs]
    return console.answer({"runs": runs}, as_json, lambda _: console.draw_table(columns, rows))


@schedule.command()
@console.with_api("biz", "name")
def pause(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Let a schedule rest until it is resumed."""
    return _answer(fleet.pause_schedule(biz, name), as_json)


@schedule.command()
@console.with_api("biz", "name")
def resume(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Have a schedule fire again; what it has missed meanwhile stays missed."""
    return _answer(fleet.resume_schedule(biz, name), as_json)


@schedule.command()
@click.option("--idempotency-key", metavar="KEY", help="Under one key a job is started once.")
@console.with_api("biz", "name")
def run(fleet: "Client", biz: str, name: str, idempotency_key: str | None, as_json: bool) -> int:
    """Start a job of a schedule now; its fire times stay as they are."""
    try:
        started = fleet.run_schedule(biz, name, idempotency_key=idempotency_key)
    except ConflictError as error:
        open_jobs = fleet.jobs(biz, schedule=name, state=_OPEN, page_size=1)
        for going in islice(open_jobs, 1):
            raise RunningError(str(error), going.name) from error
        raise
    if as_json:
        return console.emit(started)
    say(f"{started.job} {started.state}, {console.counted(started.size, 'task')}")
    console.note(f"to follow it: crawlfleet job wait {biz} {started.job}")
    return Exit.FINE


@schedule.command()
@click.option(
    "--limit", type=click.IntRange(1, 50), help="How many; all that are kept unless said."
)
@console.with_api("biz", "name")
def versions(fleet: "Client", biz: str, name: str, limit: int | None, as_json: bool) -> int:
    """Show what a schedule was before: its last 50 versions, the newest first."""
    found = fleet.schedule_versions(biz, name, limit)
    columns = ["version>", "put", "cron", "time zone", "of", "overlap", "missed", "enabled"]
    rows = [
        (
            *(each.version, each.put_at, each.cron, each.time_zone, _what(each)),
            *(each.overlap, each.missed, each.enabled),
        )
        for each in found
    ]
    return console.answer({"versions": found}, as_json, lambda _: console.draw_table(columns, rows))


@schedule.command()
@console.with_api("biz", "name")
def delete(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Remove a schedule; jobs that it started stay."""
    fleet.delete_schedule(biz, name)
    return console.deleted(name, as_json)


def _answer(found: "Schedule", as_json: bool) -> int:
    return console.answer(found, as_json, lambda one: _show([one]))


def _show(found: "Sequence[Schedule]") -> None:
    rows = [
        (
            *(each.name, each.cron, each.time_zone, _what(each), each.enabled, _next(each)),
            *(each.last_fired_at, each.last_outcome and each.last_outcome.outcome),
        )
        for each in found
    ]
    columns = ["name", "cron", "time zone", "of", "enabled", "next", "last", "outcome"]
    least = ["enabled", "time zone", "of", "cron", "last"]
    console.draw_table(columns, rows, cut=["of"], least=least)


def _next(found: "Schedule") -> str | None:
    """Say when a schedule fires next, or why it does not."""
    at = None if found.next_at is None else console.moment(found.next_at)
    outcome = found.last_outcome
    match found.state:
        case "due" if at is not None and outcome and outcome.outcome in {"failed", "waiting"}:
            return f"due, tried again {at}"
        case "paused" | "due" | "over":
            return found.state
        case "running" if at is not None:
            return f"running, then {at}"
    return at or found.state or None


def _rest(found: "Schedule") -> list[tuple[str, object]]:
    """List the fields of a schedule that its line of the table lacks."""
    outcome, failure = found.last_outcome, found.last_failure
    if failure == outcome:
        failure = None
    reported: dict[str, object] = {
        "version": found.version,
        "put": console.moment(found.put_at),
        "overlap": found.overlap,
        "missed": found.missed,
        "tolerance": f"{found.tolerance_seconds} s" if found.missed == "skip" else None,
        "jitter": f"{found.jitter_seconds} s" if found.jitter_seconds else None,
        "priority": found.priority,
        "segment": found.segment,
        "user": found.user,
        "pattern": (found.start or {}).get("pattern"),
        "values": ", ".join(f"{name}={in_words(each)}" for name, each in found.values.items()),
        "last fire": None if outcome is None else console.moment(outcome.fire_at),
        "last job": None if outcome is None else outcome.job,
        "why": None if outcome is None else outcome.why,
        "last failure": None if failure is None else console.moment(failure.fire_at),
        "why it failed": None if failure is None else failure.why,
    }
    return [(name, value) for name, value in reported.items() if value not in (None, "")]


def _what(found: "Schedule") -> str:
    if found.spider is not None:
        version = "" if found.spider_version is None else f" v{found.spider_version}"
        return f"spider {found.spider}{version}"
    pages = console.counted(len(found.urls), "URL") if found.urls else "a pattern"
    return f"{found.rule} on {pages}"


def _when(each: "NextRun") -> tuple[str, ...]:
    way = "forward" if each.shift_seconds > 0 else "back"
    shift = f"{way} by {abs(each.shift_seconds) / 60:g} min" if each.shift_seconds else ""
    return each.local_at.isoformat(sep=" "), console.moment(each.at), shift, each.state
