"""The data queue over memory and a real Redis: nothing put is lost, whoever dies."""

from datetime import UTC, datetime, timedelta
from functools import partial
from time import time_ns
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.implementations import backend_over
from tests.kit.kernel import BacklogFullError, InvalidRequestError, QueueKey
from tests.kit.queue import redis_keys
from tests.kit.records import _PUT, LARGEST_ITEM, LEASE_BYTES, RedisDataQueue, put_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
UNTIL = NOW + 60 * SECOND


backend = backend_over(RedisDataQueue)


@pytest.fixture
def a_queue(backend):
    """Open a data queue whose queue keys may have so many bytes."""
    return partial(backend.make, RedisDataQueue)


@pytest.fixture
def queue(a_queue):
    return a_queue()


def put(queue, queue_key, *texts):
    return queue.put(queue_key, [text.encode() for text in texts])


def lease(queue, queue_key, token="t1", count=10, now=NOW, until=UNTIL):
    return queue.lease(queue_key, token, count, now, until)


def texts(leased):
    return [one.data.decode() for one in leased]


def ids(leased):
    return [one.id for one in leased]


def test_items_are_leased_in_the_order_they_came_in_unchanged(queue, queue_key):
    assert put(queue, queue_key, "a", "b") == 2
    assert queue.put(queue_key, [b"\x00\n\xff", b""]) == 4

    first, rest = lease(queue, queue_key, count=1), lease(queue, queue_key, "t2")

    assert texts(first) == ["a"]
    assert [one.data for one in rest] == [b"b", b"\x00\n\xff", b""]
    assert {one.attempt for one in (*first, *rest)} == {1}


def test_two_items_of_one_text_are_two(queue, queue_key):
    put(queue, queue_key, "a", "a")
    put(queue, queue_key, "a")

    leased = lease(queue, queue_key)

    assert texts(leased) == ["a", "a", "a"]
    assert queue.finish(queue_key, "t1", ids(leased[:1])) == 1
    assert queue.waiting([queue_key]) == [2]


def test_nothing_is_leased_from_an_empty_queue(queue, queue_key):
    assert queue.put(queue_key, []) == 0
    assert lease(queue, queue_key) == []
    assert lease(queue, queue_key, count=0) == []
    assert queue.waiting([]) == []


def test_what_is_leased_waits_still_and_is_gone_when_finished(queue, queue_key):
    put(queue, queue_key, "a", "b", "c")
    leased = lease(queue, queue_key, count=2)

    assert queue.waiting([queue_key]) == [3]
    assert queue.finish(queue_key, "t1", ids(leased)) == 2
    assert queue.waiting([queue_key]) == [1]
    assert queue.finish(queue_key, "t1", ids(leased)) == 0


def test_what_a_dead_worker_had_leased_is_leased_again_first(queue, queue_key):
    put(queue, queue_key, "a", "b", "c")
    lease(queue, queue_key, "dead", 2)

    before = lease(queue, queue_key, "t2", 1)
    after = lease(queue, queue_key, "t2", 10, UNTIL, UNTIL + 60 * SECOND)

    assert texts(before) == ["c"]
    assert sorted(texts(after)) == ["a", "b", "c"]
    assert sorted(one.attempt for one in after) == [2, 2, 2]


def test_a_worker_that_finishes_after_its_lease_has_ended_has_no_effect_on_the_next(
    queue, queue_key
):
    put(queue, queue_key, "a")
    late = lease(queue, queue_key, "late")
    newer = lease(queue, queue_key, "newer", now=UNTIL, until=UNTIL + 60 * SECOND)

    assert queue.finish(queue_key, "late", ids(late)) == 0
    assert queue.give_back(queue_key, "late", ids(late)) == 0
    assert queue.waiting([queue_key]) == [1]
    assert queue.finish(queue_key, "newer", ids(newer)) == 1
    assert queue.waiting([queue_key]) == [0]


def test_a_worker_may_finish_late_while_nobody_else_has_it(queue, queue_key):
    put(queue, queue_key, "a")
    leased = lease(queue, queue_key)

    assert queue.finish(queue_key, "t1", ids(leased)) == 1

    assert lease(queue, queue_key, "t2", now=UNTIL) == []


def test_what_is_given_back_is_served_next_and_was_not_tried(queue, queue_key):
    put(queue, queue_key, "a", "b", "c")
    leased = lease(queue, queue_key, count=2)

    assert queue.give_back(queue_key, "t1", ids(leased)) == 2
    again = lease(queue, queue_key, "t2")

    assert texts(again) == ["a", "b", "c"]
    assert [one.attempt for one in again] == [1, 1, 1]


def test_attempts_are_counted_of_each_item(queue, queue_key):
    put(queue, queue_key, "a")
    attempts = [
        lease(queue, queue_key, f"t{n}", now=NOW + n * SECOND, until=NOW + (n + 1) * SECOND)[
            0
        ].attempt
        for n in range(4)
    ]

    assert attempts == [1, 2, 3, 4]


def test_items_that_are_too_large_are_named_and_none_is_taken(queue, queue_key):
    with pytest.raises(InvalidRequestError) as refused:
        queue.put(queue_key, [b"a", b"x" * (LARGEST_ITEM + 1), b"x" * LARGEST_ITEM])

    assert [problem.field for problem in refused.value.problems] == ["items[1]"]
    assert queue.waiting([queue_key]) == [0]


def test_a_queue_takes_so_many_bytes_and_again_when_there_is_room(a_queue, queue_key):
    queue = a_queue(queue_bytes=10)
    put(queue, queue_key, "12345", "6789")

    with pytest.raises(BacklogFullError) as full:
        put(queue, queue_key, "ab")
    assert full.value.retry_after_seconds > 0
    assert put(queue, queue_key, "a") == 3
    assert put(queue, QueueKey(queue_key.tenant, "other", "main"), "12345678") == 1

    leased = lease(queue, queue_key, count=1)
    with pytest.raises(BacklogFullError):
        put(queue, queue_key, "a")
    queue.finish(queue_key, "t1", ids(leased))
    assert put(queue, queue_key, "abcde") == 3


def test_a_lease_has_few_items_where_they_are_large(queue, queue_key):
    large = b"x" * LARGEST_ITEM
    queue.put(queue_key, [large] * 12)

    found = lease(queue, queue_key, count=100)

    assert len(found) == LEASE_BYTES // LARGEST_ITEM
    assert len(lease(queue, queue_key, "t2", count=100)) == 12 - len(found)


def test_queues_and_tenants_are_kept_apart(queue, queue_key):
    others = [
        QueueKey(queue_key.tenant, "news", "main"),
        QueueKey(queue_key.tenant + "b", "docs", "main"),
    ]
    put(queue, queue_key, "a", "b")
    put(queue, others[0], "c")
    leased = lease(queue, queue_key, count=1)

    assert queue.waiting([queue_key, *others]) == [2, 1, 0]
    assert queue.finish(others[0], "t1", ids(leased)) == 0
    assert texts(lease(queue, others[0])) == ["c"]
    assert lease(queue, others[1]) == []


def test_each_item_has_a_time_of_its_own_and_what_is_put_later_has_a_later_one(queue, queue_key):
    before = time_ns() - 60 * SECOND // timedelta(microseconds=1) * 1_000
    for number in range(5):
        put(queue, queue_key, f"{number}a", f"{number}b", f"{number}c")

    found = lease(queue, queue_key, count=100)

    assert texts(found) == [f"{number}{letter}" for number in range(5) for letter in "abc"]
    times = [put_of(each.id) for each in found]
    assert times == sorted(set(times))
    assert before < times[0] < times[-1] < before + 120 * 10**9


def test_an_item_that_comes_again_has_the_time_at_which_it_was_put(queue, queue_key):
    put(queue, queue_key, "a")
    (first,) = lease(queue, queue_key)

    (again,) = lease(queue, queue_key, "t2", now=UNTIL, until=UNTIL + 60 * SECOND)

    assert put_of(again.id) == put_of(first.id)


def test_items_without_a_time_are_leased_and_finished(redis_connection, queue_key):
    queue = RedisDataQueue(redis_connection)
    keys = redis_keys(queue_key)
    old = uuid4().hex
    redis_connection.again(_PUT, (keys.items, keys.item_queue, keys.item_bytes), 100, old, b"{}")
    put(queue, queue_key, "new")

    found = lease(queue, queue_key)

    assert texts(found) == ["{}", "new"]
    assert put_of(found[0].id) is None
    assert queue.finish(queue_key, "t1", ids(found)) == 2


def test_another_name_of_the_queue_finds_the_same_items(queue, queue_key):
    put(queue, queue_key, "a")

    assert texts(lease(queue, QueueKey(queue_key.tenant, queue_key.biz, "renamed"))) == ["a"]


def test_a_call_whose_answer_was_lost_may_put_the_same_again(redis_connection, queue_key):
    queue = RedisDataQueue(redis_connection)
    keys = redis_keys(queue_key)
    names = (keys.items, keys.item_queue, keys.item_bytes)
    for _ in range(2):
        redis_connection.again(_PUT, names, 100, "id1", b"a", "id2", b"b")

    assert texts(lease(queue, queue_key)) == ["a", "b"]
    assert redis_connection.client.get(keys.item_bytes) == b"2"


def test_nothing_is_left_in_redis_of_what_is_finished(redis_connection, queue_key):
    queue = RedisDataQueue(redis_connection)
    put(queue, queue_key, "a", "b")
    queue.finish(queue_key, "t1", ids(lease(queue, queue_key)))

    found = {key.decode() for key in redis_connection.client.scan_iter(f"cf:*{queue_key.tenant}*")}

    assert found == {redis_keys(queue_key).item_bytes}
    assert redis_connection.client.get(redis_keys(queue_key).item_bytes) == b"0"


steps = st.lists(
    st.sampled_from(["put", "lease", "finish", "die", "back", "wait"]), min_size=1, max_size=25
)


@examples(0.4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, data=st.data())
def test_every_item_is_finished_once_or_waits_whatever_befalls_its_workers(
    a_queue, queue_key, steps, data
):
    queue = a_queue()
    queue_key = QueueKey(queue_key.tenant, f"b{uuid4().hex}", "main")  # each example has its own
    now, sent, done, held = NOW, 0, [], {}
    for number, step in enumerate(steps):
        if step == "put":
            put(queue, queue_key, str(sent), str(sent + 1))
            sent += 2
        elif step == "lease":
            found = lease(queue, queue_key, f"t{number}", 2, now, now + 10 * SECOND)
            if found:
                held[f"t{number}"] = found
        elif step == "wait":
            now += 6 * SECOND
        elif held:
            token = data.draw(st.sampled_from(sorted(held)))
            leased = held.pop(token)
            if step == "finish" and queue.finish(queue_key, token, ids(leased)):
                done += [one.data for one in leased]
            elif step == "back":
                queue.give_back(queue_key, token, ids(leased))

    left = queue.waiting([queue_key])[0]
    rest = []
    while found := lease(
        queue, queue_key, f"end{len(rest)}", 3, now + 100 * SECOND, now + 999 * SECOND
    ):
        rest += found

    assert len(rest) == left
    held_twice = {one.data for one in rest} & set(done)
    assert {one.data for one in rest} | set(done) == {str(n).encode() for n in range(sent)}
    assert len(done) >= sent - left
    assert all(one.data in held_twice or one.data not in done for one in rest)
