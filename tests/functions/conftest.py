"""A world for each module, on a Redis of its own: workers and worker numbers are the fleet's."""

from collections.abc import Iterator

import pytest

from infra.local.redis_server import ENV_URL, RedisServer
from tests.kit.patience import patient
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
