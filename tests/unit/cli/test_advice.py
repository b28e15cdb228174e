"""Every command that the product advises is one: each is executed, or read by the program.

Advice is what stands in the texts of the code: "`crawlfleet stats BIZ` shows where the time goes".
"""

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

from tests.kit.api_server import BIZ, FIRST_ID
from tests.kit.api_server.jobs import START
from tests.kit.cli import COMMANDS, program, report
from tests.kit.jobs import JobState
from tests.kit.kernel import ConflictError, NotFoundError

PACKAGE = Path(__file__).parents[3] / "layers/crawlfleet/python/crawlfleet"
#: What stands for something in an advice, and something that it may be.
MEANT = {
    "BIZ": BIZ,
    "ID": str(FIRST_ID),
    "SEED": f"2026-01-31/{'0' * 32}",
    "NAME": "june",
    "JOB": "june",
    "TENANT": "acme",
    "FOLDER": "samplesconfig/local",
    "STAGE": "local",
    "RULE": "article",
    "URL": "https://example.org/1",
    "...": "PageGone",
}
#: Of an expression in a text: what it ends with, and what it stands for.
ENDS = {
    "biz": "BIZ",
    "id": "ID",
    "ids[0]": "ID",
    "request_id": "ID",
    "seed_id": "SEED",
    "name": "NAME",
    "job": "JOB",
    "tenant": "TENANT",
    "rule": "RULE",
    "folder": "FOLDER",
    "address": "URL",
    "of": "BIZ ID --from done --to reviewed",
}
#: Commands that touch this machine or AWS, and are read alone.
ELSEWHERE = {"config", "up", "down", "demo", "import", "init", "shell"}
_QUOTED = re.compile(r"`crawlfleet ([^`]+)`")
_BARE = re.compile(rf"(?<![`\w.])crawlfleet ((?:{'|'.join(COMMANDS)})\b[^`,;()\n]*)")


def texts(tree: ast.AST):
    """The texts of a module but its docstrings, with what is filled in by name."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in ast.walk(node) if part is not node)
            yield "".join(
                part.value if isinstance(part, ast.Constant) else standing_for(part)
                for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings | inside
        ):
            yield node.value


def standing_for(part: ast.FormattedValue) -> str:
    said = ast.unparse(part.value)
    ends = said.rpartition(".")[2]
    return ENDS.get(ends, ends.upper())


def advised():
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text()
        if not any(sign in source for sign in ("crawlfleet ", 'crawlfleet"')):
            continue  # to parse all would take every process that collects tests a second
        for text in texts(ast.parse(source)):
            for match in (*_QUOTED.finditer(text), *_BARE.finditer(text)):
                command = " ".join(match[1].split())
                command = command if command.endswith("...") else command.rstrip(".: ")
                if "|" not in command and "[" not in command:
                    found.setdefault(command, file.relative_to(PACKAGE).as_posix())
    return found


ADVISED = advised()


def arguments(command: str) -> list[str]:
    return [MEANT.get(word, word) for word in shlex.split(command)]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that is meant, and what it is given."""
    command, rest, context = program, words, click.Context(program, info_name="crawlfleet")
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"there is no command {rest[0]}"
        context = click.Context(found, info_name=rest[0], parent=context)
        command, rest = found, rest[1:]
    return command, rest


def test_the_advice_of_the_whole_product_is_found():
    assert len(ADVISED) > 40
    assert {"dead list BIZ", "stats BIZ", "job wait BIZ NAME"} <= ADVISED.keys()
    assert {"cli", "monitoring"} <= {place.partition("/")[0] for place in ADVISED.values()}


@pytest.mark.parametrize("command", sorted(ADVISED))
def test_each_advised_command_can_be_carried_out(command, crawlfleet, api, tmp_path):
    (tmp_path / "pages.txt").write_text(MEANT["URL"])
    (tmp_path / "items.jsonl").write_text('{"text": "climate"}')
    files = {"FILE": str(tmp_path / "pages.txt"), "ITEMS": str(tmp_path / "items.jsonl")}
    words = [files.get(word, word) for word in arguments(command)]
    unknown = [word for word in words if word.isupper() and word not in MEANT.values()]
    assert unknown == [], f"{ADVISED[command]}: nobody knows what these stand for"
    found, given = command_of(words)
    if not given or "--help" in given:
        return  # the name of a command, whose help says the rest
    if words[0] in ELSEWHERE or "--watch" in given:  # which goes on for ever
        if given[-1].startswith("--"):  # names an option
            assert given[-1] in {name for one in found.params for name in one.opts}
        else:
            found.make_context(words[-1], list(given))  # raises a usage error
        return
    api.jobs.keep("june")
    api.done_after = 1
    api.trials.changes = {}

    done = crawlfleet(*words)

    # What there is, and how it is, decides the others: a usage error (2) is the advice's fault.
    assert done.code in {0, 1, 4}, (ADVISED[command], done.err)


PLACEHOLDERS = re.compile(r"\b(?:BIZ|NAME|JOB|ID|RULE|URL|SEED|NODE|HOST)\b")
#: A command that fails or asks back, and the command that its hint is to name.
FAILED = [
    (("job", "show", BIZ, "gone"), f"job list {BIZ}"),
    (("job", "cancel", BIZ, "ended"), f"job show {BIZ} ended"),
    (("job", "wait", BIZ, "open", "--timeout", "0"), f"job wait {BIZ} open"),
    (("schedule", "show", BIZ, "gone"), f"schedule list {BIZ}"),
    (("spider", "show", BIZ, "gone"), f"spider versions {BIZ} gone"),
    (("subscription", "show", BIZ, "gone"), f"subscription list {BIZ}"),
    (("cancel", BIZ, str(FIRST_ID)), f"status {BIZ} {FIRST_ID}"),
    (("status", BIZ, "nonsense"), f"requests {BIZ}"),
    (("explain", BIZ, "nonsense"), f"requests {BIZ}"),
    (("source", "show", BIZ, "gone"), f"source list {BIZ}"),
    (("delivery", "replay", BIZ, "gone"), f"delivery list {BIZ}"),
    (("quota", "show", "--biz", BIZ, "--job", "gone"), f"job list {BIZ}"),
    (("demands", BIZ, "--job", "gone"), f"demands {BIZ}"),
]


@pytest.fixture
def failing(api, crawlfleet):
    """Jobs and a request of which some commands fail."""
    api.jobs.keep("ended", state=JobState.DONE, ended_at=START)
    api.jobs.keep("open")
    crawlfleet("submit", BIZ, MEANT["URL"])
    api.requests[str(FIRST_ID)]["state"] = "done"


@pytest.mark.parametrize(("words", "advised"), FAILED, ids=lambda each: str(each)[:40])
def test_the_hint_of_an_error_names_what_the_command_was_given(words, advised, failing, crawlfleet):
    done = crawlfleet(*words)

    assert done.code != 0
    commands = _QUOTED.findall(done.err)
    assert advised in commands, done.err
    for command in commands:
        assert not PLACEHOLDERS.search(command), command
        assert crawlfleet(*shlex.split(command)).code in {0, 1, 4}


def test_a_name_with_blanks_or_quotes_is_one_argument_of_the_advised_command(capsys):
    name = 'june\'s last "one" & `more`'

    report(ConflictError("it has ended"), "job", {"biz": BIZ, "name": name})

    [command] = re.findall(r"`crawlfleet (.*)` shows", capsys.readouterr().err)
    assert shlex.split(command) == ["job", "show", BIZ, name]


@pytest.mark.parametrize(
    ("command", "error", "advised"),
    [
        ("tenant", NotFoundError, "tenant list"),
        ("tenant", ConflictError, "tenant show acme"),
        ("config", NotFoundError, "config history"),
        ("config", ConflictError, "config history"),
    ],
)
def test_who_asks_for_a_tenant_or_a_version_is_told_of_these_and_not_of_requests(
    command, error, advised, capsys
):
    report(error("there is none"), command, {"tenant": "acme"})

    assert _QUOTED.findall(capsys.readouterr().err) == [advised]


@pytest.mark.parametrize(
    "parameters", [{}, {"name": None}, {"name": "--all"}, {"name": ("a", "b")}]
)
def test_what_is_not_known_stays_a_capital_word(parameters, capsys):
    report(ConflictError("it has ended"), "job", {"biz": BIZ, **parameters})

    assert f"`crawlfleet job show {BIZ} NAME`" in capsys.readouterr().err
