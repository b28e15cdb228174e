"""Tenant A cannot see tenant B, over every route (SPEC.md C7)."""

import re

import pytest

from tests.functions.http import ask, submit
from tests.kit.api import ROUTES

CLOSED = [route for route in ROUTES if not route.open]
OF_A_BIZ = [route for route in CLOSED if "{biz}" in route.path]
OF_ALL_BIZS = [route for route in CLOSED if "{biz}" not in route.path]
SCHEDULE = {"cron": "0 3 * * *", "rule": "page", "urls": ["https://example.org/mine"]}
#: What else paths have places for.
SEED = {"segment": "2026-01-01", "key": "0" * 32, "job": "june"}
BODIES = {
    "submitRequests": {"url": "https://example.org/x"},
    "putSchedule": SCHEDULE,
    "putSpider": {"rule": "page", "start": {"urls": ["https://example.org/mine"]}},
    "previewSchedule": {"cron": "0 3 * * *"},
    "replayDeadLetters": {"all": True},
    "purgeDeadLetters": {"all": True},
    "offerSeeds": {"seeds": [{"url": "https://example.org/x"}]},
    "releaseSeeds": {"all": True},
    "forgetSeeds": {"all": True},
    "startJob": {"rule": "page", "urls": ["https://example.org/mine"]},
    "tryRule": {"rule": "page", "url": "https://example.org/mine"},
}


def place(path: str, **values: str) -> str:
    return re.sub(r"{(\w+)}", lambda match: values[match[1]], path)


@pytest.fixture
def theirs(world) -> dict[str, str]:
    """The rival's request and schedule, in a biz that both have and in one that only it has."""
    ids = {}
    for biz in ("docs", "secret"):
        answer = ask(world, "POST", f"/v1/{biz}/requests", BODIES["submitRequests"], key="rival")
        assert answer.status == 202
        ids[biz] = answer.json["id"]
        path = f"/v1/{biz}/schedules/nightly"
        assert ask(world, "PUT", path, SCHEDULE, key="rival").status == 200
    return ids


@pytest.mark.parametrize("route", OF_A_BIZ, ids=lambda route: route.operation)
def test_a_biz_of_another_tenant_is_answered_as_one_that_nobody_has(world, theirs, route):
    def answer(biz: str) -> tuple[int, str]:
        path = place(route.path, biz=biz, id=theirs["secret"], name="nightly", spider="all", **SEED)
        got = ask(world, route.method, path, BODIES.get(route.operation))
        return got.status, got.text.replace(biz, "BIZ")

    assert answer("secret") == answer("nobody") == (404, answer("nobody")[1])
    assert (world.stored("rival"), world.stored("acme")) == (4, 0)


@pytest.mark.parametrize("route", OF_ALL_BIZS, ids=lambda route: route.operation)
def test_what_is_told_of_all_bizs_is_told_of_the_tenants_own(world, theirs, route):
    mine, other = (ask(world, route.method, route.path, key=key) for key in ("acme", "rival"))

    # Of the fleet only operators are told, and neither of them is one.
    expected = 403 if route.operation == "getFleet" else 200
    assert (mine.status, other.status) == (expected, expected)
    assert not re.search("rival|secret", mine.text)
    assert "acme" not in other.text


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_request_of_another_tenant_is_answered_as_one_that_is_not(world, theirs, method):
    answer = ask(world, method, f"/v1/docs/requests/{theirs['docs']}")

    assert answer.status == 404
    theirs_still = ask(world, "GET", f"/v1/docs/requests/{theirs['docs']}", key="rival")
    assert theirs_still.json["state"] == "pending"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_schedule_of_another_tenant_is_answered_as_one_that_is_not(world, theirs, method):
    assert ask(world, method, "/v1/docs/schedules/nightly").status == 404
    assert ask(world, "GET", "/v1/docs/schedules/nightly", key="rival").status == 200


def test_lists_totals_and_depths_hold_the_tenants_own_alone(world, theirs):
    [mine] = submit(world, "https://example.org/mine")

    requests = ask(world, "GET", "/v1/docs/requests").json["requests"]
    stats = ask(world, "GET", "/v1/docs/stats").json

    assert [request["id"] for request in requests] == [mine]
    assert ask(world, "GET", "/v1/docs/schedules").json["schedules"] == []
    records = ask(world, "GET", "/v1/docs/records", query={"request_id": theirs["docs"]})
    assert records.json["records"] == []
    assert (stats["states"]["pending"], stats["queue"]["queued"]) == (1, 1)


def test_a_schedule_of_the_same_name_is_each_tenants_own(world, theirs):
    mine = {**SCHEDULE, "cron": "30 4 * * *"}
    assert ask(world, "PUT", "/v1/docs/schedules/nightly", mine).status == 200

    answer = ask(world, "GET", "/v1/docs/schedules/nightly", key="rival")

    assert answer.json["cron"] == SCHEDULE["cron"]


def test_a_cursor_of_another_tenant_opens_nothing(world, theirs):
    cursor = ask(world, "GET", "/v1/docs/requests", key="rival").json["cursor"]

    answer = ask(world, "GET", "/v1/docs/requests", query={"cursor": cursor} if cursor else None)

    assert answer.json["requests"] == []


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.operation)
@pytest.mark.parametrize("key", [None, "key-of-nobody"])
def test_without_a_tenants_key_nothing_is_told(world, theirs, route, key):
    path = place(route.path, biz="docs", id=theirs["docs"], name="nightly", spider="all", **SEED)

    answer = ask(world, route.method, path, "{", query={"nonsense": "1"}, key=key)

    assert answer.status == 403
    assert answer.json["detail"] == "the API key belongs to no tenant"
