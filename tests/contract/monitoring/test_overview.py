"""The contract of Overview: many queues at a glance, and nothing is changed by looking."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.broken_servers import broken_server, closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.queue import RedisOverview, RedisQueue
from tests.kit.redis import QUEUES, RedisConnection
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


both = fixture_over(RedisQueue, RedisOverview)


def entries(queue_key: QueueKey, count: int) -> list[Entry]:
    ts = int(NOW.timestamp() * 1000)
    return [Entry(id=number, biz=queue_key.biz, ts=ts) for number in range(1, count + 1)]


def defer(queue, queue_key: QueueKey, hosts: dict[str, tuple[int, timedelta]]) -> None:
    queue.enqueue(queue_key, entries(queue_key, sum(count for count, _ in hosts.values())), NOW)
    held = queue.lease(queue_key, "w:1", 1_000, NOW, LATER)
    for host, (count, wait) in hosts.items():
        queue.defer(queue_key, "w:1", [(host, NOW + wait, held[:count])])
        held = held[count:]


def test_counts_are_those_of_each_queue_by_second(both, tenant):
    queue, overview = both
    here, there, idle = (QueueKey(tenant, biz, "main") for biz in ("here", "there", "idle"))
    queue.enqueue(here, entries(here, 3), NOW)
    queue.enqueue(here, entries(here, 2), NOW + timedelta(seconds=1))
    queue.enqueue(there, entries(there, 1), NOW)
    held = queue.lease(here, "w:1", 2, NOW, LATER)
    queue.finish(here, "w:1", held, 2, NOW + timedelta(seconds=2))

    second = int(NOW.timestamp())
    assert overview.counts([there, idle, here]) == [
        ({second: 1}, {}),
        ({}, {}),
        ({second: 3, second + 1: 2}, {second + 2: 2}),
    ]


def test_hosts_that_are_left_alone_longest_come_first(both, tenant):
    queue, overview = both
    queue_key, other = QueueKey(tenant, "docs", "main"), QueueKey(tenant, "other", "main")
    waits = {"soon.example": 1, "late.example": 300, "mid.example": 60}
    defer(queue, queue_key, {host: (2, timedelta(seconds=wait)) for host, wait in waits.items()})

    [of_queue, of_other] = overview.waiting_hosts([queue_key, other], 2)

    assert [(one.host, one.count) for one in of_queue] == [("late.example", 2), ("mid.example", 2)]
    assert of_queue[0].ready_ts == int((NOW + timedelta(seconds=300)).timestamp() * 1000)
    assert of_other == []
    assert overview.waiting_hosts([queue_key], 0) == [[]]


def test_looking_changes_nothing(both, tenant):
    queue, overview = both
    queue_key = QueueKey(tenant, "docs", "main")
    defer(queue, queue_key, {"a.example": (1, timedelta(0)), "b.example": (3, timedelta(0))})
    before = queue.depth(queue_key), queue.deferred(queue_key, NOW, 10)

    overview.waiting_hosts([queue_key], 10)
    overview.counts([queue_key])

    assert (queue.depth(queue_key), queue.deferred(queue_key, NOW, 10)) == before


def test_no_queues_and_very_many_queues_are_fine(both, tenant):
    queue, overview = both
    queues = [QueueKey(tenant, f"b{number}", "main") for number in range(QUEUES + 3)]
    queue.enqueue(queues[-1], entries(queues[-1], 4), NOW)

    assert overview.counts([]) == []
    assert overview.waiting_hosts([], 5) == []
    found = overview.counts(queues)
    assert len(found) == len(queues)
    assert found[-1] == ({int(NOW.timestamp()): 4}, {})


def test_a_redis_that_is_dead_or_talks_nonsense_is_an_error_of_ours(tenant):
    queue_key = QueueKey(tenant, "docs", "main")
    with closed_port() as dead, broken_server(b"HTTP/1.1 200 OK\r\n\r\n") as lying:
        for address in (dead, lying):
            with RedisConnection(f"redis://{address}/0") as connection:
                overview = RedisOverview(connection)
                with pytest.raises(StoreUnavailableError):
                    overview.counts([queue_key])
                with pytest.raises(StoreUnavailableError):
                    overview.waiting_hosts([queue_key], 5)
