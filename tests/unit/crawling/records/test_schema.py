"""Records against their JSON Schema: what is refused, how it is told, what an attacker may cost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import Problem
from tests.kit.records import (
    KEPT_SCHEMAS,
    LONGEST_CHAIN,
    LONGEST_MESSAGE,
    LONGEST_PATTERN,
    MOST_PATTERNS,
    MOST_PROBLEMS,
    SchemaValidator,
)
from tests.kit.records import LARGEST_SCHEMA_BYTES as LARGEST_BYTES

OFFER = {
    "type": "object",
    "required": ["seller"],
    "properties": {"seller": {"type": "string"}, "price": {"type": "number", "minimum": 0}},
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "sku": {"pattern": "^[A-Z]{2}-[0-9]+$"},
        "offers": {"type": "array", "items": {"$ref": "#/$defs/offer"}},
        "seen": {"format": "date"},
    },
    "additionalProperties": False,
    "$defs": {"offer": OFFER},
}


@pytest.fixture
def validator():
    return SchemaValidator()


def reported(validator, schema, fields):
    return [str(problem) for problem in validator.problems(schema, fields)]


def refused(validator, schema):
    return [str(problem) for problem in validator.check_schema(schema, "rules.detail.schema")]


def test_a_right_record_has_no_problems(validator):
    record = {"title": "A", "sku": "AB-1", "offers": [{"seller": "x", "price": 1.5}]}

    assert validator.check_schema(SCHEMA) == []
    assert validator.problems(SCHEMA, record) == []


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({}, ["title: is missing"]),
        ({"title": ""}, ["title: is shorter than 1 character"]),
        ({"title": 5}, ['title: is not of type "string"']),
        ({"title": "A", "sku": "1"}, ['sku: does not match "^[A-Z]{2}-[0-9]+$"']),
        (
            {"title": "A", "offers": [{"seller": "a"}, {"seller": "b"}, {"price": -1}]},
            ["offers[2].price: is less than the minimum of 0", "offers[2].seller: is missing"],
        ),
        (
            {"title": "A", "else": 1},
            [": Additional properties are not allowed ('else' was unexpected)"],
        ),
        ({"title": "A", "seen": "tomorrow"}, ['seen: is not a "date"']),
    ],
    ids=lambda value: None if isinstance(value, list) else next(reversed(value), "nothing"),
)
def test_a_wrong_record_is_reported_field_by_field(validator, fields, problems):
    assert sorted(reported(validator, SCHEMA, fields)) == sorted(problems)


def test_no_value_of_a_record_is_quoted_however_large(validator):
    (problem,) = reported(
        validator, {"properties": {"html": {"type": "number"}}}, {"html": "x" * 10**6}
    )

    assert problem == 'html: is not of type "number"'


def test_what_is_said_of_a_record_is_bounded_in_number_and_length(validator):
    schema = {
        "properties": {"all": {"items": {"type": "string"}}},
        "additionalProperties": False,
    }
    record = {"all": list(range(5_000)), "n" * 5_000: 1}

    problems = validator.problems(schema, record)

    assert len(problems) == MOST_PROBLEMS
    assert max(len(problem.message) for problem in problems) <= LONGEST_MESSAGE
    (extra,) = validator.problems(schema, {"n" * 5_000: 1})
    assert len(extra.message) == LONGEST_MESSAGE


def test_of_a_large_wrong_record_the_first_error_is_reported_at_once(validator):
    schema = {"items": {"type": "string"}, "properties": {"all": {"items": {"type": "string"}}}}
    record = {"all": list(range(200_000))}
    started = time.process_time()

    problems = reported(validator, schema, record)

    assert problems == ['all[0]: is not of type "string"']
    assert time.process_time() - started < 5


@pytest.mark.parametrize("value", [b"bytes", object()])
def test_a_record_that_is_not_normalised_is_refused(validator, value):
    (problem,) = reported(validator, {"properties": {"a": {"type": "string"}}}, {"a": value})

    assert problem.startswith(": cannot be checked: ")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], ": must be a mapping"),
        ({"type": "strin"}, ".type: "),
        ({"properties": {"a": {"minimum": "x"}}}, ".properties.a.minimum: "),
        ({"properties": {"a": {"pattern": "("}}}, ".properties.a.pattern: "),
        ({"pattern": "(?=a)b"}, ".pattern: "),
        ({"pattern": r"(a)\1"}, ".pattern: "),
        ({"$ref": "https://evil.example/s.json"}, ".$ref: must lead to a schema within"),
        ({"$ref": "http://169.254.169.254/latest/meta-data"}, ".$ref: must lead to"),
        ({"$ref": "file:///etc/passwd"}, ".$ref: must lead to"),
        ({"$ref": "other.json#/a"}, ".$ref: must lead to"),
        ({"$ref": "#/nothing"}, ".$ref: must lead to"),
        ({"$ref": 5}, ".$ref: must lead to"),
        ({"$ref": "#"}, ": $ref # comes back to where it began"),
        ({"properties": {"a": {"$ref": "#"}}}, ": $ref # comes back"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            ": $ref #/$defs/a comes back",
        ),
        (
            {"properties": {"a": {"not": {"$ref": "#/properties/a"}}}},
            ": $ref #/properties/a comes back",
        ),
        ({"$id": "https://a.example/s"}, ".$id: is not supported"),
        ({"items": {"$dynamicRef": "#x"}}, ".items.$dynamicRef: is not supported"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, ".$schema: must be https://"),
        ({"not": {"$schema": "https://evil.example"}}, ".not.$schema: may stand at the top only"),
        ({"enum": ["x" * LARGEST_BYTES]}, ": has "),
        ({"pattern": "a" * (LONGEST_PATTERN + 1)}, ".pattern: is longer than"),
        ({"default": object()}, ": is no JSON"),
        ({"default": "\ud800"}, ": is no JSON"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_the_place(validator, schema, problem):
    (first, *_) = refused(validator, schema)

    assert first.startswith("rules.detail.schema" + problem)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"properties": {"a": {"type": "strng"}}},
            "'strng' is no type; there are string, array, boolean, integer, null, number, object",
        ),
        (
            {"type": ["string", "nul"]},
            "'nul' is no type; there are null, array, boolean, integer, number, object, string",
        ),
    ],
)
def test_a_type_that_json_has_not_is_named_with_those_there_are(validator, schema, message):
    (problem,) = validator.check_schema(schema)

    assert problem.message == message


def test_a_property_that_is_called_type_is_not_taken_for_one(validator):
    (problem,) = validator.check_schema({"properties": {"type": 5}})

    assert "no type" not in problem.message


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            5,
            'fits none of its alternatives: is not of type "string"; is not of type "null"',
        ),
        (
            {"oneOf": [{"type": "string"}, {"minimum": 7}]},
            5,
            'fits none of its alternatives: is not of type "string"; is less than the minimum of 7',
        ),
        (
            {"oneOf": [{"type": "number"}, {"minimum": 3}]},
            5,
            "fits more than one of its alternatives, of which it is to fit one",
        ),
    ],
)
def test_of_alternatives_that_do_not_fit_each_is_reported(validator, schema, value, message):
    problems = validator.problems({"properties": {"a": schema}}, {"a": value})

    assert problems == [Problem("a", message)]


def test_a_record_of_an_unusable_schema_is_refused_not_stored_unchecked(validator):
    (problem,) = reported(validator, {"$ref": "https://evil.example/s.json"}, {"a": 1})

    assert problem.startswith("schema: cannot be used: $ref: must lead to")


def test_names_that_look_like_keywords_are_data(validator):
    schema = {
        "properties": {"$ref": {"type": "string"}, "$id": {"type": "integer"}},
        "enum": [{"$ref": "https://a.example", "$id": 1}],
        "default": {"$ref": "https://a.example"},
    }

    assert refused(validator, schema) == []
    assert reported(validator, schema, {"$ref": "https://a.example", "$id": 1}) == []


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def doubling(levels):
    """Return a schema of 2^levels checks: each definition refers to the next one twice."""
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "string"}}}


def chain(length):
    definitions = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{length}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("within", "beyond", "problem"),
    [
        (nested(15), nested(10_000), "is nested more than"),
        (doubling(8), doubling(12), "comes to more than"),
        (chain(LONGEST_CHAIN - 1), chain(LONGEST_CHAIN), "in a row"),
        (
            {"anyOf": [{"pattern": "a"}] * MOST_PATTERNS},
            {"anyOf": [{"pattern": "a"}] * MOST_PATTERNS + [{"patternProperties": {"a": True}}]},
            "is one of more than",
        ),
    ],
    ids=["depth", "doubling", "chain", "patterns"],
)
def test_what_a_schema_may_cost_is_bounded(validator, within, beyond, problem):
    assert refused(validator, within) == []
    (said,) = refused(validator, beyond)
    assert problem in said


def test_a_pattern_that_would_take_much_memory_is_refused(validator):
    assert refused(validator, {"pattern": r"^https?://[^/]{1,200}/\w{1,100}$"}) == []
    assert refused(validator, {"pattern": r"(\w{1,500} ){1,500}"})


def test_a_pattern_takes_time_by_the_length_of_the_text_only(validator):
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    started = time.process_time()

    assert reported(validator, schema, {"a": "a" * 1_000_000 + "!"})

    assert time.process_time() - started < 10


def test_schemas_beyond_those_kept_work_as_well(validator):
    schemas = [{"properties": {"n": {"const": n}}} for n in range(KEPT_SCHEMAS * 2)]

    for _ in range(2):
        for n, schema in enumerate(schemas):
            assert validator.problems(schema, {"n": n}) == []
            assert validator.problems(schema, {"n": -1})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_schema_is_judged_without_an_error(schema):
    problems = SchemaValidator().check_schema(schema)

    assert len(problems) <= MOST_PROBLEMS


keywords = st.sampled_from(
    ["$ref", "$defs", "allOf", "items", "properties", "pattern", "not", "type", "a", "$schema"]
)


@given(
    st.recursive(
        st.booleans() | st.text(max_size=5) | st.sampled_from(["#", "#/$defs/a", "#/properties/a"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=4),
        max_leaves=15,
    ),
    st.dictionaries(st.text(max_size=3), json_values, max_size=3),
)
def test_any_record_is_judged_by_any_schema_without_an_error(schema, record):
    validator = SchemaValidator()

    problems = validator.problems(schema, record)

    assert len(problems) <= MOST_PROBLEMS
    if validator.check_schema(schema):
        assert problems[0].field == "schema"
