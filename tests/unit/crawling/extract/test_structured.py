import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Rule
from tests.kit.extract import RuleExtractor
from tests.kit.kernel import ExtractError
from tests.kit.requests import Page
from tests.unit.crawling.extract.test_check_rule import problems

pytestmark = pytest.mark.measured

ARTICLE = "$[?@['@type']=='NewsArticle']"
SHOP = b"""<ul itemscope itemtype="https://schema.org/ItemList">
<li itemprop="itemListElement" itemscope itemtype="https://schema.org/Product">
 <a itemprop="url" href="/nut"><span itemprop="name">Nut</span></a>
 <img itemprop="image" src="a.png"><img itemprop="image" src="b.png">
 <span itemprop="offers" itemscope itemtype="https://schema.org/Offer">
 <b itemprop="price" content="1.5"></b></span>
<li itemprop="itemListElement" itemscope itemtype="https://schema.org/Product">
 <span itemprop="name">Bolt</span></ul>"""


def one(extract, body, kind, json, **field):
    [record] = extract({"fields": {"it": {"structured": kind, "json": json, **field}}}, body)
    return record["it"]


def test_json_ld_is_read_by_json_paths_graph_or_not(extract):
    def of_page(json, **field):
        return one(extract, "article_news.html", "json_ld", json, **field)

    assert of_page(f"{ARTICLE}.headline") == "Harbour bridge reopens after nine months"
    assert of_page(f"{ARTICLE}.datePublished", type="date") == "2024-03-05T06:30:00+01:00"
    assert of_page(f"{ARTICLE}.author[*].name", list=True) == ["Ines Holm", "Tom Ray"]
    assert of_page("$..position", type="integer", list=True) == [1, 2]


def test_a_list_counts_as_its_members_wherever_it_stands(extract):
    body = b'<script type="application/ld+json">{"image": ["a", "b"], "name": "c"}</script>'
    rule = {
        "items": {"structured": "json_ld", "json": "$"},
        "fields": {
            "first": {"json": "$.image"},
            "all": {"json": "$.image", "list": True},
            "names": {"json": "$.name", "list": True},
        },
    }

    assert extract(rule, body) == [{"first": "a", "all": ["a", "b"], "names": ["c"]}]


def test_json_ld_that_is_not_quite_json_is_read_and_what_is_none_left_out(extract):
    found = one(extract, "article_blog.html", "json_ld", "$", type="json", list=True)

    assert [thing["@type"] for thing in found] == ["Recipe"]
    assert found[0]["recipeIngredient"] == ["400 g flour", "300 g water"]


def test_microdata_has_the_shape_of_json_ld(extract):
    rule = {
        "items": {"structured": "microdata", "json": "$..itemListElement"},
        "fields": {
            "name": {"json": "$.name", "required": True},
            "url": {"json": "$.url"},
            "images": {"json": "$.image", "list": True},
            "price": {"json": "$.offers.price", "type": "number"},
        },
    }

    assert extract(rule, SHOP) == [
        {
            "name": "Nut",
            "url": "https://shop.example/nut",
            "images": ["https://shop.example/a/a.png", "https://shop.example/a/b.png"],
            "price": 1.5,
        },
        {"name": "Bolt", "url": None, "images": [], "price": None},
    ]


def test_a_broken_link_does_not_cost_the_microdata_around_it(extract):
    found = one(extract, "article_blog.html", "microdata", "$..calories")

    assert found == "240 kcal"


def test_opengraph_has_a_property_once_or_several_times(extract):
    def of_page(json, **field):
        return one(extract, "article_news.html", "opengraph", json, **field)

    assert of_page("$[0]['og:title']") == "Harbour bridge reopens after nine months"
    assert of_page("$[0]['og:image']", list=True) == [
        "https://coast.example/img/bridge-1.jpg",
        "https://coast.example/img/bridge-2.jpg",
    ]
    assert of_page("$[0]['@type']") == "article"


@pytest.mark.parametrize("kind", ["json_ld", "microdata", "opengraph"])
@pytest.mark.parametrize("body", [b"", b"<p>", b"\0", b"just text", b"<!---->"], ids=repr)
def test_a_page_that_says_nothing_for_machines_gives_nothing(extract, kind, body):
    assert one(extract, body, kind, "$", list=True, type="json") == []


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ({"structured": "json_ld"}, "structured"),
        ({"structured": "json_ld", "css": "a"}, "structured"),
        ({"json": "$.a"}, "json"),
        ({"structured": "json_ld", "json": "$["}, "json"),
        (
            {"css": "p", "fields": {"b": {"structured": "json_ld", "json": "$"}}},
            "fields.b.structured",
        ),
        ({"structured": "json_ld", "json": "$", "fields": {"b": {"css": "b"}}}, "fields.b.css"),
        (
            {"structured": "json_ld", "json": "$", "type": "json", "transforms": ["lower"]},
            "transforms",
        ),
    ],
)
def test_error_is_named_where_it_is(field, wrong):
    assert f"rules.shop.fields.it.{wrong}" in problems({"fields": {"it": field}})


def test_only_html_says_things_for_machines():
    field = {"structured": "json_ld", "json": "$"}

    assert problems({"source": "xml", "fields": {"it": field}}) == [
        "rules.shop.fields.it.structured"
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"<div itemscope>" * 3_000,
        b"<div itemscope itemprop=a>" * 250 + b"<p itemprop=b>x" * 3_000,
        b"<div itemprop=a>" * 250 + b"<p>x" * 20_000,
        b"<div itemscope id=a itemref='" + b"b " * 100_000 + b"'></div><p id=b itemprop=c>x",
        b"<div itemscope>" + b"<p itemprop=b>x" * 20_000,
        b'<div itemscope><p itemprop="' + b"b " * 300_000 + b'">x',
        b"<script type=application/ld+json>" + b"[" * 150_000,
        b"<script type=application/ld+json>" + b"{" * 500_000 + b"</script>",
        b"<script type=application/ld+json>{'a':</script>" * 5_000,
        b"<script type=application/ld+json>" + b'/*"' * 60_000 + b"</script>",
        b"<script type=application/ld+json>" + b"1" * 150_000 + b",</script>",
        b"<script type=application/ld+json>{a" + b"\n//" * 60_000 + b"</script>",
        b"<html prefix='" + b"a" * 200_000 + b"'><head><meta property=og:a content=b>",
        b"<head>" + b"<meta property=og:a content=b>" * 30_000,
    ],
    ids=lambda body: repr(body[:42]),
)
@pytest.mark.parametrize("kind", ["json_ld", "microdata", "opengraph"])
def test_hostile_page_costs_little(extract, kind, body):
    began = time.process_time()

    try:
        one(extract, body, kind, "$..*", count=True)
    except ExtractError as error:
        assert error.field == "it"  # noqa: PT017  things are a fine answer too

    assert time.process_time() - began < 12


@pytest.mark.parametrize(
    "thing",
    [
        b'{"a": 1e999}',
        b'{"a": NaN}',
        b'{"a": ' + b"9" * 400 + b"}",
        b'{"a": "\\ud800",}',
        b'{"a\\u0000": 1}',
        b'{"a":' * 90 + b"1" + b"}" * 90,
    ],
)
def test_what_no_record_can_hold_is_left_out_or_made_fit(extract, thing):
    body = b'<script type="application/ld+json">' + thing + b"</script>"
    body += b'<script type="application/ld+json">{"b": 2}</script>'

    found = one(extract, body, "json_ld", "$", type="json", list=True)

    assert found[-1] == {"b": 2}


PARTS = st.sampled_from(
    [
        b"<div itemscope>",
        b"<a itemprop=x href='http://['>",
        b"<i itemscope itemprop=y itemref='p q'>",
        b"<b id=p itemprop='z w'>t</b>",
        b"</div>",
        b"<script type=application/ld+json>",
        b'{"@graph": [1, {"a": "\\ud800"}]}',
        b"</script>",
        b"<!--",
        b"-->",
        b"<head>",
        b"<meta property='og:a' content>",
        b"<meta property=og:a content=b>",
        b"<html prefix='og: x'>",
        b"\0\xff",
    ]
)


@given(
    st.lists(PARTS | st.binary(max_size=6), max_size=25).map(b"".join),
    st.sampled_from(["json_ld", "microdata", "opengraph"]),
)
def test_broken_markup_does_not_cost_the_page(extract, body, kind):
    assert isinstance(one(extract, body, kind, "$", type="json", list=True), list)


def test_extruct_is_loaded_by_the_rules_that_need_it():
    code = (
        f"import sys; from {RuleExtractor.__module__} import RuleExtractor, check_rule;"
        f"from {Rule.__module__} import Field, Rule; from {Page.__module__} import Page;"
        "page = Page(url='https://a.example/', status=200, headers={}, body=b'<p>x');"
        "RuleExtractor().extract(Rule(fields={'a': Field(css='p')}), page);"
        "check_rule(Rule(fields={'a': Field(structured='json_ld', json='$')}));"
        "print([m for m in ('extruct', 'resiliparse', 'w3lib', 'lxml') if m in sys.modules])"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert printed.stdout.strip() == "[]"
