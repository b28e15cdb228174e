"""``crawlfleet rule try``: what a rule yields on one page, before it is in force (SPEC.md H8).

Nothing is submitted and nothing is stored. A saved page needs no network; a URL is asked for once,
if the robots.txt of its site lets one.
"""

from datetime import UTC, datetime
from pathlib import Path

import click

from crawlfleet.cli.choosing import Chosen, choose, is_url, page_of
from crawlfleet.cli.config import reader_check
from crawlfleet.cli.console import counted, emit, note
from crawlfleet.cli.coverage import coverage
from crawlfleet.cli.failures import Exit
from crawlfleet.cli.yields import RECORDS, advice, show_yield
from crawlfleet.errors import Problem
from crawlfleet.model.harvest import Trial
from crawlfleet.model.request import Body
from crawlfleet.model.rule import Rule
from crawlfleet.page import Page
from crawlfleet.policy.web_status import error_for


@click.group()
def rule() -> None:
    """Try rules before they are in force."""


rule.add_command(coverage)


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
def try_one(
    rule_file: Path,
    page: str,
    name: str | None,
    biz: str | None,
    url: str | None,
    depth: int,
    limit: int | None,
    ignore_robots: bool,
    remote: bool,
    api_url: str | None,
    api_key: str | None,
    as_json: bool,
) -> int:
    """Show what a rule yields on a page: records, links, and which fields found nothing.

    RULE is a YAML or JSON file with one rule or spider, or with a biz (--rule NAME says which of
    its rules or spiders), or a configuration folder (--biz as well). The page is a saved FILE, or a
    URL that is asked for once, where its site's robots.txt lets a worker do so, or with
    --ignore-robots. Exits with 1 where the page cannot be read, or may not be asked for, or where a
    record would not be stored, 2 where the rule is wrong.

    With --remote --biz BIZ the fleet does it: by the biz's limits and proxies, when it is its turn
    at the host and robots.txt lets it. RULE may be the name of a rule or a spider in force, too.
    """
    if remote:
        if ignore_robots:
            raise click.UsageError("--ignore-robots goes without --remote: a worker obeys its biz.")
        from crawlfleet.cli.trying import Wanted, try_remotely

        wanted = Wanted(rule_file, page, name=name, biz=biz, url=url, depth=depth, limit=limit)
        return try_remotely(wanted, api_url, api_key, as_json=as_json)
    if not rule_file.exists():
        hint = "a rule by its name is tried with --remote"
        raise click.BadParameter(f"Path '{rule_file}' does not exist; {hint}.", param_hint="RULE")
    chosen = choose(rule_file, biz, name)
    problems = _mistakes(chosen)
    if problems:
        _tell(Trial(problems=tuple(problems)), as_json)
        kind = "rule" if isinstance(chosen.reader, Rule) else "spider"
        note(f"{counted(len(problems), 'mistake')} in the {kind}; the page was not looked at")
        return Exit.BAD_INPUT
    if ignore_robots and is_url(page):
        note("robots.txt is not looked at: --ignore-robots")
    found = page_of(page, url, chosen.fetch, None if ignore_robots else chosen.politeness)
    trial = _trial(chosen, found, depth)
    refused = error_for(found.status, None, datetime.now(UTC))
    if as_json:
        emit(trial)
    else:
        show(trial, chosen, found, limit or RECORDS)
    if refused is not None:
        note(f"the site answered with {found.status}: a worker would not read this page")
    return Exit.FAILED if refused or trial.problems or trial.rejected_count else Exit.FINE


def _mistakes(chosen: Chosen) -> list[Problem]:
    """What keeps the rule or spider from being put in force, its schema included."""
    from crawlfleet.policy.follow_targets import target_problems
    from crawlfleet.policy.rule_shape import shape_problems

    reader = chosen.reader
    found = shape_problems(reader) if isinstance(reader, Rule) else []
    blamed = {problem.field for problem in found}
    found += [problem for problem in reader_check()(reader) if problem.field not in blamed]
    if isinstance(reader, Rule) and chosen.readers is not None:
        found += target_problems(reader, chosen.readers)
    return list(dict.fromkeys(found))


def _trial(chosen: Chosen, page: Page, depth: int) -> Trial:
    """What comes of the page, with the readers and the checks of a worker."""
    from crawlfleet.adapters.schema import SchemaValidator
    from crawlfleet.executors.applying import SpiderExecutors
    from crawlfleet.extract import RuleExtractor
    from crawlfleet.extract.trial import try_rule
    from crawlfleet.flows.trial_reading import TrialReading, read_page
    from crawlfleet.wiring.readers import REGISTRY

    parts = TrialReading(
        executors=SpiderExecutors(REGISTRY, RuleExtractor()),
        validator=SchemaValidator(),
        clock=lambda: datetime.now(UTC),
        read=try_rule,
    )
    reader = chosen.reader
    body = Body(url=page.url, rule=chosen.name, rule_version=reader.version, depth=depth)
    return read_page(parts, reader, page, body, "", "")


def _tell(trial: Trial, as_json: bool) -> None:
    if as_json:
        emit(trial)
        return
    for problem in trial.problems:
        note(str(problem))


def show(trial: Trial, chosen: Chosen, page: Page, records: int) -> None:
    """Draw a trial for reading."""
    took = f"{trial.seconds * 1000:.1f} ms for {len(page.body):,} bytes"
    if trial.problems:
        for problem in trial.problems:
            note(f"{chosen.name}: {problem}")
        note(f"nothing of this page would be stored ({took}). {advice(trial.problems[0])}")
        return
    reader = chosen.reader
    follows = bool(reader.follow if isinstance(reader, Rule) else trial.links)
    show_yield(trial, chosen.name, records, follows=follows)
    if trial.unread:
        note("the page goes on: it was not read to its end")
    note(took)
