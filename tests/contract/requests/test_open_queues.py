"""The open queues on Redis: announced, listed, and forgotten where nothing comes any more."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from infra.local.redis_server import ENV_URL, RedisServer
from tests.kit.kernel import QueueKey
from tests.kit.patience import patient
from tests.kit.queue import LINGER, RedisOpenQueues, RedisQueue, fleet_keys
from tests.kit.redis import RedisConnection

DOCS, SHOP = QueueKey("acme", "docs", "main"), QueueKey("acme", "shop", "main@large")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisConnection]:
    # A server of their own: what workers of other tests announce is not listed here.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENV_URL, raising=False)
        with RedisServer() as server, RedisConnection(patient(server.url)) as connection:
            yield connection


@pytest.fixture
def connection(server: RedisConnection) -> RedisConnection:
    server.client.flushall()
    return server


@pytest.fixture
def open_queues(connection: RedisConnection) -> RedisOpenQueues:
    return RedisOpenQueues(connection)


def pass_by(connection: RedisConnection) -> None:
    """Make all announcements as old as those that end."""
    key = fleet_keys().open
    for name in connection.client.zrange(key, 0, -1):
        connection.client.zincrby(key, -LINGER.total_seconds() * 1_000 - 1, name)


def test_what_is_announced_is_listed_once(open_queues):
    assert open_queues.listed() == {}
    open_queues.announce([DOCS, SHOP])
    open_queues.announce([DOCS])
    open_queues.announce([])

    listed = open_queues.listed()

    assert set(listed) == {DOCS, SHOP}
    assert listed[DOCS] >= listed[SHOP] > 1_700_000_000_000


def test_a_queue_that_was_announced_lately_is_not_forgotten(open_queues):
    open_queues.announce([DOCS])

    assert open_queues.forget(open_queues.listed()) == 0
    assert set(open_queues.listed()) == {DOCS}


def test_a_queue_that_was_announced_long_ago_is_forgotten(connection, open_queues):
    open_queues.announce([DOCS, SHOP])
    pass_by(connection)
    listed = open_queues.listed()

    assert open_queues.forget({DOCS: listed[DOCS]}) == 1
    assert open_queues.forget({DOCS: listed[DOCS]}) == 0
    assert open_queues.forget({}) == 0
    assert set(open_queues.listed()) == {SHOP}


def test_a_queue_is_announced_by_a_process_that_was_frozen(connection, open_queues, monkeypatch):
    queue, seconds = RedisQueue(connection), [1_000.0]
    clocks = SimpleNamespace(time=lambda: seconds[0], monotonic=lambda: 1.0)
    monkeypatch.setattr("crawlfleet.requests.queue.redis.queue.time", clocks)
    queue.announce([DOCS])
    pass_by(connection)
    queue.announce([DOCS])
    assert open_queues.forget(open_queues.listed()) == 1

    seconds[0] += 3_600
    queue.announce([DOCS])

    assert set(open_queues.listed()) == {DOCS}


def test_a_queue_that_is_announced_while_it_is_found_empty_stays(connection, open_queues):
    open_queues.announce([DOCS])
    pass_by(connection)
    listed = open_queues.listed()
    open_queues.announce([DOCS])

    assert open_queues.forget(listed) == 0


def test_data_queues_are_open_for_themselves(connection, open_queues):
    RedisOpenQueues(connection, of="open_items").announce([DOCS])

    assert open_queues.listed() == {}
    assert set(RedisOpenQueues(connection, of="open_items").listed()) == {DOCS}
