import msgspec
import pytest

from tests.kit.config import Rule
from tests.kit.extract import MAX_DEPTH, MAX_FIELDS, shape_problems


def problems_of(rule):
    return [str(problem) for problem in shape_problems(msgspec.convert(rule, Rule))]


def problems_of_field(field, source="html"):
    return problems_of({"source": source, "fields": {"x": field}})


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ("html", {"css": "a"}),
        ("html", {"css": "a", "attribute": "href", "absolute": True, "list": True}),
        ("xml", {"xpath": "//a", "regex": "[0-9]+", "type": "integer", "default": 3}),
        ("json", {"json": "$.a", "type": "json", "default": True}),
        ("json", {"json": "$.a", "regex": "(x)"}),
        ("text", {"regex": "a(b)"}),
        ("html", {"regex": "a(b)"}),
        ("json", {"fact": "url"}),
        ("html", {"fact": "url", "regex": "[0-9]+"}),
        ("html", {"main_text": True}),
        ("html", {"structured": "json_ld", "json": "$[0].name"}),
        ("html", {"css": "script", "type": "json", "fields": {"a": {"json": "$.a"}, "b": {}}}),
        ("html", {"css": "p", "transforms": [{"split": ","}, {"pick": 0}]}),
        ("html", {"css": "p", "transforms": [{"join": ","}]}),
        ("html", {"css": "a", "count": True, "type": "integer"}),
        ("html", {"css": "p", "take": "html", "required": True}),
        ("html", {"css": "tr", "list": True, "fields": {"a": {"css": "td"}}}),
        ("html", {"fields": {"a": {"css": "td"}}}),
        ("html", {"css": "a", "type": "number", "default": 1.5}),
    ],
)
def test_a_sensible_field_has_no_problems(source, field):
    assert problems_of_field(field, source) == []


@pytest.mark.parametrize(
    ("source", "field", "problem"),
    [
        ("html", {}, "fields.x: needs exactly one of css, xpath, json, regex, fact, main_text, or"),
        ("html", {"css": "a", "xpath": "//a"}, "or fields, not css and xpath"),
        ("html", {"css": "a", "fact": "url"}, "not css and fact"),
        ("html", {"main_text": True, "css": "a"}, "not css and main_text"),
        ("json", {"css": "a"}, "fields.x.css: reads html and xml; this rule's source is json"),
        ("text", {"xpath": "//a"}, "fields.x.xpath: reads html and xml"),
        ("html", {"json": "$.a"}, "fields.x.json: reads json; this rule's source is html"),
        ("json", {"json": "$.a", "attribute": "x"}, "fields.x.attribute: goes with css or xpath"),
        ("text", {"regex": "a", "take": "html"}, "fields.x.take: goes with css or xpath only"),
        ("html", {"css": "a", "take": "html", "attribute": "x"}, "does not go with attribute"),
        ("html", {"fact": "url", "list": True}, "a fact is one value"),
        ("html", {"css": "a", "list": True, "count": True}, "count: does not go with list"),
        (
            "html",
            {"css": "a", "count": True, "type": "date"},
            "fields.x.type: a count is an integer",
        ),
        ("html", {"css": "a", "absolute": True, "type": "integer"}, "goes with type string only"),
        ("html", {"css": "a", "required": True, "default": "b"}, "default: never applies"),
        ("html", {"css": "a", "type": "integer", "default": "b"}, "default: is no integer"),
        ("html", {"css": "a", "type": "integer", "default": True}, "default: is no integer"),
        ("html", {"css": "a", "default": 5}, "default: is no string"),
        ("html", {"css": "a", "xpath": "b", "fields": {"y": {"css": "b"}}}, "at most, not css and"),
        (
            "html",
            {"css": "a", "attribute": "b", "fields": {"y": {"css": "b"}}},
            "x.attribute: does",
        ),
        ("html", {"regex": "a", "fields": {"y": {"css": "b"}}}, "x.regex: does not go with fields"),
        (
            "html",
            {"css": "a", "type": "date", "fields": {"y": {"css": "b"}}},
            "x.type: does not go",
        ),
        (
            "html",
            {"css": "a", "take": "html", "fields": {"y": {"css": "b"}}},
            "x.take: does not go",
        ),
        ("html", {"css": "a", "count": True, "fields": {"y": {"css": "b"}}}, "x.count: does not"),
        ("json", {"json": "a", "fields": {"y": {"css": "b"}}}, "fields.x.fields.y.css: reads html"),
    ],
)
def test_a_senseless_field_is_named_with_the_reason(source, field, problem):
    found = problems_of_field(field, source)

    assert len(found) == 1
    assert problem in found[0]


def test_items_take_exactly_one_selector_that_fits_the_source():
    fields = {"x": {"json": "$.a"}}

    assert problems_of({"source": "json", "items": {"json": "$[*]"}, "fields": fields}) == []
    [problem] = problems_of({"source": "json", "items": {"css": "li"}, "fields": fields})
    assert problem.startswith("items.css: ")
    assert "exactly one" in problems_of({"source": "json", "items": {}, "fields": fields})[0]
    both = {"source": "json", "items": {"json": "$", "regex": "a"}, "fields": fields}
    [problem] = problems_of(both)
    assert problem.startswith("items: ")
    assert "not json and regex" in problem


def nested(depth):
    field = {"css": "b"}
    for _ in range(depth - 1):
        field = {"fields": {"y": field}}
    return field


def test_nesting_ends_at_its_limit():
    assert problems_of_field(nested(MAX_DEPTH)) == []
    assert "more than 5 deep" in problems_of_field(nested(MAX_DEPTH + 1))[0]
    assert "more than 5 deep" in problems_of_field(nested(150))[0]


def test_the_number_of_fields_is_bounded_over_all_levels():
    level = {f"f{number}": {"css": "a"} for number in range(199)}
    rule = {"fields": {f"g{number}": {"fields": level} for number in range(6)}}

    [problem] = problems_of(rule)
    assert problem.startswith("fields: ")
    assert str(MAX_FIELDS) in problem


def test_the_version_of_a_rule_is_that_of_its_content_also_after_it_was_read():
    rule = msgspec.convert({"fields": {"title": {"css": "h1"}}}, Rule)
    version = rule.version
    renamed = msgspec.structs.replace(rule, description="another")
    changed = msgspec.structs.replace(rule, key=("title",))
    assert renamed.version == version == rule.version
    assert changed.version != version
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(rule)), Rule) == rule
