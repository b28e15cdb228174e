"""Items of feeds: what filters see of an entry, and what is stored of it."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.feeds import About, Entry, Level, is_fresh, item_id, items_of, reading_of
from tests.kit.kernel import ExtractError
from tests.kit.streams import parse

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
ABOUT = About(title="The News", language="en-US")
ENTRY = Entry(
    id="urn:1",
    link="https://example.org/1",
    title="A green deal",
    summary="It is signed.",
    content="It is signed. Brussels is pleased.",
    authors=("Ann", "Bob"),
    categories=("Climate Policy", "COP31", "***"),
    published_at=NOW - timedelta(minutes=3),
    updated_at=NOW,
    replies_to="urn:0",
)


def item_of(entry, about=ABOUT):
    [item] = items_of("https://example.org/feed", about, [("id1", entry)], NOW)
    return item


def test_filters_see_title_summary_content_author_language_and_categories():
    item = item_of(ENTRY)

    assert item.seen.text == "A green deal\nIt is signed.\n Brussels is pleased."
    for taken in (
        '"green deal" brussels',
        "#climatepolicy #cop31",
        "from:ann deal",
        "lang:en deal",
    ):
        assert parse(taken).takes(item.seen), taken
    assert not parse("from:bob deal").takes(item.seen)


def test_an_item_is_what_its_entry_says():
    item = item_of(ENTRY)

    assert (item.id, item.channel, item.url) == ("id1", "https://example.org/feed", ENTRY.link)
    assert (item.published_at, item.received_at) == (ENTRY.published_at, NOW)
    assert item.replies_to == item_id(Level.ID, "urn:0")
    assert item.fields["feed"] == "The News"
    assert item.fields["authors"] == ["Ann", "Bob"]
    assert item.fields["updated"] == NOW.isoformat()


def test_an_entry_that_says_little_is_an_item_with_little():
    item = item_of(Entry(title="Bare", link="tag:no-url", language="de"), About())

    assert (item.url, item.published_at, item.replies_to) == ("", None, "")
    assert (item.seen.language, item.fields) == ("de", {})


def test_what_is_dated_in_the_future_was_published_now():
    assert item_of(Entry(title="x", published_at=NOW + timedelta(days=9))).published_at == NOW


def test_of_a_first_reading_only_what_is_fresh_is_given():
    dates = [NOW, NOW - timedelta(minutes=59), NOW - timedelta(hours=2), None]

    assert [is_fresh(Entry(published_at=at), NOW) for at in dates] == [True, True, False, False]


def test_records_are_converted_to_the_feed_and_its_entries():
    records = [
        {"title": "T", "ttl_seconds": 60.0, "hubs": ["https://hub.example/"]},
        {"id": "1", "authors": ["a"], "published_at": "2026-11-24T10:00:00+01:00"},
    ]

    about, entries = reading_of(records)

    assert (about.title, about.ttl_seconds, about.hubs) == ("T", 60.0, ("https://hub.example/",))
    assert entries[0].published_at == datetime(2026, 11, 24, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "records", [[], [{}, {"id": 7}], [{"ttl_seconds": -1}], [{}, {"title": "x" * 100_001}]]
)
def test_records_that_are_none_of_a_feed_are_an_error(records):
    with pytest.raises(ExtractError, match="entries that are none"):
        reading_of(records)
