"""Conditional requests of feeds: validators as servers mean them, and as they get them wrong."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.kit.feeds import Download, Feed, condition, digest, is_unchanged, kept
from tests.kit.requests import Validators

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
URL = "https://example.org/feed"
DATE = "Mon, 23 Nov 2026 10:00:00 GMT"
ETAG = '"5d-gzip"'
FEED = Feed(url=URL, next_at=NOW)


def answered(body=b"<rss/>", url=URL, etag=ETAG, date=DATE):
    said = {"etag": etag, "last-modified": date}
    return Download(url=url, headers={k: v for k, v in said.items() if v}, body=body)


@pytest.fixture
def read():
    return kept(FEED, answered(), NOW, sent=None)


def test_a_feed_is_first_asked_for_without_a_condition():
    assert condition(FEED, URL, NOW) is None


def test_both_validators_are_sent_as_they_came(read):
    assert condition(read, URL, LATER) == Validators(etag=ETAG, last_modified=DATE)


def test_validators_are_not_sent_to_another_place(read):
    assert condition(read, "https://other.example/feed", LATER) is None


def test_a_body_replaces_both_validators(read):
    again = kept(read, answered(b"<rss>2</rss>", etag='"6"', date=""), LATER, sent=None)

    assert condition(again, URL, LATER) == Validators(etag='"6"')
    assert again.digest == digest(b"<rss>2</rss>")


def test_a_304_keeps_what_it_does_not_repeat(read):
    again = kept(read, answered(None, etag='"6"', date=""), LATER, sent=None)

    assert condition(again, URL, LATER) == Validators(etag='"6"', last_modified=DATE)
    assert (again.digest, again.full_at) == (read.digest, NOW)


def test_an_etag_that_does_not_match_itself_gives_way_to_the_date(read):
    sent = condition(read, URL, LATER)

    again = kept(read, answered(), LATER, sent=sent)

    assert is_unchanged(read, answered())
    assert condition(again, URL, LATER) == Validators(last_modified=DATE)
    # Only so is a 304 got; it repeats the ETag, which is as vain as before.
    once_more = kept(again, answered(None), LATER, sent=condition(again, URL, LATER))
    assert condition(once_more, URL, LATER) == Validators(last_modified=DATE)


@pytest.mark.parametrize(
    "answer",
    [answered(b"<rss>new</rss>"), answered(etag='"6"'), answered(date="")],
    ids=["another body", "another etag", "no date"],
)
def test_an_etag_stands_where_it_may_be_right(read, answer):
    again = kept(read, answer, LATER, sent=condition(read, URL, LATER))

    assert not again.in_vain
    assert condition(again, URL, LATER).etag is not None


def test_a_vain_etag_is_forgotten_with_the_date(read):
    vain = replace(read, in_vain=True)

    assert not kept(vain, answered(b"<rss>2</rss>", date=""), LATER, sent=None).in_vain


def test_a_body_is_asked_for_once_a_day_though_304_comes(read):
    day = NOW + timedelta(days=1)
    same = kept(read, answered(None), day - timedelta(seconds=1), sent=condition(read, URL, NOW))

    assert condition(same, URL, day - timedelta(seconds=1)) is not None
    assert condition(same, URL, day) is None


def test_a_feed_without_validators_has_no_condition():
    bare = kept(FEED, answered(etag="", date=""), NOW, sent=None)

    assert condition(bare, URL, LATER) is None
    assert is_unchanged(bare, answered(etag="", date=""))
    assert not is_unchanged(bare, answered(b"other"))
