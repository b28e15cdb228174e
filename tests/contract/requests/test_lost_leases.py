"""A Redis that stands still while it is asked for work: it leases when nobody listens any more."""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from infra.local.redis_server import RedisServer
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry
from tests.waiting import eventually

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)
ENTRIES = [Entry(n, "docs", n) for n in range(1, 4)]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(own=True) as started:
        yield started


def test_what_a_server_leases_after_the_caller_has_given_up_is_found_and_queued_again(
    server, queue_key
):
    with RedisConnection(server.url, answer_seconds=0.3) as connection:
        queue = RedisQueue(connection)
        queue.lease(queue_key, "w.n.0", 1, NOW, UNTIL)  # from now on the server knows the script
        queue.enqueue(queue_key, ENTRIES, NOW)
        pid = connection.client.info("server")["process_id"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailableError):
                queue.lease(queue_key, "w.n.1", 3, NOW, UNTIL)
        finally:
            os.kill(pid, signal.SIGCONT)
        eventually(lambda: leased(server, queue_key) == 3)

        assert queue.return_unconfirmed(queue_key, "w.n.1", UNTIL) == 3
        assert queue.lease(queue_key, "w.n.2", 3, NOW, UNTIL) == ENTRIES


def leased(server: RedisServer, queue_key: QueueKey) -> int:
    with RedisConnection(patient(server.url)) as connection:
        return RedisQueue(connection).depth(queue_key).leased
