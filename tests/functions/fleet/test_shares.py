"""Shares and ceilings over the API: who sees whose, and what is said to who has too much."""

import pytest

from tests.functions.http import ask, submit
from tests.kit.worlds.functions import default_bizs

PAGE = {"url": "https://example.org/"}


@pytest.fixture(autouse=True)
def _cold(world):
    """End the environments after each test, with all that they remember."""
    yield
    world.end_environments()


def shares(world, key="acme"):
    answer = ask(world, "GET", "/v1/shares", key=key)
    assert answer.status == 200, answer.text
    first = {tenant: name for name, tenant in world.tenants.items()}
    return {first.get(one["tenant"], one["tenant"]): one for one in answer.json["tenants"]}


def test_an_operator_sees_every_tenants_share_and_any_other_its_own(world):
    operators = {"operators": [world.tenants["acme"]]}
    world.push(default_bizs(), stage=operators, tenants={"rival": {"share": 3}})
    submit(world, "https://example.org/")
    assert ask(world, "POST", "/v1/docs/requests", PAGE, key="rival").status == 202

    seen = shares(world)

    assert set(seen) >= {"acme", "rival"}
    assert (seen["acme"]["part"], seen["rival"]["part"]) == (0.25, 0.75)
    assert (seen["rival"]["share"], seen["rival"]["ready"]) == (3, 1)
    assert set(shares(world, "rival")) == {"rival"}


def test_what_a_tenant_takes_of_the_stores_is_shown_beside_its_ceilings(world):
    world.push(default_bizs(), tenants={"acme": {"ceilings": {"documents": 5_000}}})
    submit(world, *(f"https://example.org/{n}" for n in range(5)))

    world.end_environments()

    used = {one["limit"]: one for one in shares(world)["acme"]["ceilings"]}

    assert 5 <= used["ceilings.documents"]["used"] < 100
    assert used["ceilings.documents"]["allowed"] == 5_000
    assert used["ceilings.stored_bytes"]["used"] > 500
    assert used["ceilings.redis_bytes"]["used"] > 100


def test_the_shares_are_nobodys_without_a_key(world):
    assert ask(world, "GET", "/v1/shares", key=None).status == 403


def test_who_submits_too_fast_is_told_which_limit_it_is_and_when_to_come_back(world):
    ceilings = {"submissions_per_second": 0.5, "burst": 2}
    world.push(default_bizs(), tenants={"acme": {"ceilings": ceilings}})
    submit(world, "https://example.org/1", "https://example.org/2")

    full = ask(world, "POST", "/v1/docs/requests", PAGE)

    assert (full.status, full.json["type"]) == (429, "urn:crawlfleet:problem:backlog-full")
    assert full.json["limit"] == "ceilings.submissions_per_second"
    assert full.json["allowed"] == 0.5
    assert 0.4 <= full.json["used"] <= 0.5
    assert 1 <= int(full.headers["Retry-After"]) <= 2
    assert ask(world, "POST", "/v1/docs/requests", PAGE, key="rival").status == 202


def test_who_stores_too_much_is_told_how_much_that_is(world):
    world.push(default_bizs(), tenants={"acme": {"ceilings": {"documents": 1_000}}})
    pages = [{"url": f"https://example.org/{n}"} for n in range(1_000)]
    assert ask(world, "POST", "/v1/docs/requests", {"requests": pages}).status == 202
    world.end_environments()

    full = ask(world, "POST", "/v1/docs/requests", PAGE)

    assert full.status == 429
    assert (full.json["limit"], full.json["allowed"]) == ("ceilings.documents", 1_000)
    assert full.json["used"] >= 1_000
    assert int(full.headers["Retry-After"]) == 300
