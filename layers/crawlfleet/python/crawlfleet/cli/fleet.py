"""``crawlfleet fleet | hosts | workers | incidents``: what runs, where it is, and what is wrong."""

from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from crawlfleet.cli.console import (
    ROWS,
    Exit,
    draw,
    emit,
    limit_option,
    listing,
    moment,
    note,
    page_size,
    printable,
    table,
    with_api,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from crawlfleet.sdk import Client, Fleet, HostState


_FIGURES: Final = (
    "Latency",
    "MemoryRatio",
    "CacheRatio",
    "Connections",
    "SlowOperations",
    "LagSeconds",
)


@click.command()
@with_api()
def fleet(fleet: "Client", as_json: bool) -> int:
    """Show the whole fleet: workers, bizs, hosts, parts. For operators' keys.

    Late bizs come first, then those with most to do; the worst hosts first, then the busiest.
    """
    found = fleet.fleet()
    if as_json:
        return emit(found)
    click.echo(printable(headline(found)))
    if len(found.pools) > 1 or any(pool.stated for pool in found.pools):
        draw(_pools(found))
    draw(_parts(found))
    if found.bizs:
        draw(_bizs(found))
    if found.hosts:
        draw(hosts_table(found.hosts, title=f"hosts ({found.hosts_seen} looked at)"))
    for one in found.unread:
        note(f"could not be looked at: {one.what}: {one.why}")
    for part in found.parts:
        for name, why in sorted(part.missing.items()):
            note(f"{part.part} {part.name} has no {name}: {why}")
    return Exit.FINE


@click.command()
@with_api("biz")
def hosts(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the hosts that a biz is at or waits for, the worst first.

    A host is throttled while it is left alone after a 429, a 503 or a failed connection, and until
    it is trusted again. Shares and times are those of the last one to two minutes.
    """
    found = fleet.hosts(biz)
    if as_json:
        return emit({"hosts": found})
    if not found:
        note("nothing of this biz is at a host now, or waits for one")
        return Exit.FINE
    draw(hosts_table(found))
    return Exit.FINE


@click.command()
@with_api("biz")
def workers(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the workers and what they hold of a biz.

    phi is how sure the detector is that a worker is dead, as a power of ten. It counts silence that
    was watched: a worker that went silent while nobody watched is unwatched, until the workers or
    the minute's tick have looked for some seconds.
    """
    found = fleet.workers(biz)
    if as_json:
        return emit({"workers": found})
    draw(
        table(
            ["worker", "pool", "health", "phi>", "silent>", "since", "held>"],
            [
                (
                    each.worker,
                    each.pool,
                    each.health,
                    f"{each.phi:.1f}",
                    f"{each.silent_seconds:.1f} s",
                    moment(each.since),
                    each.held,
                )
                for each in found
            ],
        )
    )
    if not found:
        note("no worker lives; one starts when there is work")
    return Exit.FINE


def headline(found: "Fleet") -> str:
    """Sum the fleet up in a sentence or two.

    >>> from datetime import UTC, datetime
    >>> from crawlfleet.sdk import Fleet, Headcount
    >>> count = Headcount(alive=2, suspected=1, dead=0, present=3, wanted=4)
    >>> print(headline(Fleet(at=datetime(2026, 3, 1, tzinfo=UTC), revision="r1", workers=count)))
    workers: 2 alive, 1 suspected, 0 dead; 3 present, 4 wanted
    0 bizs: 0 queued, 0 leased, 0 delayed, 0 late; configuration r1
    """
    count, totals = found.workers, found.totals
    if count is None:
        workers = "workers: nobody can say now"
    else:
        doubtful = f", {count.unwatched} unwatched" if count.unwatched else ""
        wanted = "-" if count.wanted is None else str(count.wanted)
        workers = (
            f"workers: {count.alive} alive, {count.suspected} suspected, {count.dead} dead"
            f"{doubtful}; {count.present} present, {wanted} wanted"
        )
    work = (
        f"{totals.bizs} bizs: {totals.queued:,} queued, {totals.leased:,} leased, "
        f"{totals.delayed:,} delayed, {totals.late} late; configuration {found.revision or '-'}"
    )
    lines = [workers, work]
    if found.config_refused:
        lines.append(f"a newer configuration is refused: {found.config_refused}")
    orphaned = (found.stray_items or 0) + (found.stray_requests or 0)
    if orphaned:
        lines.append(f"{orphaned:,} items and requests wait for bizs that there are not")
    return "\n".join(lines)


def hosts_table(found: "Sequence[HostState]", title: str | None = None) -> "Table":
    """Hosts as a table."""
    return table(
        ["host", "state", "until", "well>", "answers in>", "asked/s>", "waiting>"],
        [
            (
                host.host,
                "throttled" if host.throttled else "well" if host.success_share else "-",
                moment(host.backing_off_until),
                _share(host.success_share),
                _seconds(host.latency_seconds),
                f"{host.asked / host.window_seconds:.1f}" if host.asked else "-",
                host.waiting,
            )
            for host in found
        ],
        title=title,
    )


def _pools(found: "Fleet") -> "Table":
    """Make a table of pools: place, workers by health, and targets."""
    return table(
        [
            *("pool", "memory>", "where", "alive>", "busy>", "idle>", "dead>", "wanted>"),
            *("kept>", "stated>", "done>", "failed>"),
        ],
        [
            (
                pool.name,
                "-" if pool.memory_mb is None else f"{pool.memory_mb:,} MB",
                " ".join(word for word in (pool.region, pool.network) if word) or "-",
                *(pool.alive, pool.busy, pool.idle, pool.dead),
                "-" if pool.wanted is None else pool.wanted,
                *(pool.kept, pool.stated, f"{pool.done:,}", f"{pool.failed:,}"),
            )
            for pool in found.pools
        ],
        title="pools",
    )


def _parts(found: "Fleet") -> "Table":
    return table(
        ["part", "name", "up", *(f"{name}>" for name in _FIGURES), "problem"],
        [
            (
                part.part,
                part.name,
                "yes" if part.up else "NO",
                *(_figure(name, part.figures.get(name)) for name in _FIGURES),
                part.problem or "-",
            )
            for part in found.parts
        ],
        title="parts",
    )


def _bizs(found: "Fleet") -> "Table":
    return table(
        ["biz", "queued>", "leased>", "delayed>", "oldest>", "in/s>", "out/s>", "ends in>", "late"],
        [
            (
                f"{biz.tenant}/{biz.biz}",
                *("-" if one is None else f"{one:,}" for one in (biz.queued, biz.leased)),
                "-" if biz.delayed is None else f"{biz.delayed:,}",
                f"{biz.oldest_seconds:.0f} s",
                "-" if biz.rates is None else f"{biz.rates.submitted.per_60s:.1f}",
                "-" if biz.rates is None else f"{biz.rates.processed.per_60s:.1f}",
                "never" if biz.finish_seconds is None else f"{biz.finish_seconds:.0f} s",
                "LATE" if biz.late else "-",
            )
            for biz in found.bizs
        ],
        title="bizs",
    )


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == "Latency":
        return f"{value * 1000:.1f} ms"
    if name.endswith("Ratio"):
        return f"{value:.0%}"
    return f"{value:g}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


@click.command()
@click.option("--all", "ended", is_flag=True, help="Also what is over, for three months.")
@limit_option
@with_api()
def incidents(fleet: "Client", ended: bool, limit: int | None, as_json: bool) -> int:
    """Show what is wrong, and what to do next.

    Where, since when, how bad: of the key's own bizs; an operator's key shows everybody's and the
    platform's own. The exit code is 1 while anything is open. With --json a line of JSON for each.
    """
    rows = limit or (None if as_json else ROWS)
    found = fleet.incidents(ended=ended, page_size=page_size(limit, as_json))
    shown = list(islice(found, rows))
    code = Exit.FAILED if any(each.state == "open" for each in shown) else Exit.FINE
    if as_json:
        for each in shown:
            emit(each)
        return code
    if not shown:
        note("nothing has been wrong" if ended else "nothing is wrong")
        return code
    columns = ["state", "severity", "where", "what", "since", "until"]
    lines = [
        (
            each.state,
            each.severity,
            each.place,
            each.title,
            moment(each.since),
            moment(each.over_at if each.state == "over" else None),
        )
        for each in shown
    ]
    below = [
        (
            f"{each.said}{_counted(each.returns)}",
            f"What next: {each.do}" if each.state == "open" else None,
            f"people still have to be told: {each.owed}" if each.owed else None,
        )
        for each in shown
    ]
    click.echo("\n".join(listing(columns, lines, below)))
    if len(shown) == rows and next(found, None) is not None:
        note(f"there are more than these {rows}: set --limit")
    return code


def _counted(returns: int) -> str:
    """Write how often an incident has come back, if it has.

    >>> _counted(0), _counted(2)
    ('', '; it has come back 2 times')
    """
    return f"; it has come back {returns:,} times" if returns else ""
