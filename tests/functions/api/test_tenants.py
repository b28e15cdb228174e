"""Tenants share names and nothing behind them (SPEC.md C7)."""

import pytest

from tests.functions.http import ask, submit
from tests.kit.worlds.functions import biz

SCHEDULE = {"cron": "0 3 * * *", "rule": "page", "urls": ["https://example.org/mine"]}


@pytest.fixture
def theirs(world) -> str:
    """The rival's request, and a schedule of its own, in a biz that both have."""
    assert ask(world, "PUT", "/v1/docs/schedules/nightly", SCHEDULE, key="rival").status == 200
    answer = ask(world, "POST", "/v1/docs/requests", {"url": "https://example.org/x"}, key="rival")
    assert answer.status == 202
    return answer.json["id"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_request_of_another_tenant_is_answered_as_one_that_is_not(world, theirs, method):
    answer = ask(world, method, f"/v1/docs/requests/{theirs}")

    assert answer.status == 404
    theirs_still = ask(world, "GET", f"/v1/docs/requests/{theirs}", key="rival")
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
    records = ask(world, "GET", "/v1/docs/records", query={"request_id": theirs})
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


def test_bizs_are_listed_with_what_reads_their_pages_to_their_own_tenant(world):
    world.push(
        {"acme": {"docs": biz(description="Pages."), "news": biz(collection="news")}, "rival": {}}
    )

    mine = ask(world, "GET", "/v1/bizs").json["bizs"]

    assert [(one["name"], one["description"]) for one in mine] == [("docs", "Pages."), ("news", "")]
    assert mine[0]["rules"] == ["page"]
    assert ask(world, "GET", "/v1/bizs", key="rival").json == {"bizs": []}
    assert ask(world, "GET", "/v1/bizs", key="nobody").status == 403
