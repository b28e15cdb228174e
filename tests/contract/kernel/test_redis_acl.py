"""Rights that a Redis user needs, as docs/reference/redis-users.toml says it."""

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from infra.local.redis_cluster import RedisCluster
from infra.local.redis_server import RedisServer
from tests.contract.redis_calls import CALLS, LINK, NOW, QUEUE_KEY
from tests.contract.redis_users import rules_of
from tests.kit.bidding import JobListing, RedisBoard, RedisProbeCache
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import MongoNodes
from tests.kit.monitoring import PartHealth
from tests.kit.patience import patient
from tests.kit.queue import RedisQueue, redis_keys
from tests.kit.redis import RedisConnection, ServerClock
from tests.kit.redis_slots import Move, client_of, slot_of


def rules(*further: str) -> list[str]:
    return ["reset", "on", ">secret", *rules_of("crawlfleet", *further)]


@pytest.fixture(scope="module")
def restricted() -> Iterator[RedisConnection]:
    with RedisServer(own=True) as server, RedisConnection(patient(server.url)) as administrator:
        administrator.client.execute_command("ACL", "SETUSER", "crawlfleet", *rules())
        url = server.url.replace("redis://", "redis://crawlfleet:secret@")
        with RedisConnection(url) as connection:
            yield connection


@pytest.fixture(scope="module")
def restricted_on_all() -> Iterator[RedisConnection]:
    """The same on the nodes of a cluster, a slot of which is on its way to another node."""
    with RedisCluster() as cluster:
        for server in cluster.servers:
            with client_of(server) as client:
                client.execute_command("ACL", "SETUSER", "crawlfleet", *rules("cluster"))
        url = cluster.url.replace("redis+cluster://", "redis+cluster://crawlfleet:secret@")
        with RedisConnection(url) as connection:
            slot = slot_of(QUEUE_KEY)
            source = cluster.server_of(redis_keys(QUEUE_KEY).queue)
            target = next(server for server in cluster.servers if server is not source)
            RedisQueue(connection).add_phases(QUEUE_KEY, {"fetch": 1.0})
            move = Move(slot, source, target)
            move.begin()
            move.carry()
            assert RedisQueue(connection).phases(QUEUE_KEY) == {"fetch": 1.0}
            move.end()
            yield connection


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_restricted_user_of_a_cluster_may_do_all_that_is_called(restricted_on_all, call):
    call(restricted_on_all)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_restricted_user_may_do_all_that_is_called(restricted, call):
    call(restricted)


def test_a_restricted_user_may_read_the_clock_and_the_figures(restricted):
    reported = ServerClock(restricted, wall=lambda: NOW)()

    assert reported - NOW > timedelta(days=1)
    assert restricted.client.info()["run_id"]


def test_a_restricted_user_may_do_nothing_else(restricted):
    with pytest.raises(StoreUnavailableError, match="NoPermissionError"):
        restricted.together(("FLUSHALL",))


def test_such_a_user_gets_every_figure_of_the_monitor(restricted: RedisConnection) -> None:
    [look] = PartHealth(restricted, MongoNodes(str, lambda: "main"), tuple).checks().values()

    seen = look()

    assert (seen.up, seen.missing, seen.unread) == (True, {}, ())


def test_a_restricted_user_may_run_jobs_from_listing_to_end(restricted):
    board, wait, later = RedisBoard(restricted), timedelta(seconds=9), NOW + timedelta(seconds=60)
    keys = [("bolt", "docs", job) for job in ("a", "b", "c")]
    for tenant, biz, job in keys:
        board.add(JobListing(tenant=tenant, biz=biz, job=job), NOW, wait)
    for worker, key in (("w1", keys[0]), ("w2", keys[0]), ("w3", keys[1])):
        board.apply(worker, key, b"{}", NOW, wait)
    for key in keys[:2]:
        standing, bids = board.read(key)
        assert board.award(key, standing.version, bids[0].worker, later)
    held = board.held("w1")
    assert board.acknowledge("w1", keys[0], held.number, NOW)
    assert board.lapse(later + wait, wait, 9) == [(keys[1], "w3")]
    assert board.lower(keys[2], 0, NOW, wait)
    board.apply("w2", keys[2], b"{}", NOW, wait)
    assert board.retract("w2", NOW, wait) == keys[2]
    assert board.drop("bolt", "docs", 9) == 2
    probes, way = RedisProbeCache(restricted), msgspec.structs.replace(LINK, pool="eu")
    assert probes.get_or_claim(way, "w1", wait) is probes.get_or_claim(way, "w1", wait) is True
    probes.release(way, "w1")
