import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Field, Rule
from tests.kit.extract import RuleExtractor, check_rule
from tests.kit.kernel import ExtractError
from tests.kit.requests import Page

SELECTORS = {
    "html": [
        {"css": "*"},
        {"css": "a b"},
        {"css": "[href]", "attribute": "href", "absolute": True},
        {"xpath": "//*"},
        {"xpath": "//@*"},
        {"xpath": "//a//b/text()"},
        {"regex": "(.)."},
    ],
    "xml": [{"xpath": "//*"}, {"xpath": "//a:b"}, {"xpath": "//@*"}, {"xpath": "//comment()"}],
    "json": [{"json": "$"}, {"json": "$..*"}, {"json": "$..[?@.a]"}, {"regex": "a|b"}],
    "text": [{"regex": "."}, {"regex": "(a)|b"}, {"fact": "url"}],
}
SHAPES = [
    {},
    {"list": True},
    {"count": True},
    {"required": True},
    {"take": "html"},
    {"take": "inner_html", "list": True},
    {"type": "integer"},
    {"type": "number", "list": True},
    {"type": "boolean"},
    {"type": "date"},
    {"type": "json"},
    {"list": True, "fields": {"x": {}, "y": {"regex": "<.(.)", "list": True}}},
]
PARTS = st.sampled_from(
    [
        b"<a>",
        b"</a>",
        b"<b href='x'>",
        b"<a:b>",
        b"<base href=//[>",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"<?x",
        b"&#0;",
        b"&#xD800;",
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"<!DOCTYPE a [",
        b"<!ENTITY a 'b'>",
        b"&a;",
        b"<template>",
        b"<svg>",
        b'{"a":',
        b"[1,",
        b"]",
        b"}",
        b'"\\ud800"',
        b"1e5",
        b"null",
        b"<table><p>",
        b"<meta charset=utf-16>",
    ]
)
BODIES = st.binary(max_size=200) | st.lists(PARTS | st.binary(max_size=5), max_size=30).map(
    b"".join
)


@st.composite
def rules(draw):
    source = draw(st.sampled_from(sorted(SELECTORS)))
    field = draw(st.sampled_from(SELECTORS[source])) | draw(st.sampled_from(SHAPES))
    raw = {"source": source, "fields": {"it": field}}
    if draw(st.booleans()):
        items = {
            k: v
            for k, v in draw(st.sampled_from(SELECTORS[source])).items()
            if k in {"css", "xpath", "json", "regex"}
        }
        raw = {
            "source": source,
            "items": items or {"regex": "."},
            "fields": {"it": {"regex": "."}, "me": {}},
        }
    return msgspec.convert(raw, Rule)


EXTRACTOR = RuleExtractor()


@given(rules(), BODIES, st.sampled_from(["", "text/html; charset=utf-8", "text/xml;charset=gbk"]))
def test_extraction_gives_storable_records_or_an_extract_error(rule, body, content_type):
    page = Page(
        url="https://a.example/", status=200, headers={"content-type": content_type}, body=body
    )
    try:
        records = EXTRACTOR.extract(rule, page)
    except ExtractError as error:
        assert error.field  # noqa: PT017  records are a fine answer too
    else:
        assert [set(record) for record in records] == [set(rule.fields)] * len(records)
        msgspec.json.encode(records)


@given(rules(), rules())
def test_versions_differ_exactly_where_rules_do(one, other):
    described = msgspec.structs.replace(one, description="the same")

    assert (one.version == other.version) == (one == other)
    assert described.version == one.version


@given(
    st.dictionaries(
        st.sampled_from(["css", "xpath", "json", "regex"]), st.text(min_size=1, max_size=30)
    )
)
def test_any_expression_is_compiled_or_refused_by_name(expressions):
    for source in ("html", "xml", "json"):
        rule = Rule(source=source, fields={"it": Field(**expressions)})
        for problem in check_rule(rule):
            assert problem.field.startswith("fields.it")


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_order_of_fields_is_no_part_of_the_version(order):
    rule = Rule(fields={name: Field(css=name) for name in order})

    assert rule.version == Rule(fields={"a": Field(css="a"), "b": Field(css="b")}).version
