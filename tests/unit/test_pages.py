"""The README and the pages it links are true where that can be told by looking."""

import ast
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.figures import FIGURES
from infra import alarm_names
from infra.fleet import FLEET
from infra.stages import STAGES
from tests.kit.api import ROUTES
from tests.kit.config import (
    BiddingTerms,
    Biz,
    DateFormats,
    Field,
    Follow,
    RecrawlPolicy,
    Rule,
    Stage,
    Step,
    Tenant,
    Word,
)
from tests.kit.executors import BadRecords, CsvParameters, JsonParameters, UrlListParameters
from tests.kit.extract import CANDIDATES_MAX, LINKS_MAX, META_BYTES_MAX
from tests.kit.incidents import Kind
from tests.kit.kernel import errors, metric_names, names
from tests.kit.requests import retry

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "samplesconfig/README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: What stands before each table of metrics on their page.
METRIC_TABLES = ("### The monitor's metrics", "### Rights")
README = ROOT / "README.md"
JOURNEYS = ROOT / "docs/how-it-works/journeys.md"
PRODUCT = ROOT / "layers/crawlfleet/python"


def links_of(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    return [link for link in found if "://" not in link]


def journeys() -> list[str]:
    text = JOURNEYS.read_text()
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    missing = [link for link in links_of(page) if not (page.parent / link).exists()]

    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_is_in_the_file_that_it_links(page):
    named = re.findall(r"\[`(test_\w+)`\]\(([^)#\s]+)\)", page.read_text())
    missing = [
        test
        for test, link in named
        if not re.search(rf"def {test}\b", (page.parent / link).read_text())
    ]

    assert missing == []
    assert named or page.name != "security.md"


def anchors_of(page: Path) -> set[str]:
    """The places of a page that a link can name: its headings, as they are written in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_place_of_a_page_names_a_heading_of_it(page):
    found = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text())
    places = [(page.parent / link if link else page, anchor) for link, anchor in found]

    assert [anchor for there, anchor in places if anchor not in anchors_of(there)] == []


def test_every_function_is_the_door_of_a_journey():
    reported = "\n".join(journeys())

    assert [
        spec.name for spec in FLEET.functions if f"{spec.folder}/handler.py" not in reported
    ] == []


@pytest.mark.parametrize("row", journeys(), ids=lambda row: row.split("|")[1].strip())
def test_what_a_journey_is_decided_by_is_imported_by_a_module_of_its_flow(row):
    *_, flow, decided, _ = row.split("|")
    deciding, flowing = modules_of(decided), modules_of(flow)

    assert deciding
    assert deciding - flowing - set().union(*map(imports_of, flowing)) == set()


def modules_of(cell: str) -> set[str]:
    """Dotted names of the product's modules that a cell links."""
    links = re.findall(r"\(([^)]+)\.py\)", cell)
    places = ((JOURNEYS.parent / link).resolve() for link in links)
    return {place.relative_to(PRODUCT).as_posix().replace("/", ".") for place in places}


@cache
def imports_of(module: str) -> set[str]:
    """Dotted names of all that a module imports, be it a module or what is in one."""
    tree = ast.parse((PRODUCT / f"{module.replace('.', '/')}.py").read_text())
    nodes = list(ast.walk(tree))
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return names


def test_the_readme_begins_with_two_commands_and_what_they_print():
    beginning = README.read_text().partition("\n## ")[0]

    assert re.findall(r"^\$ make (\w+)", beginning, re.MULTILINE) == ["demo", "up"]
    assert "What was crawled" in beginning
    assert "docs/start.md" in beginning


def test_the_readme_counts_the_functions_that_there_are() -> None:
    doors = {file.parent.name for file in ROOT.glob("functions/*/handler.py")}

    assert doors == {name.replace("-", "_") for name in (*names.FUNCTIONS, names.STREAMS)}
    assert len(names.FUNCTIONS) == 6
    said = "Five Lambda functions do the work, and a sixth tries rules; two more read streams"
    assert said in (ROOT / "README.md").read_text()
    for door in doors:
        known = (ROOT / "functions" / door / "__init__.py").read_text()
        assert f"The {door.replace('_', ' ')} function" in known.replace("-", " ")


def test_the_readme_is_read_in_one_go():
    text = README.read_text()
    rows = table_after(text, "## Five journeys")

    assert len(text.splitlines()) <= 120
    assert len(rows) == 5
    assert all(2 <= len([stop for stop in stops if "](" in stop]) <= 4 for _, *stops in rows)


def test_the_readme_cites_a_source_for_each_mark_in_its_table_of_peers():
    text = README.read_text()
    used = set(re.findall(r"\]\[(\w+)\]", text))
    cited = dict(re.findall(r"^\[(\w+)\]: (https://\S+)$", text, re.MULTILINE))

    assert used == set(cited)
    assert len(set(cited.values())) == len(cited)


def test_the_reference_names_every_metric_and_no_other_by_its_namespace():
    page = (ROOT / "docs/reference/monitoring.md").read_text()
    sets = (metric_names.FLEET, metric_names.REDIS, metric_names.NODE, metric_names.HOST)
    rows = [row for start in METRIC_TABLES for row in table_after(page, start)]

    reported = [name for cell, *_ in rows for name in re.findall(r"`(\w+)`", cell)]
    findings = {name for name in reported if name.startswith("Finding")}
    assert set(reported) - findings == set().union(*sets) | {
        metric_names.STARTS_WAITING,
        metric_names.QUOTAS_USED_UP,
    }
    assert findings == {metric_names.finding(Kind.BACKLOG.value)}
    assert f"`{names.METRIC_NAMESPACE}`" in page
    assert all(f"`{name}`" in page for name in names.METRIC_DIMENSIONS)


def test_the_reference_names_every_alarm_that_is_no_finding():
    page = (ROOT / "docs/reference/monitoring.md").read_text()
    found = {alarm_names.finding(kind) for kind in Kind}

    for stage in STAGES.values():
        for alarm in alarm_names.of_stage(stage) - found:
            assert f"`{alarm}`" in page or f"`{family(alarm)}`" in page, alarm


def family(alarm: str) -> str:
    """An alarm of each function, or of each node of Redis, as a page writes it.

    >>> family("router-errors"), family("redis-001-cpu")
    ('...-errors', 'redis-...-cpu')
    """
    by_node = re.sub(r"^redis-.+-(cpu|memory)$", r"redis-...-\1", alarm)
    return re.sub(r"^[\w-]+-(errors|throttles|slow|dead-letters)$", r"...-\1", by_node)


def test_the_architecture_page_draws_the_door_that_exists():
    page = (ROOT / "docs/how-it-works/architecture.md").read_text()

    assert "POST /v1/{biz}/requests" in page
    assert any(route.path == "/v1/{biz}/requests" and route.method == "POST" for route in ROUTES)


def fields_of(struct: type[msgspec.Struct], place: str = "") -> Iterator[tuple[str, str]]:
    """Every field by its place in the document, and its default as a page writes it."""
    inner = msgspec.inspect.type_info(struct)
    for field in inner.fields:
        kind, suffix = field.type, ""
        if isinstance(kind, msgspec.inspect.VarTupleType):
            kind, suffix = kind.item_type, "[]"
        if isinstance(kind, msgspec.inspect.StructType):
            yield from fields_of(kind.cls, f"{place}{field.encode_name}{suffix}.")
        else:
            yield f"{place}{field.encode_name}", written(field)


def written(field: msgspec.inspect.Field) -> str:
    if field.required:
        return "required"
    value: Any = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, int | float):
        return f"`{value:,.10g}`" if isinstance(value, float) else f"`{value:,}`"
    if isinstance(value, tuple) and value:
        return f"`[{', '.join(value)}]`"
    return f"`{value}`" if value else "empty"


def table_after(text: str, start: str) -> list[list[str]]:
    """The cells of the first table behind ``start``, without its head."""
    rows = (
        text.split(f"\n{start}\n", 1)[1]
        .split("\n| ", 1)[1]
        .split("\n\n", maxsplit=1)[0]
        .splitlines()[2:]
    )
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]


@pytest.mark.parametrize(
    ("struct", "start"),
    [
        (Stage, "## `stage.yaml`"),
        (BiddingTerms, "The terms of `bidding`:"),
        (Tenant, "## `tenants/<tenant>.yaml`"),
        (Biz, "## `bizs/<tenant>/<biz>.yaml`"),
        (Rule, "A rule:"),
        (Field, "A field of a rule:"),
    ],
)
def test_the_reference_explains_every_field_of_a_document_with_its_default(struct, start):
    rows = table_after((ROOT / "docs/reference/configuration.md").read_text(), start)

    assert {place.strip("`"): default for place, _, default, _ in rows} == dict(fields_of(struct))
    assert all(meaning for *_, meaning in rows)


def kinds(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of a struct's fields by name, without the None that stands for nothing said."""
    inner = msgspec.inspect.type_info(struct)
    return {field.encode_name: plain(field.type) for field in inner.fields}


def plain(kind: Any) -> Any:
    if isinstance(kind, msgspec.inspect.UnionType):
        said = [one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)]
        return said[0] if len(said) == 1 else kind
    return kind


def argument(kind: Any) -> set[str]:
    """Return what a page must state of a step's argument: names and defaults, or bounds."""
    match kind:
        case msgspec.inspect.StructType():
            fields = msgspec.inspect.type_info(kind.cls).fields
            names = {f"`{field.encode_name}`" for field in fields}
            return names | {
                f"(`{field.default}`)" for field in fields if field.default in {".", "UTC"}
            }
        case msgspec.inspect.IntType(ge=least, le=most):
            return {f"{least:,} to {most:,}"}
        case msgspec.inspect.DictType(max_length=most):
            return {f"up to {most:,} "}
    return set()


def test_the_guide_to_rules_explains_every_step_that_a_text_may_go_through_with_its_argument():
    page = (ROOT / "docs/guides/rules.md").read_text()
    lines = page.split("| step |")[1].split("\n\n")[0].splitlines()[2:]
    reported = {cells[1].strip(" `"): cells[2:4] for cells in (line.split("|") for line in lines)}
    keys = kinds(Step)

    assert list(reported) == [*(word.value for word in Word), *keys]
    assert all(meaning.strip() for _, meaning in reported.values())
    assert all(bool(said.strip()) == (name in keys) for name, (said, _) in reported.items())
    for name, kind in keys.items():
        assert [part for part in argument(kind) if part not in reported[name][0]] == [], name
    formats = kinds(DateFormats)["formats"]
    assert f"`formats` (up to {formats.max_length}," in reported["date"][0]
    assert f"up to {kinds(Field)['transforms'].max_length} steps" in page


def test_the_guide_to_links_has_the_limits_of_following_as_they_are():
    page = (ROOT / "docs/guides/links.md").read_text()
    lines = page.split("| limit |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    follow, given = kinds(Follow), Follow()
    names = next(
        kind.max_length
        for kind in follow["domains"].types
        if isinstance(kind, msgspec.inspect.VarTupleType)
    )

    assert [(first.partition(",")[0].strip("`"), *rest) for first, *rest in cells] == [
        ("follow` of a rule", "", f"{kinds(Rule)['follow'].max_length}"),
        ("max_depth", f"{given.max_depth:,}", f"{follow['max_depth'].le:,}"),
        ("max_pages", f"{given.max_pages:,}", f"{follow['max_pages'].le:,}"),
        ("domains", f"`{given.domains.value}`", f"{names:,} names"),
        ("allow", "", f"{follow['allow'].max_length} patterns"),
        ("deny", "", f"{follow['deny'].max_length} patterns"),
        ("limit", f"{given.limit:,}", f"{follow['limit'].le:,}"),
        ("links of a page", "", f"{LINKS_MAX:,}"),
        ("links of a page that are looked at", "", f"{CANDIDATES_MAX:,}"),
        (
            "meta` that a link takes along",
            "",
            f"{follow['meta'].max_length} fields, {META_BYTES_MAX:,} bytes",
        ),
    ]
    assert f"of up to {follow['allow'].item_type.max_length:,} characters" in page


def test_performance_has_a_row_with_its_target_for_every_figure_that_has_one():
    page = (ROOT / "docs/how-it-works/performance.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    rows = {figure.strip("`"): target for figure, *_, target in cells}
    killed = ("recovery_", "chaos_")  # told in a table of their own

    bounded = {
        figure.key: figure.target
        for figure in FIGURES
        if figure.target and not figure.key.startswith(killed)
    }

    assert bounded.items() <= rows.items()


def test_the_benchmarks_page_names_every_part():
    page = (ROOT / "benchmarks/README.md").read_text()
    rows = table_after(page, "The exit code is 1 when a target is missed.")

    assert {part.strip("`") for part, *_ in rows} == set(BENCHMARKS)


def test_the_guide_to_trouble_explains_every_reason_and_whether_it_is_tried_again():
    final = (
        *(retry.CUT_OFF, retry.INTERNAL, retry.OVER_QUOTA, retry.UNSTORABLE, retry.UNREADABLE),
    )
    raised = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type)
        and issubclass(
            kind,
            errors.FetchError
            | errors.ExtractError
            | errors.ReaderKilledError
            | errors.UnknownRuleError,
        )
        and kind not in (errors.FetchError, errors.NotReadyError)
    ]
    expected = {kind.__name__.removesuffix("Error"): kind.retryable for kind in raised}

    rows = table_after((ROOT / "docs/guides/trouble.md").read_text(), "## Dead letters")

    reported = {reason.strip("`"): again == "yes" for reason, _, again in rows}
    assert reported == expected | dict.fromkeys(final, False)


def test_the_guide_to_trouble_counts_the_attempts_that_are_forgiven_as_the_policy_does():
    page = (ROOT / "docs/guides/trouble.md").read_text()
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

    assert f"up to {words[retry.CUT_OFFS]} such attempts beyond `retry.max_attempts`" in page


def test_the_guide_to_recrawl_has_each_field_of_recrawl_with_its_default():
    rows = table_after(f"\n{(ROOT / 'docs/guides/recrawl.md').read_text()}", "# Read pages again")

    reported = {row[0].strip("`"): row[2].strip("`") for row in rows}

    assert reported == {
        field.name: str(field.default).lower()
        if isinstance(field.default, bool)
        else f"{field.default:,.0f}"
        for field in msgspec.structs.fields(RecrawlPolicy)
    }


def test_the_guide_to_spiders_says_what_becomes_of_what_cannot_be_read_by_each_value():
    page = (ROOT / "docs/guides/spiders.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith("`bad_rows`")]

    assert [value for value in BadRecords if f"`{value}`" not in line] == []
    assert "unset it is `fail`, and `skip` for `url_list`" in line
    assert UrlListParameters(rule="r").bad_rows is BadRecords.SKIP
    others = {CsvParameters().bad_rows, JsonParameters().bad_records}
    assert others == {BadRecords.FAIL}


def test_the_guide_to_spiders_names_the_sample_that_allows_private_addresses():
    page = (ROOT / "docs/guides/spiders.md").read_text()
    allowing = [
        stage.parent.name
        for stage in (ROOT / "samplesconfig").glob("*/stage.yaml")
        if "allow_private_addresses: true" in stage.read_text()
    ]

    assert allowing == ["local"]
    assert "only that of `samplesconfig/local` has it" in page
