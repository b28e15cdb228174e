"""Record keys, which identify a record over all pages."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.records import key_of, key_of_content, key_of_text, normalised

FIELDS = ("sku", "size")
RECORD = {"sku": "A-1", "size": 9, "price": 5.0}


def key(record=RECORD, fields=FIELDS, tenant="acme", biz="shop", rule="detail"):
    return key_of(tenant, biz, rule, fields, record)


def test_a_key_is_forty_hex_digits_and_never_changes():
    assert key() == "e163a4b7dafc7257cd4e412f7e37f4d585156252"


def test_other_fields_have_no_part_in_it():
    assert key({**RECORD, "price": 6.0, "more": 1}) == key()


@pytest.mark.parametrize(
    "other",
    [
        {"record": {**RECORD, "sku": "A-2"}},
        {"record": {"sku": 9, "size": "A-1"}},
        {"record": {**RECORD, "size": "9"}},
        {"record": {**RECORD, "size": True}},
        {"fields": ("sku",)},
        {"tenant": "acmes"},
        {"biz": "hop"},
        {"rule": "list"},
    ],
)
def test_whatever_has_a_part_in_it_makes_another_key(other):
    assert key(**other) != key()


@pytest.mark.parametrize("value", [None, "", [], {}], ids=repr)
def test_there_is_no_key_where_a_key_field_is_missing(value):
    assert key({**RECORD, "sku": value}) is None
    assert key({"size": 9}) is None


@pytest.mark.parametrize("value", [0, False, 0.0, "0", [None]], ids=repr)
def test_a_value_that_is_there_is_not_missing(value):
    assert key({**RECORD, "sku": value}) is not None


def test_the_kinds_of_keys_do_not_meet():
    found = {
        key_of("t", "b", "r", ("a",), {"a": {"text": "x"}}),
        key_of_text("t", "b", "r", "x"),
        key_of_content("t", "b", "r", "x", {}),
        key_of_content("t", "b", "r", "", {"x": "x"}),
    }

    assert len(found) == 4


records = st.dictionaries(
    st.text(max_size=3), st.text(max_size=3) | st.integers() | st.floats(), max_size=5
)


@given(records, st.randoms())
def test_the_order_of_fields_has_no_part_in_the_key_of_a_content(record, random):
    names = list(record)
    random.shuffle(names)
    other = {name: record[name] for name in names}

    assert key_of_content("t", "b", "r", "u", normalised(record)) == key_of_content(
        "t", "b", "r", "u", normalised(other)
    )


@given(records, records)
def test_different_contents_have_different_keys(one, other):
    one, other = normalised(one), normalised(other)
    same = key_of_content("t", "b", "r", "u", one) == key_of_content("t", "b", "r", "u", other)

    assert same == (repr(sorted(one.items())) == repr(sorted(other.items())))


@given(st.text(max_size=5), st.text(max_size=5))
def test_a_key_is_hex_whatever_it_is_of(rule, text):
    assert re.fullmatch("[0-9a-f]{40}", key_of_text("t", "b", rule, text))
