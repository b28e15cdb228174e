"""Diagnose workers, backlogs, bizs, hosts and ledgers, for `crawlfleet doctor`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from crawlfleet.cli.console import counted, moment
from crawlfleet.cli.doctor.diagnosis import Level, Saying
from crawlfleet.fleet.models import TickPart
from crawlfleet.kernel.time import span
from crawlfleet.monitoring.incidents.capacity_checks import faults_in_words

if TYPE_CHECKING:
    from crawlfleet.sdk import (
        Fleet,
        Headcount,
        Incident,
        Ledger,
        ProxyPoolHealth,
        RuleCoverage,
        Schedule,
        Stats,
        Tick,
    )


#: Without a plan, and without the stage's thresholds at hand, this is long to wait.
LONG_WAIT: Final = timedelta(hours=1)
#: A fire that waits for longer, with no overlap that says so, is somebody's to look at.
_LONG_WAIT: Final = timedelta(minutes=5)
#: A scheduler that ticks each half minute, and whose tick may take two minutes.
SILENT_SECONDS: Final = 180.0
#: Names in one sentence.
_NAMED: Final = 5


def of_workers(count: "Headcount") -> Iterator[Saying]:
    """Workers that are dead or may be."""
    if count.dead:
        yield Level.LOOK.saying(
            "workers",
            f"{_so_many(count.dead, 'worker', 'is', 'are')} dead and not reaped",
            "The next tick reclaims their leases. If they stay, look at the "
            "scheduler's log; `crawlfleet workers BIZ` lists them.",
        )
        return
    doubtful = count.suspected + count.unwatched
    if doubtful:
        yield Level.NOTE.saying(
            "workers",
            f"{_so_many(doubtful, 'worker', 'has', 'have')} been silent for long",
            "Ask again in some seconds: by then it is known whether they live.",
        )
        return
    yield Level.FINE.saying("workers", f"{_so_many(count.alive, 'worker', 'is', 'are')} alive")


def of_tick(tick: "Tick") -> Iterator[Saying]:
    """Check the scheduler's latest tick: a silent scheduler cannot say so."""
    ago = tick.seconds_ago
    if ago is None or ago > SILENT_SECONDS:
        yield Level.BROKEN.saying(
            "scheduler",
            "no tick of it is known" if ago is None else f"its last tick ended {span(ago)} ago",
            "No schedule runs and nobody starts workers. Is the rule scheduler-tick enabled? "
            "The scheduler's log says why it fails. After a first deployment, or when Redis "
            "has lost everything, ask again in a minute.",
        )
    elif tick.faults:
        yield Level.LOOK.saying(
            "scheduler",
            f"of its last tick, {span(ago)} ago, failed: {faults_in_words(tick.faults)}",
            f"Its log says why. {_what_is_not_done(tick.faults)}",
        )
    else:
        yield Level.FINE.saying("scheduler", f"its last tick ended {span(ago)} ago")


def _what_is_not_done(faults: Mapping[str, int]) -> str:
    said = []
    if TickPart.STARTS in faults:
        said.append(
            "`starts` are events that a rule of yours sent and that started no spider. What is "
            "wrong with one stays wrong: mend the rule or keep the spider. The others wait."
        )
    if faults.keys() - {TickPart.STARTS}:
        said.append(
            "If it stays, what has failed is not done at all: schedules that do not run, workers "
            "that nobody starts."
        )
    return " ".join(said)


def of_backlog(queued: int, count: "Headcount | None", where: str = "") -> Iterator[Saying]:
    """Check that a worker lives while there is work."""
    if count is None or not queued:
        return
    if count.alive or count.present:
        yield Level.FINE.saying(
            "backlog", f"{counted(queued, 'request')} waiting{where}, workers are at them"
        )
        return
    yield Level.BROKEN.saying(
        "backlog",
        f"{counted(queued, 'request')} waiting{where}, and no worker lives",
        "The scheduler starts workers by each tick. If none comes: its log, the consumer's "
        "log, and whether the consumer's reserved concurrency is 0 or used up.",
    )


def of_fleet(
    fleet: "Fleet", incidents: Sequence["Incident"] = (), examined: Sequence[str] = ()
) -> Iterator[Saying]:
    """Check the whole fleet, as operators see it.

    What is told of ``incidents``, and of bizs that are ``examined`` by themselves, is left to them.
    """
    yield from of_backlog(fleet.totals.queued, fleet.workers)
    told = {(one.part, one.name) for one in incidents}
    for part in fleet.parts:
        if part.problem and (part.part, part.name) not in told:
            name = part.part if part.part == part.name else f"{part.part} {part.name}"
            yield Level.LOOK.saying(
                "parts",
                f"{name}: {part.problem}",
                'docs/reference/monitoring.md, "Incidents", says what to do for each.',
            )
    late = [biz for biz in fleet.bizs if biz.late]
    if late:
        yield Level.LOOK.saying(
            "lateness",
            f"{_so_many(fleet.totals.late, 'biz', 'is', 'are')} late: "
            + _named(f"{biz.tenant}/{biz.biz}" for biz in late),
            "`crawlfleet stats BIZ` shows where the time goes; more consumers help "
            "(fleet.max_consumers) unless phases.wait is large.",
        )
    dead = [biz for biz in fleet.bizs if biz.dead and biz.biz not in examined]
    if dead:
        total = sum(biz.dead or 0 for biz in dead)
        most = max(dead, key=lambda biz: biz.dead or 0)
        yield Level.NOTE.saying(
            "dead letters",
            f"{_so_many(total, 'request', 'was', 'were')} given up on: "
            + _named(f"{biz.tenant}/{biz.biz} {biz.dead:,}" for biz in dead),
            f"`crawlfleet dead list {most.biz}` says why. {_again(most.biz)}",
        )
    throttled = [host.host for host in fleet.hosts if host.throttled]
    if throttled:
        yield Level.NOTE.saying(
            "hosts",
            f"{_so_many(len(throttled), 'host', 'asks', 'ask')} for fewer requests: "
            + _named(throttled),
            "They are asked more slowly by themselves: `crawlfleet fleet` shows them.",
        )
    yield from of_proxies(fleet.proxies or ())
    orphaned = (fleet.stray_items or 0) + (fleet.stray_requests or 0)
    if orphaned:
        yield Level.LOOK.saying(
            "strays",
            f"{orphaned:,} items and requests wait for bizs that there are not",
            "The scheduler's log names them; push a biz of that name.",
        )
    if fleet.unread:
        yield Level.LOOK.saying(
            "fleet",
            "could not be looked at: " + _named(f"{u.what} ({u.why})" for u in fleet.unread),
            "The router's log and the monitor's have the whole reasons; of rights "
            'docs/reference/monitoring.md says what they need: "Rights".',
        )


def _again(biz: str) -> str:
    """Advise how dead letters are worked on again."""
    return (
        f"`crawlfleet dead replay {biz} --all` has them worked on again; where a rule was mended, "
        f"`crawlfleet dead replay {biz} --reason Extract --current-rule`."
    )


def of_proxies(pools: Iterable["ProxyPoolHealth"]) -> Iterator[Saying]:
    """Check that the pools of proxies have proxies that work."""
    for pool in pools:
        if not pool.away:
            continue
        faults = sorted({one.fault for one in pool.proxies if one.away and one.fault})
        said = f": {', '.join(faults)}" if faults else ""
        if pool.size and pool.away >= pool.size:
            yield Level.BROKEN.saying(
                "proxies",
                f"none of the {pool.size:,} proxies of {pool.name} works{said}",
                "What leaves by them waits. `crawlfleet fleet` shows each; mend them, or put "
                "others into the pool's secret, which is read again within five minutes.",
            )
        else:
            size = "" if pool.size is None else f" of {pool.size:,}"
            yield Level.NOTE.saying(
                "proxies",
                f"{pool.away:,}{size} of {pool.name} {'is' if pool.away == 1 else 'are'} left "
                f"out{said}",
                "One worker tries each again from time to time; `crawlfleet fleet` shows them.",
            )


def of_incidents(found: Sequence["Incident"], *, operator: bool, more: bool) -> Iterator[Saying]:
    """List open incidents, the gravest and oldest first; ``more`` may be open than these."""
    if not found:
        said = "none is open" if operator else "none is open of its bizs"
        yield Level.FINE.saying("incidents", said)
    gravest = sorted(found, key=lambda one: (one.severity != "critical", one.since))
    yield from (
        Level.LOOK.saying(
            "incidents",
            f"{one.severity}: {one.place}: {one.title}, since {moment(one.since)}: {one.said}",
            one.do or "`crawlfleet incidents` tells more.",
        )
        for one in gravest[:_NAMED]
    )
    left = len(found) - _NAMED
    if left > 0:
        said = f"{left:,} more are open{', at least' if more else ''}"
        yield Level.LOOK.saying("incidents", said, "`crawlfleet incidents` shows all of them.")


def of_biz(biz: str, stats: "Stats", waited: timedelta | None) -> Iterator[Saying]:
    """Check a biz for dead letters, and for the wait of its oldest request."""
    dead = stats.states.get("dead", 0)
    if dead:
        yield Level.NOTE.saying(
            biz,
            f"{_so_many(dead, 'request', 'was', 'were')} given up on",
            f"`crawlfleet dead list {biz}` says why. {_again(biz)}",
        )
    if waited is not None and waited > LONG_WAIT:
        yield Level.LOOK.saying(
            biz,
            f"the oldest request has waited for {_span(waited)}",
            f"`crawlfleet stats {biz}` compares the rates and shows where the time goes.",
        )
    if not dead and (waited is None or waited <= LONG_WAIT):
        yield Level.FINE.saying(biz, f"{stats.unfinished:,} requests are open")


def of_ledger(biz: str, ledger: "Ledger") -> Iterator[Saying]:
    """Check that the ledger balances."""
    if ledger.balanced:
        yield Level.FINE.saying(biz, "the ledger balances")
        return
    what = "in no state" if ledger.difference > 0 else "never submitted"
    yield Level.BROKEN.saying(
        biz,
        f"{counted(abs(ledger.difference), 'request')} {what}",
        'Ask again in a minute. If it stays: "When the ledger does not balance" in'
        " docs/guides/trouble.md.",
    )


def of_coverage(biz: str, found: "Iterable[RuleCoverage]") -> Iterator[Saying]:
    """Check that the fields of the rules in force have values."""
    for one in found:
        if not one.current or not one.empty:
            continue
        numbers = {field.name: field.count for field in one.fields}
        fields = ", ".join(f"{name} {numbers.get(name, 0):,}" for name in one.empty)
        records = counted(one.records, "record")
        level = Level.LOOK if one.mostly_empty else Level.NOTE
        most = "most fields have no value; " if one.mostly_empty else ""
        yield level.saying(
            biz,
            f"rule {one.rule}: {most}of {records} have one: {fields}",
            f"`crawlfleet rule try {one.rule} URL --remote --biz {biz}` says of a page why.",
        )


def of_trial(biz: str, why: str = "") -> Iterator[Saying]:
    """Report that a rule could be tried on a page of our own, or ``why`` not."""
    if not why:
        yield Level.FINE.saying(biz, "rules can be tried")
        return
    yield Level.LOOK.saying(
        biz,
        f"rules cannot be tried: {why}",
        "Crawls go on. The log of the function `trials` says what failed, the router's who did"
        " not answer.",
    )


def of_schedules(biz: str, found: "Iterable[Schedule]") -> Iterator[Saying]:
    """Report schedules whose last fire has started no job, and when it is tried again.

    What waits or is skipped because its ``overlap`` or ``missed`` says so is as it is meant.
    """
    for one in found:
        last = one.last_outcome
        if not one.enabled or last is None or not last.why:
            continue
        late = last.at - last.fire_at >= _LONG_WAIT
        waits = last.outcome == "waiting" and one.overlap != "queue" and late
        skipped = last.outcome == "skipped" and "skip" not in {one.overlap, one.missed}
        failed = last.outcome == "failed" or last == one.last_failure
        if not (failed or waits or skipped):
            continue
        of = f"spider {one.spider}" if one.spider is not None else f"rule {one.rule}"
        tried = "its next fire is" if last.outcome == "skipped" else "it is tried again"
        again = "" if one.next_at is None else f"; {tried} at {moment(one.next_at)}"
        yield Level.LOOK.saying(
            biz,
            f"schedule {one.name}, of {of}, could not start its job: {last.why}{again}",
            f"`crawlfleet schedule show {biz} {one.name}` tells more.",
        )


def of_no_biz(biz: str) -> Iterator[Saying]:
    """Report a biz that the key's tenant has not."""
    yield Level.YOURS.saying(
        biz,
        "there is no such biz of this key's tenant",
        "A biz is a document of the configuration: bizs/TENANT/BIZ.yaml.",
    )


def _so_many(number: int, noun: str, one: str, several: str) -> str:
    """Write a number of things and its verb.

    >>> _so_many(1, "worker", "is", "are"), _so_many(2, "worker", "is", "are")
    ('1 worker is', '2 workers are')
    """
    return f"{counted(number, noun)} {one if number == 1 else several}"


def _named(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are.

    >>> _named(str(n) for n in range(7))
    '0, 1, 2, 3, 4 and 2 more'
    """
    each = list(names)
    more = f" and {len(each) - _NAMED} more" if len(each) > _NAMED else ""
    return ", ".join(each[:_NAMED]) + more


def _span(span: timedelta) -> str:
    """Write a span for people.

    >>> _span(timedelta(minutes=90)), _span(timedelta(days=3))
    ('1.5 hours', '3.0 days')
    """
    hours = span / timedelta(hours=1)
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"
