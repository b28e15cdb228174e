"""A tenant that is suspended: nothing of it is taken, started or leased, and nothing is lost."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.worlds.functions import biz, default_bizs

URL = "https://example.org/"
SCHEDULE = {"cron": "* * * * *", "rule": "page", "urls": ["https://example.org/timed"]}


@pytest.fixture(autouse=True)
def _cold(world):
    yield
    world.end_environments()


def suspend(world, suspended: bool = True) -> None:
    world.push(default_bizs(), tenants={"acme": {"suspended": suspended}})


def test_calls_of_a_suspended_tenant_are_refused_but_for_those_that_read(world):
    [kept] = submit(world, URL)
    suspend(world)

    refused = [
        ask(world, "POST", "/v1/docs/requests", {"url": URL}),
        ask(world, "PUT", "/v1/docs/schedules/nightly", SCHEDULE),
        ask(world, "POST", "/v1/docs/rules/try", {"rule": "page", "url": URL}),
        ask(world, "DELETE", f"/v1/docs/requests/{kept}"),
    ]
    read = ask(world, "GET", f"/v1/docs/requests/{kept}")
    rival = ask(world, "POST", "/v1/docs/requests", {"url": URL}, key="rival")

    for answer in refused:
        assert answer.status == 403
        assert answer.json["type"] == "urn:crawlfleet:problem:tenant-suspended"
        assert world.tenants["acme"] in answer.json["detail"]
    assert (read.status, read.json["state"], rival.status) == (200, "pending", 202)


def test_nothing_of_a_suspended_tenant_is_leased_and_all_of_it_goes_on_when_it_is_resumed(world):
    once = default_bizs() | {"acme": {"docs": biz(retry={"max_attempts": 1})}}
    [kept] = submit(world, "http://127.0.0.1:9/refused")
    suspend(world)

    world.work()
    world.call(names.SCHEDULER, {})
    waiting = ask(world, "GET", f"/v1/docs/requests/{kept}").json
    world.push(once)
    world.work()
    after = ask(world, "GET", f"/v1/docs/requests/{kept}").json

    assert (waiting["state"], waiting["attempts"]) == ("pending", 0)
    assert (after["state"], after["attempts"]) == ("dead", 1)


def test_a_suspended_tenant_has_no_workers_started_and_none_kept(world):
    needs = {"needs": {"workers": 2}}
    world.push(default_bizs(), tenants={"acme": {"suspended": True, **needs}})
    done = world.call(names.SCHEDULER, {})
    world.push(default_bizs(), tenants={"acme": needs})
    resumed = world.call(names.SCHEDULER, {})

    assert (done["kept"], done["started"]) == (0, 0)
    assert (resumed["kept"], resumed["started"]) == (2, 2)


def test_fires_of_a_suspended_tenants_schedules_wait_and_say_why(world):
    assert ask(world, "PUT", "/v1/docs/schedules/each", SCHEDULE).status == 200
    suspend(world)
    soon = datetime.now(UTC) + timedelta(minutes=1)
    world.clocks[names.SCHEDULER] = lambda: soon

    world.call(names.SCHEDULER, {})
    held = ask(world, "GET", "/v1/docs/schedules/each").json
    suspend(world, suspended=False)
    world.clocks[names.SCHEDULER] = lambda: soon + timedelta(minutes=15)
    world.call(names.SCHEDULER, {})
    resumed = ask(world, "GET", "/v1/docs/schedules/each").json

    assert held["last_outcome"]["outcome"] == "waiting"
    assert "suspended" in held["last_outcome"]["why"]
    assert resumed["last_outcome"]["outcome"] == "started"
    assert resumed["last_outcome"]["fire_at"] >= held["last_outcome"]["fire_at"]


def test_seeds_and_jobs_of_a_suspended_tenant_stay_where_they_are(world):
    job = {"rule": "page", "urls": ["https://example.org/j1", "https://example.org/j2"]}
    seeds = {"seeds": [{"url": "https://example.org/seed"}]}
    assert ask(world, "POST", "/v1/docs/jobs", {**job, "name": "june"}).status in (201, 202)
    assert ask(world, "POST", "/v1/docs/seeds", seeds).status == 200
    suspend(world)

    done = world.call(names.SCHEDULER, {})
    held = ask(world, "GET", "/v1/docs/jobs/june").json

    assert (done["tasks"], done["seeded"]) == (0, 0)
    assert "suspended" in held["trouble"]
