"""Dead letters of deliveries, and conversations, on a real MongoDB: each biz sees its own."""

from datetime import timedelta

import pytest

from tests.contract.streams.delivery_cases import (
    BEGIN,
    QUEUE,
    STREAM,
    a_subscriber,
    addressed,
    an_item,
)
from tests.kit.kernel import InvalidRequestError, NotFoundError
from tests.kit.streams import (
    MongoAccepting,
    MongoConversations,
    MongoLeasing,
    MongoStreamDeadLetters,
    Reason,
    StreamDeadLetters,
    Withdrawn,
)
from tests.kit.subscriptions import Content, Deliver, MongoSubscriptions, StreamKind

TERM = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


@pytest.fixture
def accepting(mongo_connection):
    return MongoAccepting(mongo_connection)


@pytest.fixture
def leasing(mongo_connection):
    return MongoLeasing(mongo_connection)


@pytest.fixture
def subscriptions(mongo_connection):
    return MongoSubscriptions(mongo_connection)


@pytest.fixture
def dead_letters(mongo_connection, subscriptions):
    return StreamDeadLetters(
        store=MongoStreamDeadLetters(mongo_connection), subscriptions=subscriptions
    )


@pytest.fixture
def conversations(mongo_connection):
    return MongoConversations(mongo_connection)


def bury(accepting, leasing, *ids, subscriber=None, reason=Reason.REFUSED):
    """Have items die, a second after each other."""
    for number, id_ in enumerate(ids):
        now = BEGIN + number * SECOND
        accepting.accept([addressed(an_item(id_), subscriber or a_subscriber())], now)
        lease = leasing.lease("d1", now, TERM)
        leasing.bury(dict.fromkeys(leasing.due(lease, now, 10), (reason, "no")), now)
        leasing.rest(lease, now, slow=False)


def test_a_dead_letter_says_what_was_to_go_where_and_why_it_did_not(
    accepting, leasing, dead_letters
):
    bury(accepting, leasing, "1", subscriber=a_subscriber(target=QUEUE))

    (found,) = dead_letters.find("acme", "news", limit=10).items

    assert (found.subscription, found.channel, found.item) == ("press", "news", "1")
    assert (found.reason, found.error, found.target) == (Reason.REFUSED, "no", QUEUE)
    assert dead_letters.get("acme", "news", found.id) == found


def test_dead_letters_are_listed_page_by_page(accepting, leasing, dead_letters):
    bury(accepting, leasing, "1", "2", "3")

    first = dead_letters.find("acme", "news", limit=2)
    rest = dead_letters.find("acme", "news", cursor=first.cursor, limit=2)

    assert [one.item for one in first.items] == ["1", "2"]
    assert (first.more, rest.more) == (True, False)
    assert [one.item for one in rest.items] == ["3"]


def test_dead_letters_are_found_by_subscription_and_reason(accepting, leasing, dead_letters):
    bury(accepting, leasing, "1", reason=Reason.AWAY)
    bury(accepting, leasing, "2", subscriber=a_subscriber("brand"))

    for match, items in (
        ({"subscription": "brand"}, ["2"]),
        ({"reason": "away"}, ["1"]),
        ({"subscription": "brand", "reason": "away"}, []),
    ):
        found = dead_letters.find("acme", "news", limit=10, **match)
        assert [one.item for one in found.items] == items
    with pytest.raises(InvalidRequestError, match="reason: is unknown"):
        dead_letters.find("acme", "news", reason="awy", limit=10)
    with pytest.raises(InvalidRequestError, match="cursor"):
        dead_letters.find("acme", "news", cursor="x", limit=10)


@pytest.mark.parametrize(("tenant", "biz"), [("other", "news"), ("acme", "other")])
def test_dead_letters_of_others_are_not_seen(accepting, leasing, dead_letters, tenant, biz):
    bury(accepting, leasing, "1")
    (own,) = dead_letters.find("acme", "news", limit=10).items

    assert dead_letters.find(tenant, biz, limit=10).items == []
    with pytest.raises(NotFoundError):
        dead_letters.replay(tenant, biz, own.id, BEGIN)


@pytest.mark.parametrize("id_", ["", "zz", "00", "0" * 64])
def test_an_id_of_nothing_is_not_found(dead_letters, id_):
    with pytest.raises(NotFoundError):
        dead_letters.get("acme", "news", id_)


def test_a_replayed_one_is_pending_as_if_never_tried_and_has_the_same_id(
    accepting, leasing, dead_letters
):
    bury(accepting, leasing, "1")
    (dead,) = dead_letters.find("acme", "news", limit=10).items

    dead_letters.replay("acme", "news", dead.id, BEGIN + TERM)

    lease = leasing.lease("d1", BEGIN + TERM, TERM)
    (delivery,) = leasing.due(lease, BEGIN + TERM, 10)
    assert (delivery.id, delivery.tries, delivery.item.id) == (dead.id, 0, "1")
    with pytest.raises(NotFoundError):
        dead_letters.replay("acme", "news", dead.id, BEGIN + TERM)


def test_a_replayed_one_goes_where_its_subscription_delivers_now(
    accepting, leasing, dead_letters, subscriptions
):
    bury(accepting, leasing, "1", subscriber=a_subscriber(target=QUEUE))
    content = Content(
        kind=StreamKind.NDJSON_STREAM,
        filter="rain",
        channel="news",
        deliver=Deliver(redis_stream="items"),
    )
    subscriptions.put("acme", "news", "press", content, most=10, expected=None, now=BEGIN)

    dead_letters.replay_many("acme", "news", BEGIN + TERM)

    assert leasing.lease("d1", BEGIN + TERM, TERM).target == STREAM


def test_many_are_replayed_page_by_page(accepting, leasing, dead_letters):
    bury(accepting, leasing, "1", "2", "3")

    first = dead_letters.replay_many("acme", "news", BEGIN + TERM, limit=2)
    rest = dead_letters.replay_many("acme", "news", BEGIN + TERM, cursor=first.cursor, limit=2)

    assert (first.count, rest.count, rest.cursor) == (2, 1, None)
    assert dead_letters.replay_many("acme", "news", BEGIN + TERM).count == 0


def test_what_waited_for_too_long_is_waited_for_again_when_it_is_replayed(
    accepting, leasing, dead_letters
):
    bury(accepting, leasing, "1", reason=Reason.AWAY)
    later = BEGIN + timedelta(days=2)
    dead_letters.replay_many("acme", "news", later)
    lease = leasing.lease("d1", later, TERM)

    assert leasing.bury_old(lease, later - timedelta(days=1), "away", later) == 0
    assert len(leasing.due(lease, later, 10)) == 1


def shape(turn):
    return {turn.id: [shape(one) for one in turn.replies]} if turn.replies else turn.id


def test_a_conversation_is_read_from_any_of_its_items(accepting, conversations):
    for item in (
        an_item("3", replies_to="2"),
        an_item("2", replies_to="1"),
        an_item("1"),
        an_item("4", replies_to="1"),
    ):
        accepting.accept([addressed(item)], BEGIN)

    trees = [conversations.read("acme", "news", "news", id_) for id_ in "1234"]

    assert shape(trees[0]) == {"1": [{"2": ["3"]}, "4"]}
    assert trees.count(trees[0]) == 4


def test_replies_to_what_is_not_there_are_one_conversation_by_its_id(accepting, conversations):
    for item in (
        an_item("3", replies_to="2", conversation="1"),
        an_item("5", replies_to="4", conversation="1"),
    ):
        accepting.accept([addressed(item)], BEGIN)

    tree = conversations.read("acme", "news", "news", "3")

    assert shape(tree) == {"1": [{"2": ["3"]}, {"4": ["5"]}]} or shape(tree) == {
        "1": [{"4": ["5"]}, {"2": ["3"]}]
    }
    assert tree.item is None


def test_a_biz_sees_what_its_subscriptions_have(accepting, conversations):
    accepting.accept([addressed(an_item("1"), a_subscriber(biz="other"))], BEGIN)
    accepting.accept([addressed(an_item("2", replies_to="1"))], BEGIN)

    tree = conversations.read("acme", "news", "news", "2")

    assert shape(tree) == {"1": ["2"]}
    assert tree.item is None
    assert conversations.read("acme", "news", "news", "1") is None
    assert conversations.read("acme", "news", "news", "9") is None


def test_a_withdrawn_item_is_a_placeholder(accepting, conversations):
    accepting.accept([addressed(an_item("1"))], BEGIN)
    accepting.accept([addressed(an_item("2", replies_to="1"))], BEGIN)

    accepting.withdraw([Withdrawn(id="1", channel="news", at=BEGIN)], BEGIN)

    tree = conversations.read("acme", "news", "news", "2")
    assert shape(tree) == {"1": ["2"]}
    assert tree.item is None


def test_a_circle_of_replies_is_read(accepting, conversations):
    accepting.accept([addressed(an_item("1", replies_to="2"))], BEGIN)
    accepting.accept([addressed(an_item("2", replies_to="1"))], BEGIN)

    tree = conversations.read("acme", "news", "news", "1")

    assert tree.id in {"1", "2"}
    assert len(tree.replies) == 1
