"""The data processor: what was read becomes records, or is told why it does not."""

from datetime import UTC, datetime

from tests.kit.config import Field, Rule, Spider
from tests.kit.records import LONGEST_REPORTED, MOST_REPORTED, SchemaValidator, key_of, prepare
from tests.kit.requests import Body, Claim, Entry, Request

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAIN = Rule(fields={"title": Field(css="h1")})
SCHEMA = {"required": ["sku"], "properties": {"price": {"type": ["number", "null"]}}}
STRICT = Spider(executor="detail", key=("sku",), schema=SCHEMA)


def a_claim():
    body = Body(url="https://shop.example/1", rule="product", rule_version="v7")
    request = Request(id=42, tenant="acme", biz="shop", queued_at=NOW, body=body)
    return Claim(request=request, entry=Entry(42, "shop", 1), token="t", attempt=1)


def ready(source, fields, first_index=0):
    return prepare(
        SchemaValidator(), source, a_claim(), "https://shop.example/end", fields, NOW, first_index
    )


def test_what_was_read_becomes_records_of_the_request():
    found = ready(PLAIN, iter([{"title": "a"}, {"title": float("nan")}]))

    assert [(r.index, r.fields, r.key) for r in found.records] == [
        (0, {"title": "a"}, None),
        (1, {"title": None}, None),
    ]
    first = found.records[0]
    assert (first.request_id, first.biz, first.url) == (42, "shop", "https://shop.example/end")
    assert (first.rule, first.rule_version, first.stored_at) == ("product", "v7", NOW)
    assert (found.rejected, found.rejected_count, found.next_index) == ((), 0, 2)


def test_key_fields_make_the_key():
    (record,) = ready(STRICT, [{"sku": "A-1"}]).records

    assert record.key == key_of("acme", "shop", "product", ("sku",), {"sku": "A-1"})


def test_what_is_rejected_names_record_and_field_and_leaves_no_gap():
    found = ready(
        STRICT,
        [
            {"sku": "A"},
            {"price": 1},
            {"sku": "B", "price": "cheap"},
            {"sku": ""},
            {"sku": "C", "html": b"bytes"},
            {"sku": "D"},
        ],
    )

    assert [(r.index, r.fields["sku"]) for r in found.records] == [(0, "A"), (1, "D")]
    assert found.rejected == (
        "record 1, sku: is missing",
        'record 2, price: is not of types "null", "number"',
        "record 3, sku: is missing, and is part of the record's key",
        "record 4, html: is a bytes, which no record can hold",
    )
    assert (found.rejected_count, found.next_index) == (4, 2)


def test_of_several_problems_the_first_is_reported_with_how_many_there_are():
    schema = {"required": ["a", "b", "c"]}

    (reported,) = ready(Rule(schema=schema, fields=PLAIN.fields), [{}]).rejected

    assert reported == "record 0, a: is missing (and 2 more)"


def test_what_is_reported_is_bounded_and_what_is_counted_is_not():
    wrong = [{"sku": "A", "price": "x"}] * 1_000 + [{"sku": "A", "x" * 9_000: object()}]

    found = ready(STRICT, reversed(wrong))

    assert (len(found.rejected), found.rejected_count) == (MOST_REPORTED, 1_001)
    assert max(map(len, found.rejected)) <= LONGEST_REPORTED


def test_a_later_part_goes_on_where_the_one_before_ended():
    first = ready(PLAIN, [{"title": "a"}, {"title": b""}, {"title": "b"}])
    second = ready(PLAIN, [{"title": "c"}, {"title": b""}], first.next_index)

    assert [r.index for r in (*first.records, *second.records)] == [0, 1, 2]
    assert second.rejected[0].startswith("record 3, title: ")
    assert second.next_index == 3


def test_the_fields_given_are_not_changed():
    given = {"title": ("a", {"b": 2**70})}

    ready(PLAIN, [given])

    assert given == {"title": ("a", {"b": 2**70})}
