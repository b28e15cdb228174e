"""The wire format of items in the data queue."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import InvalidRequestError
from tests.kit.records import item_of, wire_of
from tests.kit.requests import Item


def an_item(**facts):
    fields = {"sku": "A-1", "price": 9.5}
    return Item(**{"rule": "product", "url": "https://shop.example/1", "fields": fields, **facts})


@given(
    st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.floats(), max_size=4),
    st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=9),
)
def test_an_item_arrives_as_it_was_sent(fields, key):
    item = an_item(fields=fields, key=key)

    found = item_of(wire_of(item))

    assert (found.rule, found.url, found.key) == (item.rule, item.url, key)
    assert wire_of(found) == wire_of(item)


@pytest.mark.parametrize(
    "facts",
    [
        {"rule": "no rule"},
        {"rule": ""},
        {"url": "x" * 9_000},
        {"url": "\ud800"},
        {"key": ""},
        {"request": "1" * 50},
        {"fields": {"a": {1, 2}}},
    ],
    ids=lambda facts: f"{next(iter(facts))}-{str(next(iter(facts.values())))[:5]!r}",
)
def test_an_item_that_is_none_is_not_sent(facts):
    with pytest.raises(InvalidRequestError):
        wire_of(an_item(**facts))


def test_the_wire_is_plain_json():
    sent = msgspec.json.decode(wire_of(an_item(key="k", request="42")))

    assert sent == {
        "rule": "product",
        "url": "https://shop.example/1",
        "fields": {"sku": "A-1", "price": 9.5},
        "key": "k",
        "request": "42",
    }
