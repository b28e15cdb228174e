"""The reference pages that are made from the code say what the code says now."""

import re

import click
import pytest

from infra.reference import FOLDER, main, pages
from tests.kit.api import ROUTES
from tests.kit.cli import COMMANDS, program

ROOT = FOLDER.parents[1]
PAGES = [ROOT / "README.md", ROOT / "samplesconfig/README.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_current(name):
    assert (FOLDER / name).read_text() == pages()[name], "run `make reference`"


def test_every_command_and_every_call_has_a_heading_of_its_own():
    commands, calls = (pages()[name].splitlines() for name in ("cli.md", "api.md"))

    assert [name for name in COMMANDS if f"## `crawlfleet {name}`" not in commands] == []
    assert [each for each in ROUTES if f"## `{each.method} {each.path}`" not in calls] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_that_a_page_shows_is_one(page):
    shown = re.findall(r"(?:^|`)crawlfleet ([a-z][a-z -]*)", page.read_text(), re.MULTILINE)

    assert [line for line in shown if not is_command(line.split())] == []


def is_command(words: list[str]) -> bool:
    """Tell whether words begin with a command, and in a group with one of its own."""
    context = click.Context(program)
    command = program.get_command(context, words[0])
    if not isinstance(command, click.Group) or len(words) == 1:
        return command is not None
    return words[1] in command.list_commands(context)


def test_the_pages_are_written_whole(tmp_path):
    assert main(tmp_path) == 0

    assert {page.name: page.read_text() for page in tmp_path.iterdir()} == pages()
