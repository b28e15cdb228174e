"""Expressions that once cost more than they were charged, on pages and data made for them."""

import json
import time
from contextlib import contextmanager

import msgspec
import pytest

from tests.kit.config import Rule
from tests.kit.extract import check_rule
from tests.kit.kernel import ExtractError

SECONDS = 3.0
PLAIN = b"<p>" + b"a" * 6_000_000
#: Few nodes, much text.
TEXTS = b"<body>" + b"<p>" + b"a" * 600_000 + b"</p>" + b"<i>x</i>" * 50
NESTED = b"<div>" * 200 + b"<p>x</p>" * 50
#: Names that are all different, and begin alike.
NAMED = (
    b"<body>"
    + b"".join(b"<a>aa%d</a>" % n for n in range(5_000))
    + b"".join(b"<b>aab%d</b>" % n for n in range(5_000))
)


@contextmanager
def refused_in_time():
    began = time.process_time()
    with pytest.raises(ExtractError, match=r"too costly|took more than"):
        yield
    assert time.process_time() - began < SECONDS


XPATHS = {
    "all of the text again and again": (
        PLAIN,
        "string-length(concat(" + ",".join("/" * 120) + "))",
    ),
    "copies of copies": (
        PLAIN,
        "string-length(concat(" + ",".join(["concat(" + ",".join("/" * 10) + ")"] * 10) + "))",
    ),
    "each character by a long list": (
        PLAIN,
        f"string-length(translate(/, '{'b' * 900}', ''))",
    ),
    "each character by all of the text": (TEXTS, "string-length(translate(/, /, /))"),
    "a beginning that comes again": (
        PLAIN,
        f"contains(/, '{'a' * 900}b')",
    ),
    "a text of the page in it": (TEXTS, "substring-before(/, concat(//p, 'b'))"),
    "all of the text for each element": (
        TEXTS + b"<i>x</i>" * 900,
        "//*[contains(/, 'b') or starts-with(//p, 'b')]",
    ),
    "sets that meet": (NAMED, "//a = //b"),
}


@pytest.mark.parametrize("kind", XPATHS)
def test_xpath_is_charged_by_the_text_that_it_reads_and_the_sets_that_meet(extract, kind):
    body, expression = XPATHS[kind]

    with refused_in_time():
        extract({"fields": {"a": {"xpath": expression}}}, body, "text/html")


ALLOWED_XPATHS = [
    "//p[contains(@class, 'price') and starts-with(@id, 'p')]",
    "//p[contains(translate(., 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), 'x')]",
    "normalize-space(//h1)",
    "concat(//h1, ' / ', //h2)",
    "//h1[. = //h2]",
    "count(//a[@href = '/1'] | //h1) > 1",
    "//p[normalize-space(.) = '12 EUR of this or that']",
    "string-length(//body) > 10",
    "substring-after(//h1, ':')",
]


@pytest.mark.parametrize("expression", ALLOWED_XPATHS)
def test_xpath_as_people_write_it_is_read_on_a_large_page(extract, expression):
    body = (
        b"<h1>Name: of it</h1><link href=/1>"
        + b"<ul><li class=item><a href=/1><p class='price x' id=p1>12 EUR of this or that</p></a>"
        * 4_000
    )

    assert extract({"fields": {"a": {"xpath": expression}}}, body, "text/html")


def test_xpath_inside_of_items_is_charged_by_the_item_and_not_by_the_page(extract):
    items = b"<li><p class='x y'>Price: 1</p><b>aa</b></li>" * 400
    fields = {
        name: {"xpath": f"p[contains(@class, 'x') and contains(., '{name}')]"}
        for name in ("a", "b")
    }

    found = extract({"items": {"xpath": "//li"}, "fields": fields}, items)

    assert len(found) == 400


SELECTORS = [
    "div:HAS(div:HAS(div:HAS(x)))",
    "div:Has(div:hAS(div:haS(x)))",
    r"div:h\61s(div:\000048as(div:ha\73 (x)))",
    'div/*"*/ :has(div:has(div:has(x)))/*"*/',
    '[a="]"] div:has(div:has(div:has(x))), [b="]"]',
]


@pytest.mark.parametrize("selector", SELECTORS)
def test_css_is_weighed_however_its_pseudo_classes_are_written(extract, selector):
    with refused_in_time():
        extract({"fields": {"a": {"css": selector}}}, NESTED)


@pytest.mark.parametrize(
    "selector", [r".md\:has p", 'a[title=":has("]', "p /* :has( */ b", r"#\31 23"]
)
def test_css_is_not_charged_for_what_only_looks_costly(extract, selector):
    deep = b"<div>" * 900 + b"<p>x</p>" * 3_000

    assert extract({"fields": {"a": {"css": selector}}}, deep) == [{"a": None}]


def data(path: str, value: object) -> tuple[dict, bytes]:
    rule = {"source": "json", "fields": {"a": {"json": path, "count": True}}}
    return rule, json.dumps(value).encode()


#: Each is compiled in some milliseconds; the last ones are refused as late as that.
PATTERNS = [rf"x{n}[\p{{L}}]{{1,6}}" for n in range(2_000)]
REFUSED = [rf"[\p{{L}}x]{{1,1000}}{'a' * 900}{n}" for n in range(20)]
JSONPATHS = {
    "patterns of the page": data(
        "$[?search(@.t, @.p)]", [{"t": "a", "p": pattern} for pattern in PATTERNS]
    ),
    "patterns that are none": data(
        "$[?search(@.t, @.p)]", [{"t": "a", "p": pattern} for pattern in REFUSED]
    ),
}


@pytest.mark.parametrize("kind", JSONPATHS)
def test_jsonpath_is_charged_for_patterns_that_the_page_writes(extract, kind):
    rule, body = JSONPATHS[kind]
    began = time.process_time()
    try:
        extract(rule, body, "application/json")
    except ExtractError as error:
        assert "too costly" in str(error) or "took more than" in str(error)  # noqa: PT017
    assert time.process_time() - began < SECONDS


def test_a_pattern_of_the_rule_is_compiled_once(extract):
    rule = {
        "source": "json",
        "items": {"json": "$[*]"},
        "fields": {"a": {"json": "$[?search(@, '^[a-z]+[0-9]{1,3}$')]"}},
    }

    found = extract(rule, json.dumps([["abc12", "?"]] * 5_000).encode(), "application/json")

    assert found == [{"a": "abc12"}] * 5_000


def test_the_place_of_an_error_is_not_looked_for_without_end():
    regex = r"[\p{L}x]{1,1000}" + "a" * 1_900
    began = time.process_time()

    [problem] = check_rule(msgspec.convert({"fields": {"a": {"regex": regex}}}, Rule))

    assert problem.field == "fields.a.regex"
    assert time.process_time() - began < SECONDS
