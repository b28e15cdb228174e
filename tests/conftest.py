"""Fixtures of all tests: real servers, a tenant per test, AWS in memory, no network.

The suite starts its own Redis and its own MongoDB replica set on free ports, once for a session;
with ``-n`` the main process starts them and its workers share them. Tests keep apart by working
under the ``tenant`` they are given. ``REDIS_URL`` and ``MONGODB_URI`` name servers to use instead.
Nothing here skips: a missing server is a failure that says what to install.
"""

import ipaddress
import logging
import os
import socket
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from moto import mock_aws

from infra.fleet import FLEET
from infra.local.aws_server import CREDENTIALS
from infra.local.mongo_server import MongoServer
from infra.local.redis_cluster import RedisCluster
from infra.local.redis_server import RedisServer
from tests import proofs, turns
from tests.kit.examples import register_profiles
from tests.kit.kernel import PRODUCT
from tests.kit.patience import patient
from tests.progress import pytest_runtest_makereport, pytest_sessionstart
from tests.steady import steady_loops

#: Hooks that are the same for any suite.
__all__ = ["pytest_runtest_makereport", "pytest_sessionstart"]

_servers = pytest.StashKey[ExitStack]()
_addresses = pytest.StashKey[dict[str, str]]()

#: Expiry is a subject of some tests; MongoDB looks for expired documents once a minute otherwise.
_MONGO_PARAMETERS = {"ttlMonitorSleepSecs": 1}


#: Of a contract's tests those over the in-memory fake are enough to trace.
_ON_SERVERS = ("[mongo", "[redis", "[cluster")

register_profiles()

# pytest imports readline, which says how wide a terminal is to all processes that are started after
# it, and to those of ``-n``: tables would be cut by whoever runs the tests.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--own-servers",
        action="store_true",
        help="start no servers that processes share: for tests that hardly ask for any",
    )


def pytest_configure(config: pytest.Config) -> None:
    turns.turn()  # before there are other processes, which have it from this one
    config.stash[_servers] = ExitStack()
    config.stash[_addresses] = dict(getattr(config, "workerinput", {}).get("addresses", {}))


_HERE = Path(__file__).resolve().parent
#: Of folders that are not measured, the files that alone go through some of what decides.
_MEASURED = {
    Path("contract/jobs/test_awards_at_once.py"),
    Path("functions/api/test_deliveries.py"),
    Path("functions/api/test_deliveries_by_cli.py"),
    Path("functions/api/test_subscriptions.py"),
    Path("functions/api/test_subscriptions_by_cli.py"),
    Path("functions/config/test_config_by_api.py"),
    Path("functions/config/test_config_by_cli.py"),
    Path("functions/fleet/test_fleet.py"),
    Path("functions/fleet/test_gateway_tenants.py"),
    Path("functions/fleet/test_managed_tenants.py"),
    Path("functions/fleet/test_quotas.py"),
    Path("functions/fleet/test_removed_tenants.py"),
    Path("functions/fleet/test_shares.py"),
    Path("functions/jobs/test_bound_jobs.py"),
    Path("functions/jobs/test_costs.py"),
    Path("functions/jobs/test_plans_by_cli.py"),
    Path("functions/jobs/test_plans_by_sdk.py"),
    Path("functions/jobs/test_runs.py"),
    Path("functions/jobs/test_starts.py"),
    Path("functions/jobs/test_submitted_jobs.py"),
    Path("functions/monitoring/test_incidents.py"),
    Path("functions/monitoring/test_insight.py"),
    Path("functions/requests/test_advice_obeyed.py"),
    Path("functions/requests/test_dead_letters.py"),
    Path("functions/requests/test_transitions.py"),
    Path("unit/cli/test_init.py"),
    Path("unit/cli/test_shell.py"),
}


def _place(item: pytest.Item) -> Path:
    return item.path.relative_to(_HERE) if item.path.is_relative_to(_HERE) else item.path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: left for the end, it would keep one process busy alone.

    The examples in the product are measured; folders of tests say it in their conftest.
    """
    for item in items:
        proofs.check(item)
        if isinstance(item, pytest.DoctestItem) or _place(item) in _MEASURED:
            item.add_marker("measured")
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


def _is_measured(item: pytest.Item) -> bool:
    """Tell whether the coverage of a test is measured, as its folder's is.

    Tracing takes two to four times what a test does, so that nobody pays for it who goes through
    what others have gone through: thousands of times (`untraced`), or on real servers.
    """
    return (
        item.get_closest_marker("measured") is not None
        and item.get_closest_marker("untraced") is None
        and not any(one in item.name for one in _ON_SERVERS)
    )


@contextmanager
def _untraced() -> Iterator[None]:
    """Trace nothing meanwhile, where coverage is measured at all."""
    if (tracer := Coverage.current()) is None:
        yield
        return
    tracer.stop()
    try:
        yield
    finally:
        tracer.start()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Trace the imports of the first process alone: the others import the same modules."""
    worker = getattr(session.config, "workerinput", {}).get("workerid", "gw0")
    with nullcontext() if worker == "gw0" else _untraced():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with nullcontext() if _is_measured(item) else _untraced():
        return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_servers].close()


def _address(config: pytest.Config, part: str) -> str:
    """The address of a server, started when it is first asked for."""
    addresses = config.stash[_addresses]
    if part not in addresses:
        servers = config.stash[_servers]
        if part == "redis":
            addresses[part] = patient(servers.enter_context(RedisServer()).url)
        elif part == "redis cluster":
            addresses[part] = patient(servers.enter_context(RedisCluster()).url)
        else:
            mongo = MongoServer(parameters=_MONGO_PARAMETERS, cache_gb=0.25, volatile=True)
            addresses[part] = servers.enter_context(mongo).uri
    return addresses[part]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where this process has started the servers."""
    if node.config.option.own_servers:
        return
    node.workerinput["addresses"] = {
        part: _address(node.config, part) for part in ("redis", "redis cluster", "mongo")
    }


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest) -> str:
    """Address of a real Redis that all tests share; keys go below the test's ``tenant``."""
    return _address(request.config, "redis")


@pytest.fixture(scope="session")
def redis_cluster_url(request: pytest.FixtureRequest) -> str:
    """Address of a real cluster of three nodes that all tests share, as they do that Redis."""
    return _address(request.config, "redis cluster")


@pytest.fixture(scope="session")
def mongo_uri(request: pytest.FixtureRequest) -> str:
    """Address of a real replica set of one that all tests share."""
    return _address(request.config, "mongo")


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """AWS in this process's memory, empty at the start of each test."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in list(os.environ):
        if name.startswith("AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name)
    # The session stays, and with it what it has read of AWS's description: a quarter of a second.
    with mock_aws(config={"core": {"reset_boto3_session": False}}):
        yield


@pytest.fixture(autouse=True)
def _shared_logs() -> None:
    """Propagate the product's logs to pytest, even after a test has wired a function.

    That keeps it to a handler and a level of its own, in the process that the tests share: chaos
    lets errors through alone.
    """
    for log in map(logging.getLogger, (PRODUCT, *(spec.name for spec in FLEET.functions))):
        log.propagate = True
        if log.level > logging.WARNING:
            log.setLevel(logging.WARNING)


@pytest.fixture(autouse=True, scope="session")
def _steady_loops() -> Iterator[None]:
    """A machine that stands still for a moment lets no time-out of an event loop pass."""
    with steady_loops():
        yield


class NetworkClosedError(AssertionError):
    """A test reached for an address outside this machine."""


def _refuse_foreign(address: object) -> None:
    if not isinstance(address, tuple):
        return  # a Unix socket's path
    host = str(address[0])
    try:
        local = ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        local = host in {"localhost", ""}
    if not local:
        raise NetworkClosedError(f"tests do not leave this machine, but one connects to {host}")


@pytest.fixture(autouse=True, scope="session")
def _closed_network() -> Iterator[None]:
    """Let sockets reach loopback only, and names resolve only where no resolver is asked."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    getaddrinfo = socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _refuse_foreign(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _refuse_foreign(address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in {None, "", "localhost", socket.gethostname()}:
            try:
                ipaddress.ip_address(name.partition("%")[0])
            except ValueError:
                raise socket.gaierror(
                    socket.EAI_NONAME, f"tests resolve no names, but one asks for {name}"
                ) from None
        return getaddrinfo(host, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield
