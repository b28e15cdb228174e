"""Jobs that are bound for a pool, through router, scheduler and consumers, on real servers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import a_web
from tests.functions.http import ask
from tests.kit.apps import now
from tests.kit.jobs import JobState, MongoJobs
from tests.kit.kernel import QueueKey, names
from tests.kit.mongo import MongoLedgers
from tests.kit.worlds.functions import STAGE, World
from tests.waiting import eventually

FAR = names.function_name(STAGE, "consumer-far")
POOLS = json.dumps([{"name": "far", "function": FAR, "ceiling": 3}])


@pytest.fixture
def pooled(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The stage with a pool more, of which every function is told."""
    monkeypatch.setenv(names.ENV_POOLS, POOLS)
    world.end_environments()
    world.fresh(stage={"pools": {"far": {"max_consumers": 2}}})
    yield world
    monkeypatch.undo()
    world.end_environments()


def work_as(world: World, pool: str | None) -> Any:
    """Run a worker of a pool."""
    with pytest.MonkeyPatch.context() as patch:
        if pool is not None:
            patch.setenv(names.ENV_POOL, pool)
        world.end_environments()
        try:
            return world.work()
        finally:
            patch.undo()
            world.end_environments()


def start(world: World, web: Any, count: int = 6, pool: str | None = "far") -> Any:
    urls = [f"{web.url}/{n}" for n in range(count)]
    body = {"rule": "page", "urls": urls, "name": "june"}
    return ask(world, "POST", "/v1/docs/jobs", body | ({"pool": pool} if pool else {}))


def far_queued(world: World) -> int:
    return int(world.redis.llen(f"cf:{{{world.tenants['acme']}:docs}}:queue:main@far"))  # type: ignore[arg-type]


def ledger(world: World) -> Any:
    parts = world.own
    tenant = world.tenants["acme"]
    biz = parts.config.current().bizs[tenant]["docs"]
    found = MongoLedgers(parts.nodes).audit(QueueKey(tenant, "docs", biz.queue), biz, now(), "june")
    job = MongoJobs(parts.nodes).get(tenant, "docs", "june")
    assert job is not None
    return found, job


def test_a_job_of_a_pool_is_done_by_its_workers_and_by_nobody_else(pooled):
    with a_web() as web:
        answer = start(pooled, web)
        assert answer.status in {201, 202}, answer.text
        assert answer.json["pool"] == "far"
        pooled.lambdas.woken.clear()
        assert tick(pooled)["tasks"] == 6
        assert (pooled.queued(), far_queued(pooled)) == (0, 6)
        assert "consumer-far" in pooled.lambdas.woken

        assert work_as(pooled, None)["leased"] == 0
        assert not web.asked
        shown = ask(pooled, "GET", "/v1/docs/requests", query={"limit": "10"}).json["requests"]
        assert {one["pool"] for one in shown} == {"far"}
        reported = ask(pooled, "GET", f"/v1/docs/requests/{shown[0]['id']}/explain")
        assert reported.status == 200, reported.text
        assert "pool far" in reported.json["standing"]["sentence"]
        assert ask(pooled, "GET", "/v1/docs/stats").json["queue"]["queued"] == 6

        assert work_as(pooled, "far")["done"] == 6

        def ended() -> bool:
            tick(pooled)
            return ledger(pooled)[1].state is JobState.DONE

        eventually(ended)
    found, job = ledger(pooled)
    assert job.counts["done"] == 6
    assert (found.submitted, found.done, found.open, found.difference) == (6, 6, 0, 0)


def test_a_pool_that_there_is_not_is_refused_by_its_field(pooled):
    with a_web() as web:
        answer = start(pooled, web, pool="near")
    assert answer.status == 400, answer.text
    [error] = answer.json["errors"]
    assert error["field"] == "pool"
    assert "main, far" in error["message"]
