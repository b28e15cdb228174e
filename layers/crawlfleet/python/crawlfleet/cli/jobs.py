"""``crawlfleet job``: runs of spiders, schedules and lists of URLs."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import click

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.dead_letters import say_why_dead
from crawlfleet.cli.demands import demand_of, shown_demand
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.following import followed, how_many
from crawlfleet.cli.place_values import Values, in_words, pages_options
from crawlfleet.cli.records.coverage import page_without, show_job, warn_of_empty
from crawlfleet.cli.spending.costs import draw_lines
from crawlfleet.cli.spending.forecasts import draw_forecast, forecast, pages_of
from crawlfleet.cli.spending.quotas import budget_of, quota_of
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.advice import filled
from crawlfleet.kernel.errors import CrawlfleetError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Job, OwnLink, Record


_timeout = click.option(
    "--timeout", type=click.FloatRange(min=0), default=3600.0, show_default=True, metavar="SECONDS"
)
#: URLs that a job takes at once; a pattern makes any number.
_MOST_URLS = 10_000
#: Records that are looked at for a page without a value.
_LOOKED_AT = 100
#: Fields of what a worker's link to the site must be like.
_LINK = ("test_url", "seconds_below", "bytes_per_second_above")
_STATES = ("placing", "expanding", "running", "cancelling", "done", "cancelled", "unplaced")


@click.group(cls=NamingGroup)
def job() -> None:
    """Start jobs, follow them, cancel them, retry what failed."""


@job.command()
@pages_options
@click.option("--priority", type=click.IntRange(0, 10), help="From 0 to 10; usually 5.")
@click.option("--pool", help="Whose workers alone do it. Default: its spider's, or the usual ones.")
@click.option(
    "--test-url", help="What a worker asks for to measure its link, where jobs are bid for."
)
@click.option(
    "--seconds-below", type=float, help="To the first byte of that, for a worker to bid for it."
)
@click.option(
    "--bytes-per-second-above", type=int, help="Of that, for a worker to bid for the job."
)
@click.option(
    "--demand",
    "demanded",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    help="What it takes of a worker, not what its spider's runs took: memory in MB, cpu in GHz, "
    "bandwidth in kB/s. AVERAGE..MAXIMUM is both: memory=300..512.",
)
@console.segment_option
@click.option(
    "--quota",
    "limits",
    multiple=True,
    metavar="UNIT=MOST[/PERIOD]",
    help="The most that it may use: requests=1000, records=500/day, usd=5.00, "
    "bytes=1000000000/month. At one without a period its open requests end as dead letters; at "
    "one of /day, /month or /all they wait, in all for `crawlfleet quota set`.",
)
@click.option(
    "--budget",
    metavar="DOLLARS",
    help="The most that it may cost, in US dollars; its open requests end at it. As --quota usd=5.",
)
@console.user_option
@console.traceparent_option
@click.option("--name", help="Under one name there is one job.")
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended.")
@_timeout
@console.with_api("biz")
def start(
    fleet: "Client",
    biz: str,
    *,
    urls: Sequence[str],
    source: IO[str] | None,
    pattern: str | None,
    values: dict[str, Values],
    demanded: Sequence[str],
    limits: Sequence[str],
    budget: str | None,
    waits: bool,
    timeout: float,
    as_json: bool,
    **given: Any,
) -> int:
    """Start a job: a run of a spider, or of a rule on pages.

    A --rule that is the spider of an executor may do without pages: its parameters name where it
    begins, as start_url of a list does.
    """
    pages = [*urls, *console.lines_of(source)]
    ways = bool(given["spider"]) + bool(pages) + bool(pattern)
    if ways > 1 or not (ways or given["rule"]):
        raise click.UsageError("a job is of a --spider, or of pages: --url, --file or --pattern")
    if len(pages) > _MOST_URLS:
        raise click.UsageError(
            f"a job takes {_MOST_URLS:,} URLs, and these are {len(pages):,}: `crawlfleet submit "
            f"{biz} --file FILE --job NAME` takes any number of them"
        )
    given |= pages_of(pages, pattern, values)
    link = {name: given.pop(name) for name in _LINK}
    given["link"] = {name: one for name, one in link.items() if one is not None} or None
    given["demand"] = demand_of(demanded) or None
    quotas = [*map(quota_of, limits), *map(budget_of, [budget] if budget else [])]
    given["quotas"] = quotas or None
    say_known(fleet, biz, given["name"], "nothing is started twice; another --name starts one")
    found = fleet.start_job(biz, **given)
    if waits:
        if given["name"] is None:
            console.note(f"{found.name} is started")
        return _followed(fleet, biz, found.name, timeout, as_json)
    if as_json:
        return console.emit(found)
    say(f"{found.name} {found.state}, {console.counted(found.size, 'task')}")
    console.note(f"to follow it: crawlfleet job wait {biz} {found.name}")
    return Exit.FINE


job.add_command(forecast)


@job.command("list")
@click.option("--state", multiple=True, type=click.Choice(_STATES), help="In this state.")
@click.option("--spider", help="Runs of this spider.")
@click.option("--schedule", help="Fired by this schedule.")
@console.limit_option
@console.with_api("biz")
def list_all(
    fleet: "Client", biz: str, state: Sequence[str], limit: int | None, as_json: bool, **of: Any
) -> int:
    """List jobs, the newest first; those that go on with what has ended of them by now.

    With --json a line of JSON for each.
    """
    size = console.page_size(limit, as_json)
    found = fleet.jobs(biz, state=list(state) or None, page_size=size, **of)
    none = "there are none: `crawlfleet job start` starts one"
    narrow = "narrow them by --state, or set --limit"
    return console.show_first(found, limit, as_json, _list, none=none, narrow=narrow)


def _list(shown: "Sequence[Job]") -> None:
    rows = [
        (
            *(each.name, each.state, each.spider or each.schedule or each.rule or each.by),
            # Of submissions, and of what its links lead to, its size knows nothing.
            max(each.size, sum(each.counts.values()) + (each.open or 0)) or None,
            *(each.counts.get(end) for end in ("done", "dead")),
            *(console.to_second(each.created_at), console.to_second(each.ended_at)),
        )
        for each in shown
    ]
    console.draw_table(
        ["name", "state", "of", "tasks>", "done>", "dead>", "started", "ended"],
        rows,
        cut=["of"],
        least=["ended", "of", "tasks", "started"],
    )
    going = [each for each in shown if not each.ended]
    counted_at = max((each.counted_at for each in going if each.counted_at), default=None)
    if counted_at is not None:
        at = console.moment(console.to_second(counted_at))
        console.note(f"of jobs that go on: as it was at {at}")
    elif going:
        console.note("jobs that go on could not be counted now")


@job.command()
@console.with_api("biz", "name")
def show(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Show one job: how far it is, and where its tasks are."""
    return console.answer(fleet.job(biz, name), as_json, lambda one: _show(fleet, biz, one))


@job.command()
@_timeout
@console.with_api("biz", "name")
def wait(fleet: "Client", biz: str, name: str, timeout: float, as_json: bool) -> int:
    """Wait until a job has ended; fails unless all of its tasks are done.

    Outside of a terminal a line every ten seconds says how far it is.
    """
    return _followed(fleet, biz, name, timeout, as_json)


@job.command()
@console.with_api("biz", "name")
def cancel(fleet: "Client", biz: str, name: str, as_json: bool) -> int:
    """Cancel a job: what is open of it ends, downloads under way too."""
    found = fleet.cancel_job(biz, name)
    if as_json:
        return console.emit(found)
    say(f"{found.name} {found.state}")
    if not found.ended:
        console.note(f"its tasks are being cancelled: crawlfleet job wait {biz} {found.name}")
    return Exit.FINE


@job.command()
@click.option(
    "--current-rule",
    "current",
    is_flag=True,
    help="Read by the rule as it is now, not as it was when the job was started.",
)
@console.with_api("biz", "name")
def retry(fleet: "Client", biz: str, name: str, current: bool, as_json: bool) -> int:
    """Have the failed tasks of a job worked on again."""
    done = fleet.retry_job(biz, name, rule="current" if current else "frozen")
    if as_json:
        return console.emit(done)
    say(f"retried {done.retried}")
    if done.skipped:
        old = console.counted(done.skipped, "task")
        console.note(f"left {old} whose time to live has passed: start a job of those pages")
    return Exit.FINE


def say_known(fleet: "Client", biz: str, name: str | None, what_follows: str) -> None:
    """Say that there is a job of a name already, and since when."""
    if name is None:
        return
    with suppress(CrawlfleetError):  # there is none; or the command itself says what is wrong
        known = fleet.job(biz, name)
        since = console.moment(known.created_at.replace(microsecond=0))
        console.note(f"job {name} was there already, since {since}: {what_follows}")


def _followed(fleet: "Client", biz: str, name: str, timeout: float, as_json: bool) -> int:
    found = followed(fleet, biz, name, timeout, hidden=as_json)
    if as_json:
        console.emit(found)
    else:
        say_end(fleet, biz, found)
    return exit_code_of(found)


def say_end(fleet: "Client", biz: str, found: "Job") -> None:
    """Say how a job has ended, and what may be done about it."""
    said = how_many(found.counts)
    say(f"{found.name} {found.state}" + (f": {said}" if said else ""))
    _advise(fleet, biz, found)


def exit_code_of(found: "Job") -> Exit:
    """Return the exit code of a job that has ended: 1 unless all of its tasks are done."""
    # Others are in final states of the biz's own, which says what these mean.
    failed = sum(count for how, count in found.counts.items() if how not in {"done", "others"})
    return Exit.FINE if found.state == "done" and not failed else Exit.FAILED


def _show(fleet: "Client", biz: str, found: "Job") -> None:
    of = f"{found.spider} (version {found.spider_version})" if found.spider else None
    progress = found.progress
    rate = progress.per_second if progress is not None else None
    rows: list[tuple[str, Any]] = [
        ("name", found.name),
        ("state", found.state),
        ("spider", of),
        ("schedule", found.schedule),
        ("rule", f"{found.rule} ({found.rule_version})" if found.rule else None),
        ("started by", found.by),
        ("started", found.created_at),
        ("pattern", found.pattern),
        ("values", ", ".join(f"{place}={value}" for place, value in found.values.items()) or None),
        *((f"  {place}", in_words(each)) for place, each in found.places.items()),
        ("priority", found.priority),
        ("pool", found.pool),
        ("link", _shown_link(found.link)),
        ("demand", shown_demand(found.demand)),
        ("won by", found.worker),
        ("won", found.placed_at),
        ("demand lowered", f"{found.lowered} times" if found.lowered else None),
        ("tasks", found.size or None),
        ("made", found.expanded or None),
        ("segment", found.segment),
        ("known links", (found.known_links and f"{found.known_links} in {found.known_in}") or None),
        ("refused", found.refused or None),
        (
            "ended tasks",
            progress and f"{progress.ended} of {progress.tasks} ({progress.ended_share:.1%})",
        ),
        # Of a job that was cancelled it would count what was swept, not what was read.
        ("rate", (rate and not found.cancelled_at and f"{rate:.2f} a second") or None),
        ("counted", None if found.ended else found.counted_at),
        ("will end", progress and progress.ends_at),
        ("cancelled", found.cancelled_at),
        ("ended", found.ended_at),
        ("trouble", found.trouble),
    ]
    console.draw(console.facts((name, value) for name, value in rows if value is not None))
    if found.ledger is not None:
        names = found.ledger.__struct_fields__
        terms = [(name, getattr(found.ledger, name)) for name in names]
        rows = [term for term in terms if term[1] or term[0] == "done"]
        console.draw_table(["state", "tasks>"], rows, apart=True)
    if found.forecast is not None:
        draw_forecast(found.forecast, found.took)
    if found.cost is not None:
        draw_lines(found.cost, "cost")
    show_job(found.coverage)
    for why in found.refusals:
        console.note(f"refused: {why}")
    _advise(fleet, biz, found)


def _advise(fleet: "Client", biz: str, found: "Job") -> None:
    for covered in found.coverage:
        if covered.empty:
            read = _some_records(fleet, biz, found.name, covered.rule)
            page = page_without(read, covered.empty)
            if not page:  # later runs have saved its records anew
                page = _last_page(fleet, biz, found.name, covered.rule).get("URL", "")
            warn_of_empty(biz, [covered], page)
    _advise_without_records(fleet, biz, found)
    if found.known_links:
        all_of_them = "`--segment job` reads all"
        if found.by == "submission":
            all_of_them = filled(
                "`crawlfleet job start BIZ --rule RULE --url URL --segment job` reads all",
                {"BIZ": biz, **_first_page(fleet, biz, found.name)},
            )
        pages = console.counted(found.known_links, "page")
        console.note(
            f"{pages} that its links lead to were not read: known in segment {found.known_in}, by "
            f"what was read before; {all_of_them}"
        )
    dead = found.ledger.dead if found.ledger is not None else found.counts.get("dead", 0)
    if dead:
        say_why_dead(fleet, biz, found)


def _advise_without_records(fleet: "Client", biz: str, found: "Job") -> None:
    """Say of a job that its pages gave nothing: a selector that fits none fails none."""
    ledger = found.ledger
    if found.state != "done" or ledger is None or not ledger.done or ledger.dead:
        return  # why tasks died is said
    if any(one.records for one in found.coverage) or found.known_links:
        return
    # Of submissions it is not known which pages others have led to.
    alone = found.by != "submission" and ledger.submitted <= found.size
    said = "no page of it gave a record" + (", and none led on to another" if alone else "")
    advice = "`crawlfleet rule try RULE URL --remote --biz BIZ` shows what it finds on one"
    page = _last_page(fleet, biz, found.name)
    console.note(f"{said}: {filled(advice, {'BIZ': biz, **page})}")


def _last_page(fleet: "Client", biz: str, job: str, rule: str | None = None) -> dict[str, str]:
    """Return rule and URL of a page of a job that was read late; nothing where none is known."""
    with suppress(CrawlfleetError):
        newest = fleet.requests(biz, job=job, state="done", newest_first=True, page_size=_LOOKED_AT)
        for last in islice(newest, _LOOKED_AT):
            if rule in {None, last.rule}:
                return {"RULE": last.rule, "URL": last.url}
    return {}


def _some_records(fleet: "Client", biz: str, job: str, rule: str) -> "list[Record]":
    """Read some records of a job, to name a page; none where they cannot be read."""
    with suppress(CrawlfleetError):
        return list(
            islice(fleet.records(biz, job=job, rule=rule, page_size=_LOOKED_AT), _LOOKED_AT)
        )
    return []


def _first_page(fleet: "Client", biz: str, job: str) -> dict[str, str]:
    """Return rule and URL of a page that a job began with; nothing where it cannot be read."""
    with suppress(CrawlfleetError):
        for first in islice(fleet.requests(biz, job=job, page_size=1), 1):
            return {"RULE": first.rule, "URL": first.url}
    return {}


def _shown_link(link: "OwnLink | None") -> str | None:
    if link is None:
        return None
    parts = (
        (link.test_url, "{}"),
        (link.seconds_below, "below {:g} s to the first byte"),
        (link.bytes_per_second_above, "above {:,} bytes/s"),
    )
    return ", ".join(words.format(part) for part, words in parts if part is not None)
