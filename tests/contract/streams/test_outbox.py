"""The outbox on a real MongoDB: what is accepted is there once, whoever repeats it."""

from datetime import timedelta

import pytest

from tests.contract.streams.delivery_cases import (
    BEGIN,
    QUEUE,
    STREAM,
    Time,
    a_subscriber,
    addressed,
    an_item,
)
from tests.kit.streams import MongoAccepting, MongoLeasing, Reason, Withdrawn, item_key

TERM = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def accepting(mongo_connection):
    return MongoAccepting(mongo_connection)


@pytest.fixture
def leasing(mongo_connection):
    return MongoLeasing(mongo_connection)


def due_of(leasing, now=BEGIN):
    """Lease what is due and read it; the lease goes on."""
    lease = leasing.lease("d1", now, TERM)
    return lease, leasing.due(lease, now, 100)


def test_an_item_is_stored_once_with_a_delivery_for_each_subscriber(
    accepting, leasing, mongo_connection
):
    item = an_item()
    subscribers = [a_subscriber("press"), a_subscriber("brand")]

    assert accepting.accept([addressed(item, *subscribers)], BEGIN) == 2

    assert mongo_connection.control("stream_items").count_documents({}) == 1
    lease, deliveries = due_of(leasing)
    assert (lease.tenant, lease.target) == ("acme", STREAM)
    assert {one.subscription for one in deliveries} == {"press", "brand"}
    assert [one.item for one in deliveries] == [item, item]


def test_what_is_accepted_again_has_no_effect(accepting, leasing):
    batch = [addressed(an_item("1")), addressed(an_item("2"), a_subscriber(), a_subscriber("b"))]
    accepting.accept(batch, BEGIN)
    _, before = due_of(leasing)

    assert accepting.accept(batch, BEGIN + SECOND) == 0

    assert due_of(leasing, BEGIN + TERM)[1] == before


def test_a_delivered_item_that_is_accepted_again_is_not_delivered_again(accepting, leasing):
    accepting.accept([addressed(an_item())], BEGIN)
    lease, deliveries = due_of(leasing)
    leasing.settle(deliveries, BEGIN)
    leasing.rest(lease, BEGIN, slow=False)

    assert accepting.accept([addressed(an_item())], BEGIN + SECOND) == 0

    assert leasing.lease("d1", BEGIN + SECOND, TERM) is None


def test_another_subscriber_of_a_known_item_has_it_alone(accepting, leasing):
    accepting.accept([addressed(an_item())], BEGIN)
    lease, deliveries = due_of(leasing)
    leasing.settle(deliveries, BEGIN)
    leasing.rest(lease, BEGIN, slow=False)

    late = addressed(an_item(), a_subscriber("press"), a_subscriber("late"))
    assert accepting.accept([late], BEGIN) == 1

    assert [one.subscription for one in due_of(leasing)[1]] == ["late"]


def test_an_item_without_a_target_is_kept_and_pushed_nowhere(accepting, leasing, mongo_connection):
    accepting.accept([addressed(an_item(), a_subscriber(target=None))], BEGIN)

    assert mongo_connection.control("stream_deliveries").count_documents({}) == 1
    assert leasing.lease("d1", BEGIN, TERM) is None
    assert accepting.withdraw([Withdrawn(id="1", channel="news", at=BEGIN)], BEGIN) == 0


def test_items_that_nobody_wants_are_not_stored(accepting, leasing, mongo_connection):
    nobody = addressed(an_item())
    nobody = type(nobody)(item=nobody.item, subscribers=())

    assert accepting.accept([nobody], BEGIN) == 0

    assert mongo_connection.control("stream_items").count_documents({}) == 0


def test_an_item_of_many_subscribers_is_many_small_documents(accepting, leasing, mongo_connection):
    subscribers = [a_subscriber(f"s{number}") for number in range(2_500)]

    assert accepting.accept([addressed(an_item(), *subscribers)], BEGIN) == 2_500

    (largest,) = mongo_connection.control("stream_deliveries").aggregate(
        [{"$group": {"_id": None, "size": {"$max": {"$bsonSize": "$$ROOT"}}}}]
    )
    assert largest["size"] < 300


def test_an_accept_that_was_cut_off_is_finished_by_its_repeat(accepting, leasing, mongo_connection):
    batch = [addressed(an_item(), a_subscriber("a"), a_subscriber("b"))]
    accepting.accept(batch, BEGIN)
    mongo_connection.control("stream_deliveries").delete_one({"name": "b"})
    mongo_connection.control("stream_receivers").delete_many({})

    assert MongoAccepting(mongo_connection).accept(batch, BEGIN) == 1

    assert {one.subscription for one in due_of(leasing)[1]} == {"a", "b"}


def test_a_receiver_is_leased_by_one(accepting, leasing):
    accepting.accept([addressed(an_item())], BEGIN)
    first = leasing.lease("d1", BEGIN, TERM)

    assert leasing.lease("d2", BEGIN + SECOND, TERM) is None

    second = leasing.lease("d2", BEGIN + TERM, TERM)
    assert second.fence > first.fence


def test_who_was_followed_says_nothing_of_the_receiver_any_more(accepting, leasing):
    accepting.accept([addressed(an_item())], BEGIN)
    first = leasing.lease("d1", BEGIN, TERM)
    leasing.lease("d2", BEGIN + TERM, TERM)

    leasing.rest(first, BEGIN + TERM, slow=False)
    leasing.back_off(first, BEGIN, BEGIN, "away", slow=False)

    assert leasing.lease("d3", BEGIN + TERM, TERM) is None


def test_receivers_are_kept_apart_by_tenant_and_target(accepting, leasing):
    accepting.accept(
        [
            addressed(
                an_item(),
                a_subscriber("a"),
                a_subscriber("b", target=QUEUE),
                a_subscriber("c", tenant="other"),
            )
        ],
        BEGIN,
    )

    leased = [leasing.lease("d", BEGIN, TERM) for _ in range(4)]

    assert {(one.tenant, one.target) for one in leased[:3]} == {
        ("acme", STREAM),
        ("acme", QUEUE),
        ("other", STREAM),
    }
    assert leased[3] is None
    assert [len(leasing.due(one, BEGIN, 10)) for one in leased[:3]] == [1, 1, 1]


def test_an_idle_receiver_is_woken_by_what_is_accepted(accepting, leasing):
    accepting.accept([addressed(an_item("1"))], BEGIN)
    lease, deliveries = due_of(leasing)
    leasing.settle(deliveries, BEGIN)
    leasing.rest(lease, BEGIN, slow=False)
    assert leasing.lease("d1", BEGIN + TERM * 10, TERM) is None

    accepting.accept([addressed(an_item("2"))], BEGIN + TERM)

    assert [one.item.id for one in due_of(leasing, BEGIN + TERM)[1]] == ["2"]


def test_what_is_accepted_while_a_receiver_is_leased_is_found_when_the_lease_ends(
    accepting, leasing
):
    accepting.accept([addressed(an_item("1"))], BEGIN)
    lease, deliveries = due_of(leasing)
    accepting.accept([addressed(an_item("2"))], BEGIN)
    leasing.settle(deliveries, BEGIN)

    leasing.rest(lease, BEGIN, slow=False)

    assert [one.item.id for one in due_of(leasing, BEGIN)[1]] == ["2"]


def test_a_receiver_that_fails_is_not_woken_before_its_time(accepting, leasing):
    accepting.accept([addressed(an_item("1"))], BEGIN)
    lease, _ = due_of(leasing)
    leasing.back_off(lease, BEGIN + TERM, BEGIN, "connection refused", slow=False)

    accepting.accept([addressed(an_item("2"))], BEGIN + SECOND)

    assert leasing.lease("d1", BEGIN + SECOND, TERM) is None
    again = leasing.lease("d1", BEGIN + TERM, TERM)
    assert (again.failures, again.failing_since) == (1, BEGIN)
    assert len(leasing.due(again, BEGIN + TERM, 10)) == 2


def test_slow_receivers_are_left_to_others(accepting, leasing):
    accepting.accept([addressed(an_item())], BEGIN)
    lease, _ = due_of(leasing)
    leasing.back_off(lease, BEGIN, BEGIN, "timed out", slow=True)

    assert leasing.lease("d1", BEGIN, TERM, quick_only=True) is None
    assert leasing.lease("d1", BEGIN, TERM) is not None


def test_a_delivery_is_tried_again_at_its_time_alone(accepting, leasing):
    accepting.accept([addressed(an_item("1")), addressed(an_item("2"))], BEGIN)
    lease, (one, other) = due_of(leasing)
    leasing.settle([one], BEGIN)
    leasing.retry({other: BEGIN + SECOND})

    leasing.rest(lease, BEGIN, slow=False)

    assert leasing.lease("d1", BEGIN, TERM) is None
    _, (again,) = due_of(leasing, BEGIN + SECOND)
    assert (again.key, again.tries) == (other.key, 1)


def test_what_waits_for_too_long_is_given_up(accepting, leasing):
    accepting.accept([addressed(an_item("1"))], BEGIN)
    accepting.accept([addressed(an_item("2"))], BEGIN + TERM)
    lease, _ = due_of(leasing, BEGIN + TERM)

    assert leasing.bury_old(lease, BEGIN + TERM, "connection refused", BEGIN + TERM) == 1

    assert [one.item.id for one in leasing.due(lease, BEGIN + TERM, 10)] == ["2"]


def test_a_withdrawn_item_is_deleted_and_its_receivers_are_told(
    accepting, leasing, mongo_connection
):
    accepting.accept([addressed(an_item(text="secret"))], BEGIN)
    lease, deliveries = due_of(leasing)
    leasing.settle(deliveries, BEGIN)
    leasing.rest(lease, BEGIN, slow=False)
    withdrawn = Withdrawn(id="1", channel="news", at=BEGIN + SECOND)

    assert accepting.withdraw([withdrawn], BEGIN + TERM) == 1

    lease, (told,) = due_of(leasing, BEGIN + TERM)
    assert (told.item, told.withdrawn) == (None, withdrawn)
    assert told.id == f"{deliveries[0].id}-withdrawn"
    (left,) = mongo_connection.control("stream_items").find()
    assert "body" not in left
    leasing.settle([told], BEGIN + TERM)
    leasing.rest(lease, BEGIN + TERM, slow=False)
    assert accepting.withdraw([withdrawn], BEGIN + TERM) == 0
    assert leasing.lease("d1", BEGIN + TERM * 2, TERM) is None


def test_a_withdrawal_concerns_no_other_item(accepting, leasing, mongo_connection):
    accepting.accept([addressed(an_item(str(number))) for number in range(20)], BEGIN)

    assert accepting.withdraw([Withdrawn(id="7", channel="news", at=BEGIN)], BEGIN) == 1

    deliveries = due_of(leasing)[1]
    assert sum(one.item is not None for one in deliveries) == 19


def test_an_item_that_comes_after_its_withdrawal_is_not_stored(
    accepting, leasing, mongo_connection
):
    accepting.withdraw([Withdrawn(id="1", channel="news", at=BEGIN)], BEGIN)

    assert accepting.accept([addressed(an_item())], BEGIN) == 0

    (left,) = mongo_connection.control("stream_items").find()
    assert "body" not in left


def test_a_withdrawal_between_reading_and_settling_is_told(accepting, leasing):
    accepting.accept([addressed(an_item())], BEGIN)
    lease, pushed = due_of(leasing)
    withdrawn = Withdrawn(id="1", channel="news", at=BEGIN)
    accepting.withdraw([withdrawn], BEGIN)

    leasing.settle(pushed, BEGIN)
    leasing.bury({pushed[0]: (Reason.REFUSED, "no")}, BEGIN)

    assert [one.withdrawn for one in leasing.due(lease, BEGIN, 10)] == [withdrawn]


def test_what_a_channel_goes_on_repeating_stays_known(accepting, mongo_connection):
    accepting.accept([addressed(an_item())], BEGIN)

    accepting.accept([addressed(an_item())], BEGIN + timedelta(days=8))

    for name in ("stream_items", "stream_deliveries"):
        (found,) = mongo_connection.control(name).find()
        assert found["expires_at"] == BEGIN + timedelta(days=22)


def test_an_item_that_is_too_long_is_kept_without_its_fields(accepting, leasing):
    long = an_item(text="\ud800 rain", fields={"raw": "x" * 300_000})

    accepting.accept([addressed(long)], BEGIN)

    _, (delivery,) = due_of(leasing)
    assert delivery.item.fields == {"cut": True}
    assert delivery.item.seen.text == "? rain"


def test_ids_of_two_channels_are_two_items():
    assert item_key("a", "1") != item_key("b", "1")


def test_an_item_of_two_channels_is_delivered_to_a_subscription_once(accepting, leasing):
    first, second = (an_item(channel=channel, same="urn:7") for channel in ("a", "b"))
    both, other = a_subscriber("both"), a_subscriber("other")

    assert accepting.accept([addressed(first, both)], BEGIN) == 1
    assert accepting.accept([addressed(second, both, other)], BEGIN) == 1
    assert accepting.accept([addressed(first, both), addressed(second, both, other)], BEGIN) == 0

    _, deliveries = due_of(leasing)
    assert {(one.subscription, one.item.channel) for one in deliveries} == {
        ("both", "a"),
        ("other", "b"),
    }


def test_items_of_two_channels_at_once_are_delivered_once(accepting, leasing):
    items = [an_item(channel=channel, same="urn:7") for channel in ("a", "b")]

    assert accepting.accept([addressed(one) for one in items], BEGIN) == 1

    _, (delivery,) = due_of(leasing)
    assert delivery.item in items


def test_what_is_the_same_is_each_biz_s_own(accepting, leasing):
    item = an_item(same="urn:7")
    mine, theirs = a_subscriber(), a_subscriber(biz="sport")

    assert accepting.accept([addressed(item, mine, theirs)], BEGIN) == 2
