"""Channels of streams in the stage document: what is refused, and by which field."""

import json

import msgspec
import pytest

from tests.kit.config import Channel, read_document, unchecked

WIRE = {"kind": "ndjson_stream", "url": "https://stream.example/lines"}


def problems(**changes: object) -> list[str]:
    stage = {"streams": {"channels": {"wire": {**WIRE, **changes}}}}
    return [str(one) for one in read_document("stage", json.dumps(stage), unchecked).problems]


def quota(**changes: object) -> dict[str, object]:
    return {"unit": "items", "most": 5, "per": "day", **changes}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"quotas": [quota(unit="requests")]}, "quotas[0].unit: is requests, but streams have"),
        ({"quotas": [quota(), quota()]}, "quotas[1]: says items per day a second time"),
        (
            {"item_usd": 0.5, "quotas": [quota(unit="usd", most=0.25)]},
            "quotas[0].most: is less than one item costs",
        ),
        ({"item_usd": 0.00000000011}, "item_usd: has more than nine decimal places"),
        ({"item_usd": -1}, "item_usd"),
        ({"quotas": [quota(most=1.5)]}, "most: expected a whole number of items"),
        ({"quotas": [quota(unit="usd", most=10**12)]}, "US dollars (1000000000000)"),
        ({"quotas": [quota(unit="usd", most=0.00000000011)]}, "at most nine decimal places"),
    ],
)
def test_what_is_wrong_with_the_price_and_the_quotas_of_a_channel_is_named(changes, told):
    [found] = problems(**changes)

    assert told in found


def test_a_channel_may_have_a_price_and_quotas_of_items_and_money():
    money = quota(unit="usd", most=0.5, per="month")

    assert problems(item_usd=0.000000001, quotas=[quota(), quota(per="all"), money]) == []


@pytest.mark.parametrize(
    ("kind", "usd", "price"),
    [
        ("ndjson_stream", None, 0),
        ("ndjson_stream", 0.01, 10_000_000),
        ("x_stream", None, 5_000_000),
        ("x_stream", 0.0, 0),
    ],
)
def test_an_item_of_x_has_a_price_and_others_have_one_that_is_stated(kind, usd, price):
    assert msgspec.convert({**WIRE, "kind": kind, "item_usd": usd}, Channel).price == price
