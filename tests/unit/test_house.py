"""The house stays one that newcomers can read: sizes, words, first lines of docstrings."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layers/crawlfleet/python/crawlfleet"
MOST_LINES, MOST_MODULES = 450, 25
MODULES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({module.parent for module in MODULES})
SOURCES = sorted(
    path
    for folder in ("layers/crawlfleet", "functions", "infra", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".lua", ".md"}
)
#: Words of our own that the field has others for. Stored and spoken names that have them stay, in
#: quotes or as a key's name.
PRIVATE = re.compile(
    r"(?<![\"'`:_./-])\b(lanes?|musters?|tempo|outlook|glimpse|sowing|boarding|rehoming|courtesy"
    r"|passages|heeding|disclaim(?:ed|s)?|disown(?:ed|s)?|put aside|the truth|job_turns|take_turn"
    r"|Held|Holding)\b(?![\"'`:_./-])"
)
#: First words of a sentence that names nothing.
EMPTY = re.compile(r"(What|How|Whether|Which|Who|Whose)\b")


def named(path):
    return str(path.relative_to(PACKAGE.parent))


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_module_is_read_in_one_sitting(module):
    assert len(module.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_a_folder_is_seen_at_a_glance(folder):
    assert len(list(folder.glob("*.py"))) <= MOST_MODULES


def test_things_have_the_names_that_the_field_has_for_them():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text().splitlines()
        if PRIVATE.search(line)
    ]

    assert found == []


def test_docstrings_begin_with_what_they_name():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
        for path in SOURCES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and EMPTY.match(ast.get_docstring(node) or "")
    ]

    assert found == []
