"""``crawlfleet fleet | overview | hosts | workers``: what runs, and where it is."""

from typing import TYPE_CHECKING, Final

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.spending.costs import usd
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from crawlfleet.sdk import BizState, Client, Fleet, HostState, Overview, ProxyPoolHealth


_FIGURES: Final = (
    *("Latency", "MemoryRatio", "CacheRatio"),
    *("Connections", "SlowOperations", "LagSeconds"),
)


@click.command()
@console.with_api()
def fleet(fleet: "Client", as_json: bool) -> int:
    """Show the whole fleet: workers, bizs, hosts, parts. For operators' keys.

    Late bizs come first, then those with most to do; the worst hosts first, then the busiest.
    """
    found = fleet.fleet()
    if as_json:
        return console.emit(found)
    say(headline(found))
    if len(found.pools) > 1 or any(pool.stated for pool in found.pools):
        console.draw(_pools(found))
        say()
    console.draw(_parts(found))
    if found.bizs:
        say()
        console.draw(_bizs(found.bizs))
    if found.hosts:
        say()
        console.draw(hosts_table(found.hosts, title=f"hosts ({found.hosts_seen} looked at)"))
    for pool in found.proxies or ():
        _draw_proxies(pool)
    for one in found.unread:
        console.note(f"could not be looked at: {one.what}: {one.why}")
    for part in found.parts:
        for name, why in sorted(part.missing.items()):
            console.note(f"{part.part} {part.name} has no {name}: {why}")
    return Exit.FINE


@click.command()
@console.with_api()
def overview(fleet: "Client", as_json: bool) -> int:
    """Show rates, backlog, what is late, and the day's cost.

    An operator's key shows the fleet, any other its tenant's bizs. It is read in one call that
    costs little, and may be repeated every few seconds.
    """
    found = fleet.overview()
    if as_json:
        return console.emit(found)
    say(at_a_glance(found))
    if found.bizs:
        say()
        console.draw(_bizs(found.bizs))
    if found.late:
        rows = [(one.kind, f"{one.tenant}/{one.biz}", one.name, one.since) for one in found.late]
        say()
        console.listing(
            ["late", "biz", "name", "since"],
            rows,
            [(one.why,) for one in found.late],
            least=["since"],
        )
    for incident in found.incidents or ():
        console.note(f"{incident.severity}: {incident.place}: {incident.title}")
    for one in found.unread:
        console.note(f"could not be looked at: {one.what}{': ' if one.why else ''}{one.why}")
    return Exit.FINE


def at_a_glance(found: "Overview") -> str:
    """Sum an overview up in some lines.

    >>> from datetime import UTC, datetime
    >>> from crawlfleet.sdk import Cost, Headcount, Overview
    >>> at, count = datetime(2026, 3, 1, tzinfo=UTC), Headcount(alive=2, present=2)
    >>> counts = {"critical": 1, "warning": 0}
    >>> seen = Overview(at=at, workers=count, incident_counts=counts, cost=Cost(usd=0.5, pages=900))
    >>> print(at_a_glance(seen))
    in: 0.0, 0.0, 0.0 a second over 1 s, 5 s, 60 s; out: 0.0, 0.0, 0.0
    0 bizs: 0 queued, 0 leased, 0 delayed; the oldest waits 0 s
    workers: 2 alive, 0 suspected, 0 dead
    wrong: 1 critical, 0 warning; late: 0; cost today: $0.5000 for 900 pages
    >>> print(at_a_glance(Overview(at=at, late_count=None, incident_counts=None)).splitlines()[-1])
    wrong: nobody can say now; late: nobody can say now; cost today: nobody can say now
    """
    totals, count, unknown = found.totals, found.workers, "nobody can say now"
    came, went = (
        ", ".join(f"{each:.1f}" for each in (one.per_1s, one.per_5s, one.per_60s))
        for one in (totals.rates.submitted, totals.rates.processed)
    )
    workers = unknown
    if count is not None:
        workers = f"{count.alive} alive, {count.suspected} suspected, {count.dead} dead"
    wrong, cost = unknown, unknown
    if found.incident_counts is not None:
        wrong = ", ".join(f"{many} {severity}" for severity, many in found.incident_counts.items())
    if found.cost is not None:
        cost = f"${usd(found.cost.usd)} for {found.cost.pages:,} pages"
    late = unknown if found.late_count is None else f"{found.late_count:,}"
    return (
        f"in: {came} a second over 1 s, 5 s, 60 s; out: {went}\n"
        f"{totals.bizs} bizs: {totals.queued:,} queued, {totals.leased:,} leased, "
        f"{totals.delayed:,} delayed; the oldest waits {totals.oldest_seconds:.0f} s\n"
        f"workers: {workers}\n"
        f"wrong: {wrong}; late: {late}; cost today: {cost}"
    )


@click.command()
@console.with_api("biz")
def hosts(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the hosts that a biz is at or waits for, the worst first, and its proxies.

    A host is throttled while it is left alone after a 429, a 503 or a failed connection, and until
    it is trusted again. Shares and times are those of the last one to two minutes. A proxy is away
    while all workers leave it out: until then, and until one of them has tried it with success.
    """
    found = fleet.hosts(biz)
    try:
        pools = fleet.proxies(biz)
    except NotFoundError:  # an older API
        pools = []
    if as_json:
        return console.emit({"hosts": found, "proxies": pools})
    if found:
        console.draw(hosts_table(found))
    else:
        console.note("nothing of this biz is at a host now, or waits for one")
    for pool in pools:
        _draw_proxies(pool)
    return Exit.FINE


@click.command()
@console.with_api("biz")
def workers(fleet: "Client", biz: str, as_json: bool) -> int:
    """List the workers and what they hold of a biz.

    phi is how sure the detector is that a worker is dead, as a power of ten. It counts silence that
    was watched: a worker that went silent while nobody watched is unwatched, until other
    workers or the next tick watch it for some seconds.
    """
    found = fleet.workers(biz)
    if as_json:
        return console.emit({"workers": found})
    if not found:
        return _no_worker(fleet, biz)
    rows = [
        (
            *(each.worker, each.pool, each.health, f"{each.phi:.1f}"),
            *(f"{each.silent_seconds:.1f} s", each.since, each.held, each.version),
        )
        for each in found
    ]
    titles = ["worker", "pool", "health", "phi>", "silent>", "since", "held>", "version"]
    console.draw_table(titles, rows, least=["version", "phi", "since", "pool"])
    return Exit.FINE


def _no_worker(fleet: "Client", biz: str) -> int:
    """Say whether it is as it should be that no worker lives."""
    stats = fleet.stats(biz)
    waiting = stats.states.get("waiting", 0)
    requests = console.counted(stats.unfinished, "request")
    if not stats.unfinished:
        console.note("no worker lives: nothing of this biz is open, and one starts when work comes")
    elif waiting == stats.unfinished:
        console.note(
            f"no worker lives: {requests} of this biz to be tried again, and one starts "
            "when it is due"
        )
    else:
        console.note(
            f"no worker lives, and {requests} of this biz are open: the scheduler starts one "
            f"within a minute. If none comes, `crawlfleet doctor --biz {biz}` says what is wrong, "
            f"and `crawlfleet explain {biz} ID` what a request waits for"
        )
    return Exit.FINE


@click.command()
@console.with_api()
def shares(fleet: "Client", as_json: bool) -> int:
    """Show what tenants have of workers and stores: all of them with an operator's key.

    While several tenants have work each has its part of what workers can do, by its share; what one
    leaves is the others'. A ceiling is shown as used / allowed; what has none is shown as used.
    """
    found = fleet.shares()
    if as_json:
        return console.emit({"tenants": found})
    if not found:
        console.note("no tenant has work")
        return Exit.FINE
    names = list(dict.fromkeys(one.limit for each in found for one in each.ceilings))
    rows = []
    for each in found:
        ceilings = {one.limit: _of_ceiling(one.used, one.allowed) for one in each.ceilings}
        state = (each.tenant, each.share, f"{each.part:.0%}", each.ready, each.in_flight)
        rows.append((*state, *(ceilings.get(name, "") for name in names)))
    titles = ["tenant", "share>", "part>", "ready>", "in flight>"]
    console.draw_table([*titles, *(f"{name.removeprefix('ceilings.')}>" for name in names)], rows)
    return Exit.FINE


def _of_ceiling(used: float | None, allowed: float | None) -> str:
    """Write how much there is of how much.

    >>> _of_ceiling(5, 1000), _of_ceiling(None, 2.5), _of_ceiling(None, None)
    ('5 / 1,000', '2.5', '')
    """
    there = (one for one in (used, allowed) if one is not None)
    return " / ".join(f"{one:g}" if one < 1_000 else f"{one:,.0f}" for one in there)


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
    return console.table(
        ["host", "state", "until", "well>", "answers in>", "asked/s>", "waiting>"],
        [
            (
                host.host,
                "throttled" if host.throttled else "well" if host.success_share else "-",
                *(host.backing_off_until, _known("{:.0%}", host.success_share)),
                _known("{:.2f} s", host.latency_seconds),
                f"{host.asked / host.window_seconds:.1f}" if host.asked else "-",
                host.waiting,
            )
            for host in found
        ],
        title=title,
    )


def _draw_proxies(pool: "ProxyPoolHealth") -> None:
    """Draw a pool of proxies; where none was used of late, a note."""
    if not pool.proxies:
        console.note(f"proxies {pool.name}: no worker has used them of late")
        return
    rows = [
        (
            *(one.place, "away" if one.away else "well", one.until),
            *(_known("{:.0%}", one.success_share), _known("{:.2f} s", one.latency_seconds)),
            *(one.fault or None, one.seen_by or None),
        )
        for one in pool.proxies
    ]
    size = "?" if pool.size is None else f"{pool.size:,}"
    titles = ["proxy", "state", "until", "well>", "answers in>", "last fault", "seen by"]
    console.draw(
        console.table(titles, rows, title=f"proxies {pool.name} ({pool.away:,} of {size} away)")
    )


def _pools(found: "Fleet") -> "Table":
    """Make a table of pools: place, workers by health, and targets."""
    return console.table(
        [
            *("pool", "memory>", "where", "alive>", "busy>", "idle>", "dead>", "wanted>"),
            *("kept>", "stated>", "done>", "failed>"),
        ],
        [
            (
                *(pool.name, _known("{:,} MB", pool.memory_mb)),
                " ".join(word for word in (pool.region, pool.network) if word) or "-",
                *(pool.alive, pool.busy, pool.idle, pool.dead, pool.wanted),
                *(pool.kept, pool.stated, f"{pool.done:,}", f"{pool.failed:,}"),
            )
            for pool in found.pools
        ],
        title="pools",
    )


def _parts(found: "Fleet") -> "Table":
    return console.table(
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


def _bizs(found: "Sequence[BizState]") -> "Table":
    return console.table(
        ["biz", "queued>", "leased>", "delayed>", "oldest>", "in/s>", "out/s>", "ends in>", "late"],
        [
            (
                f"{biz.tenant}/{biz.biz}",
                *(_known("{:,}", count) for count in (biz.queued, biz.leased, biz.delayed)),
                f"{biz.oldest_seconds:.0f} s",
                "-" if biz.rates is None else f"{biz.rates.submitted.per_60s:.1f}",
                "-" if biz.rates is None else f"{biz.rates.processed.per_60s:.1f}",
                "never" if biz.finish_seconds is None else f"{biz.finish_seconds:.0f} s",
                "LATE" if biz.late else "-",
            )
            for biz in found
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


def _known(form: str, value: float | None) -> str:
    return "-" if value is None else form.format(value)
