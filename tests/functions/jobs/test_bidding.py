"""A stage with bidding, on real servers: jobs wait for a worker that suits them, and get one."""

from typing import Any

import pytest

from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import a_web
from tests.functions.http import ask
from tests.kit.kernel import names
from tests.kit.worlds.functions import Context, default_bizs
from tests.waiting import eventually

pytestmark = pytest.mark.measured

BIDDING = {"window_seconds": 0.1, "wait_seconds": 0.2, "acknowledge_seconds": 5.0}
PETABYTE = 1e15


def with_bidding(world: Any, **terms: Any) -> None:
    fleet = {"idle_seconds": 0.0, "concurrency": 8, "max_consumers": 4}
    world.push(default_bizs(), stage={"fleet": fleet, "bidding": {**BIDDING, **terms}})


def job(world: Any, name: str = "june") -> dict[str, Any]:
    found: dict[str, Any] = ask(world, "GET", f"/v1/docs/jobs/{name}").json
    return found


def start(world: Any, url: str, **own: Any) -> dict[str, Any]:
    order = {"rule": "page", "urls": [url], "name": "june", **own}
    answer = ask(world, "POST", "/v1/docs/jobs", order)
    assert answer.status == 201, answer.text
    found: dict[str, Any] = answer.json
    return found


def work(world: Any) -> None:
    world.call(names.CONSUMER, {}, Context(120))


def test_a_job_is_placed_made_into_tasks_and_done(world):
    with_bidding(world, wait_seconds=30)
    with a_web() as web:
        assert start(world, f"{web.url}/0")["state"] == "placing"
        assert world.lambdas.woken == [names.CONSUMER]

        work(world)

        placed = job(world)
        assert placed["state"] in {"expanding", "running", "done"}
        assert placed["pool"] is None

        def is_done() -> bool:
            tick(world)
            work(world)
            return job(world)["state"] == "done"

        eventually(is_done, what="the job is done")
    assert job(world)["counts"]["done"] == 1


def test_a_job_too_large_for_every_worker_is_given_up_and_says_why(world):
    with_bidding(world)
    tenant = world.tenants["acme"]
    usage = {"memory": PETABYTE, "memory_max": PETABYTE}
    world.control["demands"].insert_one(
        {
            "_id": f"{tenant}/docs/page",
            "tenant": tenant,
            "biz": "docs",
            "spider": "page",
            "runs": 3,
            "usage": usage,
        }
    )
    with a_web() as web:
        start(world, f"{web.url}/0")

        def is_given_up() -> bool:
            work(world)
            tick(world)
            return job(world)["state"] == "unplaced"

        eventually(is_given_up, 120, "it has been lowered seven times")
    found = job(world)
    assert "memory 1000000.0 GB" in found["trouble"]
    assert "at 53 %" in found["trouble"]
    assert found["ended_at"] is not None
    kept = world.control["jobs"].find_one({"tenant": world.tenants["acme"]})
    assert kept["lowered"] == 6
    assert world.queued() == 0


def test_a_job_that_states_a_demand_and_a_test_link_is_placed_by_them(world):
    with_bidding(world, wait_seconds=30)
    with a_web() as web:
        link = {"test_url": f"{web.url}/5", "seconds_below": 30.0}
        demand = {"memory": {"maximum": PETABYTE}}
        start(world, f"{web.url}/0", link=link, demand=demand)

        work(world)

        assert web.asked["/5"] == 1, "the test link, and not the job's first page, is probed"
        assert web.asked["/0"] == 0
        found = job(world)
        assert (found["state"], found["demand"]["memory"]) == (
            "placing",
            {"average": None, "maximum": PETABYTE},
        )
        assert found["link"] == {**link, "bytes_per_second_above": None}
        board = ask(world, "GET", "/v1/docs/jobs", query={"state": "placing"}).json["jobs"]
        assert [one["name"] for one in board] == ["june"]

        less = {"rule": "page", "urls": [f"{web.url}/1"], "name": "less", "link": link}
        small = {**less, "demand": {"memory": {"average": 1, "maximum": 2}}}
        assert ask(world, "POST", "/v1/docs/jobs", small).status == 201

        def is_done() -> bool:
            work(world)
            tick(world)
            return job(world, "less")["state"] == "done"

        eventually(is_done, what="the job that wants little is done")
    assert job(world)["state"] == "placing"
    again = ask(world, "POST", "/v1/docs/jobs", small)
    assert (again.status, again.json["name"]) == (200, "less")
    other = ask(world, "POST", "/v1/docs/jobs", {**small, "demand": demand})
    assert other.status == 409, "the name stands for a job with another demand"


def test_what_is_wrong_with_a_stated_demand_or_link_is_said_by_its_field(world):
    with_bidding(world)
    order = {"rule": "page", "urls": ["https://example.org/"]}

    def wrong(**own: Any) -> set[str]:
        answer = ask(world, "POST", "/v1/docs/jobs", {**order, **own})
        assert answer.status == 400, answer.text
        return {error["field"] for error in answer.json["errors"]}

    assert wrong(demand={"disk": {"average": 1}}) == {"demand.disk"}
    assert wrong(demand={"cpu": {"average": -1}}) == {"demand.cpu.average"}
    assert wrong(demand={"cpu": {"average": 2, "maximum": 1}}) == {"demand.cpu.maximum"}
    assert wrong(link={"seconds_below": 0}) == {"link.seconds_below"}
    assert wrong(link={"test_url": "ftp://example.org/"}) == {"link.test_url"}
    assert wrong(link={"test_url": "https://user:word@example.org/"}) == {"link.test_url"}
    assert ask(world, "GET", "/v1/docs/jobs").json["jobs"] == []


def test_where_bidding_is_taken_out_a_job_that_waits_goes_on(world):
    with_bidding(world, wait_seconds=30)
    with a_web() as web:
        start(world, f"{web.url}/0")
        world.push(default_bizs())

        def is_done() -> bool:
            tick(world)
            work(world)
            return job(world)["state"] == "done"

        eventually(is_done, what="the job is done")
