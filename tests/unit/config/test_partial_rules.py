"""One error of a rule hides no other: what is right of a wrong rule is validated all the same."""

import copy
import json

import pytest

from tests.kit.config import read_document
from tests.kit.extract import check_rule

BAD = "a["
OK = {"t": {"css": "a"}}
#: A rule that uses much of what there is, and has no error.
RULE = {
    "source": "html",
    "items": {"css": "li"},
    "key": ["name"],
    "fields": {
        "name": {"css": "h1", "regex": "a+", "transforms": [{"split": ","}, {"pick": 0}]},
        "sizes": {"css": "b", "list": True, "type": "integer", "transforms": ["collapse"]},
        "seen": {"css": "b", "count": True, "type": "integer"},
        "where": {"fact": "url"},
        "cost": {"css": ".cost", "type": "number", "default": 0.5},
        "shop": {"css": "p", "fields": {"link": {"css": "a", "attribute": "href"}, "self": {}}},
        "data": {"css": "script", "type": "json", "fields": {"id": {"json": "$.id"}}},
        "price": {"css": ".price", "type": "number"},
        "text": {"main_text": True},
    },
    "follow": [
        {"css": "a", "rule": "page", "allow": ["/a"], "deny": ["/b"], "max_depth": 2},
        {"xpath": "//a/@href", "transforms": [{"split": ","}], "meta": {"m": {"css": "i"}}},
        {"css": "a", "domains": "same_host", "pagination": True, "max_pages": 3, "limit": 5},
    ],
}


def errors(rules):
    """The places of all errors of a biz's rules."""
    found = read_document("bizs/default/x", json.dumps({"rules": rules}), check_rule).problems
    return [problem.field.removeprefix("bizs/default/x: ") for problem in found]


def leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def written(path):
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"fields": OK, "follow": [{"css": BAD, "max_depth": "x"}, {"css": BAD, "deny": ["("]}]},
            ["follow[0].max_depth", "follow[0].css", "follow[1].css", "follow[1].deny[0]"],
        ),
        (
            {"fields": OK, "follow": [{"css": 5}, {"css": "a", "xpath": "//b"}, {}]},
            ["follow[0].css", "follow[1]", "follow[2]"],
        ),
        ({"fields": OK, "follow": [{"csss": "a"}, 5, {"css": BAD}]}, None),
        (
            {"fields": OK, "follow": [{"css": "a", "limit": 0}, {"css": "b", "rule": "gone"}]},
            ["follow[0].limit", "follow[1].rule"],
        ),
        (
            {"fields": OK, "follow": [{"css": "a", "meta": {"a": {"css": BAD}, "b": 1}}]},
            ["follow[0].meta.b", "follow[0].meta.a.css"],
        ),
        (
            {"fields": {"a": {"css": BAD, "take": 1}, "b": {"css": BAD}}, "key": ["c"]},
            ["fields.a.take", "fields.a.css", "fields.b.css", "key[0]"],
        ),
        (
            {"items": {"css": "p"}, "fields": {"a": {"fields": {"b": {"css": BAD}, "c": 1}}}},
            ["fields.a.fields.c", "fields.a.fields.b.css"],
        ),
        ({"source": "pdf", "fields": {"a": {"css": BAD}}}, ["source"]),
        ({"items": 1, "fields": {"a": {"css": BAD}}, "follow": [{"css": BAD}]}, None),
    ],
)
def test_all_errors_of_a_rule_are_told_at_once(rule, expected):
    found = [place.removeprefix("rules.page.") for place in errors({"page": rule})]

    if expected is None:
        expected = ["items"] if "items" in rule else ["follow[0].csss", "follow[1]"]
        expected.append(f"follow[{len(rule['follow']) - 1}].css")
    assert found == expected


def test_a_rule_that_is_wrong_may_be_named_by_the_links_of_another():
    follow = {"follow": [{"css": "a", "rule": "wrong"}]}

    assert errors({"page": follow, "wrong": {"fields": {"a": 1}}}) == ["rules.wrong.fields.a"]


@pytest.mark.parametrize("wrong", [{"no": 1}, [[]]], ids=str)
@pytest.mark.parametrize("path", [*leaves(RULE)], ids=written)
def test_a_wrong_part_is_the_only_error_of_a_rule_that_has_no_other(path, wrong):
    assert errors({"page": RULE}) == []
    rule = copy.deepcopy(RULE)
    part = rule
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = wrong

    found = errors({"page": rule})

    place = f"rules.page{written(path)}"
    assert [each for each in found if not each.startswith(place)] == []


@pytest.mark.parametrize("depth", [3, 8, 200])
def test_nested_fields_without_end_end_the_search(depth):
    field = 1
    for _ in range(depth):
        field = {"css": "a", "fields": {"x": field}}

    assert errors({"page": {"fields": {"x": field, "y": {"css": BAD}}}})[1:] == [
        "rules.page.fields.y.css"
    ]
