"""Texts of pages, tenants and servers do not steer the terminal that they are shown at."""

import ast
import io
import json
from pathlib import Path

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, record

CLI = Path(__file__).parents[3] / "layers/crawlfleet/python/crawlfleet/cli"
#: A few of each kind: C0, DEL, C1, marks and isolates of direction, what is not seen, half a pair.
STEERING = [
    *("\x00", "\x08", "\r", "\x1b", "\x7f", "\x85", "\x9b"),
    *("\u061c", "\u200b", "\u200f", "\u202e", "\u2066", "\u2069", "\u206f"),
    *("\xad", "\u180e", "\u2060", "\ufeff", "\ufff9", "\U000e0041"),
]


class Screen(io.TextIOWrapper):
    """A terminal, as standard output sees it."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self):
        return True

    def shown(self):
        return self.buffer.getvalue().decode()


def at_terminal(monkeypatch):
    """Replace standard output; in the test itself, as pytest sets it anew after the fixtures."""
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    return screen


@pytest.mark.parametrize("char", STEERING, ids=lambda char: f"U+{ord(char):04X}")
def test_no_character_that_steers_or_is_not_seen_reaches_a_terminal(crawlfleet, api, char):
    crawlfleet("submit", BIZ, "https://example.org/a")
    api.requests[str(FIRST_ID)]["error"] = f"before{char}after"

    done = crawlfleet("status", BIZ, str(FIRST_ID))

    assert char not in done.out
    assert "before\\" in done.out


@pytest.mark.parametrize("char", ["\x7f", "\x9b", "\u202e", "\u2066", "\U000e0041"])
def test_json_at_a_terminal_means_the_same_and_steers_nothing(crawlfleet, api, monkeypatch, char):
    screen = at_terminal(monkeypatch)
    api.records.append(record("1", 0, title=f"a{char}b"))

    crawlfleet("records", BIZ, "--format", "jsonl")

    assert char not in screen.shown()
    assert json.loads(screen.shown())["fields"]["title"] == f"a{char}b"


def test_csv_at_a_terminal_steers_nothing(crawlfleet, api, monkeypatch):
    screen = at_terminal(monkeypatch)
    api.records.append(record("1", 0, title="a\x1b[2Jb"))

    crawlfleet("records", BIZ, "--format", "csv")

    assert "\x1b" not in screen.shown()
    assert "a\\u001b[2Jb" in screen.shown()


def test_json_in_a_pipe_is_as_the_api_gave_it(crawlfleet, api):
    api.records.append(record("1", 0, title="a\u202eb"))

    assert "a\u202eb" in crawlfleet("records", BIZ, "--format", "jsonl").out


def test_a_mistake_of_usage_that_quotes_what_was_given_steers_nothing(crawlfleet):
    done = crawlfleet("status", BIZ, "1", "--no\x1b[2J\u202e")

    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\\x1b[2J\\u202e" in done.err


def test_a_cell_cannot_begin_a_line_of_a_listing_of_its_own(crawlfleet, api):
    crawlfleet("submit", BIZ, "https://example.org/a")
    api.requests[str(FIRST_ID)]["rule"] = "page\n17   done"

    assert "\n17   done" not in crawlfleet("requests", BIZ).out


#: Writes to the terminal, as a module of commands would have them.
WRITES = {"click.echo", "click.secho", "click.echo_via_pager", "print", "sys.stdout.write"}
WRITES |= {"sys.stderr.write", "sys.stdout.buffer.write", "sys.stderr.buffer.write"}


@pytest.mark.parametrize(
    "file", sorted(CLI.rglob("*.py")), ids=lambda file: str(file.relative_to(CLI))
)
def test_commands_write_to_the_terminal_by_one_module(file):
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    found = {ast.unparse(call.func) for call in calls} & WRITES

    allowed = {"terminal": {"click.secho", "sys.stdout.buffer.write"}, "console": {"click.echo"}}
    assert found <= allowed.get(file.stem, set())
