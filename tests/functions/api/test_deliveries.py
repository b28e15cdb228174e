"""Dead letters and conversations of subscriptions through the API and the SDK; whose they are."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.functions.api.undelivered import (
    a_taken_item,
    an_undelivered_item,
    forget_deliveries,
)
from tests.functions.door import Door
from tests.functions.http import ask
from tests.kit.kernel import InvalidRequestError, NotFoundError
from tests.kit.sdk import Client
from tests.kit.streams import (
    Addressed,
    Item,
    MongoAccepting,
    MongoFigures,
    StreamItem,
    Subscriber,
    Tally,
    Withdrawn,
)
from tests.kit.worlds.functions import World, default_bizs

BIZ = "docs"
NOW = datetime.now(UTC).replace(microsecond=0)
PLACE = f"/v1/{BIZ}/undelivered"
PLACE_OF_ITEMS = f"/v1/{BIZ}/stream-items"
FEED = "https://news.example/explained.xml"


@pytest.fixture
def fleet(world: World, standing_door: Door) -> Iterator[Client]:
    with Client(standing_door.url, standing_door.keys["acme"]) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_left(world: World) -> None:
    forget_deliveries(world)
    world.own.nodes.control("stream_items").delete_many({"channel": FEED})
    tenants = {"tenant": {"$in": [*world.tenants.values()]}}
    world.own.nodes.control("subscriptions").delete_many(tenants)


def test_what_was_not_delivered_is_listed_read_and_delivered_again(
    world: World, fleet: Client
) -> None:
    id_ = an_undelivered_item(world, "acme", BIZ)

    (listed,) = fleet.undelivered(BIZ)

    assert (listed.id, listed.subscription, listed.item) == (id_, "all", "1")
    assert (listed.reason, listed.error) == ("refused", "InvalidMessageContents")
    assert listed.target == {"redis_stream": "items"}
    assert fleet.undelivered_item(BIZ, id_) == listed
    fleet.redeliver(BIZ, id_)
    assert list(fleet.undelivered(BIZ)) == []
    with pytest.raises(NotFoundError):
        fleet.redeliver(BIZ, id_)


def test_items_are_delivered_again_by_subscription_or_reason(world: World, fleet: Client) -> None:
    for number, name in enumerate(("a", "a", "b")):
        an_undelivered_item(world, "acme", BIZ, str(number), name)

    assert fleet.redeliver_all(BIZ, reason="away") == 0
    assert fleet.redeliver_all(BIZ, subscription="a") == 2
    assert [one.subscription for one in fleet.undelivered(BIZ)] == ["b"]
    assert fleet.redeliver_all(BIZ, everything=True) == 1


def test_they_are_delivered_again_call_by_call(world: World) -> None:
    for number in range(3):
        an_undelivered_item(world, "acme", BIZ, str(number))

    first = ask(world, "POST", f"{PLACE}/replay", {"all": True, "limit": 2}).json
    body = {"all": True, "limit": 2, "cursor": first["cursor"]}
    rest = ask(world, "POST", f"{PLACE}/replay", body).json

    assert [(one["replayed"], one["more"]) for one in (first, rest)] == [(2, True), (1, False)]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (None, ["body"]),
        ({}, ["all"]),
        ({"all": True, "subscription": "a"}, ["all"]),
        ({"reason": "refuse"}, ["reason"]),
        ({"reason": "away", "limit": 0}, ["limit"]),
        ({"reason": "away", "cursor": "x"}, ["cursor"]),
    ],
)
def test_what_is_wrong_with_a_replay_is_named(world: World, body, fields) -> None:
    answer = ask(world, "POST", f"{PLACE}/replay", body)

    assert (answer.status, answer.fields) == (400, fields)


@pytest.mark.parametrize(
    ("query", "field"),
    [({"reason": "x"}, "reason"), ({"cursor": "x"}, "cursor"), ({"subscription": ""}, None)],
)
def test_what_is_wrong_with_a_list_is_named(world: World, query, field) -> None:
    answer = ask(world, "GET", PLACE, query=query)

    assert answer.fields == ([field] if field else ["subscription"])


def test_tenants_do_not_see_each_others(world: World, fleet: Client) -> None:
    theirs = an_undelivered_item(world, "rival", BIZ)

    assert list(fleet.undelivered(BIZ)) == []
    assert fleet.redeliver_all(BIZ, everything=True) == 0
    with pytest.raises(NotFoundError):
        fleet.redeliver(BIZ, theirs)
    with pytest.raises(NotFoundError):
        fleet.conversation(BIZ, "news", "1")


def test_a_conversation_is_read_from_any_of_its_items(world: World, fleet: Client) -> None:
    an_undelivered_item(world, "acme", BIZ, "3", replies_to="2")
    an_undelivered_item(world, "acme", BIZ, "2", replies_to="1")

    found = fleet.conversation(BIZ, "news", "3")

    assert found == fleet.conversation(BIZ, "news", "2")
    assert [(one.id, one.parent, one.depth, one.placeholder) for one in found.turns] == [
        ("1", None, 0, True),
        ("2", "1", 1, False),
        ("3", "2", 2, False),
    ]
    assert found.turns[1].text == "rain 2"
    with pytest.raises(InvalidRequestError, match="item"):
        fleet.conversation(BIZ, "news", "")


def test_an_item_is_explained_to_the_biz_that_has_it(world: World, fleet: Client) -> None:
    fleet.put_subscription(BIZ, "all", filter="rain", feeds=[FEED])
    fleet.put_subscription(BIZ, "sport", filter="rain football", feeds=[FEED])
    message = an_undelivered_item(world, "acme", BIZ, channel=FEED)

    found = fleet.explain_item(BIZ, "1")

    assert (found.channel, found.item, found.text, found.more) == (FEED, "1", "rain 1", False)
    took, other = found.verdicts
    assert (took.subscription, took.taken, took.matches, took.found) == (
        "all",
        True,
        True,
        ("rain",),
    )
    assert (took.delivery.id, took.delivery.state) == (message, "dead")
    assert (took.delivery.reason, took.delivery.target) == ("refused", {"redis_stream": "items"})
    assert (other.subscription, other.taken, other.missing) == ("sport", False, ("football",))
    assert other.delivery is None
    of_one = fleet.explain_item(BIZ, message, subscription="sport")
    assert of_one.verdicts == (other,)


def test_an_item_that_other_tenants_alone_have_is_not_explained(
    world: World, fleet: Client
) -> None:
    theirs = an_undelivered_item(world, "rival", BIZ, channel=FEED)

    for id_ in ("1", theirs):
        with pytest.raises(NotFoundError):
            fleet.explain_item(BIZ, id_, channel=FEED)


@pytest.mark.parametrize("query", [{}, {"item": ""}, {"item": "1", "channel": ""}])
def test_what_is_wrong_with_a_question_about_an_item_is_named(world: World, query) -> None:
    answer = ask(world, "GET", f"/v1/{BIZ}/stream-items/explain", query=query)

    field = "channel" if query.get("item") else "item"
    assert (answer.status, answer.fields) == (400, [field])


def test_sources_are_listed_and_shown_to_who_subscribes_to_them(
    world: World, fleet: Client
) -> None:
    fleet.put_subscription(BIZ, "all", filter="rain", feeds=[FEED, f"{FEED}?2"])
    fleet.put_subscription(BIZ, "more", filter="snow", feeds=[FEED])

    listed = list(fleet.sources(BIZ))
    shown = fleet.source(BIZ, FEED)

    assert [(one.name, one.subscriptions) for one in listed] == [
        (FEED, ("all", "more")),
        (f"{FEED}?2", ("all",)),
    ]
    assert (shown.kind, shown.state, shown.figures.read) == ("rss", "unread", 0)
    with pytest.raises(NotFoundError):
        fleet.source(BIZ, "https://other.example/")
    with pytest.raises(InvalidRequestError, match="name"):
        fleet.source(BIZ, "")


def test_figures_of_a_subscription_have_what_it_took_and_what_was_given_up(
    world: World, fleet: Client
) -> None:
    fleet.put_subscription(BIZ, "all", filter="rain", feeds=[FEED])
    an_undelivered_item(world, "acme", BIZ, channel=FEED)
    item = StreamItem(id="1", channel=FEED, seen=Item(text="rain"), received_at=NOW)
    tally, whose = Tally(), Subscriber(tenant=world.tenants["acme"], biz=BIZ, name="all")
    tally.read([item], [Addressed(item=item, subscribers=(whose,))], NOW)
    MongoFigures(world.own.nodes).add(tally.take(), datetime.now(UTC))

    found = fleet.subscription_figures(BIZ, "all")

    assert (found.figures.matched, found.figures.delivered, found.dead) == (1, 1, 1)
    assert (found.pending, found.last_delivered_at) == (0, NOW)
    with pytest.raises(NotFoundError):
        fleet.subscription_figures(BIZ, "none")


def test_items_that_subscriptions_have_taken_are_listed_by_a_cursor(
    world: World, fleet: Client
) -> None:
    for number, name in enumerate(("a", "a", "b")):
        a_taken_item(world, "acme", BIZ, str(number), name, minutes=3 - number)
    a_taken_item(world, "acme", BIZ, "too young", "a", minutes=-5)
    a_taken_item(world, "rival", BIZ, "theirs", "a")

    first = ask(world, "GET", PLACE_OF_ITEMS, query={"limit": "2"}).json
    rest = list(fleet.stream_items(BIZ, cursor=first["cursor"]))
    every = list(fleet.stream_items(BIZ))

    assert [(one["subscription"], one["item"]["id"]) for one in first["items"]] == [
        ("a", "0"),
        ("a", "1"),
    ]
    assert [(one.subscription, one.channel, one.item["text"]) for one in rest] == [
        ("b", "news", "rain 2")
    ]
    assert [one.item["id"] for one in every] == ["0", "1", "2"]
    assert len({one.id for one in every}) == 3
    assert ask(world, "GET", PLACE_OF_ITEMS, query={"cursor": "x"}).fields == ["cursor"]
    assert ask(world, "GET", "/v1/nobody/stream-items").status == 404


def test_items_are_listed_as_long_as_the_biz_keeps_records(world: World, fleet: Client) -> None:
    bizs = default_bizs()
    bizs["acme"][BIZ] |= {"records_ttl_seconds": 600}
    world.push(bizs)
    a_taken_item(world, "acme", BIZ, "old", minutes=11)
    a_taken_item(world, "acme", BIZ, "young", minutes=5)

    assert [one.item["id"] for one in fleet.stream_items(BIZ)] == ["young"]


def test_a_withdrawn_item_is_not_listed(world: World, fleet: Client) -> None:
    a_taken_item(world, "acme", BIZ, "1", minutes=2)
    a_taken_item(world, "acme", BIZ, "2", minutes=1)
    now = datetime.now(UTC)
    gone = Withdrawn(id="1", channel="news", at=now)
    MongoAccepting(world.own.nodes).withdraw([gone], now - timedelta(minutes=1))

    assert [one.item["id"] for one in fleet.stream_items(BIZ)] == ["2"]
