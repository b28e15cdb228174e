"""The contract of QueueFilling: a lost queue is filled again, by one filling, wherever one dies."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.queue import MemoryQueue
from tests.fakes.recovery import MemoryQueueRebuild
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey
from tests.kit.queue import Depth, RedisQueue, RedisQueueRebuild, redis_keys
from tests.kit.requests import Entry, QueueEpoch

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=5)
UNTIL = NOW + timedelta(seconds=60)


both = fixture_over(RedisQueue, RedisQueueRebuild)


def entries(count, first=0):
    return [Entry(n, "docs", n) for n in range(first, first + count)]


def far(rebuild, queue_key):
    mark = rebuild.epoch(queue_key)
    return mark.nonce, mark.reached


def test_a_queue_that_was_never_filled_has_no_nonce(both, queue_key):
    _, rebuild = both

    mark = rebuild.epoch(queue_key)

    assert mark == QueueEpoch(server=mark.server)
    assert mark.server
    assert mark == rebuild.epoch(queue_key)


def test_the_mark_reports_how_far_a_filling_has_come(both, queue_key):
    _, rebuild = both

    rebuild.clear(queue_key, "one")
    assert far(rebuild, queue_key) == ("one", 0)
    assert rebuild.fill(queue_key, "one", entries(3), 1_767_225_600_123) is True
    assert far(rebuild, queue_key) == ("one", 1_767_225_600_123)
    assert rebuild.fill_delayed(queue_key, "one", [(Entry(9, "docs", 9), SOON)]) is True
    assert far(rebuild, queue_key) == ("one", 1_767_225_600_123)
    assert rebuild.filled(queue_key, "one") is True
    assert far(rebuild, queue_key) == ("one", None)


def test_what_is_filled_is_served_the_oldest_first_and_before_what_comes_after(both, queue_key):
    queue, rebuild = both
    rebuild.clear(queue_key, "one")
    rebuild.fill(queue_key, "one", entries(3), 2)
    rebuild.fill(queue_key, "one", entries(2, first=3), 4)
    queue.enqueue(queue_key, entries(1, first=7), NOW)
    rebuild.fill(queue_key, "one", [], 6)
    rebuild.filled(queue_key, "one")

    served = queue.lease(queue_key, "a", 99, NOW, UNTIL)

    assert served == [*entries(5), *entries(1, first=7)]


def test_what_waits_is_served_when_it_is_due(both, queue_key):
    queue, rebuild = both
    rebuild.clear(queue_key, "one")
    rebuild.fill_delayed(queue_key, "one", [(one, SOON) for one in entries(2)])
    rebuild.fill_delayed(queue_key, "one", [])

    assert queue.lease(queue_key, "a", 9, NOW, UNTIL) == []
    assert queue.lease(queue_key, "a", 9, SOON, UNTIL) == entries(2)


def test_what_a_worker_has_delayed_meanwhile_keeps_its_time(both, queue_key):
    queue, rebuild = both
    queue.enqueue(queue_key, entries(1), NOW)
    leased = queue.lease(queue_key, "a", 1, NOW, UNTIL)
    rebuild.clear(queue_key, "one")
    queue.delay(queue_key, "a", [(leased[0], UNTIL)])

    rebuild.fill_delayed(queue_key, "one", [(leased[0], SOON)])

    assert queue.lease(queue_key, "b", 1, SOON, UNTIL) == []
    assert queue.depth(queue_key) == Depth(queued=0, leased=0, delayed=1)


def test_clearing_drops_what_is_queued_and_delayed_and_leaves_what_is_leased(both, queue_key):
    queue, rebuild = both
    queue.enqueue(queue_key, entries(5), NOW)
    first, second = queue.lease(queue_key, "a", 2, NOW, UNTIL)
    queue.delay(queue_key, "a", [(first, SOON)])

    rebuild.clear(queue_key, "one")

    assert queue.depth(queue_key) == Depth(queued=0, leased=1, delayed=0)
    assert queue.finish(queue_key, "a", [second], 1, NOW) == 1


def test_whoever_clears_last_fills(both, queue_key):
    queue, rebuild = both
    rebuild.clear(queue_key, "slow")
    rebuild.fill(queue_key, "slow", entries(2), 1)
    rebuild.clear(queue_key, "quick")

    assert rebuild.fill(queue_key, "slow", entries(2, first=2), 3) is False
    assert rebuild.fill_delayed(queue_key, "slow", [(entries(1)[0], SOON)]) is False
    assert rebuild.filled(queue_key, "slow") is False
    assert far(rebuild, queue_key) == ("quick", 0)
    assert queue.depth(queue_key) == Depth(queued=0, leased=0, delayed=0)
    assert rebuild.fill(queue_key, "quick", entries(4), 3) is True


def test_a_complete_queue_takes_no_more_of_its_filling(both, queue_key):
    queue, rebuild = both
    rebuild.clear(queue_key, "one")
    rebuild.filled(queue_key, "one")

    assert rebuild.fill(queue_key, "one", entries(1), 1) is False
    assert rebuild.fill_delayed(queue_key, "one", [(entries(1)[0], SOON)]) is False
    assert rebuild.filled(queue_key, "one") is True
    assert rebuild.filled(queue_key, "other") is False
    assert far(rebuild, queue_key) == ("one", None)
    assert queue.depth(queue_key) == Depth(queued=0, leased=0, delayed=0)


def test_nothing_is_filled_that_was_not_begun(both, queue_key):
    queue, rebuild = both

    assert rebuild.fill(queue_key, "one", entries(1), 1) is False
    assert rebuild.fill_delayed(queue_key, "one", [(entries(1)[0], SOON)]) is False
    assert rebuild.filled(queue_key, "one") is False
    assert rebuild.filled(queue_key, "") is False
    assert rebuild.epoch(queue_key).nonce is None
    assert queue.depth(queue_key) == Depth(queued=0, leased=0, delayed=0)


@pytest.mark.parametrize("nonce", ["a:b", "1:2", "", ":", "%d+", "two words", "ünlike", "a\nb"])
def test_a_nonce_may_be_any_text(both, queue_key, nonce):
    _, rebuild = both

    rebuild.clear(queue_key, nonce)
    assert rebuild.fill(queue_key, nonce, entries(1), 5) is True
    assert rebuild.fill(queue_key, f"{nonce}x", entries(1), 6) is False
    assert far(rebuild, queue_key) == (nonce, 5)
    assert rebuild.filled(queue_key, nonce) is True
    assert far(rebuild, queue_key) == (nonce, None)


@pytest.mark.parametrize("count", [1, 9_001])
def test_a_part_of_any_size_is_filled(both, queue_key, count):
    queue, rebuild = both
    rebuild.clear(queue_key, "one")

    rebuild.fill(queue_key, "one", entries(count), count)
    rebuild.fill_delayed(queue_key, "one", [(one, SOON) for one in entries(count, first=count)])

    assert queue.depth(queue_key) == Depth(
        queued=count, leased=0, delayed=count, oldest_ts=0, heads={5: 0}
    )


def test_one_queue_cannot_see_another(both, queue_key):
    queue, rebuild = both
    others = [
        QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue),
        QueueKey(queue_key.tenant, "news", queue_key.queue),
        QueueKey(queue_key.tenant, queue_key.biz, "second"),
    ]
    for other in others:
        queue.enqueue(other, entries(2), NOW)

    rebuild.clear(queue_key, "one")
    rebuild.fill(queue_key, "one", entries(1), 1)

    assert [rebuild.epoch(other).nonce for other in others] == [None, None, None]
    assert [rebuild.fill(other, "one", entries(1), 1) for other in others] == [False] * 3
    assert [queue.depth(other).queued for other in others] == [2, 2, 2]


def test_a_filling_leaves_no_key_that_ends_by_itself(redis_connection, queue_key):
    rebuild, keys = RedisQueueRebuild(redis_connection), redis_keys(queue_key)
    rebuild.clear(queue_key, "one")
    rebuild.fill(queue_key, "one", entries(2), 1)
    rebuild.fill_delayed(queue_key, "one", [(entries(1)[0], SOON)])
    rebuild.filled(queue_key, "one")

    lives = [redis_connection.client.ttl(key) for key in (keys.queue, keys.delayed, keys.filled)]

    assert lives == [-1, -1, -1]


def test_the_in_memory_fake_can_be_flushed_and_restarted(queue_key):
    queue = MemoryQueue()
    rebuild = MemoryQueueRebuild(queue)
    queue.enqueue(queue_key, entries(1), NOW)
    rebuild.clear(queue_key, "one")
    rebuild.filled(queue_key, "one")
    whole = rebuild.epoch(queue_key)

    queue.restart()
    restarted = rebuild.epoch(queue_key)
    queue.flush()
    flushed = rebuild.epoch(queue_key)

    assert (restarted.nonce, flushed.nonce) == ("one", None)
    assert whole.server != restarted.server == flushed.server
    assert queue.depth(queue_key) == Depth(queued=0, leased=0, delayed=0)
