"""The registry finds the executors, and checks spiders against what their executors declare."""

import subprocess
import sys
from inspect import cleandoc

import pytest

from tests.kit.executors import BUILT_IN, Executor, Registry, check_spider
from tests.kit.extract import check_rule
from tests.kit.kernel import ConfigError
from tests.unit.crawling.executors.reading import Reader, page, spider

LINES = """
from crawlfleet.executors import Executor, Parameters


class LinesParameters(Parameters, frozen=True, kw_only=True):
    prefix: str = ""


class Lines(Executor[LinesParameters]):
    name = "lines"
    Parameters = LinesParameters

    def read(self, page, context):
        for line in page.body.decode().splitlines():
            yield {"line": self.parameters.prefix + line}
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "executors"
    place.mkdir()
    return place


def problems_of(executor, prefix="spiders.it.", **parameters):
    found = check_spider(spider(executor, **parameters), prefix, check_rule=check_rule)
    return {problem.field: problem.message for problem in found}


def example():
    """The file that the base class shows."""
    # Python 3.13 takes away what the docstring is indented by, 3.12 leaves it.
    lines = cleandoc(Executor.__doc__).splitlines()
    start = next(n for n, line in enumerate(lines) if line.endswith("::")) + 1
    end = next(n for n in range(start, len(lines)) if lines[n].startswith("``read`` is"))
    return "\n".join(line.removeprefix("    ") for line in lines[start:end])


def test_the_example_of_the_base_class_is_a_whole_file_that_works(folder):
    (folder / "robots_lines.py").write_text(example())
    registry = Registry(folder, installed=False)
    file = page("User-agent: *\nDisallow: /cart\nSitemap: /sitemap.xml\nUser-agent: x\nAllow: /\n")

    got = Reader(registry)(spider("robots_lines", agent="*", follow="pages"), file)

    assert registry.problems == ()
    assert got.records == [{"rule": "disallow", "path": "/cart", "line": 2}]
    assert [(link.url, link.rule) for link in got.links] == [
        ("https://garden.example/sitemap.xml", "pages")
    ]
    [problem] = check_spider(spider("robots_lines"), registry=registry)
    assert problem.field == "parameters.agent"


def test_importing_the_registry_loads_no_parser_and_no_executor():
    executors = {Registry(installed=False).find(name).__module__ for name in BUILT_IN}
    code = (
        f"import sys; from {Registry.__module__} import Registry\n"
        "Registry(installed=False).names()\n"
        "heavy = {'lxml', 'feedparser', 'selectolax', 'bs4', 're2', 'jsonpath', 'scrapy'}\n"
        f"print(sorted((heavy | {executors}) & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.strip() == "[]"


def test_importing_an_executor_loads_no_parser():
    code = (
        f"import sys; from {Registry.__module__} import Registry\n"
        "[Registry().find(name) for name in ('feed', 'sitemap', 'xml', 'json', 'url_list')]\n"
        "print(sorted({'lxml', 'feedparser', 'selectolax', 're2'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_built_in_executor_is_where_the_registry_says(name):
    assert Registry(installed=False).find(name).name == name


def test_a_file_dropped_into_the_folder_is_an_executor(folder):
    (folder / "lines.py").write_text(LINES)
    (folder / "_shared.py").write_text("raise RuntimeError('not looked into')")
    (folder / "notes.txt").write_text("not Python")
    registry = Registry(folder, installed=False)

    assert "lines" in registry.names()
    assert registry.problems == ()
    assert Reader(registry)(spider("lines", prefix="> "), page("a\nb")).records == [
        {"line": "> a"},
        {"line": "> b"},
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def broken(:\n", "SyntaxError: invalid syntax (line 1)"),
        ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("x = 1\n", "defines no Executor"),
        (LINES.replace('name = "lines"', 'name = "Not A Name"'), "Lines has no name of"),
        (LINES.replace("Parameters = LinesParameters", "Parameters = dict"), "not derived from"),
        (LINES.replace('prefix: str = ""', "prefix: Missing"), "'Missing' is not defined"),
    ],
)
def test_a_broken_file_is_reported_and_breaks_no_other(folder, text, why):
    (folder / "broken.py").write_text(text)
    (folder / "good.py").write_text(LINES.replace('"lines"', '"good"'))
    registry = Registry(folder, installed=False)

    [problem] = registry.problems

    assert problem.field == "executors/broken.py"
    assert why in problem.message
    assert registry.find("good").name == "good"
    assert registry.find("csv").name == "csv"
    with pytest.raises(ConfigError, match=r"executors/broken\.py"):
        registry.find("lines")


def test_a_name_that_two_have_belongs_to_neither(folder):
    (folder / "one.py").write_text(LINES)
    (folder / "two.py").write_text(LINES)
    (folder / "table.py").write_text(LINES.replace('"lines"', '"csv"'))
    registry = Registry(folder, installed=False)

    with pytest.raises(ConfigError, match=r"/one\.py .*/two\.py"):
        registry.find("lines")
    with pytest.raises(ConfigError, match=r"crawlfleet .*/table\.py"):
        registry.find("csv")
    assert len(registry.problems) == 2
    assert registry.find("json").name == "json"


def test_an_installed_package_brings_executors_by_entry_point(tmp_path, monkeypatch):
    (tmp_path / "acme_lines.py").write_text(LINES)
    notes = tmp_path / "acme_lines-1.0.dist-info"
    notes.mkdir()
    (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-lines\nVersion: 1.0\n")
    (notes / "entry_points.txt").write_text(
        "[crawlfleet.executors]\nlines = acme_lines:Lines\nbad = acme_lines:Gone\n"
        "alias = acme_lines:Lines\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry()

    names = registry.names()
    assert "acme_lines" not in sys.modules  # not before somebody asks for it

    assert {"lines", "bad"} <= set(names)
    assert registry.find("lines").name == "lines"
    with pytest.raises(ConfigError, match=r"acme-lines .*AttributeError"):
        registry.find("bad")
    with pytest.raises(ConfigError, match=r"Lines .*'lines'"):
        registry.find("alias")


def test_an_unknown_executor_is_reported_with_those_there_are():
    [problem] = check_spider(spider("cvs"), "spiders.it.")

    assert problem.field == "spiders.it.executor"
    assert "'cvs'" in problem.message
    assert all(name in problem.message for name in ("csv", "json", "sitemap"))


def test_unknown_missing_and_wrong_parameters_are_reported_at_once():
    found = problems_of("paginated_list", nextpage={"css": "a"}, max_pages="many")

    assert set(found) == {
        "spiders.it.parameters.nextpage",
        "spiders.it.parameters.items",
        "spiders.it.parameters.fields",
        "spiders.it.parameters.max_pages",
    }
    assert found["spiders.it.parameters.items"] == "is missing"
    assert "next_page" in found["spiders.it.parameters.nextpage"]


def test_a_wrong_selector_among_the_parameters_is_reported_where_it_stands():
    found = problems_of(
        "paginated_list",
        items={"css": "li["},
        fields={"a": {"regex": "("}},
        next_page={"xpath": "//a["},
    )

    assert set(found) == {
        "spiders.it.parameters.items.css",
        "spiders.it.parameters.fields.a.regex",
        "spiders.it.parameters.next_page.xpath",
    }


@pytest.mark.parametrize(
    ("executor", "parameters", "field"),
    [
        ("paginated_list", {"start_url": "ftp://a/"}, "start_url"),
        ("paginated_list", {"link": {"field": "url", "rule": "p"}}, "link.field"),
        ("sitemap", {}, "rule"),
        ("sitemap", {"records": True, "changed_since": "2026-01-01T00:00:00"}, "changed_since"),
        ("sitemap", {"rule": "p", "include": ["a", "("]}, "include[1]"),
        ("xml", {"records": "a//b", "fields": {"a": {"xpath": "a"}}}, "records"),
        ("xml", {"records": "a/b", "fields": {"a": {"xpath": "a["}}}, "fields.a.xpath"),
        ("json", {"records": "$["}, "records"),
        ("json", {"cursor": "$.next"}, "cursor_parameter"),
        ("json", {"next_page": "$.n["}, "next_page"),
        ("json", {"next_page": "$.n", "cursor": "$.c", "cursor_parameter": "c"}, "cursor"),
        ("json", {"format": "ndjson", "records": "$.a[*]"}, "records"),
        ("csv", {"encoding": "zlib"}, "encoding"),
        ("csv", {"delimiter": ";;"}, "delimiter"),
        ("csv", {"delimiter": '"'}, "quote"),
        ("csv", {"header": False, "columns": {"a": {}}}, "columns.a.index"),
        ("csv", {"columns": {"a": {"required": True, "default": "x"}}}, "columns.a.default"),
        ("csv", {"columns": {"a": {"header": "A", "index": 1}}}, "columns.a"),
        ("url_list", {"rule": "p", "comment": ""}, "comment"),
        ("feed", {"rule": "not a name"}, "rule"),
    ],
)
def test_what_types_cannot_say_is_checked_too(executor, parameters, field):
    if executor == "paginated_list":
        parameters = {"items": {"css": "li"}, "fields": {"a": {"css": "a"}}} | parameters

    assert list(problems_of(executor, **parameters)) == [f"spiders.it.parameters.{field}"]


def test_the_key_of_records_names_their_fields(samples):
    wrong = spider("feed")
    wrong = type(wrong)(executor="feed", key=("id", "guid"))

    [problem] = check_spider(wrong, "spiders.it.")

    assert problem.field == "spiders.it.key[1]"
    assert "'guid'" in problem.message
