"""A world for each module, on a Redis of its own: workers and worker numbers are the fleet's."""

from collections.abc import Iterator

import pytest

from infra.local.redis_server import ENV_URL, RedisServer
from tests.cli_program import program
from tests.functions.door import Door, a_door
from tests.kit.patience import patient
from tests.kit.sdk import Client
from tests.kit.worlds.functions import World, a_world


@pytest.fixture(scope="module")
def own_redis() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENV_URL, raising=False)
        with RedisServer() as server:
            yield patient(server.url)


@pytest.fixture(scope="module")
def standing_world(own_redis: str, mongo_uri: str) -> Iterator[World]:
    with a_world(own_redis, mongo_uri) as world:
        yield world


@pytest.fixture
def world(standing_world: World) -> Iterator[World]:
    """The module's world with new tenants and an empty Redis; its environments stay warm."""
    standing_world.fresh()
    yield standing_world
    standing_world.drop()


@pytest.fixture(scope="module")
def standing_door(standing_world: World, tmp_path_factory) -> Iterator[Door]:
    """The module's world behind HTTP; each answer is compared with the API's document."""
    with a_door(standing_world, tmp_path_factory.mktemp("door")) as door:
        yield door
        assert door.drifts == []


@pytest.fixture
def client(world: World, standing_door: Door) -> Iterator[Client]:
    """The SDK with the key of a tenant."""
    with Client(standing_door.url, standing_door.keys["acme"]) as client:
        yield client


@pytest.fixture
def crawlfleet(world: World, standing_door: Door, monkeypatch, capfdbinary):
    """Runs the program with the key of a tenant."""
    monkeypatch.setenv("CRAWLFLEET_API_URL", standing_door.url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", standing_door.keys["acme"])
    return program(capfdbinary)
