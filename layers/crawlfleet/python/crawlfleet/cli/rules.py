"""``crawlfleet rule try``: what a rule yields on one page, before it is in force (SPEC.md H8).

Nothing is submitted and nothing is stored. A saved page needs no network; a URL is asked for once,
if the robots.txt of its site lets one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from crawlfleet.cli.console import counted, draw, emit, note, printable, table
from crawlfleet.cli.coverage import coverage
from crawlfleet.cli.failures import Exit
from crawlfleet.cli.folder import SUFFIXES, read_file
from crawlfleet.errors import ConfigError, Problem
from crawlfleet.model.biz import Biz, FetchLimits
from crawlfleet.model.harvest import Trial
from crawlfleet.model.outcome import Page
from crawlfleet.model.politeness import Politeness
from crawlfleet.model.rule import Rule
from crawlfleet.policy.mistakes import decode, named

if TYPE_CHECKING:
    from rich.tree import Tree

#: Records, links, and characters of a value that a terminal shows; --json has all of them.
RECORDS: Final = 5
_LINKS: Final = 20
_VALUE_CHARACTERS: Final = 300
#: What a saved page is taken to be.
TYPES: Final = {".xml": "application/xml", ".rss": "application/xml", ".json": "application/json"}
_BASE: Final = "https://page.invalid/"
_MAX_FILE_BYTES: Final = 50_000_000


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, what fetches its pages, and the readers that its links may name."""

    rule: Rule
    name: str
    fetch: FetchLimits = FetchLimits()
    politeness: Politeness = Politeness()
    readers: frozenset[str] | None = None


@click.group()
def rule() -> None:
    """Try rules before they are in force."""


rule.add_command(coverage)


@rule.command("try")
@click.argument("rule_file", metavar="RULE", type=click.Path(path_type=Path))
@click.argument("page", metavar="FILE|URL")
@click.option("--rule", "name", metavar="NAME", help="Which rule of a biz document.")
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

    RULE is a YAML or JSON file with one rule, or with a biz (--rule NAME says which of its rules),
    or a configuration folder (--biz as well). The page is a saved FILE, or a URL that is asked for
    once, where its site's robots.txt lets a worker do so, or with --ignore-robots. Exits with 1
    where the page cannot be read by the rule, or may not be asked for, 2 where the rule is wrong.

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
    from crawlfleet.extract.trial import rule_mistakes, try_rule
    from crawlfleet.policy.follow_targets import target_problems

    chosen = choose(rule_file, biz, name)
    problems = list(rule_mistakes(chosen.rule))
    if chosen.readers is not None:
        problems += target_problems(chosen.rule, chosen.readers)
    if problems:
        _tell(Trial(problems=tuple(problems)), as_json)
        note(f"{counted(len(problems), 'mistake')} in the rule; the page was not looked at")
        return Exit.BAD_INPUT
    found = _page(page, url, chosen.fetch, None if ignore_robots else chosen.politeness)
    trial = try_rule(chosen.rule, found, depth)
    if as_json:
        _tell(trial, as_json)
    else:
        show(trial, chosen, found, limit or RECORDS)
    return Exit.FAILED if trial.problems else Exit.FINE


def choose(path: Path, biz: str | None = None, name: str | None = None) -> Chosen:
    """The rule that is meant.

    Raises:
        ConfigError: names what is wrong with the file, or says what there is to choose from.
    """
    if path.is_dir():
        path = _biz_file(path, biz)
    try:
        text = read_file(path)
        document = msgspec.json.decode(text)
    except ValueError as error:
        raise ConfigError((Problem(str(path), str(error)),)) from error
    if isinstance(document, dict) and "generations" not in document and "rules" not in document:
        single, problems = decode(text, Rule)
        if single is None:
            raise ConfigError(_placed(path, problems))
        return Chosen(rule=single, name=name or path.stem)
    whole, problems = decode(text, Biz)
    if whole is None:
        raise ConfigError(_placed(path, problems))
    if name is None and len(whole.rules) == 1:
        name = next(iter(whole.rules))
    if name is None or name not in whole.rules:
        there = named(whole.rules, name or "") or "none"
        said = "--rule says which rule" if name is None else f"there is no rule {name}"
        raise ConfigError((Problem(str(path), f"{said}; it has {there}"),))
    readers = frozenset(whole.rules) | frozenset(whole.spiders)
    return Chosen(
        rule=whole.rules[name],
        name=name,
        fetch=whole.fetch,
        politeness=whole.politeness,
        readers=readers,
    )


def _biz_file(folder: Path, biz: str | None) -> Path:
    files = {
        f"{file.parent.name}/{file.stem}": file
        for file in sorted((folder / "bizs").glob("*/*"))
        if file.suffix in SUFFIXES
    }
    meant = [name for name in files if biz in {None, name, name.partition("/")[2]}]
    if len(meant) != 1:
        there = ", ".join(files) or "none; expected bizs/TENANT/BIZ.yaml"
        said = "--biz says which biz" if biz is None or meant else f"there is no biz {biz}"
        raise ConfigError((Problem(str(folder), f"{said}; it has {there}"),))
    return files[meant[0]]


def _placed(path: Path, problems: tuple[Problem, ...]) -> Iterator[Problem]:
    for problem in problems:
        yield Problem(f"{path}: {problem.field}" if problem.field else str(path), problem.message)


def _page(where: str, url: str | None, fetch: FetchLimits, politeness: Politeness | None) -> Page:
    if where.lower().startswith(("http://", "https://")):
        from crawlfleet.cli.asking import ask

        if politeness is None:
            note("robots.txt is not looked at: --ignore-robots")
        page = ask(where, fetch, politeness)
        return msgspec.structs.replace(page, url=url) if url else page
    file = Path(where)
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise ConfigError((Problem(where, f"is larger than {_MAX_FILE_BYTES:,} bytes"),))
    kind = TYPES.get(file.suffix.lower(), "text/html")
    return Page(
        url=url or _BASE, status=200, headers={"content-type": kind}, body=file.read_bytes()
    )


def _tell(trial: Trial, as_json: bool) -> None:
    if as_json:
        emit(trial)
        return
    for problem in trial.problems:
        note(str(problem))


def show(trial: Trial, chosen: Chosen, page: Page, records: int) -> None:
    """Draw a trial for reading."""
    if page.status >= 400:
        note(f"the site answered with {page.status}: a worker would not read this page")
    took = f"{trial.seconds * 1000:.1f} ms for {len(page.body):,} bytes"
    if trial.problems:
        for problem in trial.problems:
            note(f"{chosen.name}: {problem}")
        note(f"nothing of this page would be stored ({took}). {advice(trial.problems[0])}")
        return
    show_yield(trial, chosen.name, records, follows=bool(chosen.rule.follow))
    note(took)


def show_yield(trial: Trial, name: str, records: int, *, follows: bool) -> None:
    """Draw records, coverage and links."""
    fields = trial.coverage.fields
    if fields:
        draw(_tree(trial.records[:records], f"{name}: {counted(len(trial.records), 'record')}"))
        if len(trial.records) > records:
            note(f"{records} of {len(trial.records)} are shown: --limit or --json show more")
        draw(_coverage(fields, trial.coverage.records))
    if follows:
        _show_links(trial)


def advice(problem: Problem) -> str:
    """What to change."""
    if "missing, and required" in problem.message:
        return "Correct where the field looks, or give up `required` for a `default`."
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


def _coverage(fields: Mapping[str, int], records: int) -> Any:
    rows = [
        (name, f"{count} of {records}", "" if count else "never: does its selector still fit?")
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
