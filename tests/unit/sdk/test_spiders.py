"""Spiders by the SDK: what is sent, and what comes back typed."""

import json

import pytest

from tests.kit.api_server import BIZ, Fault
from tests.kit.sdk import ConflictError, InvalidRequestError, NotFoundError

PATTERN = "https://shop.example/{kind}/{page}"


def put(client, **changes):
    values = {"kind": ["a", "b"], "page": range(1, 100, 10)}
    given = {"rule": "article", "pattern": PATTERN, "values": values, **changes}
    return client.put_spider(BIZ, "all", **given)


def test_a_spider_is_put_read_and_deleted(client, api):
    made = put(client, priority=7, link={"seconds_below": 0.5}, description="All.")

    sent = json.loads(api.made("PUT")[0].body)
    assert sent == {
        "rule": "article",
        "start": {
            "pattern": PATTERN,
            "values": {"kind": ["a", "b"], "page": {"first": 1, "last": 91, "step": 10}},
        },
        "priority": 7,
        "link": {"seconds_below": 0.5},
        "description": "All.",
    }
    assert (made.origin, made.version, made.tasks, made.places) == ("kept", 1, 20, ())
    assert made.put_at is not None
    assert client.spider(BIZ, "all") == made
    client.delete_spider(BIZ, "all")
    with pytest.raises(NotFoundError):
        client.spider(BIZ, "all")
    with pytest.raises(NotFoundError):
        client.delete_spider(BIZ, "all")


def test_urls_and_open_places(client, api):
    one = client.put_spider(BIZ, "one", rule="article", urls="https://shop.example/")
    opened = put(client, values={"page": range(1, 3)})

    assert json.loads(api.made("PUT")[0].body)["start"] == {"urls": ["https://shop.example/"]}
    assert (one.tasks, opened.places, opened.tasks) == (1, ("kind",), 2)


def test_versions_are_counted_and_read(client):
    put(client)
    put(client)
    put(client, priority=1)

    assert [each.version for each in client.spider_versions(BIZ, "all")] == [2, 1]
    assert client.spider(BIZ, "all", version=1).priority == 5
    assert client.spider(BIZ, "all").priority == 1
    with pytest.raises(NotFoundError):
        client.spider(BIZ, "all", version=9)
    with pytest.raises(NotFoundError):
        client.spider_versions(BIZ, "none")


def test_all_spiders_are_read_page_by_page(client):
    for name in ("article", "b", "c", "d"):
        client.put_spider(BIZ, name, rule="article", urls=["https://shop.example/"])

    found = [(each.origin, each.name) for each in client.spiders(BIZ)]

    assert found == [
        ("configuration", "article"),
        *(("kept", n) for n in ("article", "b", "c", "d")),
    ]


def test_errors_and_conflicts_are_reported(client, api):
    with pytest.raises(InvalidRequestError, match=r"start\.pattern"):
        put(client, pattern="https://{kind}/{page}")
    put(client)
    api.spiders.scheduled.add("all")
    with pytest.raises(ConflictError, match="nightly"):
        client.delete_spider(BIZ, "all")


def test_a_deletion_whose_answer_is_lost_is_no_error(client, api):
    put(client)
    api.faults.append(Fault(carry_out=True))

    client.delete_spider(BIZ, "all")

    assert [each.name for each in client.spiders(BIZ)] == ["article"]
