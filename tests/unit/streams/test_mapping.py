"""Objects of a stream as items."""

import json
from datetime import UTC, datetime

import pytest

from tests.kit.config import ItemFields
from tests.kit.streams import read_line

NOW = datetime(2026, 11, 24, tzinfo=UTC)


def read(said, **fields):
    line = said if isinstance(said, bytes) else json.dumps(said).encode()
    return read_line(line, "wire", ItemFields(**fields), NOW)


def test_values_are_taken_from_where_the_channel_says_they_are():
    said = {
        "data": {"id": 12, "body": "Storm ahead", "tags": [{"tag": "cop31"}, {"tag": "rain"}]},
        "user": {"name": "Reuters"},
        "in_reply_to": "11",
        "thread": "9",
        "quoted": {"id": 3},
    }
    item = read(
        said,
        id="data.id",
        text="data.body",
        author="user.name",
        hashtags="data.tags.tag",
        replies_to="in_reply_to",
        conversation="thread",
        quotes="quoted.id",
    ).item

    assert (item.id, item.seen.text, item.seen.author) == ("12", "Storm ahead", "Reuters")
    assert item.seen.hashtags == ("cop31", "rain")
    assert (item.replies_to, item.conversation, item.quotes) == ("11", "9", "3")
    assert (item.channel, item.received_at, item.fields) == ("wire", NOW, said)


def test_filters_see_the_title_and_the_text():
    item = read({"id": "a", "title": "Storm", "text": "It rains."}).item

    assert (item.title, item.seen.text) == ("Storm", "Storm\nIt rains.")


def test_what_is_too_long_or_of_another_kind_is_left_out():
    item = read(
        {
            "id": "a",
            "author": {"name": "x"},
            "language": "e" * 300,
            "hashtags": ["a", 5, None, True, ["b"], "h" * 300],
            "mentions": [f"m{number}" for number in range(300)],
            "url": "javascript:alert(1)",
            "title": "t" * 5_000,
            "quotes": 1.5,
        }
    ).item

    assert (item.seen.author, item.seen.language, item.url, item.quotes) == ("", "", "", "")
    assert item.seen.hashtags == ("a", "5")
    assert (len(item.seen.mentions), len(item.title)) == (100, 1_000)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"{", "not_json"),
        (b"\xff", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b"7", "no_object"),
        (b"{}", "no_id"),
        ({"id": ""}, "no_id"),
        ({"id": "x" * 300}, "no_id"),
        ({"id": "a\0b"}, "no_id"),
        (b'{"id": 1, "a": ' + b"[" * 70 + b"]" * 70 + b"}", "unfit"),
    ],
)
def test_a_line_that_is_no_item_is_dropped_with_a_reason(said, reason):
    found = read(said)

    assert (found.dropped, found.item, found.withdrawn) == (reason, None, None)


def test_behind_an_object_that_is_dropped_the_stream_goes_on():
    assert read({"at": 5, "deep": json.loads("[" * 70 + "]" * 70)}, cursor="at").cursor == "5"


def test_an_object_may_say_only_how_far_the_stream_has_come():
    found = read({"at": "c1"}, cursor="at")

    assert (found.cursor, found.dropped, found.item) == ("c1", "", None)


def test_an_item_can_be_taken_back():
    found = read({"gone": 7}, withdrawn="gone")

    assert (found.withdrawn.id, found.withdrawn.at, found.item) == ("7", NOW, None)


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-24T00:00:00Z",
        "2026-11-24",
        "Tue, 24 Nov 2026 00:00:00 GMT",
        1795478400,
        1795478400e3,
    ],
)
def test_times_are_read_as_streams_write_them(said):
    assert read({"id": 1, "published_at": said}).item.published_at == NOW


@pytest.mark.parametrize(
    "said", ["soon", "9" * 70, True, 1e300, [], {}, None, "0001-01-01T00:00+14:00"]
)
def test_what_is_no_time_is_none(said):
    assert read({"id": 1, "published_at": said}).item.published_at is None
