"""``crawlfleet rule try | coverage``: what a rule yields, before it is in force and since.

SPEC.md H8.
Nothing is submitted and nothing is stored. A saved page needs no network; a URL is asked for once,
if the robots.txt of its site lets one. With ``--remote`` the fleet tries the rule.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from crawlfleet.cli.config.command import reader_check
from crawlfleet.cli.console import (
    Exit,
    counted,
    draw,
    emit,
    note,
    table,
    with_api,
)
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.records.coverage import show_version
from crawlfleet.cli.rules.input import Chosen, choose, is_url, page_of, saved_page, type_of
from crawlfleet.cli.terminal import printable
from crawlfleet.config.documents.rule import Rule
from crawlfleet.crawling.fetching.models import error_for
from crawlfleet.crawling.trials.messages import LARGEST_PAGE
from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body, Coverage, Link, Trial

if TYPE_CHECKING:
    from rich.tree import Tree

    from crawlfleet.sdk import Client, TriedRule


#: Records, links, and characters of a value that a terminal shows; --json has all of them.
RECORDS: Final = 5
_LINKS: Final = 20
#: What is said of a number that is written with a comma.
_COMMA: Final = re.compile(r"[0-9],[0-9].* is not an? ")
_VALUE_CHARACTERS: Final = 300


def show_yield(trial: Trial, name: str, records: int, *, follows: bool) -> None:
    """Draw records, coverage and links, and say what is none of them, and why."""
    fields, given = trial.coverage.fields, trial.coverage.records
    if fields and given:
        draw(_tree(trial.records[:records], f"{name}: {counted(len(trial.records), 'record')}"))
        if len(trial.records) > records:
            note(f"{records} of {len(trial.records)} are shown: --limit or --json show more")
        draw(_coverage(fields, given, trial.empty))
    elif fields:
        note(f"{name}: no record: `items` matched nothing on this page. Does it still fit?")
    if follows:
        _show_links(trial)
    _report_of(trial.rejected, trial.rejected_count, "would not be stored")
    _report_of(trial.left_out, trial.left_out_count, "left out")
    if not (given or fields or follows or trial.left_out_count):
        note(
            f"{name}: no record, no link: nothing on this page is what it looks for. Is it such a "
            "page, and do its selectors or parameters fit it?"
        )


def _report_of(reported: tuple[str, ...], count: int, what: str) -> None:
    for one in reported:
        note(f"{what}: {one}")
    if count > len(reported):
        note(f"{what}: {count - len(reported):,} more")


def advice(problem: Problem, empty: Mapping[str, str]) -> str:
    """Advise what to change; ``empty`` says why fields have no value."""
    if "missing, and required" in problem.message:
        for name, why in empty.items():
            return f"{name}: {why}. Correct that, or give up `required` for a `default`."
        return "Correct where the field looks, or give up `required` for a `default`."
    if _COMMA.search(problem.message):
        return (
            "A step `{number: {decimal: ','}}` of `transforms` reads a decimal comma, "
            "`{number: {thousands: ','}}` one between thousands."
        )
    if " is not a" in problem.message:
        return "Narrow the text with `regex`, or change it with `transforms`, before its `type`."
    return "Correct the field that is named, and try again."


def _tree(records: tuple[dict[str, object], ...], title: str) -> "Tree":
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(printable(title)), guide_style="dim")
    for number, record in enumerate(records):
        branch = tree.add(Text(f"record {number}"))
        _grow(branch, record)
    return tree


def _grow(branch: "Tree", values: Mapping[str, object] | list[Any]) -> None:
    from rich.text import Text

    pairs = (
        values.items()
        if isinstance(values, Mapping)
        else ((f"[{number}]", value) for number, value in enumerate(values))
    )
    for name, value in pairs:
        deep = isinstance(value, dict) or (
            isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
        )
        if deep and isinstance(value, dict | list):
            _grow(branch.add(Text(printable(name), style="bold")), value)
            continue
        missing = value is None or value in ("", [], {})
        text = "nothing" if value is None else _short(value)
        line = Text.assemble((printable(name), "bold"), ": ", (text, "red" if missing else ""))
        branch.add(line)


def _short(value: object) -> str:
    text = printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    more = len(text) - _VALUE_CHARACTERS
    return f"{text[:_VALUE_CHARACTERS]}... ({more:,} more characters)" if more > 0 else text


def _coverage(fields: Mapping[str, int], records: int, empty: Mapping[str, str]) -> Any:
    unknown = "does its selector still fit?"
    rows = [
        (name, f"{count} of {records}", "" if count else f"never: {empty.get(name, unknown)}")
        for name, count in sorted(fields.items(), key=lambda each: each[1])
    ]
    return table(["field", "has a value in>", ""], rows, title="coverage")


def _show_links(trial: Trial) -> None:
    rows = [(link.url, link.rule or "this one", link.depth) for link in trial.links[:_LINKS]]
    title = f"follows {counted(len(trial.links), 'link')}"
    draw(table(["url", "read by", "depth>"], rows, title=title))
    if len(trial.links) > _LINKS:
        note(f"{_LINKS} of {len(trial.links)} links are shown: --json has them all")
    if trial.refused:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(trial.refused.items()))
        note(f"not followed: {why}")


@click.group(cls=NamingGroup)
def rule() -> None:
    """Try rules before they are in force."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Arguments of a trial: which rule or spider of a file, and the page to try it on."""

    rule_file: Path
    page: str
    name: str | None
    biz: str | None
    url: str | None
    depth: int
    limit: int | None
    api_url: str | None
    api_key: str | None


@rule.command("try")
@click.argument("rule_file", metavar="RULE", type=click.Path(path_type=Path))
@click.argument("page", metavar="FILE|URL")
@click.option("--rule", "name", metavar="NAME", help="Which rule or spider of a biz document.")
@click.option(
    "--biz",
    metavar="BIZ",
    help="Which biz of a configuration folder: TENANT/BIZ, BIZ; with --remote, of the API.",
)
@click.option("--url", help="Where a saved page came from: its links are joined with that.")
@click.option("--depth", type=click.IntRange(min=0), default=0, help="Links from where one began.")
@click.option("--limit", type=click.IntRange(min=1), help=f"Records to show. Default: {RECORDS}.")
@click.option("--ignore-robots", is_flag=True, help="Ask for a URL whatever its robots.txt says.")
@click.option("--remote", is_flag=True, help="Let the fleet try it, and fetch a URL.")
@click.option("--api-url", metavar="URL", help="Address of the API, for --remote.")
@click.option("--api-key", metavar="KEY", help="Key of the tenant, for --remote.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with everything.")
def try_one(*, ignore_robots: bool, remote: bool, as_json: bool, **given: Any) -> int:
    """Show what a rule yields on a page: records, links, and which fields found nothing.

    RULE is a YAML or JSON file with one rule or spider, or with a biz (--rule NAME says which of
    its rules or spiders), or a configuration folder (--biz as well). The page is a saved FILE, or a
    URL that is asked for once, where its site's robots.txt lets a worker do so, or with
    --ignore-robots. Exits with 1 where the page cannot be read, or may not be asked for, or where a
    record would not be stored, 2 where the rule is wrong.

    With --remote --biz BIZ the fleet does it: by the biz's limits and proxies, when it is its turn
    at the host and robots.txt lets it. RULE may be the name of a rule or a spider in force, too.
    """
    wanted = Wanted(**given)
    if remote:
        if ignore_robots:
            raise click.UsageError("--ignore-robots goes without --remote: a worker obeys its biz.")
        return try_remotely(wanted, as_json=as_json)
    if not wanted.rule_file.exists():
        hint = "a rule by its name is tried with --remote"
        said = f"Path '{wanted.rule_file}' does not exist; {hint}."
        raise click.BadParameter(said, param_hint="RULE")
    chosen = choose(wanted.rule_file, wanted.biz, wanted.name)
    problems = _errors(chosen)
    if problems:
        if as_json:
            emit(Trial(problems=tuple(problems)))
        for problem in () if as_json else problems:
            note(str(problem))
        kind = "rule" if isinstance(chosen.reader, Rule) else "spider"
        note(f"{counted(len(problems), 'mistake')} in the {kind}; the page was not looked at")
        return Exit.BAD_INPUT
    if ignore_robots and is_url(wanted.page):
        note("robots.txt is not looked at: --ignore-robots")
    politeness = None if ignore_robots else chosen.politeness
    found = page_of(wanted.page, wanted.url, chosen.fetch, politeness)
    trial = _trial(chosen, found, wanted.depth)
    refused = error_for(found.status, None, datetime.now(UTC))
    if refused is not None:
        note(f"the site answered with {found.status}: a worker would not read this page")
    if as_json:
        emit(trial)
    else:
        show(trial, chosen, found, wanted.limit or RECORDS)
    return Exit.FAILED if refused or trial.problems or trial.rejected_count else Exit.FINE


def _errors(chosen: Chosen) -> list[Problem]:
    """List what keeps the rule or spider from being put in force, its schema included."""
    from crawlfleet.config.rule_validation import shape_problems
    from crawlfleet.config.validation import target_problems

    reader = chosen.reader
    found = shape_problems(reader) if isinstance(reader, Rule) else []
    blamed = {problem.field for problem in found}
    found += [problem for problem in reader_check()(reader) if problem.field not in blamed]
    if isinstance(reader, Rule) and chosen.readers is not None:
        found += target_problems(reader, chosen.readers)
    return list(dict.fromkeys(found))


def _trial(chosen: Chosen, page: Page, depth: int) -> Trial:
    """Try the page with the readers and the checks of a worker."""
    from crawlfleet.crawling.executors.registry import REGISTRY
    from crawlfleet.crawling.executors.runner import SpiderExecutors
    from crawlfleet.crawling.extract.extractor import RuleExtractor
    from crawlfleet.crawling.records.schema import SchemaValidator
    from crawlfleet.crawling.trials.pages import try_page
    from crawlfleet.crawling.trials.service import prepared

    reader, nobody = chosen.reader, ("", "")
    body = Body(url=page.url, rule=chosen.name, rule_version=reader.version, depth=depth)
    trial = try_page(SpiderExecutors(REGISTRY, RuleExtractor()), reader, page, body, nobody)
    return prepared(SchemaValidator(), reader, trial, page, body, nobody, datetime.now(UTC))


def show(trial: Trial, chosen: Chosen, page: Page, records: int) -> None:
    """Draw a trial for reading."""
    took = f"{trial.seconds * 1000:.1f} ms for {len(page.body):,} bytes"
    if trial.problems:
        for problem in trial.problems:
            note(f"{chosen.name}: {problem}")
        what_next = advice(trial.problems[0], trial.empty)
        note(f"nothing of this page would be stored ({took}). {what_next}")
        return
    reader = chosen.reader
    follows = bool(reader.follow if isinstance(reader, Rule) else trial.links)
    show_yield(trial, chosen.name, records, follows=follows)
    if trial.unread:
        note("the page goes on: it was not read to its end")
    note(took)


def try_remotely(wanted: Wanted, *, as_json: bool) -> int:
    """Have it tried, and show what comes of it; the exit code."""
    from crawlfleet.sdk import Client

    if wanted.biz is None:
        raise click.UsageError(
            "--remote needs --biz: whose limits hold, and whose rules are meant."
        )
    biz = wanted.biz.rpartition("/")[2]
    rule: str | Rule = wanted.name or str(wanted.rule_file)
    title = str(rule)
    if wanted.rule_file.exists():
        chosen = choose(wanted.rule_file, wanted.biz, wanted.name)
        title = chosen.name
        if isinstance(chosen.reader, Rule):
            rule = chosen.reader
        else:
            note(f"{title} is a spider: the fleet tries it as it is in force there")
            rule = title
    with Client(wanted.api_url, wanted.api_key) as fleet:
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
        reported = f"has {size:,} bytes; {LARGEST_PAGE:,} are the most that is sent along"
        hint = "without --remote larger ones can be tried"
        raise ConfigError((Problem(wanted.page, f"{reported}: {hint}"),))
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
        why = {one.name: one.why for one in tried.coverage if one.why is not None}
        note(f"nothing of this page would be stored. {advice(tried.problems[0], why)}")
        return
    counts = Coverage(
        records=tried.record_count + tried.rejected_count,
        fields={field.name: field.count for field in tried.coverage},
    )
    links = tuple(Link(url=one.url, rule=one.rule or "", depth=one.depth) for one in tried.links)
    trial = Trial(
        records=tried.records,
        links=links,
        refused=tried.refused,
        coverage=counts,
        rejected=tried.rejected,
        rejected_count=tried.rejected_count,
        left_out=tried.left_out,
        left_out_count=tried.left_out_count,
        empty={one.name: one.why for one in tried.coverage if one.why is not None},
    )
    show_yield(trial, title, records, follows=bool(links or tried.refused))
    if tried.cut:
        note(f"the answer was cut: {tried.record_count:,} records, {tried.link_count:,} links")
    note(f"{tried.seconds * 1000:.1f} ms")


@rule.command()
@click.option("--rule", "name", metavar="NAME", help="Only this rule or spider.")
@click.option("--all", "old", is_flag=True, help="Versions that are not in force any more, too.")
@click.option("--hours", is_flag=True, help="By hour, of the last 25 in which it had records.")
@with_api("biz")
def coverage(
    fleet: "Client", biz: str, name: str | None, old: bool, hours: bool, as_json: bool
) -> int:
    """Show in how many records each field has a value, by rule and version.

    Records count where they were read, also those that were rejected, as the schema or the key did
    not take them. A field that falls from one version to the next, or with --hours from one hour to
    the next, is one that the site has moved; people are notified of it (`coverage_fall`).
    """
    found = [
        one
        for one in fleet.coverage(biz)
        if (one.current or old or as_json) and name in (None, one.rule)
    ]
    if as_json:
        return emit({"coverage": found})
    for one in found:
        show_version(one, hours=hours)
    if not found:
        note("nothing was counted yet; --all shows versions that are not in force any more")
    return Exit.FINE
