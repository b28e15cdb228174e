"""Messages, batches and retries of delivery."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.streams import (
    Delivery,
    Item,
    StreamItem,
    Subscriber,
    Target,
    TargetKind,
    Withdrawn,
    delivery_key,
    item_key,
    messages,
    retries,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)
PRESS = Subscriber(
    tenant="acme", biz="news", name="press", target=Target(TargetKind.REDIS_STREAM, "items")
)


def a_delivery(item=None, **fields):
    return Delivery(
        key=delivery_key(item_key("x", "42"), PRESS),
        tenant="acme",
        biz="news",
        subscription="press",
        accepted_at=NOW,
        item=item,
        **fields,
    )


def an_item(text="rain", **fields):
    return StreamItem(id="42", channel="x", seen=Item(text=text), received_at=NOW, **fields)


def test_a_message_tells_the_item_and_whose_it_is():
    message = messages.message_of(a_delivery(an_item(url="https://x.test/42", fields={"n": 1})))

    body = json.loads(message.body)
    assert body["id"] == "5197b3c9a83a1a4e0892847197b0cd70a04b9992efcc45d25419cf21fab933d9"
    assert (body["kind"], body["biz"], body["subscription"]) == ("item", "news", "press")
    assert body["item"]["text"] == "rain"
    assert body["item"]["fields"] == {"n": 1}
    assert "withdrawn" not in body


def test_what_an_older_version_has_stored_is_told_as_it_was():
    """Fields are added to messages, never renamed or taken away; so are those of stored items."""
    kept = json.loads((Path(__file__).parents[2] / "kept" / "stream_messages.json").read_text())
    item = messages.read(json.dumps(kept["stored"]).encode())
    withdrawn = Withdrawn(id="42", channel="x", at=NOW)

    told = [
        json.loads(messages.message_of(one).body)
        for one in (a_delivery(item), a_delivery(withdrawn=withdrawn, is_withdrawal=True))
    ]

    for before, now in zip((kept["item"], kept["withdrawn"]), told, strict=True):
        assert {name: now[name] for name in before} == before


def test_a_withdrawal_has_an_id_of_its_own():
    withdrawn = Withdrawn(id="42", channel="x", at=NOW)

    body = json.loads(messages.message_of(a_delivery(withdrawn=withdrawn, is_withdrawal=True)).body)

    assert body["id"].endswith("d9-withdrawn")
    assert (body["kind"], body["withdrawn"]["id"]) == ("withdrawn", "42")
    assert "item" not in body


def test_where_an_item_is_gone_there_is_nothing_to_tell():
    assert messages.message_of(a_delivery()) is None


@given(
    st.lists(st.integers(1, 90), max_size=60),
    st.builds(messages.Limits, st.integers(1, 12), st.integers(1, 100), st.integers(0, 10)),
)
def test_batches_keep_the_order_and_the_limits(sizes, limits):
    given_ = [messages.Message(a_delivery(), b"x" * size) for size in sizes]

    cut = list(messages.batches(given_, limits))

    assert [message for batch in cut for message in batch] == given_
    for batch in cut:
        assert 1 <= len(batch) <= limits.most
        size = sum(len(one.body) + limits.overhead for one in batch)
        assert size <= limits.size or (len(batch) == 1 and messages.is_too_large(batch[0], limits))


@pytest.mark.parametrize("text", ["rain", "\ud800", "x" * 1_000_000, "\U0001f327" * 300_000])
def test_whatever_a_stranger_writes_is_stored_within_bounds(text):
    item = an_item(text, url=text, title=text, fields={"raw": text[:500_000]}, conversation="7")

    body = messages.stored(item)

    assert len(body) <= messages.MOST_ITEM_BYTES
    assert messages.read(body).conversation == "7"


@given(st.integers(1, 10_000), st.binary(max_size=8))
def test_waits_grow_to_five_minutes_and_no_further(failures, name):
    seconds = retries.back_off_seconds(failures, name)

    assert 0.75 <= seconds <= retries.LONGEST_SECONDS
    assert retries.back_off_seconds(failures, name) == seconds
    assert retries.back_off_seconds(failures + 3, name) >= min(seconds, 225)
    assert retries.again_at(failures, name, NOW) == NOW + timedelta(seconds=seconds)


def test_what_was_refused_often_or_waits_for_a_day_is_given_up():
    assert [retries.is_tried_out(tries) for tries in (0, 7, 8)] == [False, False, True]
    assert retries.given_up_before(NOW) == NOW - timedelta(days=1)
