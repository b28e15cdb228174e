"""`crawlfleet delivery` on the real router: list, show, replay, conversations."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.functions.api.undelivered import (
    a_taken_item,
    an_undelivered_item,
    forget_deliveries,
)
from tests.kit.worlds.functions import World

BIZ = "docs"
Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def _nothing_left(world: World) -> None:
    forget_deliveries(world)


def test_what_was_not_delivered_is_listed_shown_and_delivered_again(
    world: World, crawlfleet: Program
) -> None:
    id_ = an_undelivered_item(world, "acme", BIZ)

    listed = crawlfleet("delivery", "list", BIZ, "--reason", "refused")
    shown = crawlfleet("delivery", "show", BIZ, id_)
    replayed = crawlfleet("delivery", "replay", BIZ, id_)
    again = crawlfleet("delivery", "replay", BIZ, id_)

    assert (listed.code, shown.code, replayed.code) == (0, 0, 0), listed.err + shown.err
    assert "InvalidMessageContents" in listed.out
    assert "redis_stream" in shown.out
    assert replayed.out.strip() == "1 will be delivered again"
    assert again.code != 0
    assert "there are none" in crawlfleet("delivery", "list", BIZ).err


def test_many_are_delivered_again_by_what_is_said(world: World, crawlfleet: Program) -> None:
    for number, name in enumerate(("a", "a", "b")):
        an_undelivered_item(world, "acme", BIZ, str(number), name)

    of_one = crawlfleet("delivery", "replay", BIZ, "--subscription", "a", "--json").json()
    unsaid = crawlfleet("delivery", "replay", BIZ)
    rest = crawlfleet("delivery", "replay", BIZ, "--all", "--json").json()

    assert (of_one, rest) == ({"replayed": 2}, {"replayed": 1})
    assert "--all" in unsaid.err


def test_a_conversation_is_shown_as_a_tree(world: World, crawlfleet: Program) -> None:
    an_undelivered_item(world, "acme", BIZ, "2", replies_to="1")

    shown = crawlfleet("delivery", "conversation", BIZ, "news", "2")

    assert shown.out.splitlines() == ["1 (not there)", "  2 reuters: rain 2"]


def test_an_item_is_explained_in_words(world: World, crawlfleet: Program) -> None:
    message = an_undelivered_item(world, "acme", BIZ, "7", name="gone")

    shown = crawlfleet("subscription", "explain", BIZ, "7", "--channel", "news")
    as_json = crawlfleet("subscription", "explain", BIZ, message, "--json").json()
    unknown = crawlfleet("subscription", "explain", BIZ, "8", "--channel", "news")

    assert shown.code == 0, shown.err
    assert "rain 7" in shown.out
    assert "the subscription has ended" in shown.out
    assert f"message {message}" in shown.out.replace("\n ", "")
    assert as_json["verdicts"][0]["delivery"]["reason"] == "refused"
    assert unknown.code == 4
    assert "subscription try" in unknown.err


def test_sources_are_listed_and_shown_in_words(world: World, crawlfleet: Program) -> None:
    feed = "https://news.example/shown.xml"
    crawlfleet("subscription", "put", BIZ, "shown", "--filter", "rain", "--feed", feed)

    listed = crawlfleet("source", "list", BIZ)
    shown = crawlfleet("source", "show", BIZ, feed)
    of_one = crawlfleet("subscription", "show", BIZ, "shown")
    crawlfleet("subscription", "end", BIZ, "shown")

    assert (listed.code, shown.code, of_one.code) == (0, 0, 0), listed.err + shown.err + of_one.err
    assert "unread" in listed.out
    assert "nobody" in shown.out
    assert "taken in" in of_one.out
    assert "there are none" in crawlfleet("source", "list", BIZ).err


def test_taken_items_are_listed_exported_and_tried_on(world: World, crawlfleet: Program) -> None:
    none = crawlfleet("subscription", "items", BIZ)
    for number in range(3):
        a_taken_item(world, "acme", BIZ, str(number), minutes=3 - number)
    a_taken_item(world, "acme", BIZ, "0", "other", minutes=3)

    listed = crawlfleet("subscription", "items", BIZ)
    exported = crawlfleet("subscription", "items", BIZ, "--json")
    tried = crawlfleet("subscription", "try", BIZ, "--filter", "rain -2", "--stored", "10")

    assert "nothing was taken" in none.err
    assert "rain 2" in listed.out
    ids = [json.loads(line)["item"]["id"] for line in exported.out.splitlines()]
    assert sorted(ids) == ["0", "0", "1", "2"]
    assert "go on from here with --cursor" in exported.err
    assert "takes 2 of 3 items" in tried.err


def test_what_a_filter_is_tried_on_is_said_once(world: World, crawlfleet: Program) -> None:
    neither = crawlfleet("subscription", "try", BIZ, "--filter", "rain")
    nothing = crawlfleet("subscription", "try", BIZ, "--filter", "rain", "--stored", "1")

    assert "--items FILE, or --stored COUNT" in neither.err
    assert "no item is stored yet" in nothing.err
