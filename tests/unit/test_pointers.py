"""Pointers in messages: every place of a page that the product names exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Every page by its place below `docs`, without its ending.
PAGES = sorted(
    each.relative_to(ROOT / "docs").with_suffix("").as_posix()
    for each in (ROOT / "docs").rglob("*.md")
)
#: Whose words people read.
SOURCES = ("layers/crawlfleet/python/crawlfleet", "functions", "infra")
#: `docs/page.md, "Place"` and `"Place" in docs/page.md`, in one sentence.
_POINTERS = (
    re.compile(r'docs/(?P<page>[\w/-]+)\.md[^".]{0,40}"(?P<place>[^"]+)"'),
    re.compile(r'["`](?P<place>[^"`]+)["`] in docs/(?P<page>[\w/-]+)\.md'),
)
#: A heading, or the words in bold that a paragraph begins with.
_PLACES = re.compile(r"^(?:#+ (?P<heading>.+)|\*\*(?P<bold>[^*]+?)[.:]?\*\*)", re.MULTILINE)


def texts(tree: ast.Module) -> Iterator[str]:
    """Every string as it is read, whatever pieces it is written in; what varies is left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (each.value for each in node.values if isinstance(each, ast.Constant))
            yield " ".join("".join(map(str, parts)).split())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split())


def pointers_in(text: str) -> Iterator[tuple[str, str]]:
    """Page and place of each pointer."""
    for pattern in _POINTERS:
        for found in pattern.finditer(text):
            yield found["page"], found["place"]


def places_of(page: str) -> set[str]:
    """Return the places of a page that can be named: its headings and bold words."""
    found = _PLACES.finditer((ROOT / "docs" / f"{page}.md").read_text())
    return {(each["heading"] or each["bold"]).strip("`") for each in found}


def named() -> set[tuple[str, str]]:
    """Page and place of every pointer of the product."""
    return {
        pointer
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        # A page's name is in one piece, also where the sentence is in several.
        if "docs/" in (source := path.read_text())
        for text in texts(ast.parse(source))
        for pointer in pointers_in(text)
    }


@pytest.mark.parametrize(
    "text",
    [
        'docs/guides/page.md, "Incidents", says what to do for each.',
        'If it stays: "Incidents" in docs/guides/page.md.',
        "keep this and see `Incidents` in docs/guides/page.md",
        'docs/guides/page.md says what they need: "Incidents".',
    ],
)
def test_pointers_are_found_however_they_are_put(text):
    assert list(pointers_in(text)) == [("guides/page", "Incidents")]


def test_the_product_sends_people_to_places_of_its_pages():
    assert {place for _, place in named()} >= {"Incidents", "When the ledger does not balance"}


@pytest.mark.parametrize(("page", "place"), sorted(named()))
def test_where_people_are_sent_there_is_such_a_place(page, place):
    assert place in places_of(page)


@pytest.mark.parametrize("page", PAGES)
def test_pages_send_people_to_places_that_they_have(page):
    sent = re.findall(r'\b[Ss]ee "([^"]+)"', (ROOT / "docs" / f"{page}.md").read_text())

    assert set(sent) - places_of(page) == set()
