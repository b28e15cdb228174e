"""The console's files: their headers, their addresses, their size."""

import gzip
import re
from pathlib import Path

import pytest

from tests.kit.console import POLICY, Site

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "console" / "src"
BUILT = ROOT / "functions" / "router" / "site"
#: Most that the console may weigh as it is sent.
MOST_BYTES = 350_000
PAGE = '<link href="./app-1A2B3C4D.css"><script type="module" src="./app-1A2B3C4D.js"></script>'


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "app-1A2B3C4D.js").write_text("1")
    (tmp_path / "app-1A2B3C4D.css").write_text("a{}")
    (tmp_path / "notes.txt").write_text("not for browsers")
    return Site(tmp_path)


def test_the_page_finds_its_files_with_and_without_a_slash_at_the_end_of_its_address(site: Site):
    assert site.file("/console/").text == PAGE
    assert site.file("/console/index.html").text == PAGE
    assert site.file("/console").text == PAGE.replace('="./', '="console/')


def test_what_is_named_by_its_content_is_kept_for_ever_and_the_page_is_not(site: Site):
    assert "immutable" in site.file("/console/app-1A2B3C4D.js").headers["Cache-Control"]
    assert site.file("/console/").headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["/console/", "/console", "/console/app-1A2B3C4D.css"])
def test_every_file_is_held_to_the_strict_policy(site: Site, path: str):
    headers = site.file(path).headers

    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert "http" not in POLICY  # nothing comes from elsewhere


@pytest.mark.parametrize(
    "path",
    [
        "/console/notes.txt",
        "/console/nothing.js",
        "/console/../handler.py",
        "/console/a/index.html",
    ],
)
def test_nothing_else_is_a_file(site: Site, path: str):
    assert site.file(path) is None


def test_without_a_build_there_is_no_file():
    assert Site(None).file("/console/") is None
    assert Site(Path("/nonexistent")).file("/console/") is None


def test_the_built_console_weighs_at_most_350_kb_as_it_is_sent():
    files = [path for path in BUILT.iterdir() if path.is_file()]

    assert {path.suffix for path in files} == {".html", ".js", ".css", ".svg"}
    weight = sum(len(gzip.compress(path.read_bytes(), 6)) for path in files)
    assert 10_000 < weight <= MOST_BYTES


def test_the_built_page_has_no_script_or_style_of_its_own_and_relative_addresses_alone():
    page = (BUILT / "index.html").read_text()

    assert "<style" not in page
    assert "style=" not in page
    assert page.count("<script") == 1
    assert all(value.startswith("./") for value in _addresses(page))


def test_no_part_of_the_console_makes_html_of_text():
    sources = [path for path in SOURCES.rglob("*.ts*") if path.is_file()]
    makers = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|srcdoc")

    assert sources
    assert [str(path) for path in sources if makers.search(path.read_text())] == []


def _addresses(page: str) -> list[str]:
    return [
        piece.split('"')[0] for name in ("src", "href") for piece in page.split(f' {name}="')[1:]
    ]
