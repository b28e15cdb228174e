"""One fixture a port: every contract test runs over the twin in memory and over the real part."""

from collections.abc import Callable, Iterator

import pytest

from infra.local.redis_server import RedisServer
from tests.contract.store_cases import Fleet, a_store
from tests.kit.fakes import MemoryQueue, MemoryWorkerNumbers, MemoryWorkers
from tests.kit.fleet import RedisWorkers, Workers
from tests.kit.ids import RedisWorkerNumbers, WorkerNumbers
from tests.kit.kernel import Lane
from tests.kit.queue import RedisQueue, RequestQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import RequestStore

over_all = pytest.fixture(params=["memory", "redis", "cluster"])


@pytest.fixture
def redis_connection(redis_url: str) -> Iterator[RedisConnection]:
    with RedisConnection(redis_url) as connection:
        yield connection


@pytest.fixture
def cluster_connection(redis_cluster_url: str) -> Iterator[RedisConnection]:
    with RedisConnection(redis_cluster_url) as connection:
        yield connection


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A Redis that a test may fill, block and demote."""
    with RedisServer(own=True) as server:
        yield server.url


@pytest.fixture
def own(own_server: str) -> Iterator[RedisConnection]:
    """To that one, empty."""
    with RedisConnection(own_server) as connection:
        connection.client.flushall()
        yield connection


@pytest.fixture(params=["redis", "cluster"])
def any_redis(request: pytest.FixtureRequest) -> RedisConnection:
    """To one server, then to a cluster, for what has no twin."""
    connection = request.getfixturevalue(f"{request.param}_connection")
    assert isinstance(connection, RedisConnection)
    return connection


@pytest.fixture
def lane(tenant: str) -> Lane:
    return Lane(tenant, "docs", "main")


@over_all
def queue(request: pytest.FixtureRequest) -> RequestQueue:
    if request.param == "memory":
        return MemoryQueue()
    return RedisQueue(request.getfixturevalue(f"{request.param}_connection"))


@over_all
def workers(request: pytest.FixtureRequest, tenant: str) -> Workers:
    """Liveness is the default: 15 s."""
    if request.param == "memory":
        return MemoryWorkers()
    return RedisWorkers(request.getfixturevalue(f"{request.param}_connection"), fleet=tenant)


@over_all
def numbers_of(
    request: pytest.FixtureRequest, tenant: str
) -> Callable[[range, str], WorkerNumbers]:
    """Make the worker numbers of a range; another fleet shares nothing with the first."""
    if request.param == "memory":
        return lambda numbers, _fleet="": MemoryWorkerNumbers(numbers=numbers)
    connection = request.getfixturevalue(f"{request.param}_connection")
    return lambda numbers, fleet="": RedisWorkerNumbers(
        connection, numbers=numbers, fleet=f"{tenant}{fleet}"
    )


@pytest.fixture(params=["memory", "mongo"])
def store(request: pytest.FixtureRequest) -> Iterator[RequestStore]:
    uri = request.getfixturevalue("mongo_uri") if request.param == "mongo" else ""
    with a_store(request.param, uri) as made:
        yield made


@pytest.fixture
def fleet(store: RequestStore, tenant: str) -> Fleet:
    """A lane of the tenant over the store: two nodes, two databases, two shards."""
    return Fleet(store, tenant)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("measured")
