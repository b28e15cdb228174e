"""Suites of ports share fixtures: connections of a session; one queue, node or server a test."""

from collections.abc import Callable, Iterator

import pytest

from infra.local.redis_server import RedisServer
from tests.contract import host_cases
from tests.contract.store_cases import Fleet
from tests.kit.fleet import RedisWorkers
from tests.kit.ids import WorkerNumbers
from tests.kit.implementations import Backend, backend_over, fixture_over
from tests.kit.kernel import QueueKey
from tests.kit.mongo import MongoRequestStore
from tests.kit.mongo_nodes import NodesOnOneServer, own_control_at
from tests.kit.patience import patient
from tests.kit.politeness import RedisHosts
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection


@pytest.fixture
def redis_connection(redis_url: str) -> Iterator[RedisConnection]:
    with RedisConnection(redis_url) as connection:
        yield connection


@pytest.fixture
def cluster_connection(redis_cluster_url: str) -> Iterator[RedisConnection]:
    with RedisConnection(redis_cluster_url) as connection:
        yield connection


@pytest.fixture(scope="session")
def _session_nodes(mongo_uri: str) -> Iterator[NodesOnOneServer]:
    with own_control_at(mongo_uri) as nodes:
        yield nodes


@pytest.fixture
def mongo_connection(_session_nodes: NodesOnOneServer) -> Iterator[NodesOnOneServer]:
    """Nodes whose control database has nothing of another test."""
    yield _session_nodes
    _session_nodes.empty_control()


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A Redis that a test may fill, block and demote."""
    with RedisServer(own=True) as server:
        yield patient(server.url)


@pytest.fixture
def own(own_server: str) -> Iterator[RedisConnection]:
    """Connect to the test's own Redis, emptied."""
    with RedisConnection(own_server) as connection:
        connection.client.flushall()
        yield connection


@pytest.fixture(params=["redis", "cluster"])
def any_redis(request: pytest.FixtureRequest) -> RedisConnection:
    """Connect to one server, then to a cluster, for what has no in-memory fake."""
    connection = request.getfixturevalue(f"{request.param}_connection")
    assert isinstance(connection, RedisConnection)
    return connection


@pytest.fixture
def queue_key(tenant: str) -> QueueKey:
    return QueueKey(tenant, "docs", "main")


queue = fixture_over(RedisQueue)
workers = fixture_over(RedisWorkers)
store = fixture_over(MongoRequestStore)
numbering = backend_over(WorkerNumbers)
hosts = backend_over(RedisHosts)


@pytest.fixture
def numbers_of(numbering: Backend) -> Callable[..., WorkerNumbers]:
    """Make the worker numbers of a range; another fleet shares nothing with the first."""

    def of(numbers: range, fleet: str = "") -> WorkerNumbers:
        of_fleet = {"fleet": f"{numbering.tenant}{fleet}"} if numbering.connection else {}
        return numbering.make(WorkerNumbers, numbers=numbers, **of_fleet)

    return of


@pytest.fixture
def street(hosts: Backend, tenant: str) -> host_cases.Street:
    """Return one host whose clock the test sets."""
    time = host_cases.Time()
    return host_cases.Street(hosts.make(RedisHosts, clock=time), time, f"{tenant}.example")


@pytest.fixture
def fleet(store: MongoRequestStore, tenant: str) -> Fleet:
    """A queue of the tenant over the store: two nodes, two databases, two shards."""
    return Fleet(store, tenant)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("measured")
