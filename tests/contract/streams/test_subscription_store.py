"""Subscriptions on a real MongoDB: what is kept, refused, counted, and told to readers."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pymongo
import pytest
from msgspec.structs import replace

from tests.kit.kernel import ConflictError, NotFoundError, QuotaExceededError
from tests.kit.mongo import MAJORITY
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.subscriptions import (
    ENDED_FOR_EACH,
    TOMBSTONE,
    Active,
    Content,
    Day,
    Deliver,
    Hours,
    MongoSubscriptions,
    Seen,
    StreamKind,
    Subscription,
    after,
)

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def store(mongo_connection: NodesOnOneServer) -> MongoSubscriptions:
    return MongoSubscriptions(mongo_connection)


def wanted(text: str = "climate", **changes: Any) -> Content:
    content = Content(kind=StreamKind.RSS, filter=text, feeds=("https://a.example/feed",))
    return replace(content, **changes)


def put(store: MongoSubscriptions, name: str, text: str = "climate", **more: Any) -> Subscription:
    return store.put("acme", "news", name, wanted(text), NOON, **{"most": 100, **more})[0]


def all_known(
    store: MongoSubscriptions, seen: Seen | None = None, known: dict | None = None, limit: int = 3
) -> tuple[dict[str, Subscription], Seen]:
    """What a reader knows once there is no more."""
    known = dict(known or {})
    while True:
        changes = store.changed_since(seen, limit)
        known, seen = after(known, changes), changes.seen
        if not changes.more:
            return known, seen


def test_every_field_of_a_subscription_is_kept(store: MongoSubscriptions) -> None:
    content = wanted(
        'klima ("grüner  Deal" OR #cop31) -sport',
        user="desk@reuters",
        deliver=Deliver(sqs="arn:aws:sqs:eu-west-1:1:q"),
        active=Active(hours=(Hours(days=(Day.MON,), begins="22:00"),), time_zone="Asia/Tokyo"),
    )

    made, is_new = store.put(
        "acme", "news", "climate", content, NOON + timedelta(microseconds=7), most=100
    )

    assert is_new
    assert made.content == content
    assert (made.created_at, made.changed_at) == (NOON, NOON)
    assert store.get("acme", "news", "climate") == made


def test_a_subscription_that_is_put_again_stays_as_it_is(store: MongoSubscriptions) -> None:
    first = put(store, "climate")

    again, is_new = store.put(
        "acme", "news", "climate", wanted(), NOON + HOUR, expected="older", most=100
    )

    assert (again, is_new) == (first, False)


def test_a_change_keeps_when_it_was_made_and_has_a_greater_number(
    store: MongoSubscriptions,
) -> None:
    first = put(store, "climate")

    other, is_new = store.put("acme", "news", "climate", wanted("energy"), NOON + HOUR, most=100)

    assert is_new
    assert (other.created_at, other.changed_at) == (NOON, NOON + HOUR)
    assert other.number > first.number
    assert other.revision != first.revision


def test_a_change_for_another_revision_is_refused(store: MongoSubscriptions) -> None:
    first = put(store, "climate")
    second = put(store, "climate", "energy", expected=first.revision)

    with pytest.raises(ConflictError, match=second.revision):
        put(store, "climate", "water", expected=first.revision)
    with pytest.raises(ConflictError, match=second.revision):
        store.end("acme", "news", "climate", NOON, expected=first.revision)
    with pytest.raises(ConflictError, match="has ended meanwhile"):
        put(store, "other", expected=first.revision)

    assert store.get("acme", "news", "climate") == second
    assert store.get("acme", "news", "other") is None


def test_an_ended_subscription_is_there_no_more(store: MongoSubscriptions) -> None:
    stood = put(store, "climate")

    assert store.end("acme", "news", "climate", NOON) == stood
    assert store.get("acme", "news", "climate") is None
    assert store.of_biz("acme", "news", None, 10) == []
    assert store.count("acme") == 0
    with pytest.raises(NotFoundError):
        store.end("acme", "news", "climate", NOON)


def test_a_subscription_that_is_put_after_its_end_is_a_new_one(store: MongoSubscriptions) -> None:
    put(store, "climate")
    store.end("acme", "news", "climate", NOON)

    again, is_new = store.put("acme", "news", "climate", wanted(), NOON + HOUR, most=100)

    assert is_new
    assert again.created_at == NOON + HOUR


def test_lists_are_of_one_biz_by_name(store: MongoSubscriptions) -> None:
    for name in ("c", "a", "b"):
        put(store, name)
    for tenant, biz in (("acme", "sport"), ("other", "news")):
        store.put(tenant, biz, "d", wanted(), NOON, most=100)

    assert [one.name for one in store.of_biz("acme", "news", None, 2)] == ["a", "b"]
    assert [one.name for one in store.of_biz("acme", "news", "b", 2)] == ["c"]
    assert (store.count("acme"), store.count("other")) == (4, 1)


def test_nothing_of_a_tenant_is_another_ones(store: MongoSubscriptions) -> None:
    put(store, "climate")

    assert store.get("other", "news", "climate") is None
    with pytest.raises(NotFoundError):
        store.end("other", "news", "climate", NOON)
    assert store.of_biz("other", "news", None, 10) == []


def test_a_tenant_has_no_more_subscriptions_than_it_may(store: MongoSubscriptions) -> None:
    put(store, "a", most=2)
    store.put("acme", "sport", "b", wanted(), NOON, most=2)

    with pytest.raises(QuotaExceededError, match="has 2 subscriptions"):
        put(store, "c", most=2)
    put(store, "a", "energy", most=2)
    store.put("other", "news", "c", wanted(), NOON, most=2)
    store.end("acme", "news", "a", NOON)
    put(store, "c", most=2)

    assert store.count("acme") == 2


def test_a_tenant_ends_no_more_in_a_day_than_is_remembered(store: MongoSubscriptions) -> None:
    for number in range(ENDED_FOR_EACH):
        put(store, f"s{number}", most=1)
        store.end("acme", "news", f"s{number}", NOON)

    with pytest.raises(QuotaExceededError, match="within a day"):
        put(store, "further", most=1)
    assert put(store, "s0", most=1).name == "s0"


def test_of_those_that_put_at_once_no_more_come_in_than_may(store: MongoSubscriptions) -> None:
    gate = Barrier(6)

    def one(number: int) -> bool:
        gate.wait()
        try:
            put(store, f"s{number}", most=3)
        except QuotaExceededError:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        came_in = list(threads.map(one, range(6)))

    assert sum(came_in) == 3 == store.count("acme")


def test_of_those_that_change_one_revision_at_once_one_does(store: MongoSubscriptions) -> None:
    revision = put(store, "climate").revision
    gate = Barrier(4)

    def one(number: int) -> str | None:
        gate.wait()
        try:
            return put(store, "climate", f"term{number}", expected=revision).revision
        except ConflictError:
            return None

    with ThreadPoolExecutor(4) as threads:
        done = [one for one in threads.map(one, range(4)) if one]

    assert done == [store.get("acme", "news", "climate").revision]


def test_a_reader_begins_with_all_that_stands_and_goes_on_with_changes(
    store: MongoSubscriptions,
) -> None:
    for name in "abcdef":
        put(store, name)
    store.end("acme", "news", "c", NOON)

    first = store.changed_since(None, 3)
    known, seen = all_known(store)
    put(store, "a", "energy")
    store.end("acme", "news", "b", NOON)
    put(store, "g")
    changes = store.changed_since(seen)
    idle = store.changed_since(changes.seen)

    assert (first.afresh, first.more, len(first.standing)) == (True, True, 3)
    assert sorted(known) == [f"acme/news/{name}" for name in "abdef"]
    assert [one.name for one in changes.standing] == ["a", "g"]
    assert changes.ended == ("acme/news/b",)
    assert (changes.afresh, changes.more) == (False, False)
    assert (idle.standing, idle.ended, idle.seen) == ((), (), changes.seen)


def test_a_reader_of_a_store_without_anything_knows_nothing(store: MongoSubscriptions) -> None:
    known, seen = all_known(store)
    put(store, "a")

    known, _ = all_known(store, seen, known)

    assert list(known) == ["acme/news/a"]


def test_a_change_that_is_not_committed_yet_is_not_passed_over(
    store: MongoSubscriptions, mongo_connection: NodesOnOneServer, mongo_uri: str
) -> None:
    """A slow writer has its number, a quick one comes after it: the reader misses neither."""
    put(store, "a")
    _, seen = all_known(store)

    with (
        # Not by the product's name: however slow it is here, nobody takes it for left.
        pymongo.MongoClient(mongo_uri, tz_aware=True) as client,
        client.start_session() as slow,
        ThreadPoolExecutor(1) as threads,
    ):
        control = client[mongo_connection.control_name]
        numbers, subscriptions = control["subscription_numbers"], control["subscriptions"]
        slow.start_transaction(write_concern=MAJORITY)
        taken = numbers.find_one_and_update({}, {"$inc": {"number": 1}}, session=slow)["number"] + 1
        quick = threads.submit(put, store, "quick")
        meanwhile = store.changed_since(seen)
        document = subscriptions.find_one({"name": "a"}, session=slow)
        late = {**document, "_id": "acme/news/slow", "name": "slow", "number": taken}
        subscriptions.insert_one(late, session=slow)
        slow.commit_transaction()
        quick.result()

    assert meanwhile.standing == ()
    changes = store.changed_since(meanwhile.seen)
    assert [one.name for one in changes.standing] == ["slow", "quick"]


def test_a_reader_hears_of_an_end_for_a_day_and_begins_afresh_after_it(
    store: MongoSubscriptions,
) -> None:
    put(store, "a")
    put(store, "b")
    known, early = all_known(store)
    store.end("acme", "news", "a", NOON)
    in_time = store.changed_since(early)

    store.put("acme", "news", "c", wanted(), NOON + TOMBSTONE, most=100)
    late = store.changed_since(early)
    fine = store.changed_since(in_time.seen)

    assert in_time.ended == ("acme/news/a",)
    assert (late.afresh, late.ended) == (True, ())
    assert sorted(after(known, late)) == ["acme/news/b", "acme/news/c"]
    assert (fine.afresh, [one.name for one in fine.standing]) == (False, ["c"])


def test_a_reader_that_reads_all_in_parts_is_not_sent_back_by_older_ends(
    store: MongoSubscriptions,
) -> None:
    for name in "abc":
        put(store, name)
    store.end("acme", "news", "b", NOON)
    store.put("acme", "news", "d", wanted(), NOON + TOMBSTONE, most=100)

    first = store.changed_since(None, 1)
    second = store.changed_since(first.seen, 10)

    assert (first.afresh, second.afresh) == (True, False)
    known = after(after({}, first), second)
    assert sorted(known) == ["acme/news/a", "acme/news/c", "acme/news/d"]


def test_a_reader_begins_afresh_where_the_store_is_another_one(
    store: MongoSubscriptions, mongo_connection: NodesOnOneServer
) -> None:
    for name in "abc":
        put(store, name)
    known, seen = all_known(store)
    mongo_connection.empty_control()

    emptied = store.changed_since(seen)
    put(store, "d")
    again = store.changed_since(emptied.seen)

    assert (emptied.afresh, after(known, emptied)) == (True, {})
    assert (again.afresh, sorted(after({}, again))) == (True, ["acme/news/d"])


def test_a_reader_begins_afresh_where_the_store_was_put_back(
    store: MongoSubscriptions, mongo_connection: NodesOnOneServer
) -> None:
    put(store, "a")
    put(store, "b")
    known, seen = all_known(store)
    mongo_connection.control("subscriptions").delete_one({"name": "b"})
    mongo_connection.control("subscription_numbers").update_one({}, {"$inc": {"number": -1}})

    back = store.changed_since(seen)

    assert (back.afresh, sorted(after(known, back))) == (True, ["acme/news/a"])


def test_what_cannot_be_read_is_left_out_and_stops_nobody(
    store: MongoSubscriptions, mongo_connection: NodesOnOneServer
) -> None:
    for name in "abc":
        put(store, name)
    broken = {"$set": {"content": b'{"kind": "of tomorrow"}'}}
    mongo_connection.control("subscriptions").update_one({"name": "b"}, broken)

    known, _ = all_known(store, limit=1)

    assert sorted(known) == ["acme/news/a", "acme/news/c"]
    assert [one.name for one in store.of_biz("acme", "news", None, 9)] == ["a", "c"]
    assert put(store, "b").name == "b"
