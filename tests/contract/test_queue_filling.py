"""The contract of QueueFilling: a lost queue is filled again, by one filling, wherever one dies."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.queue import MemoryQueue
from tests.fakes.recovery import MemoryFilling
from tests.kit.implementations import fixture_over
from tests.kit.kernel import Lane
from tests.kit.queue import Depth, QueueFilling, RedisFilling, RequestQueue, lane_keys
from tests.kit.requests import Entry, Mark

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=5)
UNTIL = NOW + timedelta(seconds=60)


both = fixture_over(RequestQueue, QueueFilling)


def entries(count, first=0):
    return [Entry(n, "docs", n) for n in range(first, first + count)]


def far(filling, lane):
    mark = filling.mark(lane)
    return mark.nonce, mark.reached


def test_a_lane_that_was_never_filled_has_no_nonce(both, lane):
    _, filling = both

    mark = filling.mark(lane)

    assert mark == Mark(server=mark.server)
    assert mark.server
    assert mark == filling.mark(lane)


def test_the_mark_tells_how_far_a_filling_has_come(both, lane):
    _, filling = both

    filling.clear(lane, "one")
    assert far(filling, lane) == ("one", 0)
    assert filling.fill(lane, "one", entries(3), 1_767_225_600_123) is True
    assert far(filling, lane) == ("one", 1_767_225_600_123)
    assert filling.fill_delayed(lane, "one", [(Entry(9, "docs", 9), SOON)]) is True
    assert far(filling, lane) == ("one", 1_767_225_600_123)
    assert filling.filled(lane, "one") is True
    assert far(filling, lane) == ("one", None)


def test_what_is_filled_is_served_the_oldest_first_and_before_what_comes_after(both, lane):
    queue, filling = both
    filling.clear(lane, "one")
    filling.fill(lane, "one", entries(3), 2)
    filling.fill(lane, "one", entries(2, first=3), 4)
    queue.enqueue(lane, entries(1, first=7), NOW)
    filling.fill(lane, "one", [], 6)
    filling.filled(lane, "one")

    served = queue.lease(lane, "a", 99, NOW, UNTIL)

    assert served == [*entries(5), *entries(1, first=7)]


def test_what_waits_is_served_when_it_is_due(both, lane):
    queue, filling = both
    filling.clear(lane, "one")
    filling.fill_delayed(lane, "one", [(one, SOON) for one in entries(2)])
    filling.fill_delayed(lane, "one", [])

    assert queue.lease(lane, "a", 9, NOW, UNTIL) == []
    assert queue.lease(lane, "a", 9, SOON, UNTIL) == entries(2)


def test_what_a_worker_has_delayed_meanwhile_keeps_its_time(both, lane):
    queue, filling = both
    queue.enqueue(lane, entries(1), NOW)
    leased = queue.lease(lane, "a", 1, NOW, UNTIL)
    filling.clear(lane, "one")
    queue.delay(lane, "a", [(leased[0], UNTIL)])

    filling.fill_delayed(lane, "one", [(leased[0], SOON)])

    assert queue.lease(lane, "b", 1, SOON, UNTIL) == []
    assert queue.depth(lane) == Depth(queued=0, leased=0, delayed=1)


def test_clearing_drops_what_is_queued_and_delayed_and_leaves_what_is_leased(both, lane):
    queue, filling = both
    queue.enqueue(lane, entries(5), NOW)
    first, second = queue.lease(lane, "a", 2, NOW, UNTIL)
    queue.delay(lane, "a", [(first, SOON)])

    filling.clear(lane, "one")

    assert queue.depth(lane) == Depth(queued=0, leased=1, delayed=0)
    assert queue.finish(lane, "a", [second], 1, NOW) == 1


def test_whoever_clears_last_fills(both, lane):
    queue, filling = both
    filling.clear(lane, "slow")
    filling.fill(lane, "slow", entries(2), 1)
    filling.clear(lane, "quick")

    assert filling.fill(lane, "slow", entries(2, first=2), 3) is False
    assert filling.fill_delayed(lane, "slow", [(entries(1)[0], SOON)]) is False
    assert filling.filled(lane, "slow") is False
    assert far(filling, lane) == ("quick", 0)
    assert queue.depth(lane) == Depth(queued=0, leased=0, delayed=0)
    assert filling.fill(lane, "quick", entries(4), 3) is True


def test_a_complete_queue_takes_no_more_of_its_filling(both, lane):
    queue, filling = both
    filling.clear(lane, "one")
    filling.filled(lane, "one")

    assert filling.fill(lane, "one", entries(1), 1) is False
    assert filling.fill_delayed(lane, "one", [(entries(1)[0], SOON)]) is False
    assert filling.filled(lane, "one") is True
    assert filling.filled(lane, "other") is False
    assert far(filling, lane) == ("one", None)
    assert queue.depth(lane) == Depth(queued=0, leased=0, delayed=0)


def test_nothing_is_filled_that_was_not_begun(both, lane):
    queue, filling = both

    assert filling.fill(lane, "one", entries(1), 1) is False
    assert filling.fill_delayed(lane, "one", [(entries(1)[0], SOON)]) is False
    assert filling.filled(lane, "one") is False
    assert filling.filled(lane, "") is False
    assert filling.mark(lane).nonce is None
    assert queue.depth(lane) == Depth(queued=0, leased=0, delayed=0)


@pytest.mark.parametrize("nonce", ["a:b", "1:2", "", ":", "%d+", "two words", "ünlike", "a\nb"])
def test_a_nonce_may_be_any_text(both, lane, nonce):
    _, filling = both

    filling.clear(lane, nonce)
    assert filling.fill(lane, nonce, entries(1), 5) is True
    assert filling.fill(lane, f"{nonce}x", entries(1), 6) is False
    assert far(filling, lane) == (nonce, 5)
    assert filling.filled(lane, nonce) is True
    assert far(filling, lane) == (nonce, None)


@pytest.mark.parametrize("count", [1, 9_001])
def test_a_part_of_any_size_is_filled(both, lane, count):
    queue, filling = both
    filling.clear(lane, "one")

    filling.fill(lane, "one", entries(count), count)
    filling.fill_delayed(lane, "one", [(one, SOON) for one in entries(count, first=count)])

    assert queue.depth(lane) == Depth(
        queued=count, leased=0, delayed=count, oldest_ts=0, heads={5: 0}
    )


def test_one_lane_cannot_see_another(both, lane):
    queue, filling = both
    others = [
        Lane(f"{lane.tenant}x", lane.biz, lane.queue),
        Lane(lane.tenant, "news", lane.queue),
        Lane(lane.tenant, lane.biz, "second"),
    ]
    for other in others:
        queue.enqueue(other, entries(2), NOW)

    filling.clear(lane, "one")
    filling.fill(lane, "one", entries(1), 1)

    assert [filling.mark(other).nonce for other in others] == [None, None, None]
    assert [filling.fill(other, "one", entries(1), 1) for other in others] == [False] * 3
    assert [queue.depth(other).queued for other in others] == [2, 2, 2]


def test_a_filling_leaves_no_key_that_ends_by_itself(redis_connection, lane):
    filling, keys = RedisFilling(redis_connection), lane_keys(lane)
    filling.clear(lane, "one")
    filling.fill(lane, "one", entries(2), 1)
    filling.fill_delayed(lane, "one", [(entries(1)[0], SOON)])
    filling.filled(lane, "one")

    lives = [redis_connection.client.ttl(key) for key in (keys.queue, keys.delayed, keys.filled)]

    assert lives == [-1, -1, -1]


def test_the_in_memory_fake_can_be_flushed_and_restarted(lane):
    queue = MemoryQueue()
    filling = MemoryFilling(queue)
    queue.enqueue(lane, entries(1), NOW)
    filling.clear(lane, "one")
    filling.filled(lane, "one")
    whole = filling.mark(lane)

    queue.restart()
    restarted = filling.mark(lane)
    queue.flush()
    flushed = filling.mark(lane)

    assert (restarted.nonce, flushed.nonce) == ("one", None)
    assert whole.server != restarted.server == flushed.server
    assert queue.depth(lane) == Depth(queued=0, leased=0, delayed=0)
