"""ports.DataQueue over memory and a real Redis: nothing put is lost, whoever dies."""

from datetime import UTC, datetime, timedelta
from functools import partial
from time import time_ns
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.implementations import backend_over
from tests.kit.kernel import BacklogFullError, InvalidRequestError, Lane
from tests.kit.queue import lane_keys
from tests.kit.records import _PUT, LARGEST_ITEM, LEASE_BYTES, DataQueue, RedisDataQueue, put_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
UNTIL = NOW + 60 * SECOND


backend = backend_over(DataQueue)


@pytest.fixture
def a_queue(backend):
    """Open a data queue whose lanes may have so many bytes."""
    return partial(backend.make, DataQueue)


@pytest.fixture
def queue(a_queue):
    return a_queue()


def put(queue, lane, *texts):
    return queue.put(lane, [text.encode() for text in texts])


def lease(queue, lane, token="t1", count=10, now=NOW, until=UNTIL):
    return queue.lease(lane, token, count, now, until)


def texts(leased):
    return [one.data.decode() for one in leased]


def ids(leased):
    return [one.id for one in leased]


def test_items_are_handed_out_in_the_order_they_came_in_as_they_were(queue, lane):
    assert put(queue, lane, "a", "b") == 2
    assert queue.put(lane, [b"\x00\n\xff", b""]) == 4

    first, rest = lease(queue, lane, count=1), lease(queue, lane, "t2")

    assert texts(first) == ["a"]
    assert [one.data for one in rest] == [b"b", b"\x00\n\xff", b""]
    assert {one.attempt for one in (*first, *rest)} == {1}


def test_two_items_of_one_text_are_two(queue, lane):
    put(queue, lane, "a", "a")
    put(queue, lane, "a")

    leased = lease(queue, lane)

    assert texts(leased) == ["a", "a", "a"]
    assert queue.finish(lane, "t1", ids(leased[:1])) == 1
    assert queue.waiting([lane]) == [2]


def test_nothing_is_handed_out_of_an_empty_queue(queue, lane):
    assert queue.put(lane, []) == 0
    assert lease(queue, lane) == []
    assert lease(queue, lane, count=0) == []
    assert queue.waiting([]) == []


def test_what_is_leased_waits_still_and_is_gone_when_finished(queue, lane):
    put(queue, lane, "a", "b", "c")
    leased = lease(queue, lane, count=2)

    assert queue.waiting([lane]) == [3]
    assert queue.finish(lane, "t1", ids(leased)) == 2
    assert queue.waiting([lane]) == [1]
    assert queue.finish(lane, "t1", ids(leased)) == 0


def test_what_a_dead_worker_held_is_handed_out_again_first(queue, lane):
    put(queue, lane, "a", "b", "c")
    lease(queue, lane, "dead", 2)

    before = lease(queue, lane, "t2", 1)
    after = lease(queue, lane, "t2", 10, UNTIL, UNTIL + 60 * SECOND)

    assert texts(before) == ["c"]
    assert sorted(texts(after)) == ["a", "b", "c"]
    assert sorted(one.attempt for one in after) == [2, 2, 2]


def test_a_worker_that_finishes_after_its_lease_has_ended_has_no_effect_on_the_next(queue, lane):
    put(queue, lane, "a")
    late = lease(queue, lane, "late")
    newer = lease(queue, lane, "newer", now=UNTIL, until=UNTIL + 60 * SECOND)

    assert queue.finish(lane, "late", ids(late)) == 0
    assert queue.give_back(lane, "late", ids(late)) == 0
    assert queue.waiting([lane]) == [1]
    assert queue.finish(lane, "newer", ids(newer)) == 1
    assert queue.waiting([lane]) == [0]


def test_a_worker_may_finish_late_while_nobody_else_has_it(queue, lane):
    put(queue, lane, "a")
    leased = lease(queue, lane)

    assert queue.finish(lane, "t1", ids(leased)) == 1

    assert lease(queue, lane, "t2", now=UNTIL) == []


def test_what_is_given_back_is_served_next_and_was_not_tried(queue, lane):
    put(queue, lane, "a", "b", "c")
    leased = lease(queue, lane, count=2)

    assert queue.give_back(lane, "t1", ids(leased)) == 2
    again = lease(queue, lane, "t2")

    assert texts(again) == ["a", "b", "c"]
    assert [one.attempt for one in again] == [1, 1, 1]


def test_attempts_are_counted_of_each_item(queue, lane):
    put(queue, lane, "a")
    attempts = [
        lease(queue, lane, f"t{n}", now=NOW + n * SECOND, until=NOW + (n + 1) * SECOND)[0].attempt
        for n in range(4)
    ]

    assert attempts == [1, 2, 3, 4]


def test_items_that_are_too_large_are_named_and_none_is_taken(queue, lane):
    with pytest.raises(InvalidRequestError) as refused:
        queue.put(lane, [b"a", b"x" * (LARGEST_ITEM + 1), b"x" * LARGEST_ITEM])

    assert [problem.field for problem in refused.value.problems] == ["items[1]"]
    assert queue.waiting([lane]) == [0]


def test_a_lane_takes_so_many_bytes_and_again_when_there_is_room(a_queue, lane):
    queue = a_queue(lane_bytes=10)
    put(queue, lane, "12345", "6789")

    with pytest.raises(BacklogFullError) as full:
        put(queue, lane, "ab")
    assert full.value.retry_after_seconds > 0
    assert put(queue, lane, "a") == 3
    assert put(queue, Lane(lane.tenant, "other", "main"), "12345678") == 1

    leased = lease(queue, lane, count=1)
    with pytest.raises(BacklogFullError):
        put(queue, lane, "a")
    queue.finish(lane, "t1", ids(leased))
    assert put(queue, lane, "abcde") == 3


def test_a_lease_has_few_items_where_they_are_large(queue, lane):
    large = b"x" * LARGEST_ITEM
    queue.put(lane, [large] * 12)

    found = lease(queue, lane, count=100)

    assert len(found) == LEASE_BYTES // LARGEST_ITEM
    assert len(lease(queue, lane, "t2", count=100)) == 12 - len(found)


def test_lanes_and_tenants_are_kept_apart(queue, lane):
    others = [Lane(lane.tenant, "news", "main"), Lane(lane.tenant + "b", "docs", "main")]
    put(queue, lane, "a", "b")
    put(queue, others[0], "c")
    leased = lease(queue, lane, count=1)

    assert queue.waiting([lane, *others]) == [2, 1, 0]
    assert queue.finish(others[0], "t1", ids(leased)) == 0
    assert texts(lease(queue, others[0])) == ["c"]
    assert lease(queue, others[1]) == []


def test_each_item_has_a_time_of_its_own_and_what_is_put_later_has_a_later_one(queue, lane):
    before = time_ns() - 60 * SECOND // timedelta(microseconds=1) * 1_000
    for number in range(5):
        put(queue, lane, f"{number}a", f"{number}b", f"{number}c")

    found = lease(queue, lane, count=100)

    assert texts(found) == [f"{number}{letter}" for number in range(5) for letter in "abc"]
    times = [put_of(each.id) for each in found]
    assert times == sorted(set(times))
    assert before < times[0] < times[-1] < before + 120 * 10**9


def test_an_item_that_comes_again_has_the_time_at_which_it_was_put(queue, lane):
    put(queue, lane, "a")
    (first,) = lease(queue, lane)

    (again,) = lease(queue, lane, "t2", now=UNTIL, until=UNTIL + 60 * SECOND)

    assert put_of(again.id) == put_of(first.id)


def test_items_from_before_items_had_a_time_are_handed_out_and_finished(redis_connection, lane):
    queue = RedisDataQueue(redis_connection)
    keys = lane_keys(lane)
    old = uuid4().hex
    redis_connection.again(_PUT, (keys.items, keys.item_queue, keys.item_bytes), 100, old, b"{}")
    put(queue, lane, "new")

    found = lease(queue, lane)

    assert texts(found) == ["{}", "new"]
    assert put_of(found[0].id) is None
    assert queue.finish(lane, "t1", ids(found)) == 2


def test_another_name_of_the_queue_finds_the_same_items(queue, lane):
    put(queue, lane, "a")

    assert texts(lease(queue, Lane(lane.tenant, lane.biz, "renamed"))) == ["a"]


def test_a_call_whose_answer_was_lost_may_put_the_same_again(redis_connection, lane):
    queue = RedisDataQueue(redis_connection)
    keys = lane_keys(lane)
    names = (keys.items, keys.item_queue, keys.item_bytes)
    for _ in range(2):
        redis_connection.again(_PUT, names, 100, "id1", b"a", "id2", b"b")

    assert texts(lease(queue, lane)) == ["a", "b"]
    assert redis_connection.client.get(keys.item_bytes) == b"2"


def test_nothing_is_left_in_redis_of_what_is_finished(redis_connection, lane):
    queue = RedisDataQueue(redis_connection)
    put(queue, lane, "a", "b")
    queue.finish(lane, "t1", ids(lease(queue, lane)))

    found = {key.decode() for key in redis_connection.client.scan_iter(f"cf:*{lane.tenant}*")}

    assert found == {lane_keys(lane).item_bytes}
    assert redis_connection.client.get(lane_keys(lane).item_bytes) == b"0"


steps = st.lists(
    st.sampled_from(["put", "lease", "finish", "die", "back", "wait"]), min_size=1, max_size=25
)


@examples(0.4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, data=st.data())
def test_every_item_is_finished_once_or_waits_whatever_befalls_its_workers(
    a_queue, lane, steps, data
):
    queue = a_queue()
    lane = Lane(lane.tenant, f"b{uuid4().hex}", "main")  # each example has its own
    now, sent, done, held = NOW, 0, [], {}
    for number, step in enumerate(steps):
        if step == "put":
            put(queue, lane, str(sent), str(sent + 1))
            sent += 2
        elif step == "lease":
            found = lease(queue, lane, f"t{number}", 2, now, now + 10 * SECOND)
            if found:
                held[f"t{number}"] = found
        elif step == "wait":
            now += 6 * SECOND
        elif held:
            token = data.draw(st.sampled_from(sorted(held)))
            leased = held.pop(token)
            if step == "finish" and queue.finish(lane, token, ids(leased)):
                done += [one.data for one in leased]
            elif step == "back":
                queue.give_back(lane, token, ids(leased))

    left = queue.waiting([lane])[0]
    rest = []
    while found := lease(queue, lane, f"end{len(rest)}", 3, now + 100 * SECOND, now + 999 * SECOND):
        rest += found

    assert len(rest) == left
    held_twice = {one.data for one in rest} & set(done)
    assert {one.data for one in rest} | set(done) == {str(n).encode() for n in range(sent)}
    assert len(done) >= sent - left
    assert all(one.data in held_twice or one.data not in done for one in rest)
