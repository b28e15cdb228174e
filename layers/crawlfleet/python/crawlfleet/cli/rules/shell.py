"""``crawlfleet shell URL|FILE``: try selectors and transforms on a page, and get a rule's YAML.

It runs on the machine of whoever writes the rule, with the parsers of a worker, and needs neither
the platform nor AWS. Each line is a command; where no terminal is, they are read from standard
input, and one that failed makes the exit code 1. What a selector finds is read by the extractor
that workers run, as a field of a rule, so that nothing here means something else there.
"""

import cmd
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec.structs import replace

from crawlfleet.cli.config_folder import inline, parse
from crawlfleet.cli.console import Exit, counted, emit, json_option, note
from crawlfleet.cli.rules.command import RECORDS, advice, show_yield
from crawlfleet.cli.rules.init import rule_lines
from crawlfleet.cli.rules.input import page_of
from crawlfleet.cli.terminal import printable, say
from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.policies import Politeness
from crawlfleet.config.documents.rule import Field, Follow, Rule, Selector, Source, Structured
from crawlfleet.config.rule_validation import gathers
from crawlfleet.crawling.trials.guess import guess, source_of
from crawlfleet.crawling.trials.pages import try_rule
from crawlfleet.kernel.errors import AddressRefusedError, ConfigError, CrawlfleetError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import decode, named
from crawlfleet.requests.models import Trial

#: Matches and characters of one that are shown.
_MATCHES: Final = 10
_CHARACTERS: Final = 200
#: Under this name a field is tried that has none yet.
_TRIED: Final = "value"
#: What people type who know Scrapy's shell.
_SCRAPY: Final = re.compile(
    r"response\.(css|xpath)\((?P<quote>['\"])(.*)(?P=quote)\)"
    r"(?:\.(?:get|getall|extract|extract_first)\(\))?\Z"
)
_FETCH: Final = re.compile(r"fetch\((?P<quote>['\"])(.*)(?P=quote)\)\Z")
#: By which a selector without its command is known.
_LOOKS: Final = {
    "xpath": re.compile(r"\.?/"),
    "json_ld": re.compile(r"\$"),
    "css": re.compile(r"[.#\[*]|[a-z][a-z0-9]*(?:[.#\[>:]|\s*[>+~]\s)"),
}
_INTRO: Final = """\
css, xpath, json, regex EXPRESSION show what they find; then STEP transforms it, set KEY: VALUE
changes the field, save NAME puts it into the rule; rule prints its YAML. help has the rest."""


class _WrongInputError(CrawlfleetError):
    """A line that cannot be carried out; says what to type instead."""


def _meant(line: str) -> str:
    """Return the command that tries a line which is a selector alone; empty for another line.

    >>> [_meant(line) for line in (".price::text", "//h1", "$..price", "yaml")]
    ['css .price::text', 'xpath //h1', 'json_ld $..price', '']
    """
    for command, looks in _LOOKS.items():
        if looks.match(line):
            return f"{command} {line}"
    return ""


@dataclass(slots=True)
class Bench:
    """The page, the field that is tried, and the rule that grows."""

    page: Page
    rule: Rule
    tried: Field | None = None

    def shape(self, given: Mapping[str, Any]) -> Field:
        """Read a field as a rule has it; raises _WrongInputError for what is none."""
        found, problems = decode(msgspec.json.encode(given), Field)
        if found is None:
            raise _WrongInputError("; ".join(map(str, problems)))
        return found

    def attempt(self, tried: Field) -> tuple[Trial, bool]:
        """Try a field by itself, in the rule's items; and tell whether all matches are shown."""
        spread = not (tried.list or tried.count or tried.fields or tried.fact or tried.main_text)
        spread = spread and not gathers(tried.transforms)
        if spread:
            tried = replace(tried, list=True, default=None)
        alone = replace(self.rule, fields={_TRIED: tried}, key=(), schema=None, follow=())
        return try_rule(alone, self.page), spread


class Shell(cmd.Cmd):
    """The commands."""

    prompt = ">>> "

    def __init__(self, bench: Bench, load: Callable[[str], Page]) -> None:
        super().__init__()
        self.bench, self._load = bench, load
        self.failed = False

    def onecmd(self, line: str) -> bool:
        """Carry out a line; what is wrong with it is said, and the next one may follow."""
        if line == "EOF":  # Ctrl-D
            say("")
            return True
        try:
            return bool(super().onecmd(line))
        except ConfigError as error:
            for problem in error.problems:
                note(str(problem))
        except CrawlfleetError as error:
            note(str(error))
        except OSError as error:
            note(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))
        self.failed = True
        return False

    def emptyline(self) -> bool:
        """Do nothing; the base class would repeat the last command."""
        return False

    def default(self, line: str) -> None:
        """Understand what Scrapy's shell does, or say what commands there are."""
        if (found := _SCRAPY.match(line.strip())) is not None:
            self._find({found[1]: found[3]})
        elif (found := _FETCH.match(line.strip())) is not None:
            self.do_open(found[2])
        else:
            word = line.split(maxsplit=1)[0]
            if meant := _meant(line.strip()):
                raise _WrongInputError(f"no command {word!r}; as a selector: {meant}")
            commands = [name.removeprefix("do_") for name in self.get_names() if name[:3] == "do_"]
            raise _WrongInputError(
                f"no command {word!r}; there are {named(commands, word)}; `css SELECTOR` and "
                "`xpath EXPRESSION` try what selects"
            )

    def do_help(self, arg: str) -> None:
        """List the commands, or explain one: help [COMMAND]."""
        names = sorted({name for name in self.get_names() if name.startswith("do_")} - {"do_exit"})
        for name in names:
            if not arg or name == f"do_{arg}":
                text = (getattr(self, name).__doc__ or "").splitlines()[0]
                say(f"{name.removeprefix('do_'):<10} {text}")

    # ---- finding ---------------------------------------------------------------------------

    def do_css(self, text: str) -> None:
        """Show what a selector finds, with ::text and ::attr(NAME) as in Scrapy: css SELECTOR."""
        self._find({"css": text})

    def do_xpath(self, text: str) -> None:
        """Show what an XPath 1.0 expression finds: xpath EXPRESSION."""
        self._find({"xpath": text})

    def do_json(self, text: str) -> None:
        """Show what a JSONPath (RFC 9535) finds on a page of JSON: json PATH."""
        if self.bench.rule.source is not Source.JSON:
            raise _WrongInputError(
                f"this page is read as {self.bench.rule.source}: json_ld, microdata and opengraph "
                "read the JSON in it; where all of it is JSON, `source json` says so"
            )
        self._find({"json": text, "type": "json"})

    def do_json_ld(self, text: str) -> None:
        """Show what a JSONPath finds in the page's JSON-LD, or all of it: json_ld [PATH]."""
        self._find({"structured": Structured.JSON_LD, "json": text or "$[*]", "type": "json"})

    def do_microdata(self, text: str) -> None:
        """Show what a JSONPath finds in the page's microdata: microdata [PATH]."""
        self._find({"structured": Structured.MICRODATA, "json": text or "$[*]", "type": "json"})

    def do_opengraph(self, text: str) -> None:
        """Show what a JSONPath finds in the page's OpenGraph: opengraph [PATH]."""
        self._find({"structured": Structured.OPENGRAPH, "json": text or "$[*]", "type": "json"})

    def do_regex(self, text: str) -> None:
        """Show what a regular expression (RE2) finds in the page's text: regex EXPRESSION."""
        self._find({"regex": text})

    def do_field(self, text: str) -> None:
        """Try a field as a rule has it: field {css: .price, type: number}."""
        given = _yaml(text)
        if not isinstance(given, dict):
            raise _WrongInputError("field takes a mapping, such as {css: .price, type: number}")
        self._find(given)

    def do_then(self, text: str) -> None:
        """Add a transform to the field: then lower, then {split: ","}."""
        tried = self._tried()
        step = _yaml(text)
        if not step:
            raise _WrongInputError("then takes a step, such as lower or {match: '[0-9]+'}")
        written: dict[str, Any] = msgspec.to_builtins(tried)
        self._find({**written, "transforms": [*written.get("transforms", ()), step]})

    def do_set(self, text: str) -> None:
        """Change keys of the field; null takes one away: set type: number."""
        tried = self._tried()
        given = _yaml(text)
        if not isinstance(given, dict):
            raise _WrongInputError("set takes a key and a value, such as set type: number")
        written = {**msgspec.to_builtins(tried), **given}
        self._find({key: value for key, value in written.items() if value is not None})

    def _tried(self) -> Field:
        if self.bench.tried is None:
            raise _WrongInputError("there is no field yet: begin with css, xpath, json or regex")
        return self.bench.tried

    def _find(self, given: Mapping[str, Any]) -> None:
        if not all(value for key, value in given.items() if key in {"css", "xpath", "regex"}):
            raise _WrongInputError("an expression is missing: css h1")
        tried = self.bench.shape(given)
        trial, spread = self.bench.attempt(tried)
        if trial.problems:
            self._refuse(trial)
        self.bench.tried = tried
        inside = self.bench.rule.items is not None
        values = [record[_TRIED] for record in trial.records]
        if inside:
            filled = trial.coverage.fields.get(_TRIED, 0)
            say(f"{filled} of {counted(len(values), 'item')} have a value")
            values = [each[:1] if spread and isinstance(each, list) else each for each in values]
        elif spread and isinstance(values[0], list):
            values = values[0]
            say("1 match" if len(values) == 1 else f"{len(values):,} matches")
        elif values == [None]:
            values = []
            say("nothing")
        for value in values[:_MATCHES]:
            say(f"  {_short(value)}")
        if len(values) > _MATCHES:
            say(f"  ... {len(values) - _MATCHES:,} more")
        if spread and not inside and len(values) > 1:
            say("a field takes the first; `set list: true` takes all")
        if not trial.coverage.fields.get(_TRIED) and (why := trial.empty.get(_TRIED)):
            note(why)

    def _refuse(self, trial: Trial) -> None:
        for problem in trial.problems:
            place = problem.field.replace(f"fields.{_TRIED}", "field").replace(_TRIED, "field")
            note(f"{place}: {problem.message}")
        raise _WrongInputError(advice(trial.problems[0], trial.empty))

    # ---- the rule --------------------------------------------------------------------------

    def do_save(self, name: str) -> None:
        """Put the field into the rule: save NAME."""
        tried, rule = self._tried(), self.bench.rule
        self.bench.rule = _checked(replace(rule, fields={**rule.fields, name: tried}))

    def do_drop(self, name: str) -> None:
        """Take a field out of the rule: drop NAME."""
        fields = dict(self.bench.rule.fields)
        if name not in fields:
            raise _WrongInputError(f"no field {name!r}; it has {named(fields, name) or 'none'}")
        del fields[name]
        key = tuple(one for one in self.bench.rule.key if one in fields)
        self.bench.rule = replace(self.bench.rule, fields=fields, key=key)

    def do_items(self, text: str) -> None:
        """Make a record of each match and look up fields in it; none ends it: items [SELECTOR]."""
        if not text:
            self.bench.rule = replace(self.bench.rule, items=None)
            return
        given = _yaml(text) if text.startswith("{") else {"css": text}
        tried = replace(self.bench.rule, items=None), self.bench.rule
        selector = self.bench.shape(given)
        self.bench.rule = tried[0]
        trial, _ = self.bench.attempt(replace(selector, count=True))
        self.bench.rule = tried[1]
        if trial.problems:
            self._refuse(trial)
        items, _ = decode(msgspec.json.encode(given), Selector)
        self.bench.rule = replace(self.bench.rule, items=items)
        say(f"{trial.records[0][_TRIED]} items")

    def do_follow(self, text: str) -> None:
        """Add links to go on with: follow SELECTOR, follow {css: a, rule: item}."""
        given = _yaml(text) if text.startswith("{") else {"css": text}
        found, problems = decode(msgspec.json.encode(given), Follow)
        if found is None:
            raise _WrongInputError("; ".join(map(str, problems)))
        alone = Rule(source=self.bench.rule.source, follow=(replace(found, rule=None),))
        trial = try_rule(alone, self.bench.page)
        if trial.problems:
            self._refuse(trial)
        self.bench.rule = replace(self.bench.rule, follow=(*self.bench.rule.follow, found))
        show_yield(trial, "follow", 0, follows=True)

    def do_source(self, text: str) -> None:
        """Say what the page is read as: source html|xml|json|text."""
        if text not in list(Source):
            raise _WrongInputError(f"source is one of {', '.join(Source)}")
        self.bench.rule = replace(self.bench.rule, source=Source(text))

    def do_guess(self, name: str) -> None:
        """Begin with a rule that is guessed from the page: guess [page|list]."""
        rules = guess(self.bench.page)
        chosen = name or next(reversed(rules))
        if chosen not in rules:
            raise _WrongInputError(f"no {chosen!r} on this page; it has {', '.join(rules)}")
        self.bench.rule, trial = rules[chosen]
        say("\n".join(rule_lines(chosen, self.bench.rule, trial)))

    def do_rule(self, _: str) -> None:
        """Print the YAML of the rule, as a biz has it."""
        say(self._yaml("page"))

    def _yaml(self, name: str) -> str:
        rule = self.bench.rule
        trial = try_rule(rule, self.bench.page) if rule.fields or rule.follow else Trial()
        return "\n".join(("rules:", *rule_lines(name, rule, trial)))

    def do_try(self, _: str) -> None:
        """Show the records that the rule makes of the page, and which fields have no value."""
        trial = try_rule(self.bench.rule, self.bench.page)
        if trial.problems:
            self._refuse(trial)
        show_yield(trial, "rule", RECORDS, follows=bool(self.bench.rule.follow))

    def do_write(self, text: str) -> None:
        """Write the YAML to a new file: write FILE."""
        file = Path(text)
        with file.open("x", encoding="utf-8") as target:
            target.write(f"{self._yaml('page')}\n")
        say(str(file))

    # ---- the page --------------------------------------------------------------------------

    def do_open(self, text: str) -> None:
        """Go to another page, and keep the rule: open URL|FILE."""
        self.bench.page = self._load(text)
        self.do_page("")

    def do_page(self, _: str) -> None:
        """Show where the page came from, and what it is."""
        page = self.bench.page
        kind = page.content_type or "no content type"
        say(f"{page.status} {page.url}: {kind}, {len(page.body):,} bytes")
        say(f"read as {self.bench.rule.source}")

    def do_html(self, text: str) -> None:
        """Print the markup of what a selector finds, or of the whole page: html [SELECTOR]."""
        if not text:
            say(self.bench.page.body.decode("utf-8", "replace"))
            return
        trial, _ = self.bench.attempt(self.bench.shape({"css": text, "take": "html"}))
        if trial.problems:
            self._refuse(trial)
        for record in trial.records[:_MATCHES]:
            found = record[_TRIED]
            for value in found[:_MATCHES] if isinstance(found, list) else ():
                say(str(value))

    def do_quit(self, _: str) -> bool:
        """End; so does Ctrl-D."""
        return True

    do_exit = do_quit


def _yaml(text: str) -> Any:
    """Read YAML of one line; raises _WrongInputError."""
    try:
        return msgspec.json.decode(parse(text))
    except ValueError as error:
        raise _WrongInputError(f"no YAML: {error}") from error


def _checked(rule: Rule) -> Rule:
    """Return the rule; raises _WrongInputError where a name, or the like, will not do."""
    found, problems = decode(msgspec.json.encode(rule), Rule)
    if found is None:
        raise _WrongInputError("; ".join(map(str, problems)))
    return found


def _short(value: object) -> str:
    text = value if isinstance(value, str) else inline(value)
    text = printable(text).replace("\n", "\\n")
    more = len(text) - _CHARACTERS
    return f"{text[:_CHARACTERS]}... ({more:,} more characters)" if more > 0 else text


@click.command()
@click.argument("page", metavar="URL|FILE")
@click.option("--url", help="Where a saved page came from: its links are joined with that.")
@click.option("--allow-private", is_flag=True, help="Read pages at private addresses, too.")
@click.option("--ignore-robots", is_flag=True, help="Ask for a URL whatever its robots.txt says.")
@json_option
def shell(
    *, page: str, url: str | None, allow_private: bool, ignore_robots: bool, as_json: bool
) -> int:
    """Try selectors, XPath, JSONPath and transforms on a page, and get the YAML of a rule.

    The page is a saved FILE, or a URL that is asked for once, where robots.txt and its address let
    a worker do so. Commands are typed, or read from standard input; `help` lists them. With --json
    the rule that came of them is printed at the end, and nothing else on standard output.
    """
    politeness = None if ignore_robots else Politeness()

    def load(where: str) -> Page:
        try:
            return page_of(where, url, FetchLimits(), politeness, private=allow_private)
        except AddressRefusedError as error:
            raise AddressRefusedError(f"{error}; --allow-private reads it all the same") from error

    found = load(page)
    bench = Bench(page=found, rule=Rule(source=source_of(found)))
    typed = sys.stdin.isatty()
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        talk = Shell(bench, load)
        _run(talk, typed=typed)
    if as_json:
        emit(bench.rule)
    return Exit.FAILED if talk.failed and not typed else Exit.FINE


def _run(talk: Shell, *, typed: bool) -> None:
    """Carry out the lines that are typed, or those of standard input."""
    if typed:
        talk.do_page("")
        talk.cmdloop(_INTRO)
        return
    for line in sys.stdin:
        if talk.onecmd(line.strip()):
            return
