import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config_documents import biz, generation
from tests.kit.config import Biz, Field, Stage, Step, Tenant, Word
from tests.kit.kernel import Problem, Words, decode, named
from tests.kit.requests import Submission

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**12)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def test_right_document_is_decoded_without_problems():
    value, problems = decode(json.dumps(biz(ttl_seconds=60)), Biz)

    assert value is not None
    assert value.ttl_seconds == 60
    assert problems == ()


def test_a_field_that_is_none_is_reported_which_there_are_the_likely_one_first():
    _, (problem,) = decode(json.dumps(biz(colection="docs")), Biz)

    assert problem.field == "colection"
    assert "collection, description, queue, " in problem.message


def test_no_more_fields_are_named_than_one_reads():
    many = named([f"field{number}" for number in range(40)], "x")

    assert many.endswith("field15 and 24 more")


@pytest.mark.parametrize(
    ("step", "field"), [("trim", "transforms[0]"), ({"trim": True}, "transforms[0].trim")]
)
def test_a_transform_that_is_none_is_refused_with_the_whole_list_of_those_there_are(step, field):
    _, [problem] = decode(json.dumps({"css": "a", "transforms": [step]}), Field)

    words = [word.value for word in Word]
    keys = [key.encode_name for key in msgspec.structs.fields(Step)]
    assert problem.field == field
    assert all(name in problem.message for name in [*words, *keys])
    assert "more" not in problem.message


def test_every_error_is_named_with_its_place():
    document = biz(
        ttl_seconds=5,
        colour="blue",
        generations=[generation(nodes=["Main", "east"], shards="two"), generation("yesterday"), {}],
        rules={"a b": {"fields": {}}, "ok": {"source": "pdf", "fields": {"x": {"csss": "a"}}}},
        fetch={"total_seconds": -1, "max_redirects": 21},
        states={"Reviewed": 5},
    )

    value, problems = decode(json.dumps(document), Biz)

    assert value is None
    assert [problem.field for problem in problems] == [
        "colour",
        "ttl_seconds",
        "generations[0].nodes[0]",
        "generations[0].shards",
        "generations[1].starts_at",
        "generations[2].starts_at",
        'rules["a b"]',
        "rules.ok.source",
        "rules.ok.fields.x.csss",
        "fetch.total_seconds",
        "fetch.max_redirects",
        "states.Reviewed",
        "states.Reviewed",
    ]
    assert Problem("ttl_seconds", "expected a whole number >= 60 (5)") in problems
    assert Problem("generations[2].starts_at", "is missing") in problems
    assert Problem("rules.ok.source", 'is none of html, xml, json, text ("pdf")') in problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated"),
        ('{"nodes": [}', "malformed"),
        ("[" * 50_000, "too deeply"),
        ("[]", "expected an object, got a list"),
        ('"stage"', "expected an object, got a text"),
        ("null", "expected an object, got null"),
    ],
)
def test_text_that_is_no_document_is_one_problem_of_the_whole(text, message):
    value, problems = decode(text, Stage)

    assert value is None
    assert [problem.field for problem in problems] == [""]
    assert message in problems[0].message


def test_bytes_that_are_no_utf8_are_refused():
    for text in (b'{"home_node": "\xff"}', '{"home_node": "\ud800"}'):
        assert decode(text, Stage) == (None, (Problem("", "is no UTF-8"),))


@pytest.mark.parametrize("depth", [100, 200, 300, 450, 1000, 3000, 30_000])
def test_a_rule_nested_beyond_reason_is_refused_not_fatal(depth):
    text = json.dumps(biz()).replace('{"css":"title"}', "X").replace('{"css": "title"}', "X")
    text = text.replace("X", '{"fields":{"x":' * depth + "1" + "}}" * depth)

    value, problems = decode(text, Biz)

    assert value is None
    assert len(problems) == 1
    messages = ("is nested too deeply", "expected an object, got a whole number")
    assert problems[0].message.startswith(messages)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"queue": "Main"},
            'expected up to 32 of a-z, 0-9, _ and -, a letter first ("Main")',
        ),
        (
            {"fetch": {"content_types": ["text/HTML"]}},
            (
                "expected a type in lower case without parameters, "
                'such as text/html or image/* ("text/HTML")'
            ),
        ),
        ({"recrawl": "daily"}, 'expected an object or null, got a text ("daily")'),
        ({"politeness": {"product": "my bot"}}, 'expected up to 64 letters, _ and - ("my bot")'),
    ],
)
def test_what_is_expected_is_said_in_words_not_as_a_pattern_or_a_type(change, said):
    _, (problem,) = decode(json.dumps(biz(**change)), Biz)

    assert problem.message == said


@pytest.mark.parametrize("shape", [Biz, Stage, Tenant, Submission])
def test_every_pattern_of_a_document_has_its_words(shape):
    waiting, seen, patterns = [shape], set(), 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in seen:
            seen.add(part)
            waiting += [field.type for field in msgspec.structs.fields(part)]
        beside = getattr(part, "__metadata__", ())
        if any(getattr(each, "pattern", None) for each in beside):
            patterns += 1
            assert any(isinstance(each, Words) for each in beside), part
        waiting += get_args(part)
    assert patterns or shape is Tenant


def test_of_alternatives_the_one_that_is_meant_is_taken_apart():
    rule = {"items": {"css": "", "what": 1}, "fields": {"x": {"fact": "age", "default": [1]}}}

    _, problems = decode(json.dumps(biz(rules={"page": rule}, records_ttl_seconds="x")), Biz)

    assert [problem.field for problem in problems] == [
        "records_ttl_seconds",
        "rules.page.items.what",
        "rules.page.items.css",
        "rules.page.fields.x.fact",
        "rules.page.fields.x.default",
    ]


def test_values_of_headers_are_never_quoted():
    _, problems = decode(json.dumps(biz(fetch={"headers": {"Authorization": 12345678}})), Biz)

    assert [problem.field for problem in problems] == ["fetch.headers.Authorization"]
    assert "12345678" not in problems[0].message


def test_long_values_are_quoted_in_part():
    _, problems = decode(json.dumps(biz(queue="Q" * 5000)), Biz)

    assert len(problems[0].message) < 200


@given(value=json_values)
def test_a_document_has_either_a_value_or_problems(value):
    text = msgspec.json.encode(value)

    decoded, problems = decode(text, Stage)

    assert (decoded is None) == bool(problems)


@given(
    key=st.sampled_from(["ttl_seconds", "generations", "rules", "fetch", "states"]),
    value=json_values,
)
def test_a_wrong_part_is_named_whatever_it_is(key, value):
    decoded, problems = decode(msgspec.json.encode(biz() | {key: value}), Biz)

    assert (decoded is None) == bool(problems)
    assert all(problem.field.startswith(key) for problem in problems)
