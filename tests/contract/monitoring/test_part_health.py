"""Tests of the monitor's and the health check's findings on parts that are up or down."""

from concurrent.futures import ThreadPoolExecutor

import pymongo
import pytest

from infra.local.parts import LOOPBACK, free_port
from tests.kit.kernel import ConfigError, Problem
from tests.kit.mongo import MongoNodes
from tests.kit.monitoring import PartHealth
from tests.kit.queue import NodeHealth
from tests.kit.redis import RedisConnection


def a_health(redis_url: str, uris: dict[str, str]):
    def uri_of(node: str) -> str:
        if node not in uris:
            raise ConfigError([Problem(f"secret {node}", "there is no such secret")])
        return uris[node]

    redis = RedisConnection(redis_url)
    nodes = MongoNodes(uri_of, lambda: "main")
    return PartHealth(redis, nodes, lambda: ("main", "east")), redis, nodes


@pytest.fixture
def well(redis_url, mongo_uri):
    health, redis, nodes = a_health(redis_url, {"main": mongo_uri, "east": mongo_uri})
    yield health
    redis.close()
    nodes.close()


@pytest.fixture
def unwell(mongo_uri):
    """Nothing listens where Redis and the node main should be; east has no secret."""
    dead = f"mongodb://{LOOPBACK}:{free_port()}/?directConnection=true"
    health, redis, nodes = a_health(f"redis://{LOOPBACK}:{free_port()}/0", {"main": dead})
    yield health
    redis.close()
    nodes.close()


def by_name(health: PartHealth) -> dict[str, NodeHealth]:
    return {f"{look.part}:{look.name}": look for look in health.read()}


def test_parts_that_are_well_say_so_with_their_figures(well):
    looks = by_name(well)

    assert list(looks) == ["redis:redis", "mongodb:main", "mongodb:east"]
    assert all(look.up and look.error is None for look in looks.values())
    redis = looks["redis:redis"].figures
    assert redis["MemoryBytes"] > 100_000
    assert 0 < redis["MemoryRatio"] < 1
    assert redis["Connections"] >= 1
    assert (redis["EvictedKeys"], redis["LinkDown"]) == (0, 0)
    assert 0 < redis["Latency"] < 1
    assert 0 < redis["ConnectionsRatio"] < 1
    node = looks["mongodb:main"].figures
    assert node["StorageBytes"] > 0
    assert 0 < node["StorageRatio"] < 1
    assert node["MemoryBytes"] > 1_000_000
    assert 0 <= node["CacheRatio"] <= 1
    assert (node["Members"], node["MembersUnwell"]) == (1, 0)
    assert (node["SlowOperations"], node["LagSeconds"]) == (0, 0)
    assert 0 < node["Latency"] < 1
    assert 0 < node["ConnectionsRatio"] < 1
    assert looks["redis:redis"].missing == looks["mongodb:main"].missing == {}


def test_every_figure_is_a_number(well):
    figures = [value for look in well.read() for value in look.figures.values()]

    assert len(figures) == 10 + 2 * 12
    assert all(type(value) is float for value in figures)


def test_a_slow_operation_is_counted_while_it_runs(well, mongo_uri, tenant):
    with pymongo.MongoClient(mongo_uri) as client, ThreadPoolExecutor(1) as pool:
        things = client[f"cf_{tenant}_db"]["things"]
        things.insert_many([{"n": n} for n in range(16)])
        slow = pool.submit(list, things.find({"$where": "sleep(500); return false"}))
        seen = 0.0
        while not seen and not slow.done():
            seen = by_name(well)["mongodb:main"].figures["SlowOperations"]
        assert slow.result(60) == []
        client.drop_database(f"cf_{tenant}_db")

    assert seen >= 1


def test_parts_that_are_dead_are_entries_that_say_so_and_never_an_error(unwell):
    looks = by_name(unwell)

    assert not any(look.up for look in looks.values())
    assert all(look.figures == {} for look in looks.values())
    assert "redis" in (looks["redis:redis"].error or "")
    assert "ServerSelectionTimeoutError" in (looks["mongodb:main"].error or "")
    assert "there is no such secret" in (looks["mongodb:east"].error or "")


def test_a_health_check_says_ok_or_a_word_that_gives_nothing_away(well, unwell, caplog):
    assert well.answers() == {"redis": "ok", "mongodb:main": "ok", "mongodb:east": "ok"}

    assert unwell.answers() == {
        "redis": "does not answer",
        "mongodb:main": "does not answer",
        "mongodb:east": "is not set up",
    }
    assert [record.__dict__["part"] for record in caplog.records] == [
        "redis",
        "mongodb:main",
        "mongodb:east",
    ]
