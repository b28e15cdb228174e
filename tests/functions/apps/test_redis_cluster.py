"""The six functions over a cluster of Redis, whole and with a node that dies."""

from collections.abc import Iterable, Iterator

import pytest

from infra.local.redis_cluster import RedisCluster
from infra.local.redis_server import RedisServer
from tests.functions.http import ask
from tests.functions.worker.test_crawl import site  # noqa: F401  a fixture
from tests.kit.kernel import names
from tests.kit.patience import patient
from tests.kit.queue import fleet_keys, host_key
from tests.kit.redis_slots import queue_keys_of
from tests.kit.worlds.functions import World, a_world, biz
from tests.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster(node_timeout_ms=6_000) as running:
        yield running


@pytest.fixture(scope="module")
def standing_world(cluster: RedisCluster, mongo_uri: str) -> Iterator[World]:
    with a_world(patient(cluster.url), mongo_uri) as world:
        yield world


@pytest.fixture
def world(standing_world: World, cluster: RedisCluster) -> Iterator[World]:
    eventually(cluster.is_well, what="the cluster is whole")
    standing_world.fresh({})
    yield standing_world
    standing_world.drop()


@pytest.fixture
def bizs(world: World, cluster: RedisCluster) -> dict[str, RedisServer]:
    """Two bizs on every node, by name, each with its node."""
    tenant = world.tenants["acme"]
    found = {
        queue_key.biz: server
        for server in cluster.servers
        for queue_key in queue_keys_of(cluster, server, tenant, 2)
    }
    world.push({"acme": {name: biz(collection=name) for name in found}})
    return found


def states(world: World, ids: dict[str, str]) -> dict[str, str]:
    return {
        name: ask(world, "GET", f"/v1/{name}/requests/{one}").json["state"]
        for name, one in ids.items()
    }


def submitted(world: World, names: Iterable[str], where: str) -> dict[str, str]:
    answers = {
        name: ask(world, "POST", f"/v1/{name}/requests", {"url": f"{where}/{name}"})
        for name in names
    }
    assert {answer.status for answer in answers.values()} == {202}
    return {name: answer.json["id"] for name, answer in answers.items()}


def test_bizs_of_all_nodes_are_submitted_to_crawled_and_watched(world, bizs, site):  # noqa: F811
    ids = submitted(world, bizs, site)
    world.work()

    assert states(world, ids) == dict.fromkeys(bizs, "done")
    assert ask(world, "GET", "/health", key=None).json["status"] == "ok"
    world.call(names.SCHEDULER, {})
    world.call(names.MONITOR, {})


def test_a_node_that_dies_stops_its_own_bizs_until_it_is_there_again(world, cluster, bizs, site):  # noqa: F811
    # Neither the fleet's node, nor the one that keeps the turns at the site.
    needed = {id(cluster.server_of(key)) for key in (fleet_keys().workers, host_key("127.0.0.1"))}
    dead = next(server for server in cluster.servers if id(server) not in needed)
    stuck = {name for name, server in bizs.items() if server is dead}
    submitted(world, bizs, site)
    world.work()
    dead.kill()
    try:
        ids = submitted(world, bizs, site)
        for _ in range(2):
            world.work()
        assert {name for name, state in states(world, ids).items() if state == "done"} == (
            set(bizs) - stuck
        )
        assert ask(world, "GET", "/health", key=None).json["status"] == "degraded"
        world.call(names.MONITOR, {})
    finally:
        dead.restart()
    eventually(cluster.is_well, what="the node is there again")

    for _ in range(2):
        world.call(names.SCHEDULER, {})
    world.work()

    assert states(world, ids) == dict.fromkeys(bizs, "done")
    assert ask(world, "GET", "/health", key=None).json["status"] == "ok"
