import msgspec
import pytest

from tests.kit.config import Rule
from tests.kit.extract import check_rule

pytestmark = pytest.mark.measured


def problems(rule):
    return [p.field for p in check_rule(msgspec.convert(rule, Rule), "rules.shop.")]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ({"css": "a["}, "css"),
        ({"css": "a::texts"}, "css"),
        ({"css": "\ud800"}, "css"),
        ({"xpath": "//a["}, "xpath"),
        ({"xpath": "document('x')"}, "xpath"),
        ({"xpath": "$a"}, "xpath"),
        ({"xpath": "re:test('a', 'b')"}, "xpath"),
        ({"xpath": "sideways::a"}, "xpath"),
        ({"xpath": "a" + "/a" * 200}, "xpath"),
        ({"regex": "("}, "regex"),
        ({"regex": "(?=a)"}, "regex"),
        ({"regex": r"(a)\1"}, "regex"),
        ({"json": "$.a"}, "json"),
        ({"css": "a", "xpath": "//a"}, ""),
        ({"css": "a", "fact": "url"}, ""),
        ({}, ""),
        ({"css": "a", "count": True, "list": True}, "list"),
        ({"css": "a", "count": True, "type": "number"}, "type"),
        ({"css": "a", "attribute": "b", "take": "html"}, "take"),
        ({"regex": "a", "attribute": "b"}, "attribute"),
        ({"fact": "url", "take": "html"}, "take"),
        ({"css": "a", "required": True, "default": "b"}, "default"),
        ({"css": "a", "type": "integer", "default": "b"}, "default"),
        ({"css": "a", "default": 1}, "default"),
        ({"css": "a", "list": True, "default": "b"}, "default"),
        ({"css": "a", "absolute": True, "type": "integer"}, "absolute"),
        ({"css": "a", "fields": {"b": {"xpath": "b"}}}, "fields.b.xpath"),
        ({"css": "a", "attribute": "x", "fields": {"b": {}}}, "attribute"),
        ({"css": "a", "type": "integer", "fields": {"b": {}}}, "type"),
        ({"regex": "a", "fields": {"b": {"css": "b"}}}, "fields.b.css"),
        ({"css": "a", "type": "json", "fields": {"b": {"css": "b"}}}, "fields.b.css"),
    ],
)
def test_error_is_named_where_it_is(field, wrong):
    assert problems({"fields": {"it": field}}) == [
        f"rules.shop.fields.it{'.' if wrong else ''}{wrong}"
    ]


def test_every_error_is_named_at_once():
    rule = {
        "source": "json",
        "items": {"css": "a["},
        "fields": {"a": {"json": "$["}, "b": {"regex": "["}, "c": {"css": "d"}},
    }

    assert set(problems(rule)) >= {
        "rules.shop.items.css",
        "rules.shop.fields.a.json",
        "rules.shop.fields.b.regex",
    }


def test_rules_are_not_nested_without_end():
    rule = {"fields": {"a": {"css": "b"}}}
    for _ in range(9):
        rule = {"fields": {"a": {"css": "b", **rule}}}

    assert len(problems(rule)) == 1


@pytest.mark.parametrize(
    "field",
    [
        {"css": "ul > li:nth-child(2n+1), p ~ a[href^='x y']"},
        {"xpath": "//a[@b='c' and not(d)]//text()"},
        {"xpath": "//a[contains(concat(' ', @class, ' '), ' x ')]/following::p[1]"},
        {"regex": r"(?i)\bprice\b"},
        {"fact": "url", "regex": r"\d+", "type": "integer"},
    ],
)
def test_sound_rules_have_no_errors(field):
    assert problems({"fields": {"it": field}}) == []
