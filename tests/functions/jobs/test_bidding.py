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


def start(world: Any, url: str) -> dict[str, Any]:
    order = {"rule": "page", "urls": [url], "name": "june"}
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
