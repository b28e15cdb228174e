"""``crawlfleet init [FOLDER] [--from URL]``: a commented configuration to begin with.

With a page its rules are guessed, and what each field finds there stands beside it as a comment.
Nothing that is there already is written over.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from crawlfleet.cli.config_folder import file_of, inline, scan_folder
from crawlfleet.cli.console import Exit, counted, emit, json_option, note
from crawlfleet.cli.rules.input import is_url, page_of
from crawlfleet.cli.terminal import printable, say
from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.policies import Politeness
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.loading import shape_of
from crawlfleet.kernel.advice import filled_command
from crawlfleet.kernel.errors import AddressRefusedError, ConfigError, Problem
from crawlfleet.requests.models import Trial

#: The biz of which no page tells a name; no biz of the samples has it.
_NAME: Final = "mysite"
#: Characters of a value that stands beside its field.
_SHOWN: Final = 60
#: What one does next.
_NEXT: Final = (
    "crawlfleet config validate FOLDER",
    "crawlfleet config push FOLDER --stage local",
    "crawlfleet submit BIZ URL --rule RULE --wait",
    "crawlfleet records BIZ",
)
#: In the place of the third where the rule follows links.
_CRAWL: Final = "crawlfleet job start BIZ --rule RULE --url URL --wait"

_STAGE: Final = """\
# What holds for every biz of a stage. All of it may be left out: these are the defaults.

# Whether URLs may lead to loopback and private addresses. Only ever on a stage of your own machine.
allow_private_addresses: {private}

# How politely any host is treated, by all workers together.
hosts:
  per_second: 10
  concurrency: 8
"""
_HEAD: Final = """\
# A biz: by which rules pages become records. Its name is that of this file.
# Every field, with its default: docs/reference/configuration.md; try rules with `crawlfleet shell`.
"""
_BARE: Final = """\
rules:
  page:
    # What makes two records one: the same page, read again, replaces its record.
    key: [url]
    fields:
      # Facts of the download, such as url, status, fetched_at ...
      url: {fact: url}
      # ... or what a selector finds: css (with Scrapy's ::text and ::attr(x)), xpath, json, regex.
      title: {css: title}
      headings: {css: "h1, h2, h3", list: true}
    # Links to go on with; `rule` names another rule that reads them.
    # follow:
    #   - {css: "a[href]", rule: page, max_depth: 2}
"""


@click.command()
@click.argument("folder", default="myconfig", type=click.Path(file_okay=False, path_type=Path))
@click.option("--from", "page", metavar="URL|FILE", help="Guess the rules from this page.")
@click.option("--biz", metavar="NAME", help="Name of the biz. Default: after the page's host.")
@click.option("--allow-private", is_flag=True, help="Read a page at a private address, too.")
@click.option("--ignore-robots", is_flag=True, help="Ask for a URL whatever its robots.txt says.")
@click.option("--stage-file", is_flag=True, help="Write a stage.yaml, too: for a stage of its own.")
@json_option
def init(
    *,
    folder: Path,
    page: str | None,
    biz: str | None,
    allow_private: bool,
    ignore_robots: bool,
    stage_file: bool,
    as_json: bool,
) -> int:
    """Make a commented configuration in FOLDER (myconfig): a biz with a rule.

    With --from the rules are guessed from a page: its title, headings and structured data (JSON-LD)
    make one record of it; a list that repeats on it makes one record of each member. FOLDER may
    have other bizs already; what is there stays as it is. Settings of the stage are left alone:
    pushing a stage.yaml, which --stage-file writes, replaces those that stand for all bizs.
    """
    from crawlfleet.crawling.trials.guess import guess, name_of

    rules: dict[str, tuple[Rule, Trial]] = {}
    if page is not None:
        politeness = None if ignore_robots else Politeness()
        try:
            found = page_of(page, None, FetchLimits(), politeness, private=allow_private)
        except AddressRefusedError as error:
            raise AddressRefusedError(f"{error}; --allow-private reads it all the same") from error
        if not 200 <= found.status < 300:
            message = f"answered with {found.status}: there is nothing to guess from"
            raise ConfigError((Problem(page, message),))
        rules = guess(found)
    if biz is None:
        biz = name_of(page) if page is not None and is_url(page) else _NAME
    if shape_of(f"bizs/default/{biz}") is None:
        raise click.BadParameter("up to 32 of a-z, 0-9 and -, a letter first", param_hint="--biz")
    files = {file_of(folder, f"bizs/default/{biz}"): _HEAD + _rules_text(rules)}
    if stage_file:
        stage = _STAGE.replace("{private}", str(allow_private).lower())
        files = {file_of(folder, "stage"): stage, **files}
    _write(files)
    _, problems = scan_folder(folder)
    if problems:
        raise ConfigError(problems)
    if as_json:
        return emit({"folder": str(folder), "biz": biz, "files": list(map(str, files))})
    for file in files:
        say(str(file))
    for name, (rule, trial) in rules.items():
        note(f"{name}: {counted(len(rule.fields), 'field')}, {_records(trial)} on this page")
    name = next(reversed(rules), "page")
    follows = name in rules and bool(rules[name][0].follow)
    _show_next(folder, biz, page, name, follows=follows)
    return Exit.FINE


def _records(trial: Trial) -> str:
    return counted(len(trial.records), "record")


def _write(files: Mapping[Path, str]) -> None:
    """Write the file of a biz that is not there yet, and a stage's where it is wanted and none."""
    *_, biz = files
    if biz.exists():
        message = "is there already, and stays as it is: name another FOLDER, or --biz"
        raise ConfigError((Problem(str(biz), message),))
    for file, text in files.items():
        if file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _show_next(folder: Path, biz: str, page: str | None, rule: str, *, follows: bool) -> None:
    note("")
    note("next:")
    named = {"FOLDER": str(folder), "BIZ": biz, "RULE": rule}
    if page is not None and is_url(page):
        named["URL"] = page
    for command in _NEXT:
        one = _CRAWL if follows and " submit " in command else command
        note(f"  {filled_command(one, named)}")


def _rules_text(rules: Mapping[str, tuple[Rule, Trial]]) -> str:
    if not rules:
        return _BARE
    lines = ["rules:"]
    for name, (rule, trial) in rules.items():
        lines += rule_lines(name, rule, trial)
        if "page" in rules:
            lines += _lines_of_members(rule)
    return "\n".join(lines) + "\n"


def _lines_of_members(rule: Rule) -> Iterator[str]:
    """Write, as a comment, how the pages that a list leads to are read by `page`, too.

    They may be many, and nobody has asked for them.
    """
    link = rule.fields.get("link")
    if rule.items is None or not rule.items.css or link is None or not link.css:
        return
    follow = inline({"css": f"{rule.items.css} {link.css}", "rule": "page"})
    if rule.follow:
        yield "      # The page of each, too, read by the rule `page`:"
        yield f"      # - {follow}"
    else:
        yield "    # The page of each, too, read by the rule `page`:"
        yield "    # follow:"
        yield f"    #   - {follow}"


def rule_lines(name: str, rule: Rule, trial: Trial) -> Iterator[str]:
    """Write a rule as lines of YAML, each field with the first value that it found."""
    from crawlfleet.crawling.trials.guess import shown_values

    written: dict[str, Any] = msgspec.to_builtins(rule)
    fields, follow = written.pop("fields", {}), written.pop("follow", ())
    values = shown_values(trial)
    yield f"  {name}:"
    if rule.items is not None:
        yield f"    # A record of each of these: {len(trial.records)} on this page."
    for key, value in written.items():
        yield f"    {key}: {inline(value)}"
    if fields:
        yield "    fields:"
    for field, said in fields.items():
        comment = f"  # {_short(values[field])}" if field in values else ""
        yield f"      {field}: {inline(said)}{comment}"
    if follow:
        yield "    follow:"
    for one in follow:
        yield f"      - {inline(one)}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(printable(text).split())
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text
