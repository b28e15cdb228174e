"""Subscriptions through the API and the SDK: put, read, changed, ended, tried; whose they are."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.functions.door import Door
from tests.functions.http import ask
from tests.kit.kernel import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    UnknownBizError,
)
from tests.kit.quotas import (
    Account,
    Ask,
    Limit,
    MongoCeilings,
    Quota,
    QuotaLedgers,
    QuotaPeriod,
    QuotaUnit,
    RedisQuotaLedgers,
    Scope,
    Wish,
    window_of,
)
from tests.kit.sdk import Client
from tests.kit.worlds.functions import World, biz, default_bizs

BIZ = "docs"
PLACE = f"/v1/{BIZ}/subscriptions"
FEED = "https://news.example/feed.xml"
FILTER = 'climate ("green deal" OR #cop31) -sport'
WANTED = {"kind": "rss", "filter": FILTER, "feeds": [FEED]}


@pytest.fixture
def fleet(world: World, standing_door: Door) -> Iterator[Client]:
    with Client(standing_door.url, standing_door.keys["acme"]) as client:
        yield client


def put(fleet: Client, name: str = "climate", wanted: str = FILTER, **more: object):
    return fleet.put_subscription(BIZ, name, filter=wanted, feeds=FEED, **more)


def test_a_subscription_is_put_read_changed_and_ended(fleet: Client) -> None:
    active = {"time_zone": "Europe/Berlin", "hours": [{"days": ["mon"], "begins": "08:00"}]}
    made = put(fleet, user="desk-7", active=active)
    changed = put(fleet, wanted="energy", revision=made.revision)

    assert (made.kind, made.filter, made.feeds, made.user) == ("rss", FILTER, (FEED,), "desk-7")
    assert made.canonical == '("green deal" OR #cop31) -sport climate'
    assert made.active["hours"] == [{"days": ["mon"], "begins": "08:00", "ends": "24:00"}]
    assert changed.revision != made.revision
    assert (changed.state, changed.active, changed.deliver) == ("active", None, None)
    assert changed.created_at == made.created_at <= changed.changed_at
    assert fleet.subscription(BIZ, "climate") == changed
    fleet.end_subscription(BIZ, "climate", revision=changed.revision)
    with pytest.raises(NotFoundError):
        fleet.subscription(BIZ, "climate")
    with pytest.raises(NotFoundError):
        fleet.end_subscription(BIZ, "climate")


def test_a_change_for_another_revision_is_refused(fleet: Client) -> None:
    first = put(fleet)
    second = put(fleet, wanted="energy")

    with pytest.raises(ConflictError, match=second.revision):
        put(fleet, wanted="water", revision=first.revision)
    with pytest.raises(ConflictError, match=second.revision):
        fleet.end_subscription(BIZ, "climate", revision=first.revision)
    assert put(fleet, wanted="energy", revision=first.revision) == second


def test_subscriptions_are_listed_by_name_page_by_page(world: World, fleet: Client) -> None:
    for name in ("c", "a", "b"):
        put(fleet, name)

    first = ask(world, "GET", PLACE, query={"limit": "2"}).json
    rest = ask(world, "GET", PLACE, query={"limit": "2", "cursor": first["cursor"]}).json

    assert [[one["name"] for one in page["subscriptions"]] for page in (first, rest)] == [
        ["a", "b"],
        ["c"],
    ]
    assert (first["more"], rest["more"]) == (True, False)
    assert [one.name for one in fleet.subscriptions(BIZ)] == ["a", "b", "c"]
    assert ask(world, "GET", PLACE, query={"cursor": "N.1"}).fields == ["cursor"]


def test_every_mistake_is_named_at_once_and_nothing_is_kept(world: World) -> None:
    wrong = {
        "kind": "rss",
        "filter": "-sport",
        "feeds": [FEED, "ftp://news.example/", "HTTPS://NEWS.example:443/feed.xml"],
        "channel": "Wire!",
        "user": "a b",
        "deliver": {"sqs": "arn:aws:sqs:eu-west-1:123456789012:theirs"},
        "active": {"time_zone": "Mars/Olympus", "hours": [{}]},
        "quota": 5,
    }

    answer = ask(world, "PUT", f"{PLACE}/climate", wrong)

    assert (answer.status, sorted(answer.fields)) == (
        400,
        [
            *("active.time_zone", "channel", "deliver.sqs", "feeds[1]", "feeds[2]", "filter"),
            *("quota", "user"),
        ],
    )
    assert ask(world, "GET", f"{PLACE}/climate").status == 404


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (None, ["body"]),
        ("[]", ["body"]),
        ({"kind": "atom", "filter": FILTER}, ["kind"]),
        ({"kind": "x_stream", "filter": "a OR", "user": 5}, ["channel", "filter", "user"]),
        ({"kind": "x_stream", "filter": FILTER, "channel": "posts"}, ["channel"]),
        ({"kind": "rss", "filter": FILTER}, ["feeds"]),
        ({"kind": "rss", "filter": FILTER, "feeds": [FEED] * 101}, ["feeds"]),
        (WANTED | {"active": {"hours": [{"days": ["mon"], "begins": "8"}]}}, ["begins"]),
        (WANTED | {"deliver": {"sqs": "a", "sns": "b"}}, ["deliver"]),
        (WANTED | {"revision": ""}, ["revision"]),
    ],
)
def test_what_is_wrong_is_named_by_its_field(world: World, body, fields) -> None:
    answer = ask(world, "PUT", f"{PLACE}/climate", body)

    assert answer.status == 400
    assert sorted(field.rpartition(".")[2] for field in answer.fields) == fields


@pytest.mark.parametrize("name", ["Climate", "0a", "a" * 33, "a_b"])
def test_a_name_that_is_none_is_refused(world: World, name: str) -> None:
    assert ask(world, "PUT", f"{PLACE}/{name}", WANTED).fields == ["name"]


def test_a_subscription_of_another_tenant_is_answered_as_one_that_is_not(
    world: World, fleet: Client
) -> None:
    put(fleet)

    for method, body in (("GET", None), ("DELETE", None)):
        assert ask(world, method, f"{PLACE}/climate", body, key="rival").status == 404
    assert ask(world, "GET", PLACE, key="rival").json["subscriptions"] == []
    tried = {"subscription": "climate", "items": [{"text": "climate"}]}
    assert ask(world, "POST", f"{PLACE}/try", tried, key="rival").status == 404
    assert ask(world, "PUT", f"{PLACE}/climate", WANTED, key="rival").status == 200
    fleet.end_subscription(BIZ, "climate")
    assert ask(world, "GET", f"{PLACE}/climate", key="rival").status == 200


def test_a_biz_that_is_not_there_has_no_subscriptions(fleet: Client) -> None:
    for call in (
        lambda: list(fleet.subscriptions("nobody")),
        lambda: fleet.subscription("nobody", "a"),
        lambda: fleet.put_subscription("nobody", "a", filter="-", feeds=FEED),
        lambda: fleet.end_subscription("nobody", "a"),
        lambda: fleet.try_filter("nobody", [{"text": "a"}], filter="a"),
    ):
        with pytest.raises(UnknownBizError):
            call()


def test_what_a_biz_that_is_gone_has_left_is_listed_read_and_ended(
    world: World, fleet: Client
) -> None:
    bizs = default_bizs()
    world.push({**bizs, "acme": {**bizs["acme"], "gone": biz(collection="gone")}})
    fleet.put_subscription("gone", "climate", filter=FILTER, feeds=FEED)
    world.push(bizs)

    (left,) = fleet.subscriptions("gone")
    assert (left.name, left.state) == ("climate", "suspended")
    assert fleet.subscription("gone", "climate") == left
    with pytest.raises(UnknownBizError):
        fleet.put_subscription("gone", "climate", filter="rain", feeds=FEED)
    assert ask(world, "GET", "/v1/gone/subscriptions", key="rival").status == 404
    fleet.end_subscription("gone", "climate")
    with pytest.raises(UnknownBizError):
        list(fleet.subscriptions("gone"))


def test_a_tenant_has_as_many_subscriptions_as_its_ceiling_says(
    world: World, fleet: Client
) -> None:
    world.push(default_bizs(), tenants={"acme": {"ceilings": {"subscriptions": 1}}})
    put(fleet, "a")

    with pytest.raises(QuotaExceededError, match=r"ceilings\.subscriptions"):
        put(fleet, "b")
    put(fleet, "a", wanted="energy")

    assert ask(world, "PUT", f"{PLACE}/b", WANTED, key="rival").status == 200


def test_subscriptions_of_a_suspended_tenant_are_read_and_not_changed(
    world: World, fleet: Client
) -> None:
    put(fleet)
    world.push(default_bizs(), tenants={"acme": {"suspended": True}})

    assert ask(world, "PUT", f"{PLACE}/climate", WANTED).status == 403
    assert ask(world, "DELETE", f"{PLACE}/climate").status == 403
    assert fleet.subscription(BIZ, "climate").state == "suspended"
    world.push(default_bizs())
    assert fleet.subscription(BIZ, "climate").state == "active"


def test_a_filter_is_tried_on_saved_items(fleet: Client) -> None:
    items = [
        {"id": "1", "text": "Climate talks: all eyes on #COP31", "source": "left unread"},
        {"id": "2", "text": "The green deal", "hashtags": ["sport"]},
        {"id": "3", "text": "climate: green deal of sport"},
    ]
    put(fleet)

    tried = fleet.try_filter(BIZ, items, filter=FILTER)

    assert tried == fleet.try_filter(BIZ, items, subscription="climate")
    assert (tried.filter, tried.taken) == ('("green deal" OR #cop31) -sport climate', 1)
    assert [
        (one.id, one.taken, one.found, one.missing, one.excluded_by) for one in tried.items
    ] == [
        ("1", True, ("#cop31", "climate"), (), ()),
        ("2", False, ('"green deal"',), ("climate",), ()),
        ("3", False, ('"green deal"', "climate"), (), ("-sport",)),
    ]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"items": [{"text": "a"}]}, ["filter"]),
        ({"filter": "a", "subscription": "b", "items": [{"text": "a"}]}, ["filter"]),
        ({"filter": "a OR", "items": [{"text": "a"}]}, ["filter"]),
        ({"filter": "a", "items": []}, ["items"]),
        ({"filter": "a", "items": [{"text": "a"}, {"id": "7"}, 5]}, ["items[1].text", "items[2]"]),
        ({"filter": "a", "items": [{"text": "x" * 60_000}] * 6}, ["items"]),
    ],
)
def test_what_is_wrong_with_a_trial_is_named(world: World, body, fields) -> None:
    answer = ask(world, "POST", f"{PLACE}/try", body)

    assert (answer.status, answer.fields) == (400, fields)


def test_the_sdk_needs_a_filter_that_is_one(fleet: Client) -> None:
    with pytest.raises(InvalidRequestError, match="column"):
        put(fleet, wanted='climate "green')


# ---- quotas --------------------------------------------------------------------------------------


def test_quotas_of_a_subscription_are_shown_with_what_is_used(fleet: Client) -> None:
    quotas = [{"unit": "items", "most": 500, "per": "day"}, {"unit": "usd", "most": 2.5}]

    made = put(fleet, quotas=quotas)

    shown = [(one.unit, one.most, one.per, one.used, one.left) for one in made.quotas]
    # Items of feeds cost nothing: money has no quota.
    assert shown == [("items", 500, "day", 0, 500)]
    assert (made.state, made.over, made.back_at) == ("active", "", None)
    assert put(fleet).quotas == ()


def test_quotas_that_streams_cannot_have_are_named(world: World) -> None:
    quotas = [
        {"unit": "records", "most": 5},
        {"unit": "items", "most": 5, "at_limit": "end"},
        {"unit": "items", "most": 6},
    ]

    answer = ask(world, "PUT", f"{PLACE}/climate", WANTED | {"quotas": quotas})

    assert answer.status == 400
    assert sorted(answer.fields) == ["quotas[0].unit", "quotas[1].at_limit", "quotas[2]"]


def test_who_has_used_its_quota_says_so_and_when_it_is_back(world: World, fleet: Client) -> None:
    put(fleet, quotas=[{"unit": "items", "most": 3, "per": "day"}])
    use_up(world, Quota(unit=QuotaUnit.ITEMS, most=3, per=QuotaPeriod.DAY))

    found = fleet.subscription(BIZ, "climate")
    [listed] = fleet.subscriptions(BIZ)

    assert (found.state, found.quotas[0].used) == (listed.state, 3) == ("over-quota", 3)
    assert "subscription climate of biz docs has used 3 of 3 items of this day" in found.over
    assert found.back_at.hour == 0
    # A higher limit opens it at once.
    assert put(fleet, quotas=[{"unit": "items", "most": 4, "per": "day"}]).state == "active"


def use_up(world: World, quota: Quota) -> None:
    """Have a reader spend all of a quota of the subscription."""
    account = Account(
        world.tenants["acme"], Scope.SUBSCRIPTION, f"{BIZ}/climate", quota.unit, quota.per
    )
    redis, ceilings = RedisQuotaLedgers(world.own.redis), MongoCeilings(world.own.nodes)
    limit, nonce, now = Limit(account, quota, "quotas[0]"), "", datetime.now(UTC)
    for number in range(1, 10):
        spent = quota.amount if number == 9 else 0
        ask = Ask(number=number, spent=spent, keep=0, wanted=quota.amount - spent, least=1)
        wish = Wish(limit, window_of(quota.per, now), nonce, ask)
        [(nonce, _)] = QuotaLedgers(redis, ceilings).exchange("r", [wish], now)
