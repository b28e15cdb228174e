"""The reference pages that are made from the code say what the code says now."""

import pytest

from infra.reference import FOLDER, main, pages
from tests.kit.api import ROUTES
from tests.kit.cli import COMMANDS


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_current(name):
    assert (FOLDER / name).read_text() == pages()[name], "run `make reference`"


def test_every_command_and_every_call_has_a_heading_of_its_own():
    commands, calls = (pages()[name].splitlines() for name in ("cli.md", "api.md"))

    assert [name for name in COMMANDS if f"## `crawlfleet {name}`" not in commands] == []
    assert [each for each in ROUTES if f"## `{each.method} {each.path}`" not in calls] == []


def test_the_pages_are_written_whole(tmp_path):
    assert main(tmp_path) == 0

    assert {page.name: page.read_text() for page in tmp_path.iterdir()} == pages()
