"""A trial says why a field has no value: the hint names the cause."""

import pytest

from tests.kit.config import Field, Rule, Selector
from tests.kit.extract import try_rule
from tests.kit.requests import Page

HTML = "<ul><li><b>Price:\u00a012\u202f€</b><img src=a.png></li><li><b>none</b></li></ul><p> </p>"
PAGE = Page(
    url="https://example.org/",
    status=200,
    headers={"content-type": "text/html; charset=utf-8"},
    body=HTML.encode(),
)
SOURCE = ", in its source: tags and entities such as &nbsp; are part of that"
SPACES = "its regex matches nothing in 'Price:\\xa012\\u202f€', where blanks are U+00A0, U+202F: "


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"css": "i"}, "its css matches nothing on this page"),
        ({"xpath": "//i"}, "its xpath matches nothing on this page"),
        (
            {"regex": "x{3}"},
            f"its regex matches nothing on this page{SOURCE}",
        ),
        ({"css": "b", "attribute": "id"}, "its css matches, and no match has the attribute 'id'"),
        ({"css": "img"}, "what its css matches has no text: `attribute` takes another value of it"),
        ({"css": "p"}, "what its css matches has no text: `attribute` takes another value of it"),
        ({"css": "b", "regex": "EUR"}, "its regex matches nothing in 'Price:\\xa012\\u202f€'"),
        ({"css": "b", "regex": "Price: (.*)"}, f"{SPACES}`plain_space: true` makes blanks of them"),
        (
            {"css": "b", "transforms": ("lower", {"match": "EUR"})},
            "its transforms[1] leaves nothing of 'price:\\xa012\\u202f€'",
        ),
        (
            {"structured": "json_ld", "json": "$[*].name"},
            "its json matches nothing on this page",
        ),
    ],
)
def test_the_cause_is_named(field, why):
    import msgspec

    rule = Rule(fields={"url": Field(fact="url"), "it": msgspec.convert(field, Field)})

    assert try_rule(rule, PAGE).empty == {"it": why}
    assert try_rule(Rule(fields={"url": Field(fact="url")}), PAGE).empty == {}


def test_a_field_that_is_required_has_its_cause_beside_the_error():
    rule = Rule(
        items=Selector(css="li"), fields={"it": Field(css="b", regex="Price: .*", required=True)}
    )

    trial = try_rule(rule, PAGE)

    assert [problem.field for problem in trial.problems] == ["items[0].it"]
    assert trial.empty["it"].startswith(SPACES)


def test_the_stated_option_makes_other_white_space_a_blank():
    read = Field(css="b", regex=r"Price: (\d+) €", plain_space=True, type="integer")

    trial = try_rule(Rule(fields={"price": read}), PAGE)

    assert trial.records == ({"price": 12},)


def test_a_field_that_some_records_have_has_no_cause():
    rule = Rule(items=Selector(css="li"), fields={"image": Field(css="img", attribute="src")})

    trial = try_rule(rule, PAGE)

    assert trial.coverage.fields == {"image": 1}
    assert trial.empty == {}
