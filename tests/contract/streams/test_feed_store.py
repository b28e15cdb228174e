"""Feeds on a real MongoDB: each is one reader's at a time, and what is kept of it is never lost."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from msgspec.structs import replace

from tests.kit.feeds import MOST, Feed, Hub, MongoFeeds, MongoHubs
from tests.kit.requests import Validators

#: The real time: what is kept is forgotten by the server's.
NOW = datetime.now(UTC).replace(microsecond=0)
UNTIL = NOW + timedelta(minutes=5)
LATER = NOW + timedelta(hours=1)
HUB = Hub(url="https://hub.example/", topic="t")


@pytest.fixture
def feeds(mongo_connection):
    return MongoFeeds(mongo_connection)


@pytest.fixture
def urls(tenant):
    return [f"https://{tenant}.example/{n}" for n in range(3)]


def taken(feeds, urls, token, now=NOW):
    found = feeds.take(urls, token, now, now + timedelta(minutes=5))
    return sorted(feed.url for feed in found.feeds), found.others


def test_a_feed_that_is_taken_is_nobody_elses_until_its_lease_ends(feeds, urls):
    assert taken(feeds, urls, "a") == (urls, {})
    assert taken(feeds, urls[:2], "b") == ([], dict.fromkeys(urls[:2], UNTIL))
    assert taken(feeds, urls, "c", UNTIL) == (urls, {})


def test_a_feed_is_due_when_it_was_kept_for(feeds, urls):
    taken(feeds, urls, "a")

    feeds.keep([Feed(url=url, next_at=LATER) for url in urls[:2]], "a")

    assert taken(feeds, urls, "b") == ([], {urls[0]: LATER, urls[1]: LATER, urls[2]: UNTIL})
    assert taken(feeds, urls, "c", LATER) == (urls, {})


def test_all_of_a_state_comes_back(feeds, urls):
    state = Feed(
        url=urls[0],
        next_at=NOW,
        place="https://new.example/",
        validators=Validators(etag='W/"1"', last_modified="Tue, 24 Nov 2026 10:00:00 GMT"),
        validated=urls[0],
        in_vain=True,
        digest="00ff",
        full_at=NOW,
        answers=7,
        rate=0.25,
        read_at=NOW,
        level=2,
        seen=b"\x00" * 120_000,
        failures=3,
        trouble="Throttled: answered 429",
        gone=True,
        offers=HUB,
        awaited=True,
    )
    feeds.take(urls[:1], "a", NOW, UNTIL)
    feeds.keep([state], "a")

    assert feeds.take(urls[:1], "b", NOW, UNTIL).feeds == (state,)
    assert feeds.known(urls) == {urls[0]: state}


def test_the_lease_at_a_hub_is_kept_apart_from_the_state(feeds, urls, mongo_connection):
    hubs = MongoHubs(mongo_connection)
    feeds.take(urls[:1], "a", NOW, UNTIL)
    callback, lease = hubs.ask(urls[0], HUB, NOW)
    feeds.keep([Feed(url=urls[0], next_at=NOW, hub=replace(lease, secret="other"))], "a")

    held = replace(lease, until=LATER, trusted=True)
    hubs.keep(callback, held)

    assert feeds.known(urls)[urls[0]].hub == held
    assert [one.hub for one in feeds.take(urls[:1], "b", NOW, UNTIL).feeds] == [held]
    assert hubs.ask(urls[0], HUB, NOW) is None
    hubs.distrust(urls)
    assert not feeds.known(urls)[urls[0]].hub.trusted
    hubs.keep(callback, replace(held, secret="of a hub before"))
    assert hubs.of(callback) == (urls[0], replace(held, trusted=False))


def test_who_has_lost_a_feed_keeps_nothing_of_it(feeds, urls):
    taken(feeds, urls[:1], "a")
    taken(feeds, urls[:1], "b", UNTIL)

    feeds.keep([Feed(url=urls[0], next_at=LATER, answers=1)], "a")
    feeds.release(urls[:1], "a")

    assert feeds.known(urls) == {}
    assert taken(feeds, urls[:1], "c", UNTIL)[0] == []
    feeds.keep([Feed(url=urls[0], next_at=LATER, answers=2)], "b")
    assert feeds.known(urls)[urls[0]].answers == 2


def test_a_feed_that_is_released_is_due_as_before(feeds, urls):
    taken(feeds, urls, "a")
    feeds.keep([Feed(url=urls[0], next_at=LATER, answers=1)], "a")
    taken(feeds, urls, "b", LATER)

    feeds.release(urls, "b")

    found = feeds.take(urls, "c", LATER, LATER + timedelta(minutes=5))
    assert sorted(feed.answers for feed in found.feeds) == [0, 0, 1]
    assert found.others == {}


def test_a_push_still_counts_where_its_feed_is_released_or_put_off(feeds, urls):
    taken(feeds, urls[:1], "a")
    feeds.keep([Feed(url=urls[0], next_at=LATER, answers=1)], "a")
    assert feeds.wake(urls[0], NOW)
    [pushed] = feeds.take(urls[:1], "b", NOW, UNTIL).feeds
    assert pushed.woken

    feeds.release(urls[:1], "b")

    assert feeds.waking(NOW) == (urls[0],)
    [again] = feeds.take(urls[:1], "c", NOW, UNTIL).feeds
    assert again.woken
    soon = NOW + timedelta(minutes=1)
    feeds.keep([replace(again, next_at=soon)], "c")
    assert feeds.waking(NOW) == ()
    [once_more] = feeds.take(urls[:1], "d", soon, UNTIL + timedelta(minutes=1)).feeds
    assert once_more.woken
    feeds.keep([replace(once_more, woken=False, next_at=LATER)], "d")
    assert feeds.waking(soon) == ()
    assert feeds.take(urls[:1], "e", soon, UNTIL).feeds == ()


def test_a_feed_that_no_push_woke_is_not_woken_by_its_release(feeds, urls):
    taken(feeds, urls[:1], "a")
    feeds.keep([Feed(url=urls[0], next_at=LATER, answers=1)], "a")
    taken(feeds, urls[:1], "b", LATER)

    feeds.release(urls[:1], "b")

    assert feeds.waking(LATER) == ()
    [found] = feeds.take(urls[:1], "c", LATER, LATER + timedelta(minutes=5)).feeds
    assert not found.woken


def test_of_many_who_take_at_once_each_feed_has_one(feeds, tenant):
    some = [f"https://{tenant}.example/{n}" for n in range(200)]
    all_at_once = Barrier(8)

    def take(number):
        all_at_once.wait()
        return taken(feeds, some, f"w{number}")[0]

    with ThreadPoolExecutor(8) as threads:
        found = [url for part in threads.map(take, range(8)) for url in part]

    assert sorted(found) == sorted(some)


def test_no_more_feeds_are_taken_than_one_call_may(feeds):
    with pytest.raises(ValueError, match="more than"):
        feeds.take([str(n) for n in range(MOST + 1)], "a", NOW, UNTIL)


def test_what_nobody_asks_for_is_forgotten(feeds, urls, mongo_connection):
    taken(feeds, urls, "a")
    feeds.keep([Feed(url=urls[0], next_at=LATER)], "a")

    kept = mongo_connection.control("stream_feeds")
    assert kept.index_information()["ttl"]["expireAfterSeconds"] == 0
    [one] = kept.find({"_id": urls[0]})
    assert one["forget"] == LATER + timedelta(days=30)
