"""The one form in which every store takes a record's fields."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from uuid import UUID

import bson
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import InvalidRequestError
from tests.kit.records import DEEPEST, LARGEST_BYTES, VALUE_BYTES, normalised


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Clever(str):
    """A text that knows its document, as parsers have them."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("plain", "plain"),
        ("a\0b", "a\0b"),
        ("\ud800", "\ufffd"),
        ("a\udfffb", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**63, "9223372036854775808"),
        (-(2**63) - 1, "-9223372036854775809"),
        (math.nan, None),
        (-math.inf, None),
        (-0.0, -0.0),
        (True, True),
        (("a", ("b",)), ["a", ["b"]]),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "None": "b", "False": "c"}),
        (
            {"a\0b": 1, "\ud800": 2, "$set": {"a.b": 3}, "": 4},
            {"a\ufffdb": 1, "\ufffd": 2, "$set": {"a.b": 3}, "": 4},
        ),
        (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00+00:00"),
        (date(2026, 3, 1), "2026-03-01"),
        (Decimal("9.90"), "9.90"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Number.ONE, 1),
        (Clever("said"), "said"),
    ],
)
def test_each_kind_of_value_has_one_form(value, stored):
    (found,) = normalised({"f": value}).values()

    assert found == stored
    assert type(found) is type(stored)


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"a": {"b": [1, {2, 3}]}}, "a.b[1]", "is a set, which no record can hold"),
        ({"a": b"bytes"}, "a", "is a bytes"),
        ({"a": 2**20_000}, "a", "thousands of digits"),
        ({"a": nested(DEEPEST)}, "a" + "[0]" * (DEEPEST - 1), "nested more than 64 levels"),
        ({"a": "x" * LARGEST_BYTES}, "a", "larger than 4,000,000 bytes"),
        ({"a": "é" * (LARGEST_BYTES // 2)}, "a", "larger than"),
        ({"a": ["x" * (LARGEST_BYTES - 200) + "\ud800" * 100]}, "a[0]", "larger than"),
        ({"a": [None] * (LARGEST_BYTES // VALUE_BYTES)}, "a[199998]", "larger than"),
        ({"é" * 2_000_000: 1}, "é" * 64, "larger than"),
        ({"n" * 5_000: set()}, "n" * 64, "is a set"),
    ],
    ids=["set", "bytes", "number", "depth", "text", "wide", "mended", "many", "name", "long name"],
)
def test_what_no_store_takes_is_refused_by_its_field(fields, field, words):
    with pytest.raises(InvalidRequestError) as refused:
        normalised(fields)

    (problem,) = refused.value.problems
    assert problem.field == field
    assert words in problem.message


def test_what_is_just_within_the_bounds_is_taken():
    assert normalised({"a": nested(DEEPEST - 1)})
    assert normalised({"a": "x" * (LARGEST_BYTES - VALUE_BYTES - 1)})


def test_a_value_that_holds_itself_is_refused():
    value = []
    value.append(value)

    with pytest.raises(InvalidRequestError, match="nested more than"):
        normalised({"a": value})


texts = st.text(st.characters(codec=None, categories=None), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.decimals() | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(texts | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(texts, values, max_size=5))
def test_whatever_comes_out_mongodb_and_json_hold_as_it_is(fields):
    found = normalised(fields)

    assert bson.decode(bson.encode({"fields": found}))["fields"] == found
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert len(bson.encode({"fields": found})) < 16_000_000


@given(st.dictionaries(texts, values, max_size=5))
def test_normalising_twice_changes_nothing(fields):
    found = normalised(fields)

    assert normalised(found) == found


@given(st.lists(st.integers(0, 9) | st.text("ab\0", max_size=3), max_size=200))
def test_a_record_takes_no_more_in_mongodb_than_is_counted_for_it(several):
    found = normalised({"a": several})

    counted = VALUE_BYTES * (1 + len(several)) + sum(
        len(value) for value in several if isinstance(value, str)
    )
    assert len(bson.encode({"a": found["a"]})) <= counted + len("a") + 20
