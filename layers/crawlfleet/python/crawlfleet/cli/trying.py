"""``crawlfleet rule try --remote``: the fleet tries a rule, and fetches the page if it is a URL."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawlfleet.cli.console import counted, emit, note
from crawlfleet.cli.failures import Exit
from crawlfleet.cli.rules import RECORDS, TYPES, advice, choose, show_yield
from crawlfleet.model.harvest import Coverage, Link, Trial
from crawlfleet.model.rule import Rule

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
        rule, title = chosen.rule, chosen.name
    with Client(api_url, api_key) as fleet:
        tried = fleet.try_rule(biz, rule, depth=wanted.depth, **_page(wanted))
    if as_json:
        emit(tried)
    else:
        _show(tried, title, wanted.limit or RECORDS)
    return Exit.FAILED if tried.error or tried.problems else Exit.FINE


def _page(wanted: Wanted) -> dict[str, Any]:
    if wanted.page.lower().startswith(("http://", "https://")):
        return {"url": wanted.page}
    file = Path(wanted.page)
    kind = TYPES.get(file.suffix.lower(), "text/html")
    return {"page": file.read_bytes(), "page_url": wanted.url, "content_type": kind}


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
    trial = Trial(records=tried.records, links=links, refused=tried.refused, coverage=coverage)
    show_yield(trial, title, records, follows=bool(links or tried.refused))
    if tried.cut:
        note(f"the answer was cut: {tried.record_count:,} records, {tried.link_count:,} links")
    for told in tried.rejected:
        note(f"would not be stored: {told}")
    note(f"{tried.seconds * 1000:.1f} ms")
