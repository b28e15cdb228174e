"""A real cluster of Redis that is healthy: nodes are found, keys followed, scripts learnt."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from redis.crc import key_slot

from infra.local.parts import LOOPBACK, free_port
from infra.local.redis_cluster import RedisCluster
from tests.contract.redis_calls import CALLS, answering, refused
from tests.kit.kernel import ConfigError, QueueKey, StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.politeness import HostAsk, RedisHosts
from tests.kit.queue import RedisQueue, RedisQueueRebuild, fleet_keys, redis_keys
from tests.kit.redis import RedisConnection, ServerClock
from tests.kit.redis_slots import Move, client_of, queue_keys_of, slot_of
from tests.kit.requests import Entry
from tests.waiting import eventually

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)
HOSTS = [f"h{n}.example" for n in range(60)]


def entries(count: int, biz: str = "docs", first: int = 0) -> list[Entry]:
    return [Entry(n, biz, n) for n in range(first, first + count)]


def asks(hosts: list[str], count: int = 1) -> list[HostAsk]:
    figures = {"tenant": "acme", "count": count, "running": 0, "concurrency": 8}
    return [HostAsk(host=host, interval_seconds=0.1, **figures) for host in hosts]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """A cluster whose slots, passwords and scripts a test may change."""
    with RedisCluster() as running:
        yield running


@pytest.fixture
def own(cluster: RedisCluster) -> Iterator[RedisConnection]:
    with RedisConnection(patient(cluster.url)) as connection:
        yield connection


@pytest.fixture
def queues(cluster: RedisCluster, tenant: str) -> list[QueueKey]:
    """Return one queue key per node, in the order of the nodes."""
    return [queue_keys_of(cluster, server, tenant)[0] for server in cluster.servers]


# ---- where keys are -----------------------------------------------------------------------------


def test_one_call_for_queues_and_hosts_of_all_nodes_answers_each_in_its_place(cluster_connection):
    queue, hosts = RedisQueue(cluster_connection), RedisHosts(cluster_connection)
    queues = [QueueKey("acme", f"spread-{n}", "main") for n in range(40)]
    for n, queue_key in enumerate(queues):
        queue.enqueue(queue_key, entries(n, queue_key.biz), NOW)

    depths = queue.depths(queues)
    loads = queue.loads(queues, NOW)
    grants = hosts.reserve(asks(HOSTS), "w")

    assert [depth.queued for depth in depths] == [load.ready for load in loads] == list(range(40))
    assert [grant.host for grant in grants] == HOSTS
    assert {grant.count for grant in grants} == {1}


def test_what_has_no_key_is_asked_of_the_node_of_the_fleets_keys(cluster, own):
    home = cluster.server_of(fleet_keys().workers)
    for server in cluster.servers:
        with client_of(server) as client:
            client.config_resetstat()

    reported = ServerClock(own, wall=lambda: NOW)()

    asked = []
    for server in cluster.servers:
        with client_of(server) as client:
            asked += [server] * ("cmdstat_time" in client.info("commandstats"))
    assert asked == [home]
    assert reported - NOW > timedelta(days=1)


def test_a_script_that_one_node_forgot_is_sent_to_it_again(cluster, own, queues):
    queue, hosts = RedisQueue(own), RedisHosts(own)
    for server in cluster.servers:
        queue.depths(queues)
        with client_of(server) as client:
            client.script_flush()

        assert [depth.queued for depth in queue.depths(queues)] == [0, 0, 0]
        assert len(hosts.reserve(asks(HOSTS), "w")) == len(HOSTS)
        for queue_key in queues:
            queue.requeue(queue_key, entries(1))
            assert (
                queue.finish(queue_key, "w", queue.lease(queue_key, "w", 1, NOW, UNTIL), 1, NOW)
                == 1
            )


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_goes_on_when_all_scripts_and_connections_are_gone(cluster, call):
    with RedisConnection(patient(cluster.url), idle_seconds=0) as idle:
        call(idle)
        for server in cluster.servers:
            with client_of(server) as client:
                client.script_flush()
                client.client_kill_filter(_type="normal", skipme=True)

        call(idle)


def test_threads_share_the_nodes(own, queues):
    queue = RedisQueue(own)

    def work() -> None:
        for n in range(30):
            queue.enqueue(queues[n % 3], entries(1), NOW)
            queue.depths(queues)

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [depth.queued for depth in queue.depths(queues)] == [120] * 3


def test_a_forked_child_uses_connections_of_its_own(cluster):
    program = f"""
import os
from crawlfleet.kernel.redis.connection import RedisConnection
it = RedisConnection({cluster.url!r})
mine = lambda: {{client.client_id() for _, client in it.nodes() for _ in range(50)}}
before = mine()
child = os.fork()
if child == 0:
    os._exit(0 if len(mine()) <= 3 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert mine() == before
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")


# ---- slots that move ----------------------------------------------------------------------------


def test_a_queue_whose_slot_has_moved_is_followed_with_all_that_is_its_own(cluster, own, queues):
    queue_key, others = queues[0], queues[1:]
    queue, rebuild = RedisQueue(own), RedisQueueRebuild(own)
    rebuild.clear(queue_key, "n")
    rebuild.filled(queue_key, "n")
    queue.enqueue(queue_key, entries(9, queue_key.biz), NOW)
    held = queue.lease(queue_key, "w", 4, NOW, UNTIL)
    before = rebuild.epoch(queue_key)
    move = Move(slot_of(queue_key), cluster.servers[0], cluster.servers[1])
    move.begin()
    move.carry()
    move.end()

    depth, *_ = queue.depths(queues)
    finished = queue.finish(queue_key, "w", held, 4, NOW)
    after = rebuild.epoch(queue_key)

    assert (depth.queued, depth.leased, depth.away) == (5, 4, False)
    assert finished == 4
    # Another server has it now: the queue is filled anew once, as it is after a failover.
    assert after.nonce == before.nonce
    assert after.server != before.server
    assert [depth.queued for depth in queue.depths(others)] == [0, 0]


def test_while_a_slot_moves_its_queue_waits_or_is_followed_and_the_others_go_on(
    cluster, own, queues
):
    queue_key, other = queues[1], queues[2]
    queue = RedisQueue(own)
    keys = redis_keys(queue_key)
    queue.enqueue(queue_key, entries(9, queue_key.biz), NOW)
    queue.enqueue(other, entries(3, other.biz), NOW)
    queue.add_phases(queue_key, {"fetch": 2.0})
    move = Move(slot_of(queue_key), cluster.servers[1], cluster.servers[2])
    move.begin()
    move.carry(keys.queue, keys.phases)

    # One key a call: asked for where it is, though the slot is not that node's yet.
    queue.requeue(queue_key, entries(1, queue_key.biz, first=100))
    assert queue.phases(queue_key) == {"fetch": 2.0}
    # Several, of which some are here and some there: nobody can run that now.
    refused(lambda: queue.lease(queue_key, "w", 1, NOW, UNTIL))
    away, there = queue.depths([queue_key, other])
    assert (away.away, there.queued) == (True, 3)

    move.carry()
    move.end()
    assert len(queue.lease(queue_key, "w", 99, NOW, UNTIL)) == 10


def test_a_client_that_knew_the_cluster_before_learns_it_anew(cluster, own, queues):
    queue = RedisQueue(own)
    queue.depths(queues)
    queue_key = queues[2]
    moved = queue_keys_of(cluster, cluster.servers[2], f"{queue_key.tenant}x", 20)
    for one in moved:
        move = Move(slot_of(one), cluster.servers[2], cluster.servers[0])
        move.begin()
        move.carry()
        move.end()

    assert [depth.away for depth in queue.depths(moved)] == [False] * 20
    with client_of(cluster.servers[2]) as client:

        def knows_better():
            client.config_resetstat()
            queue.depths(moved)
            return "cmdstat_evalsha" not in client.info("commandstats")

        eventually(knows_better)


# ---- addresses ----------------------------------------------------------------------------------


def test_a_cluster_that_is_addressed_as_one_server_says_what_the_address_is_to_be(cluster, queues):
    with RedisConnection(cluster.url.replace("+cluster", "")) as connection:
        queue = RedisQueue(connection)

        said = {
            str(refused(lambda queue_key=queue_key: queue.enqueue(queue_key, entries(1), NOW)))
            for queue_key in queues[1:]
        }

    assert all("redis+cluster://" in one for one in said)


def test_one_server_that_is_addressed_as_a_cluster_is_unavailable_with_the_reason(redis_url):
    with RedisConnection(redis_url.replace("redis://", "redis+cluster://")) as connection:
        error = refused(lambda: CALLS["depth"](connection))

    assert "cluster support disabled" in str(error)


@pytest.mark.parametrize(
    "url", ["redis+cluster://h:port", "redis+cluster://h:1/3", "unix+cluster:///x", "redis+cluster"]
)
def test_an_address_of_no_cluster_is_a_error_in_the_configuration(url):
    with pytest.raises(ConfigError, match="redis_url"):
        RedisConnection(url)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_cluster_of_which_nothing_is_there_is_unavailable(call):
    with RedisConnection(f"redis+cluster://{LOOPBACK}:{free_port()}") as connection:
        refused(lambda: call(connection))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b":1\r\n",
        b"*0\r\n",
        b"*1\r\n*2\r\n:0\r\n:5\r\n",
        b"*1\r\n*3\r\n:0\r\n:5\r\n$1\r\nx\r\n",
        b"*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$0\r\n\r\n:x\r\n",
        b"-MOVED 1 :1\r\n",
        b"-MOVED nonsense\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
    ],
)
@pytest.mark.parametrize("name", ["enqueue", "depths", "phases", "reserve slots"])
def test_a_lying_node_is_unavailable(name, answer):
    with (
        answering(answer) as url,
        RedisConnection(url.replace("redis://", "redis+cluster://"), answer_seconds=0.2) as it,
        pytest.raises(StoreUnavailableError),
    ):
        CALLS[name](it)


def test_a_health_check_asks_every_node(cluster, own):
    for server in cluster.servers:
        with client_of(server) as client:
            client.config_resetstat()

    own.ping()

    for server in cluster.servers:
        with client_of(server) as client:
            assert client.info("commandstats")["cmdstat_ping"]["calls"] >= 1


def test_the_keys_of_a_queue_are_in_one_slot_and_those_of_the_fleet(tenant):
    for keys in (redis_keys(QueueKey(tenant, "docs", "main")), fleet_keys()):
        assert len({key_slot(key.encode()) for key in keys}) == 1


def test_the_cluster_of_the_tests_is_whole(cluster):
    eventually(cluster.is_well, what="every node knows the others")
