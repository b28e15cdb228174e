"""Harvests as a whole: coverage, nesting, trials, and markup of every brokenness."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Rule
from tests.kit.extract import RuleExtractor, try_rule
from tests.kit.kernel import ExtractError
from tests.kit.requests import Coverage, Page

PAGES = Path(__file__).parent / "pages"
FIXTURES = [file.read_bytes() for file in sorted(PAGES.glob("*.html"))]
EXTRACTOR = RuleExtractor()


def page_of(body):
    headers = {"content-type": "text/html"}
    return Page(url="https://a.example/x/", status=200, headers=headers, body=body)


def rule_of(**raw):
    return msgspec.convert(raw, Rule)


def test_coverage_counts_records_in_which_a_field_has_a_value():
    body = b"<li><b>1</b><i>x</i><u></u></li><li><b>0</b></li><li><b></b><i> </i></li>"
    rule = rule_of(
        items={"css": "li"},
        fields={
            "b": {"css": "b"},
            "zero": {"css": "b", "type": "integer"},
            "i": {"css": "i", "list": True},
            "u": {"css": "u"},
            "n": {"css": "u", "count": True},
            "flag": {"css": "b", "type": "boolean"},
        },
    )

    harvest = EXTRACTOR.harvest(rule, page_of(body))

    assert len(harvest.records) == 3
    assert harvest.coverage == Coverage(
        pages=1,
        records=3,
        fields={"b": 2, "zero": 2, "i": 2, "u": 0, "n": 3, "flag": 2},
    )


def test_coverage_of_a_page_without_records_names_every_field():
    harvest = EXTRACTOR.harvest(rule_of(items={"css": "li"}, fields={"a": {}}), page_of(b""))

    assert harvest.coverage == Coverage(pages=1, records=0, fields={"a": 0})


@pytest.mark.parametrize("engine", ["css", "xpath"])
def test_lists_of_items_inside_items_inside_items(engine):
    def at(name):
        return {"css": name} if engine == "css" else {"xpath": f".//{name}"}

    body = b"""<section><h2>A</h2><ul><li><b>1</b><i>x</i><i>y</i></li><li><b>2</b></li></ul>
    <ul></ul></section><section><h2>B</h2></section>"""
    rule = rule_of(
        items={"css": "section"} if engine == "css" else {"xpath": "//section"},
        fields={
            "name": at("h2"),
            "lists": {
                **at("ul"),
                "list": True,
                "fields": {
                    "rows": {
                        **at("li"),
                        "list": True,
                        "fields": {
                            "number": {**at("b"), "type": "integer"},
                            "tags": {**at("i"), "list": True, "transforms": ["upper"]},
                        },
                    }
                },
            },
        },
    )

    first, second = EXTRACTOR.harvest(rule, page_of(body)).records

    assert first["lists"] == [
        {"rows": [{"number": 1, "tags": ["X", "Y"]}, {"number": 2, "tags": []}]},
        {"rows": []},
    ]
    assert second == {"name": "B", "lists": []}


def test_a_error_deep_inside_is_named_with_its_whole_path():
    body = b"<div><p><b>1</b></p><p><b>x</b></p></div>"
    rule = rule_of(
        fields={
            "a": {
                "css": "div",
                "list": True,
                "fields": {
                    "b": {
                        "css": "p",
                        "list": True,
                        "fields": {"c": {"css": "b", "type": "integer"}},
                    }
                },
            }
        }
    )

    with pytest.raises(ExtractError) as error:
        EXTRACTOR.harvest(rule, page_of(body))

    assert error.value.field == "a[0].b[1].c"


# ---- trials --------------------------------------------------------------------------------------


def test_a_trial_shows_what_a_page_yields_and_stores_nothing():
    rule = rule_of(
        fields={"title": {"css": "h1"}, "none": {"css": "h9"}},
        follow=[{"css": "a", "deny": ["/no"]}],
    )
    body = b"<h1>x</h1><a href=/yes></a><a href=/no></a><a href=//b.example/></a>"

    trial = try_rule(rule, page_of(body))

    assert trial.records == ({"title": "x", "none": None},)
    assert [link.url for link in trial.links] == ["https://a.example/yes"]
    assert trial.refused == {"in deny": 1, "outside of domains": 1}
    assert trial.coverage.fields == {"title": 1, "none": 0}
    assert trial.problems == ()
    assert trial.seconds > 0


def test_a_trial_of_a_wrong_rule_reports_every_error_once():
    rule = rule_of(
        fields={"a": {"css": "p["}, "b": {"css": "p", "count": True, "type": "date"}},
        key=["c"],
        follow=[{"css": "a", "allow": ["("]}],
    )

    problems = {each.field: each.message for each in try_rule(rule, page_of(b"<p>")).problems}

    assert sorted(problems) == ["fields.a.css", "fields.b.type", "follow[0].allow[0]", "key[0]"]
    assert problems["key[0]"].startswith("'c'")


def test_a_trial_names_the_field_that_a_page_does_not_have():
    trial = try_rule(rule_of(fields={"a": {"css": "b", "required": True}}), page_of(b"<p>"))

    assert [(p.field, p.message) for p in trial.problems] == [("a", "missing, and required")]
    assert trial.records == ()


# ---- broken markup -------------------------------------------------------------------------------

EVERYTHING = rule_of(
    fields={
        "css": {"css": "a, li, [itemprop]", "list": True},
        "html": {"css": "body", "take": "html", "transforms": ["html_to_text"]},
        "xpath": {"xpath": "//a/@href", "list": True, "absolute": True},
        "rows": {"css": "ul", "list": True, "fields": {"a": {"css": "li", "list": True}}},
        "json_ld": {"structured": "json_ld", "json": "$..*", "type": "json", "list": True},
        "microdata": {"structured": "microdata", "json": "$", "type": "json", "list": True},
        "opengraph": {"structured": "opengraph", "json": "$", "type": "json", "list": True},
        "text": {"main_text": True},
    },
    follow=[
        {"css": "a[href]", "domains": "any", "obey_nofollow": False},
        {"xpath": "//@src", "domains": "any", "rule": "image"},
        {"regex": "https?://[^\"' ]+", "domains": "same_site", "rule": "any"},
    ],
)


@st.composite
def damaged(draw):
    """A fixture with some bytes cut out, put in, or repeated."""
    body = draw(st.sampled_from(FIXTURES))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        length = draw(st.integers(0, 400))
        insert = draw(
            st.binary(max_size=8)
            | st.sampled_from([b"<", b">", b"</", b"<!--", b"'", b'"', b"&#", b"<svg>", b"<table>"])
            | st.just(body[at : at + length] * 2)
        )
        body = body[:at] + insert + body[at + length :]
    return body


@given(damaged())
def test_broken_markup_costs_nothing_but_what_it_broke(body):
    harvest = EXTRACTOR.harvest(EVERYTHING, page_of(body))

    [record] = harvest.records
    assert set(record) == set(EVERYTHING.fields)
    assert all(link.url.startswith(("http://", "https://")) for link in harvest.links)
    msgspec.json.encode(harvest)
