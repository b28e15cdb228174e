"""Tenant A cannot see tenant B, over every route (SPEC.md C7): one world, as nothing changes it."""

import re
from collections.abc import Iterator

import pytest

from tests.functions.http import ask
from tests.kit.api import ROUTES
from tests.kit.worlds.functions import World

CLOSED = [route for route in ROUTES if not route.open]
OF_THE_FLEET = [route for route in CLOSED if route.path.startswith("/v1/fleet")]
OF_A_BIZ = [route for route in CLOSED if "{biz}" in route.path and route not in OF_THE_FLEET]
#: What asks for a place or a version of the configuration has one of its own for each tenant:
#: test_config_by_api.py. So has what asks for an incident: monitoring/test_incidents.py.
_ASKING = {"getConfigDocument", "diffConfigVersions", "changeConfig", "rollBackConfig"}
_ASKING |= {"acknowledgeIncident", "silenceIncident", "unsilenceIncident"}
OF_ALL_BIZS = [
    route for route in CLOSED if route not in OF_A_BIZ and route.operation not in _ASKING
]
NO_TENANT = "urn:crawlfleet:problem:unknown-tenant"
SCHEDULE = {"cron": "0 3 * * *", "rule": "page", "urls": ["https://example.org/mine"]}
#: What else paths have places for.
SEED = {
    "segment": "2026-01-01",
    "key": "0" * 32,
    "job": "june",
    "tenant": "acme",
    "subscription": "a",
    "delivery": "0" * 64,
    "incident": "0" * 24,
}
BODIES = {
    "submitRequests": {"url": "https://example.org/x"},
    "putSchedule": SCHEDULE,
    "putSpider": {"rule": "page", "start": {"urls": ["https://example.org/mine"]}},
    "previewSchedule": {"cron": "0 3 * * *"},
    "putSubscription": {"kind": "rss", "filter": "a", "feeds": ["https://example.org/feed"]},
    "redeliverMany": {"all": True},
    "tryFilter": {"filter": "a", "items": [{"text": "a"}]},
    "replayDeadLetters": {"all": True},
    "purgeDeadLetters": {"all": True},
    "offerSeeds": {"seeds": [{"url": "https://example.org/x"}]},
    "reserveSlots": {"process": "p", "hosts": [{"host": "example.org", "count": 1}]},
    "releaseSeeds": {"all": True},
    "forgetSeeds": {"all": True},
    "startJob": {"rule": "page", "urls": ["https://example.org/mine"]},
    "forecastJob": {"rule": "page", "urls": ["https://example.org/mine"]},
    "setJobQuotas": {"quotas": []},
    "tryRule": {"rule": "page", "url": "https://example.org/mine"},
    "changeRequestState": {"from_state": "done", "to_state": "reviewed"},
    "addTenant": {"name": "newcomer"},
    "setTenant": {"settings": {"share": 2}},
    "changeRequestStates": {"requests": ["7"], "from_state": "done", "to_state": "reviewed"},
}


def place(path: str, **values: str) -> str:
    return re.sub(r"{(\w+)}", lambda match: values[match[1]], path)


@pytest.fixture(scope="module")
def world(standing_world: World) -> World:
    """The world of all these tests: what is refused needs none of its own."""
    return standing_world


@pytest.fixture(scope="module", autouse=True)
def theirs(world: World) -> Iterator[dict[str, str]]:
    """The rival's request and schedule, in a biz that both have and in one that only it has.

    They are still there when all of it is over, and nothing has come of whoever asked.
    """
    ids = {}
    for biz in ("docs", "secret"):
        answer = ask(world, "POST", f"/v1/{biz}/requests", BODIES["submitRequests"], key="rival")
        assert answer.status == 202
        ids[biz] = answer.json["id"]
        path = f"/v1/{biz}/schedules/nightly"
        assert ask(world, "PUT", path, SCHEDULE, key="rival").status == 200
    yield ids
    assert (world.stored("rival"), world.stored("acme")) == (4, 0)


@pytest.mark.parametrize("route", OF_A_BIZ, ids=lambda route: route.operation)
def test_a_biz_of_another_tenant_is_answered_as_one_that_nobody_has(world, theirs, route):
    def answer(biz: str) -> tuple[int, str]:
        path = place(route.path, biz=biz, id=theirs["secret"], name="nightly", spider="all", **SEED)
        got = ask(world, route.method, path, BODIES.get(route.operation))
        return got.status, got.text.replace(biz, "BIZ")

    refused = answer("secret")
    assert refused == answer("nobody")
    assert refused[0] == 404


@pytest.mark.parametrize("route", OF_ALL_BIZS, ids=lambda route: route.operation)
def test_what_is_reported_of_all_bizs_is_reported_of_the_tenants_own(world, route):
    path, body = place(route.path, tenant="somebody", biz="docs"), BODIES.get(route.operation)
    mine, other = (ask(world, route.method, path, body, key=key) for key in ("acme", "rival"))

    # Of the fleet and of tenants only operators are told, and neither of them is one.
    expected = 403 if route in OF_THE_FLEET else 200
    assert (mine.status, other.status) == (expected, expected)
    assert not re.search("rival|secret", mine.text)
    assert "acme" not in other.text


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.operation)
def test_without_a_tenants_key_nothing_is_reported(world, theirs, route):
    path = place(route.path, biz="docs", id=theirs["docs"], name="nightly", spider="all", **SEED)

    for key in (None, "key-of-nobody"):
        answer = ask(world, route.method, path, "{", query={"nonsense": "1"}, key=key)

        assert (answer.status, answer.json["type"]) == (403, NO_TENANT)
