"""``crawlfleet schedule``: timed collections."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from crawlfleet.cli.console import (
    Exit,
    answer,
    counted,
    deleted,
    document_in,
    draw,
    emit,
    lines_of,
    moment,
    note,
    place_and_value,
    table,
    url_file_option,
    url_option,
    with_api,
)

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, NextRun, Schedule


@click.group()
def schedule() -> None:
    """Manage timed collections."""


@schedule.command("list")
@with_api("biz")
def list_all(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the schedules of a biz."""
    found = fleet.schedules(biz)
    if as_json:
        return emit({"schedules": found})
    _show(found)
    return Exit.FINE


@schedule.command()
@with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one schedule: what it crawls, and what became of its last fire time."""
    found = fleet.schedule(biz, name)
    if as_json:
        return emit(found)
    _show([found])
    draw(table(["field", "value"], _rest(found)))
    if found.urls:
        draw(table(["url"], [(url,) for url in found.urls]))
    return Exit.FINE


@schedule.command()
@click.option("--cron", required=True, help='Five fields: "0 3 * * *" is every night at three.')
@click.option("--time-zone", default="UTC", show_default=True, help="Such as Europe/Berlin.")
@click.option("--rule", help="Rule that reads the pages.")
@url_option
@url_file_option
@click.option(
    "--start",
    "start",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML or JSON: a pattern, and what goes into its places.",
)
@click.option("--spider", help="A kept spider, instead of --rule and pages.")
@click.option("--spider-version", type=click.IntRange(1), help="Not its newest version.")
@click.option("--set", "given", multiple=True, metavar="PLACE=VALUE", help="Fills an open place.")
@click.option("--priority", type=click.IntRange(0, 10), help="Of its jobs; 10 is the most urgent.")
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
    type=click.IntRange(60, 86_400),
    help="Seconds that --missed skip lets a fire be late by.  [default: 300]",
)
@click.option(
    "--jitter",
    type=click.IntRange(0, 3_600),
    default=0,
    show_default=True,
    help="Seconds that fires are spread over.",
)
@click.option("--disabled", is_flag=True, help="Keep it, but let it rest.")
@with_api("biz", "name")
def put(
    fleet: "Client",
    biz: str,
    name: str,
    cron: str,
    time_zone: str,
    rule: str | None,
    urls: Sequence[str],
    source: IO[str] | None,
    start: Path | None,
    spider: str | None,
    spider_version: int | None,
    given: Sequence[str],
    priority: int | None,
    overlap: str,
    missed: str,
    tolerance: int | None,
    jitter: int,
    disabled: bool,
    as_json: bool,
) -> int:
    """Create a schedule, or replace the one of that name."""
    pages = [*urls, *lines_of(source)]
    if spider is None and rule is None:
        raise click.UsageError("a schedule needs --rule, or --spider")
    if not pages and spider is None and start is None:
        message = (
            "a schedule needs pages: give --url, --file with a URL a line, --start or --spider"
        )
        raise click.UsageError(message)
    found = fleet.put_schedule(
        biz,
        name,
        cron=cron,
        urls=pages,
        rule=rule,
        time_zone=time_zone,
        missed=missed,
        enabled=not disabled,
        start=None if start is None else _start_in(start),
        spider=spider,
        version=spider_version,
        values=dict(place_and_value(each, "--set") for each in given),
        priority=priority,
        overlap=overlap,
        tolerance_seconds=tolerance,
        jitter_seconds=jitter,
    )
    return _answer(found, as_json)


@schedule.command("next")
@click.argument("biz")
@click.argument("name", required=False)
@click.option("--cron", help="Preview this line instead of a schedule that there is.")
@click.option("--time-zone", default="UTC", show_default=True, help="Of --cron.")
@click.option("--jitter", type=click.IntRange(0, 3_600), default=0, help="Of --cron, in seconds.")
@click.option(
    "--count", "-n", type=click.IntRange(1, 50), default=5, show_default=True, help="How many."
)
@with_api()
def next_runs(
    fleet: "Client",
    biz: str,
    name: str | None,
    cron: str | None,
    time_zone: str,
    jitter: int,
    count: int,
    as_json: bool,
) -> int:
    """Show the next runs of a schedule, or of a --cron line; nothing is kept."""
    if cron is not None:
        runs = fleet.preview_schedule(
            biz, cron, time_zone=time_zone, jitter_seconds=jitter, name=name, count=count
        )
    elif name is not None:
        runs = fleet.schedule_runs(biz, name, count)
    else:
        raise click.UsageError("give the NAME of a schedule, or --cron")
    if as_json:
        return emit({"runs": runs})
    draw(table(["local time", "UTC", "clocks"], [_when(run) for run in runs]))
    return Exit.FINE


@schedule.command()
@with_api("biz", "name")
def pause(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Let a schedule rest until it is resumed."""
    return _answer(fleet.pause_schedule(biz, name), as_json)


@schedule.command()
@with_api("biz", "name")
def resume(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Have a schedule fire again; what it has missed meanwhile stays missed."""
    return _answer(fleet.resume_schedule(biz, name), as_json)


@schedule.command()
@click.option("--idempotency-key", metavar="KEY", help="Under one key a job is started once.")
@with_api("biz", "name")
def run(fleet: "Client", biz: str, name: str, idempotency_key: str | None, as_json: bool) -> int:
    """Start a job of a schedule now; its fire times stay as they are."""
    started = fleet.run_schedule(biz, name, idempotency_key=idempotency_key)
    if as_json:
        return emit(started)
    click.echo(f"{started.job} {started.state}, {counted(started.size, 'task')}")
    note(f"to follow it: crawlfleet job wait {biz} {started.job}")
    return Exit.FINE


@schedule.command()
@click.option(
    "--limit", type=click.IntRange(1, 50), help="How many; all that are kept unless said."
)
@with_api("biz", "name")
def versions(fleet: "Client", biz: str, name: str, limit: int | None, as_json: bool) -> int:
    """Show what a schedule was before: its last 50 versions, the newest first."""
    found = fleet.schedule_versions(biz, name, limit)
    if as_json:
        return emit({"versions": found})
    columns = ["version>", "put", "cron", "time zone", "of", "overlap", "missed", "enabled"]
    rows = [
        (
            each.version,
            moment(each.put_at),
            each.cron,
            each.time_zone,
            _what(each),
            each.overlap,
            each.missed,
            each.enabled,
        )
        for each in found
    ]
    draw(table(columns, rows))
    return Exit.FINE


@schedule.command()
@with_api("biz", "name")
def delete(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Remove a schedule; jobs that it started stay."""
    fleet.delete_schedule(biz, name)
    return deleted(name, as_json)


def _answer(found: "Schedule", as_json: bool) -> int:
    return answer(found, as_json, lambda one: _show([one]))


def _show(found: "Sequence[Schedule]") -> None:
    draw(
        table(
            ["name", "cron", "time zone", "of", "enabled", "next", "last", "outcome"],
            [
                (
                    each.name,
                    each.cron,
                    each.time_zone,
                    _what(each),
                    each.enabled,
                    moment(each.next_at),
                    moment(each.last_fired_at),
                    None if each.last_outcome is None else each.last_outcome.outcome,
                )
                for each in found
            ],
        )
    )


def _rest(found: "Schedule") -> list[tuple[str, object]]:
    """List the fields of a schedule that its line of the table lacks."""
    outcome = found.last_outcome
    reported: dict[str, object] = {
        "version": found.version,
        "put": moment(found.put_at),
        "overlap": found.overlap,
        "missed": found.missed,
        "tolerance": f"{found.tolerance_seconds} s" if found.missed == "skip" else None,
        "jitter": f"{found.jitter_seconds} s" if found.jitter_seconds else None,
        "priority": found.priority,
        "pattern": (found.start or {}).get("pattern"),
        "values": ", ".join(f"{name}={value}" for name, value in found.values.items()),
        "last fire": None if outcome is None else moment(outcome.fire_at),
        "last job": None if outcome is None else outcome.job,
        "why": None if outcome is None else outcome.why,
    }
    return [(name, value) for name, value in reported.items() if value not in (None, "")]


def _what(found: "Schedule") -> str:
    if found.spider is not None:
        version = "" if found.spider_version is None else f" v{found.spider_version}"
        return f"spider {found.spider}{version}"
    pages = counted(len(found.urls), "URL") if found.urls else "a pattern"
    return f"{found.rule} on {pages}"


def _when(each: "NextRun") -> tuple[str, str, str]:
    way = "forward" if each.shift_seconds > 0 else "back"
    shift = f"{way} by {abs(each.shift_seconds) / 60:g} min" if each.shift_seconds else ""
    return each.local_at.isoformat(sep=" "), moment(each.at), shift


def _start_in(file: Path) -> dict[str, Any]:
    return document_in(file, called=f"--start {file}", otherwise="holds no pattern and no urls")
