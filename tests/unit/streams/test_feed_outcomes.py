"""What follows from asking for a feed: when it is due, where it is, what is new of it."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.kit.feeds import About, Bounds, Download, Entry, Feed, Hub, Lease, outcomes
from tests.kit.kernel import (
    ConnectFailedError,
    ExtractError,
    NoReaderError,
    PageGoneError,
    RobotsDeniedError,
    StoreUnavailableError,
    ThrottledError,
)

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
URL = "https://example.org/feed"
FEED = Feed(url=URL, next_at=NOW)
BOUNDS = Bounds()
SECOND = timedelta(seconds=1)


def answered(body=b"<rss/>", moved="", **headers):
    headers = {"etag": '"1"'} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Download(url=moved or URL, headers=headers, body=body, moved=moved)


def entries(*numbers, published_at=NOW):
    return [Entry(id=f"urn:{n}", title=f"T{n}", published_at=published_at) for n in numbers]


def read(feed, *numbers, at=NOW, about=None, download=None, **fields):
    return outcomes.read(
        feed, download or answered(), None, about or About(), entries(*numbers, **fields), at
    )


def waits(feed, at=NOW):
    return (feed.next_at - at).total_seconds()


def test_of_a_first_reading_only_fresh_entries_are_items_and_later_all_new_ones():
    old = NOW - timedelta(hours=3)

    first = read(FEED, 1, 2, published_at=old)
    assert first.items == ()
    second = read(first.feed, 1, 2, 3, published_at=old)
    assert [item.title for item in second.items] == ["T3"]
    assert second.items[0].channel == URL


def test_a_feed_is_due_by_its_rate_and_by_what_it_asks_for():
    quiet = read(FEED)
    assert BOUNDS.idle <= waits(quiet.feed) <= BOUNDS.idle * 1.1

    busy = outcomes.read(FEED, answered(), None, About(), entries(*range(4_000)), NOW).feed
    assert BOUNDS.least <= waits(busy) <= BOUNDS.least * 1.1

    for asks in (
        {"about": About(ttl_seconds=30_000.0)},
        {"download": answered(cache_control="max-age=30000")},
    ):
        assert 30_000 <= waits(read(FEED, **asks).feed) <= 33_000


def test_what_does_not_change_grows_rarer():
    feed = read(FEED, 1, 2, 3, 4, 5, 6, 7, 8, 9).feed
    before = feed.rate

    later = NOW + timedelta(days=1)
    same = outcomes.unchanged(feed, answered(None), None, later)

    assert same.items == ()
    assert 0 < same.feed.rate < before
    assert same.feed.answers == 2
    assert same.feed.read_at == later


def test_a_permanent_redirect_counts_once_a_feed_was_there():
    moved = answered(moved="https://new.example/feed")

    feed = read(FEED, 1, download=moved).feed

    assert (feed.url, feed.place) == (URL, "https://new.example/feed")
    assert outcomes.failed(FEED, ExtractError("page", "is no feed"), NOW).feed.place == ""


def test_where_a_moved_feed_fails_its_own_url_is_asked_again():
    moved = replace(FEED, place="https://new.example/feed")

    for error in (PageGoneError("gone", status=410), ConnectFailedError("refused")):
        found = outcomes.failed(moved, error, NOW).feed
        assert (found.place, found.gone, found.next_at) == ("", False, NOW + outcomes.PUT_OFF)


def test_failures_make_a_feed_rarer_and_an_answer_forgets_them():
    feed, last = replace(FEED, rate=1.0), 0.0
    for count in range(1, 6):
        feed = outcomes.failed(feed, RobotsDeniedError("not for us"), NOW).feed
        assert feed.failures == count
        assert waits(feed) > last
        last = waits(feed)
    assert feed.trouble == "RobotsDenied: not for us"

    found = read(feed, 1).feed

    assert (found.failures, found.trouble) == (0, "")


def test_a_site_is_left_alone_for_as_long_as_it_says():
    busy = ThrottledError("answered 429", status=429, retry_after_seconds=200_000.0)

    feed = outcomes.failed(FEED, busy, NOW).feed

    assert feed.failures == 1
    assert waits(feed) >= 200_000


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ThrottledError("no slot", status=0, retry_after_seconds=7.0), 7),
        (StoreUnavailableError("redis", "away"), 60),
        (NoReaderError("the worker ends", again_seconds=9.0), 9),
    ],
)
def test_what_is_no_fault_of_the_feed_only_puts_it_off(error, seconds):
    feed = outcomes.failed(replace(FEED, place="https://new.example/"), error, NOW).feed

    assert (feed.failures, feed.place) == (0, "https://new.example/")
    assert waits(feed) == seconds


def test_a_feed_that_is_gone_is_asked_for_once_a_month():
    gone = outcomes.failed(FEED, PageGoneError("answered 410", status=410), NOW).feed

    assert (gone.gone, gone.next_at) == (True, NOW + outcomes.GONE)
    assert not outcomes.failed(FEED, PageGoneError("answered 404", status=404), NOW).feed.gone
    assert not read(gone, 1).feed.gone


def test_a_hub_that_pushes_makes_polling_rare_until_it_misses_an_item():
    lease = Lease(
        hub=Hub(url="https://hub.example/", topic=URL),
        secret="s" * 40,
        asked_at=NOW,
        until=NOW + timedelta(days=10),
        trusted=True,
    )
    alone = read(FEED, *range(100)).feed
    pushed = replace(alone, hub=lease)

    same = outcomes.unchanged(pushed, answered(None), None, NOW + SECOND).feed
    assert waits(same) > waits(outcomes.unchanged(alone, answered(None), None, NOW + SECOND).feed)
    assert same.hub.trusted

    missed = read(pushed, 1_000, at=NOW + SECOND)
    assert len(missed.items) == 1
    assert not missed.feed.hub.trusted
