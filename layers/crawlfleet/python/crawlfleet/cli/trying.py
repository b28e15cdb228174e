"""``crawlfleet rule try --remote``: the fleet tries a rule, and fetches the page if it is a URL."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawlfleet.cli.choosing import choose, is_url, saved_page, type_of
from crawlfleet.cli.console import counted, emit, note
from crawlfleet.cli.failures import Exit
from crawlfleet.cli.yields import RECORDS, advice, show_yield
from crawlfleet.errors import ConfigError, Problem
from crawlfleet.model.harvest import Coverage, Link, Trial
from crawlfleet.model.rule import Rule
from crawlfleet.model.trial import LARGEST_PAGE

if TYPE_CHECKING:
    from crawlfleet.sdk import TriedRule


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says."""

    rule: Path
    page: str
    name: str | None
    biz: str | None
    url: str | None
    depth: int
    limit: int | None


def try_remotely(wanted: Wanted, api_url: str | None, api_key: str | None, *, as_json: bool) -> int:
    """Have it tried, and show what comes of it; the exit code."""
    from crawlfleet.sdk import Client

    if wanted.biz is None:
        raise click.UsageError(
            "--remote needs --biz: whose limits hold, and whose rules are meant."
        )
    biz = wanted.biz.rpartition("/")[2]
    rule: str | Rule = wanted.name or str(wanted.rule)
    title = str(rule)
    if wanted.rule.exists():
        chosen = choose(wanted.rule, wanted.biz, wanted.name)
        title = chosen.name
        if isinstance(chosen.reader, Rule):
            rule = chosen.reader
        else:
            note(f"{title} is a spider: the fleet tries it as it is in force there")
            rule = title
    with Client(api_url, api_key) as fleet:
        tried = fleet.try_rule(biz, rule, depth=wanted.depth, **_page(wanted))
    if as_json:
        emit(tried)
    else:
        _show(tried, title, wanted.limit or RECORDS)
    failed = tried.error or tried.problems or tried.rejected_count
    return Exit.FAILED if failed else Exit.FINE


def _page(wanted: Wanted) -> dict[str, Any]:
    if is_url(wanted.page):
        return {"url": wanted.page}
    file = saved_page(wanted.page)
    size = file.stat().st_size
    if size > LARGEST_PAGE:
        told = f"has {size:,} bytes; {LARGEST_PAGE:,} are the most that is sent along"
        hint = "without --remote larger ones can be tried"
        raise ConfigError((Problem(wanted.page, f"{told}: {hint}"),))
    return {"page": file.read_bytes(), "page_url": wanted.url, "content_type": type_of(file)}


def _show(tried: "TriedRule", title: str, records: int) -> None:
    fetched = tried.fetched
    if fetched is not None:
        way = f", by {counted(len(fetched.redirects), 'redirect')}" if fetched.redirects else ""
        note(f"{fetched.status} from {fetched.url}{way}")
    if tried.error is not None:
        note(f"{tried.error.reason}: {tried.error.message}")
        note("a later try may succeed" if tried.error.retryable else "a later try will not help")
        return
    for problem in tried.problems:
        note(f"{title}: {problem}")
    if tried.problems:
        note(f"nothing of this page would be stored. {advice(tried.problems[0])}")
        return
    coverage = Coverage(
        records=tried.record_count + tried.rejected_count,
        fields={field.name: field.count for field in tried.coverage},
    )
    links = tuple(
        Link(url=link.url, rule=link.rule or "", depth=link.depth) for link in tried.links
    )
    trial = Trial(
        records=tried.records,
        links=links,
        refused=tried.refused,
        coverage=coverage,
        rejected=tried.rejected,
        rejected_count=tried.rejected_count,
        left_out=tried.left_out,
        left_out_count=tried.left_out_count,
    )
    show_yield(trial, title, records, follows=bool(links or tried.refused))
    if tried.cut:
        note(f"the answer was cut: {tried.record_count:,} records, {tried.link_count:,} links")
    note(f"{tried.seconds * 1000:.1f} ms")
