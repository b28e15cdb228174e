"""A real Redis stopped, flushed, rolled back, failed over or full: what is noticed and goes on."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.local.parts import free_port
from infra.local.redis_server import ENV_URL, RedisServer
from tests.kit.config import IntakeLimits
from tests.kit.fleet import RedisFailureDetector, RedisWorkers, WorkerStatus
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.queue import Depth, RedisLeaseBook, RedisQueue, RedisQueueRebuild
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry
from tests.kit.submission import RedisIntake
from tests.waiting import eventually

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)
TERM = timedelta(seconds=10)
QUEUE_KEY = QueueKey("acme", "docs", "main")


def entries(count: int, first: int = 0) -> list[Entry]:
    return [Entry(n, "docs", n) for n in range(first, first + count)]


def fill(connection: RedisConnection, nonce: str) -> None:
    rebuild = RedisQueueRebuild(connection)
    rebuild.clear(QUEUE_KEY, nonce)
    rebuild.fill(QUEUE_KEY, nonce, entries(3), 3)
    rebuild.filled(QUEUE_KEY, nonce)


def address_of(connection: RedisConnection) -> tuple[str, int]:
    known = connection.client.connection_pool.connection_kwargs
    return known["host"], known["port"]


@pytest.fixture(autouse=True)
def _servers_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_URL, raising=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that keeps its data, and its address, over a restart."""
    with RedisServer(tmp_path / "kept", port=free_port()) as running:
        yield running


@pytest.fixture
def own(server: RedisServer) -> Iterator[RedisConnection]:
    with RedisConnection(patient(server.url)) as connection:
        yield connection


# ---- the mark -----------------------------------------------------------------------------------


def test_the_mark_of_a_healthy_redis_stays(own):
    fill(own, "one")
    before = RedisQueueRebuild(own).epoch(QUEUE_KEY)

    RedisQueue(own).enqueue(QUEUE_KEY, entries(5), NOW)
    RedisQueue(own).lease(QUEUE_KEY, "w.n.1", 8, NOW, UNTIL)

    assert RedisQueueRebuild(own).epoch(QUEUE_KEY) == before
    assert (before.nonce, before.reached) == ("one", None)


def test_a_flushed_redis_has_no_nonce(own):
    fill(own, "one")
    before = RedisQueueRebuild(own).epoch(QUEUE_KEY)

    own.client.flushall()

    after = RedisQueueRebuild(own).epoch(QUEUE_KEY)
    assert after.nonce is None
    assert after.server == before.server


def test_a_stopped_redis_is_unavailable_and_another_one_after_its_start(server, own):
    fill(own, "one")
    before = RedisQueueRebuild(own).epoch(QUEUE_KEY)

    server.stop()
    with pytest.raises(StoreUnavailableError):
        RedisQueueRebuild(own).epoch(QUEUE_KEY)
    server.start()

    after = RedisQueueRebuild(own).epoch(QUEUE_KEY)
    assert after.server != before.server
    assert after.nonce == "one"
    assert RedisQueue(own).depth(QUEUE_KEY).queued == 3


def test_a_redis_that_is_rolled_back_is_another_one(server, own, tmp_path):
    fill(own, "one")
    own.client.bgrewriteaof()  # what it leaves is a snapshot, in the format of the RDB
    eventually(lambda: not own.client.info("persistence")["aof_rewrite_in_progress"])
    shutil.copytree(tmp_path / "kept", tmp_path / "snapshot")
    RedisQueue(own).lease(QUEUE_KEY, "w.n.1", 2, NOW, UNTIL)
    before = RedisQueueRebuild(own).epoch(QUEUE_KEY)

    server.stop()
    shutil.rmtree(tmp_path / "kept")
    shutil.copytree(tmp_path / "snapshot", tmp_path / "kept")
    server.start()

    after = RedisQueueRebuild(own).epoch(QUEUE_KEY)
    assert RedisQueue(own).depth(QUEUE_KEY) == Depth(
        queued=3, leased=0, delayed=0, oldest_ts=0, heads={5: 0}
    )
    assert after.nonce == before.nonce
    assert after.server != before.server


def test_a_promoted_replica_is_another_one(own):
    with RedisServer() as second, RedisConnection(patient(second.url)) as replica:
        replica.client.replicaof(*address_of(own))
        fill(own, "one")
        before = RedisQueueRebuild(own).epoch(QUEUE_KEY)
        eventually(lambda: RedisQueueRebuild(replica).epoch(QUEUE_KEY).nonce == "one")

        replica.client.replicaof("NO", "ONE")

        after = RedisQueueRebuild(replica).epoch(QUEUE_KEY)
        assert after.nonce == before.nonce
        assert after.server != before.server


def test_a_promoted_replica_that_is_empty_has_no_nonce(own):
    fill(own, "one")
    with RedisServer() as second, RedisConnection(patient(second.url)) as replica:
        after = RedisQueueRebuild(replica).epoch(QUEUE_KEY)

    assert after.nonce is None
    assert after.server != RedisQueueRebuild(own).epoch(QUEUE_KEY).server


def test_a_redis_that_was_a_replica_for_a_while_is_another_one(own):
    fill(own, "one")
    before = RedisQueueRebuild(own).epoch(QUEUE_KEY)
    with RedisServer() as second, RedisConnection(patient(second.url)) as other:
        fill(other, "one")
        own.client.replicaof(*address_of(other))
        eventually(lambda: own.client.info("replication")["master_link_status"] == "up")
        own.client.replicaof("NO", "ONE")

    after = RedisQueueRebuild(own).epoch(QUEUE_KEY)
    assert after.nonce == before.nonce
    assert after.server.partition(":")[0] == before.server.partition(":")[0]
    assert after.server != before.server


def test_a_filling_that_was_broken_off_by_a_restart_is_seen_as_unfinished(server, own):
    rebuild = RedisQueueRebuild(own)
    rebuild.clear(QUEUE_KEY, "one")
    rebuild.fill(QUEUE_KEY, "one", entries(3), 3)

    server.stop()
    server.start()

    assert (rebuild.epoch(QUEUE_KEY).nonce, rebuild.epoch(QUEUE_KEY).reached) == ("one", 3)
    assert rebuild.fill(QUEUE_KEY, "one", entries(2, first=3), 5)


# ---- the watch ----------------------------------------------------------------------------------


def test_a_restart_of_redis_is_nobodys_silence(server, own):
    lapse = timedelta(milliseconds=50)
    workers, detector = RedisWorkers(own), RedisFailureDetector(own, lapse=lapse)
    workers.beat("a", NOW)
    workers.beat("b", NOW)

    server.stop()
    server.start()

    assert [beats.silent_ms for beats in detector.heartbeats()] == [0, 0]
    assert workers.beat("a", NOW) is True


def test_after_a_flush_every_worker_is_reported_that_it_is_not_known(own):
    workers, detector = RedisWorkers(own), RedisFailureDetector(own)
    workers.beat("a", NOW)
    own.client.flushall()

    assert detector.heartbeats() == []
    assert workers.beat("a", NOW) is False
    assert workers.beat("a", NOW) is True


def test_a_look_at_the_silent_reads_nothing_of_the_others(own):
    workers, detector = RedisWorkers(own), RedisFailureDetector(own)
    for n in range(500):
        workers.beat(f"w{n}", NOW, WorkerStatus(held={"acme/docs": n}))
    own.client.config_resetstat()

    assert detector.heartbeats(timedelta(seconds=60)) == []
    assert "cmdstat_hget" not in own.client.info("commandstats")
    assert len(detector.heartbeats()) == 500
    assert own.client.info("commandstats")["cmdstat_hget"]["calls"] == 1_000


# ---- no room ------------------------------------------------------------------------------------


def test_a_full_redis_takes_no_more_and_lets_all_else_go_on(own):
    queue, book, rebuild = RedisQueue(own), RedisLeaseBook(own), RedisQueueRebuild(own)
    workers, detector, intake = RedisWorkers(own), RedisFailureDetector(own), RedisIntake(own)
    limits = IntakeLimits(per_second=100.0)
    fill(own, "one")
    rebuild.clear(QUEUE_KEY, "two")
    queue.enqueue(QUEUE_KEY, entries(9), NOW)
    workers.beat("dead", NOW)
    own.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailableError, match="OOM"):
            queue.enqueue(QUEUE_KEY, entries(1), NOW)
        with pytest.raises(StoreUnavailableError, match="OOM"):
            rebuild.fill(QUEUE_KEY, "two", entries(1), 1)
        with pytest.raises(StoreUnavailableError, match="OOM"):
            rebuild.fill_delayed(QUEUE_KEY, "two", [(entries(1)[0], NOW)])
        pressure = intake.admit(QUEUE_KEY, 1, limits, 0.85, NOW)
        at_the_brim = intake.admit(QUEUE_KEY, 1, limits, 1.0, NOW)

        leased = queue.lease(QUEUE_KEY, "w.n.1", 4, NOW, UNTIL)
        assert queue.renew(QUEUE_KEY, "w.n.1", leased, UNTIL) == []
        assert queue.finish(QUEUE_KEY, "w.n.1", leased[:1], 1, NOW) == 1
        assert queue.give_back(QUEUE_KEY, "w.n.1", leased[1:2]) == 1
        assert queue.delay(QUEUE_KEY, "w.n.1", [(leased[2], UNTIL)]) == 1
        book.relist(QUEUE_KEY, "v.n.1", entries(2, first=20), UNTIL)
        assert len(book.leases(QUEUE_KEY, "v")) == 2

        assert workers.beat("w", NOW, WorkerStatus(done=1)) is False
        assert workers.beat("w", NOW, WorkerStatus(done=2)) is True
        assert detector.acquire_lock("bury", "w", TERM, TERM)
        assert {beats.worker for beats in detector.heartbeats()} == {"dead", "w"}
        assert detector.reap("dead")
        detector.release_lock("bury", "w")
        assert not detector.acquire_lock("bury", "v", TERM, TERM)

        assert rebuild.epoch(QUEUE_KEY).nonce == "two"
        assert rebuild.filled(QUEUE_KEY, "two")
        rebuild.clear(QUEUE_KEY, "three")
        assert rebuild.epoch(QUEUE_KEY).reached == 0
    finally:
        own.client.config_set("maxmemory", 0)

    assert (pressure.memory_full, pressure.admitted, pressure.backlog) == (True, False, 9)
    assert at_the_brim.memory_full
    assert queue.depth(QUEUE_KEY) == Depth(queued=0, leased=3, delayed=0)


def test_the_memory_that_counts_is_what_is_used_of_maxmemory(own):
    intake, used = RedisIntake(own), own.client.info("memory")["used_memory"]
    assert not intake.admit(QUEUE_KEY, 1, IntakeLimits(), 0.01, NOW).memory_full

    own.client.config_set("maxmemory", used * 2)

    assert not intake.admit(QUEUE_KEY, 1, IntakeLimits(), 0.85, NOW).memory_full
    assert intake.admit(QUEUE_KEY, 1, IntakeLimits(), 0.25, NOW).memory_full


def test_what_a_full_redis_refuses_does_not_count_towards_the_rate(own):
    intake, limits = RedisIntake(own), IntakeLimits(per_second=0.001, burst=1)
    own.client.config_set("maxmemory", 1)
    refused = intake.admit(QUEUE_KEY, 1, limits, 0.85, NOW)
    own.client.config_set("maxmemory", 0)

    assert refused.memory_full
    assert intake.admit(QUEUE_KEY, 1, limits, 0.85, NOW).admitted
