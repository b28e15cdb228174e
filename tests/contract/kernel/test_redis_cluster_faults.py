"""Nodes of a real cluster of Redis that die, hang, fail over, or change their password."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import redis

from infra.local.redis_cluster import RedisCluster
from infra.local.redis_server import RedisServer
from tests.contract.redis_calls import refused
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo import MongoNodes
from tests.kit.monitoring import PartHealth
from tests.kit.patience import patient
from tests.kit.politeness import HostAsk, HostReport, RedisHosts
from tests.kit.queue import (
    RedisOverview,
    RedisQueue,
    RedisQueueRebuild,
    RedisQueueSampler,
    bizs_key,
    host_key,
)
from tests.kit.records import RedisDataQueue
from tests.kit.recovery import RedisBizs
from tests.kit.redis import RedisConnection
from tests.kit.redis_slots import client_of, port_of, queue_keys_of
from tests.kit.requests import Entry
from tests.kit.tls import LOOPBACK, Authority, tls_end
from tests.waiting import eventually, in_time

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)
PASSWORD = "the-first-password"
ENTRIES = [Entry(n, "docs", n) for n in range(5)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """Three masters and a replica of the first; whoever kills a node starts it again.

    A machine that stands still for a moment makes nobody a master.
    """
    with RedisCluster(replicas=1, node_timeout_ms=6_000) as running:
        yield running


@pytest.fixture
def at_once() -> int:
    """Queue keys that are asked about in one round trip."""
    return 200


@pytest.fixture
def own(cluster: RedisCluster, at_once: int) -> Iterator[RedisConnection]:
    eventually(cluster.is_well, what="the cluster is whole again")
    with RedisConnection(patient(cluster.url), queues_at_once=at_once) as connection:
        yield connection


@pytest.fixture
def queues(cluster: RedisCluster, tenant: str) -> list[QueueKey]:
    """Return one queue key per master, in the order of the masters."""
    return [queue_keys_of(cluster, server, tenant)[0] for server in cluster.servers[:3]]


def hosts_of(cluster: RedisCluster, server: RedisServer, number: int) -> list[str]:
    names = (f"h{n}.example" for n in range(10_000))
    mine = (name for name in names if cluster.server_of(host_key(name)) is server)
    return [next(mine) for _ in range(number)]


def an_ask(host: str) -> HostAsk:
    return HostAsk(
        host=host, tenant="acme", count=2, running=0, interval_seconds=0.1, concurrency=8
    )


def parts_of(connection: RedisConnection) -> PartHealth:
    return PartHealth(connection, MongoNodes(str, lambda: "main"), tuple)


def takes(queue: RedisQueue, queue_key: QueueKey) -> bool:
    try:
        queue.enqueue(queue_key, ENTRIES, NOW)
    except StoreUnavailableError:
        return False
    return True


@pytest.mark.parametrize("at_once", [200, 1])
def test_a_node_that_dies_takes_its_own_queues_along_and_no_other(cluster, own, queues):
    queue, items, hosts = RedisQueue(own), RedisDataQueue(own), RedisHosts(own)
    dead = cluster.servers[2]
    for queue_key in queues:
        queue.enqueue(queue_key, ENTRIES, NOW)
        items.put(queue_key, [b"{}"])
    mark = RedisQueueRebuild(own).epoch(queues[2])
    gone, there = hosts_of(cluster, dead, 2), hosts_of(cluster, cluster.servers[1], 2)
    dead.kill()
    try:
        refused(lambda: queue.enqueue(queues[2], ENTRIES, NOW))
        refused(lambda: queue.depth(queues[2]))
        refused(own.ping)
        assert [depth.away for depth in queue.depths(queues)] == [False, False, True]
        assert [load.ready for load in queue.loads(queues, NOW)] == [5, 5, 0]
        assert items.waiting(queues) == [1, 1, 0]
        assert len(queue.lease(queues[1], "w", 2, NOW, UNTIL)) == 2
        grants = hosts.reserve([an_ask(host) for host in (*gone, *there)], "w")
        assert [(grant.count, grant.why) for grant in grants] == [(0, "away")] * 2 + [(2, "")] * 2
        assert all(grant.ready_seconds > 0 for grant in grants[:2])
        reports = [HostReport(host=one, tenant="acme", running=0) for one in (gone[0], there[0])]
        assert hosts.report(reports, "w") == reports[:1]
        (grant,) = hosts.reserve([an_ask(gone[0])], "w")
        assert (grant.count, grant.permits) == (0, 0)
        assert [state.host for state in hosts.states([*gone, *there])] == there
        works = RedisQueueSampler(own).works(queues, NOW, timedelta(seconds=9), 5)
        assert [work.backlog for work in works] == [5, 5, 0]
        counts = RedisOverview(own).counts(queues)
        assert [None if one is None else sum(one[0].values()) for one in counts] == [5, 5, None]
        assert RedisOverview(own).waiting_hosts(queues, 5) == [[], [], []]
        looks = {name: look() for (_, name), look in parts_of(own).checks().items()}
        assert [look.up for look in looks.values()].count(False) == 1
        assert not looks[f"{LOOPBACK}:{port_of(dead)}"].up
        assert parts_of(own).answers() == {"redis": "does not answer"}
    finally:
        dead.restart()

    eventually(lambda: takes(queue, queues[2]), what="the node is found again")
    # It has come back empty: its queues are filled again from MongoDB.
    assert RedisQueueRebuild(own).epoch(queues[2]).server != mark.server
    assert queue.depth(queues[2]).queued == 5


def test_of_tenants_whose_node_is_away_nobody_says_that_no_biz_of_theirs_is_gone(
    cluster, own, tenant
):
    bizs, dead = RedisBizs(own), cluster.servers[2]
    names = [f"{tenant}{n}" for n in range(60)]
    lost, kept = (
        next(one for one in names if cluster.server_of(bizs_key(one)) is server)
        for server in (dead, cluster.servers[1])
    )
    gone = QueueKey(kept, "old", "main")
    bizs.report({lost: [QueueKey(lost, "old", "main")], kept: [gone]})
    dead.kill()
    try:
        assert bizs.report({lost: [], kept: []}) == bizs.gone({kept: []}) == [gone]
        with pytest.raises(StoreUnavailableError, match="1 of 2 tenants"):
            bizs.gone({lost: [], kept: []})
    finally:
        dead.restart()


def test_a_replica_takes_over_and_is_found_without_a_new_connection(cluster, own, queues):
    queue, rebuild = RedisQueue(own), RedisQueueRebuild(own)
    first = cluster.servers[0]
    rebuild.clear(queues[0], "n")
    rebuild.filled(queues[0], "n")
    for queue_key in queues:
        queue.enqueue(queue_key, ENTRIES, NOW)
    mark = rebuild.epoch(queues[0])
    with client_of(first) as client:
        client.wait(1, 5_000)
    first.kill()
    began = time.monotonic()
    try:
        refused(lambda: queue.enqueue(queues[0], ENTRIES, NOW))
        missed = 0
        while not takes(queue, queues[0]):
            assert time.monotonic() < began + 60, "nobody took over"
            missed += 1
            assert [depth.away for depth in queue.depths(queues[1:])] == [False, False]
        assert missed > 0
        assert [depth.queued for depth in queue.depths(queues)] == [10, 5, 5]
        # The heir is another server: the queue is filled anew, as it may lack the last writes.
        after = rebuild.epoch(queues[0])
        assert (after.nonce, after.server == mark.server) == (mark.nonce, False)
    finally:
        first.restart()

    # The old one comes back as a replica, which sends on whoever still asks it.
    eventually(cluster.is_well, what="the old master follows the new one")
    with RedisConnection(patient(cluster.url)) as newcomer:
        assert RedisQueue(newcomer).depth(queues[0]).queued == 10
    assert len(queue.lease(queues[0], "w", 99, NOW, UNTIL)) == 5


def test_a_node_that_hangs_holds_the_others_up_once_and_not_again(cluster, own, queues):
    # More than the two of the product: the others are to answer in it on a machine that hangs, too.
    allowed = 8.0
    with RedisConnection(cluster.url, answer_seconds=allowed) as connection:
        _one_hangs(cluster, RedisQueue(connection), queues, allowed)


def _one_hangs(cluster, queue, queues, allowed):
    queue.depths(queues)
    with client_of(cluster.servers[1]) as client:
        pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with in_time(allowed):
            first = [depth.away for depth in queue.depths(queues)]
        waited = time.monotonic() - began
        with in_time(0, "it is waited for each time"):  # that were 160 seconds
            for _ in range(20):
                assert [depth.away for depth in queue.depths(queues)] == [False, True, False]
    finally:
        os.kill(pid, signal.SIGCONT)

    assert first == [False, True, False]
    assert waited >= allowed
    eventually(lambda: takes(queue, queues[1]), what="it answers again")
    eventually(
        lambda: not any(depth.away for depth in queue.depths(queues)),
        what="it is asked with the others again",
    )


# ---- passwords and TLS --------------------------------------------------------------------------


@pytest.fixture
def guarded(cluster: RedisCluster, own: RedisConnection) -> Iterator[list[redis.Redis]]:
    """Every node asks for a password; what is yielded may change it on each."""
    with ExitStack() as stack:
        operators = []
        for server in cluster.servers:
            client = redis.Redis.from_url(server.url, single_connection_client=True)
            operators.append(stack.enter_context(client))
            set_password(client, PASSWORD)
        yield operators
        for client in operators:
            set_password(client, "")


def set_password(operator: redis.Redis, password: str) -> None:
    operator.config_set("masterauth", password)
    operator.config_set("requirepass", password)
    operator.client_kill_filter(_type="normal", skipme=True)


@pytest.mark.long
def test_a_password_that_is_rotated_node_by_node_is_asked_for_anew(
    cluster, guarded, queues, monkeypatch
):
    asked: list[str] = []

    def renew() -> str:
        asked.append("rotated")
        return "the-second-password"

    with RedisConnection(patient(cluster.url), password=PASSWORD, renew=renew) as connection:
        queue = RedisQueue(connection)
        assert [depth.away for depth in queue.depths(queues)] == [False] * 3
        for operator in guarded:
            set_password(operator, "the-second-password")

        assert [depth.away for depth in queue.depths(queues)] == [False] * 3
        for queue_key in queues:
            queue.enqueue(queue_key, ENTRIES, NOW)

    assert asked == ["rotated"]


def test_no_error_of_a_cluster_shows_the_password(cluster, guarded, queues):
    with RedisConnection(patient(cluster.url), password="wr0ng") as wrong:
        for queue_key in queues:
            error = refused(lambda queue_key=queue_key: RedisQueue(wrong).depth(queue_key))
            assert "AuthenticationError" in str(error)
            assert "wr0ng" not in f"{error} {error.__cause__}"


def test_a_cluster_is_spoken_to_by_tls_on_every_node(tenant, tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    context = authority.server_context(LOOPBACK)
    with ExitStack() as stack:
        ports: list[int] = []

        def behind_tls(port: int) -> list[str]:
            """The node tells of the port that takes TLS, not of its own."""
            ports.append(stack.enter_context(tls_end(context, LOOPBACK, port)))
            return ["--cluster-announce-port", str(ports[-1])]

        cluster = stack.enter_context(RedisCluster(options_of=behind_tls))
        queues = [queue_keys_of(cluster, server, tenant)[0] for server in cluster.servers]
        url = f"rediss+cluster://{LOOPBACK}:{ports[1]}"
        with RedisConnection(url) as connection:
            queue = RedisQueue(connection)
            assert [depth.away for depth in queue.depths(queues)] == [False] * 3
            for queue_key in queues:
                queue.enqueue(queue_key, ENTRIES, NOW)
            assert {int(at.rpartition(":")[2]) for at, _ in connection.nodes()} == set(ports)

        monkeypatch.delenv("SSL_CERT_FILE")
        with RedisConnection(url) as connection:
            assert "certificate" in str(refused(lambda: RedisQueue(connection).depth(queues[0])))
