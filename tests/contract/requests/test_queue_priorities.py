"""Priorities in the queue: each entry stays at its own, and what is served is what policy says."""

from datetime import UTC, datetime, timedelta
from itertools import count
from math import log2

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.ageing import next_level, settle
from tests.fakes.queue import MemoryQueue
from tests.kit.examples import examples
from tests.kit.implementations import backend_over
from tests.kit.kernel import LEVELS, Ageing, QueueKey, to_ms
from tests.kit.queue import RedisQueue, RedisQueueRebuild, host_list, kept, level_keys, redis_keys
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = to_ms(NOW)
UNTIL = NOW + timedelta(hours=1)
TICK = Ageing(interval_seconds=5)
FIRST_ID = 2**62


class Clock:
    """The server's, as far as ticks go."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


backend = backend_over(RedisQueue, RedisQueueRebuild)


@pytest.fixture
def aged(backend):
    """A queue, its filling, and the clock that its ticks go by."""
    clock = Clock()
    return backend.use(RedisQueue, clock=clock), backend[RedisQueueRebuild], clock


def entry(number: int, priority: int, after: int = 0) -> Entry:
    return Entry(FIRST_ID + number, "docs", AT + after, priority)


def lease(queue, queue_key, many=100, token="a.n.1", now=NOW, ageing=TICK):
    return queue.lease(queue_key, token, many, now, UNTIL, ageing)


def test_of_what_has_not_aged_the_highest_priority_is_served_first(aged, queue_key):
    queue, _, _ = aged
    each = [entry(n, priority) for n, priority in enumerate([0, 10, 5, 3, 10, 0])]

    assert queue.enqueue(queue_key, each[:4], NOW) == 4
    assert queue.enqueue(queue_key, each[4:], NOW) == 6

    assert lease(queue, queue_key) == [each[n] for n in (1, 4, 2, 3, 0, 5)]


def test_what_has_waited_for_four_ticks_as_the_oldest_stands_before_newcomers_of_ten(
    aged, queue_key
):
    queue, _, clock = aged
    old = entry(0, 0)
    queue.enqueue(queue_key, [old], NOW)
    clock.now = NOW + timedelta(seconds=19)
    tens = [entry(1, 10, 19_000), entry(2, 10, 20_500)]
    queue.enqueue(queue_key, tens[:1], clock.now)
    assert lease(queue, queue_key, 1) == tens[:1]

    clock.now = NOW + timedelta(seconds=21)
    queue.enqueue(queue_key, tens[1:], clock.now)

    assert lease(queue, queue_key) == [old, tens[1]]


def test_what_leaves_the_queue_returns_to_its_priority_however_it_returns(aged, queue_key):
    queue, _, _ = aged
    given_back, delayed, leased, deferred, requeued = each = [entry(n, n + 6) for n in range(5)][:5]
    queue.enqueue(queue_key, each[:4], NOW)
    assert lease(queue, queue_key) == each[3::-1]
    queue.give_back(queue_key, "a.n.1", [given_back])
    queue.delay(queue_key, "a.n.1", [(delayed, NOW)])
    queue.defer(queue_key, "a.n.1", [("a.example", NOW, [deferred])])
    queue.requeue(queue_key, [requeued])
    assert queue.depth(queue_key).heads == {6: AT, 10: AT}
    assert queue.depth(queue_key).deferred_ts == AT

    assert lease(queue, queue_key, token="b.n.1") == [requeued, delayed, given_back]
    found = queue.lease_deferred(queue_key, "b.n.1", [("a.example", 5, UNTIL)], UNTIL)
    assert found == {"a.example": [deferred]}
    late = UNTIL + timedelta(seconds=1)
    again = queue.lease(queue_key, "c.n.1", 9, late, late + timedelta(hours=1), TICK)
    assert set(again) == {*each}
    assert queue.give_back(queue_key, "c.n.1", again) == 5
    assert queue.depth(queue_key).heads == {one.priority: AT for one in each}
    assert leased in again


def test_what_is_given_back_is_served_next_of_its_priority_in_its_order(aged, queue_key):
    queue, _, _ = aged
    each = [entry(n, (5, 10)[n % 2]) for n in range(8)]
    queue.enqueue(queue_key, each, NOW)
    first = lease(queue, queue_key, 6)
    queue.give_back(queue_key, "a.n.1", first)

    assert lease(queue, queue_key, token="b.n.1") == [*each[1::2], *each[::2]]


def test_a_filling_and_a_requeueing_keep_the_order_of_each_priority(aged, queue_key):
    queue, rebuild, _ = aged
    queue.enqueue(queue_key, [entry(99, 3)], NOW)
    each = [entry(n, (0, 5, 10)[n % 3], n) for n in range(12)]

    rebuild.clear(queue_key, "n")
    assert rebuild.fill(queue_key, "n", each[3:9], 8)
    assert rebuild.fill(queue_key, "n", each[9:], 11)
    assert rebuild.filled(queue_key, "n")
    queue.requeue(queue_key, each[:3])

    assert queue.depth(queue_key).heads == {0: AT, 5: AT + 1, 10: AT + 2}
    assert lease(queue, queue_key) == [*each[2::3], *each[1::3], *each[::3]]


def test_loads_count_all_priorities(aged, queue_key):
    queue, _, _ = aged
    queue.enqueue(queue_key, [entry(n, n) for n in range(LEVELS)], NOW)

    assert queue.loads([queue_key], NOW)[0].ready == LEVELS
    assert queue.depth(queue_key).queued == LEVELS
    assert queue.depth(queue_key).heads == dict.fromkeys(range(LEVELS), AT)


def test_a_leased_request_is_not_leased_to_its_token_twice_whatever_its_priority(aged, queue_key):
    queue, _, _ = aged
    each = [entry(n, (0, 10)[n % 2]) for n in range(6)]
    queue.enqueue(queue_key, [*each, *each], NOW)

    assert sorted(lease(queue, queue_key), key=lambda one: one.id) == each
    assert queue.depth(queue_key).queued == 0


arrivals = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 10), st.integers(-20_000, 500)), max_size=5),
        st.integers(0, 9_000),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=15,
)
kinds = st.builds(
    Ageing,
    interval_seconds=st.sampled_from([0.05, 1.0, 5.0]),
    beta=st.sampled_from([0.1, 0.5, 0.9]),
    clamp=st.sampled_from([12.0, 100.0, 2.0**20]),
)


@pytest.mark.parametrize("where", ["memory", "redis", "cluster"])
def test_what_is_served_is_what_policy_says_to_the_last_tie(request, tenant, where):
    queues, ids = count(), count()
    clock = Clock()
    if where == "memory":
        queue = MemoryQueue(clock=clock)
    else:
        queue = RedisQueue(request.getfixturevalue(f"{where}_connection"), clock=clock)

    # Whoever asks for none notes no tick.
    @example(
        [([(2, -1)], 0, 0), ([(1, -3)], 0, 1)],
        Ageing(interval_seconds=0.05, beta=0.1, clamp=12.0),
    )
    @examples(0.6)
    @given(arrivals, kinds)
    def check(steps, ageing):
        queue_key = QueueKey(tenant, f"b{next(queues)}", "main")
        clock.now = NOW
        lists: list[list[Entry]] = [[] for _ in range(LEVELS)]
        times: list[float] = []
        oldests: list[float] = []
        for new, passes, many in steps:
            at = to_ms(clock.now)
            entries = [Entry(next(ids), queue_key.biz, at + off, level) for level, off in new]
            queue.enqueue(queue_key, entries, NOW)
            for one in entries:
                lists[one.priority].append(one)
            clock.now += timedelta(milliseconds=passes)
            expected = []
            heads = [queued[0].ts if queued else None for queued in lists]
            if many and any(lists):
                oldest = min(head for head in heads if head is not None)
                most = kept(ageing.beta, ageing.clamp)
                settle(times, oldests, to_ms(clock.now), oldest, ageing.interval_ms, most)
            while len(expected) < many and any(lists):
                heads = [queued[0].ts if queued else None for queued in lists]
                level = next_level(heads, times, oldests, ageing.beta, log2(ageing.clamp))
                expected.append(lists[level].pop(0))
            token = f"w.n.{next(ids)}"
            assert lease(queue, queue_key, many, token, NOW, ageing) == expected

    check()


# ---- what comes back, and what waits for a host --------------------------------------------------


def test_retries_that_are_due_and_leases_that_ended_are_served_by_priority_too(aged, queue_key):
    queue, _, _ = aged
    each = [entry(n, 0, n) for n in range(40)]
    queue.enqueue(queue_key, each, NOW)
    held = lease(queue, queue_key)
    queue.delay(queue_key, "a.n.1", [(one, NOW + timedelta(seconds=1)) for one in held[:20]])
    urgent = [entry(90 + n, 10, 50) for n in range(5)]
    queue.enqueue(queue_key, urgent, NOW)
    # More than is asked for is due and has ended, whatever is asked for.
    late = UNTIL + timedelta(seconds=1)

    first = queue.lease(queue_key, "b.n.1", 10, late, late + timedelta(hours=1), TICK)
    rest = queue.lease(queue_key, "c.n.1", 99, late, late + timedelta(hours=1), TICK)

    assert first[:5] == urgent
    assert len(set(first + rest)) == 45


def deferred(queue, queue_key, entries, host="a.example", token="p.n.1"):
    queue.enqueue(queue_key, entries, NOW)
    for _ in range(-(-len(entries) // 1_000)):
        found = queue.lease(queue_key, token, 1_000, NOW, UNTIL, TICK)
        assert queue.defer(queue_key, token, [(host, NOW, found)]) == len(found)


def of_host(queue, queue_key, many, token="b.n.1", host="a.example", ageing=TICK):
    reported = [(host, many, UNTIL)]
    return queue.lease_deferred(queue_key, token, reported, UNTIL, ageing)[host]


def test_a_request_of_ten_is_served_before_a_thousand_of_zero_that_wait_for_its_host(
    aged, queue_key
):
    queue, _, _ = aged
    many = [entry(n, 0, n % 7) for n in range(1_000)]
    deferred(queue, queue_key, many)
    urgent, usual = entry(2_000, 10, 100), entry(2_001, 5, 101)
    deferred(queue, queue_key, [usual, urgent], token="p.n.2")

    assert queue.deferred(queue_key, NOW, 99)[0].count == 1_002
    assert queue.depth(queue_key).deferred == 1_002
    assert of_host(queue, queue_key, 3) == [urgent, usual, many[0]]
    assert of_host(queue, queue_key, 2, "c.n.1") == many[1:3]
    assert queue.deferred(queue_key, UNTIL, 99)[0].count == 997


def test_what_has_waited_for_its_host_for_four_ticks_as_the_oldest_stands_before_newcomers(
    aged, queue_key
):
    queue, _, clock = aged
    old = [entry(n, 0, n) for n in range(3)]
    deferred(queue, queue_key, old)
    clock.now = NOW + timedelta(seconds=19)
    tens = [entry(10, 10, 19_000), entry(11, 10, 20_500)]
    deferred(queue, queue_key, tens[:1], token="p.n.2")
    assert of_host(queue, queue_key, 1) == tens[:1]

    clock.now = NOW + timedelta(seconds=21)
    deferred(queue, queue_key, tens[1:], token="p.n.3")

    assert of_host(queue, queue_key, 9) == [*old, tens[1]]


def test_a_host_has_one_time_and_counts_once_whatever_the_priorities_that_wait_for_it(
    aged, queue_key
):
    queue, _, _ = aged
    soon, later = NOW + timedelta(seconds=5), NOW + timedelta(seconds=10)
    each = [entry(n, n) for n in range(LEVELS)]
    queue.enqueue(queue_key, each, NOW)
    lease(queue, queue_key)
    queue.defer(queue_key, "a.n.1", [("a.example", soon, each[:10])])
    queue.defer(queue_key, "a.n.1", [("a.example", later, each[10:])])

    assert queue.deferred(queue_key, soon, 99) == []
    (reported,) = queue.deferred(queue_key, later, 99)
    assert (reported.host, reported.count, reported.ready_ts) == ("a.example", LEVELS, to_ms(later))
    assert queue.loads([queue_key], later)[0].ready == LEVELS
    assert queue.depth(queue_key).deferred_ts == AT

    assert of_host(queue, queue_key, 10) == each[:0:-1]
    assert queue.deferred(queue_key, later, 99) == []
    assert of_host(queue, queue_key, 10, "c.n.1") == [each[0]]
    assert queue.depth(queue_key).deferred_ts is None
    assert queue.deferred(queue_key, UNTIL, 99) == []


def test_recovery_is_reported_of_the_oldest_that_waits_whichever_priority_is_served(
    aged, queue_key
):
    queue, _, _ = aged
    deferred(queue, queue_key, [entry(1, 0, 5), entry(2, 10, 3), entry(3, 10, 9)])

    reported = []
    for n in range(3):
        reported.append(queue.depth(queue_key).deferred_ts)
        assert len(of_host(queue, queue_key, 1, f"x.n.{n}")) == 1

    assert reported == [AT + 3, AT + 3, AT + 5]
    assert queue.depth(queue_key).deferred_ts is None


def test_clearing_drops_what_waits_for_a_host_of_all_priorities(aged, queue_key):
    queue, rebuild, _ = aged
    deferred(queue, queue_key, [entry(n, n) for n in range(LEVELS)])

    rebuild.clear(queue_key, "n")

    assert (queue.depth(queue_key).queued, queue.deferred(queue_key, UNTIL, 99)) == (0, [])
    assert of_host(queue, queue_key, 99) == []


# ---- what only Redis shows ----------------------------------------------------------------------


def test_the_list_of_the_usual_priority_is_the_queue_of_older_versions(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    redis_connection.client.lpush(redis_keys(queue_key).queue, f'{{"id":7,"biz":"docs","ts":{AT}}}')
    queue.enqueue(queue_key, [entry(1, 5), entry(2, 0)], NOW)

    assert level_keys(queue_key)[5] == redis_keys(queue_key).queue
    assert redis_connection.client.llen(redis_keys(queue_key).queue) == 2
    assert redis_connection.client.lrange(level_keys(queue_key)[0], 0, -1) == [
        b'{"id":4611686018427387906,"biz":"docs","ts":%d,"p":0}' % AT
    ]
    assert lease(queue, queue_key) == [Entry(7, "docs", AT), entry(1, 5), entry(2, 0)]


def test_what_is_no_entry_holds_up_no_priority(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    queue.enqueue(queue_key, [entry(1, 10), entry(2, 0)], NOW)
    for junk in ("no entry", '{"ts": "never"}', '{"id": 1, "biz": "docs", "ts": 1, "p": 11}'):
        redis_connection.client.rpush(level_keys(queue_key)[0], junk)

    assert lease(queue, queue_key, 9) == [entry(1, 10), entry(2, 0)]
    assert lease(queue, queue_key, 9, "b.n.1") == []


def test_ticks_that_are_lost_are_made_up_for(redis_connection, queue_key):
    clock = Clock()
    queue = RedisQueue(redis_connection, clock=clock)
    queue.enqueue(queue_key, [entry(1, 0), entry(2, 10, 60_000)], NOW)
    clock.now = NOW + timedelta(seconds=61)
    redis_connection.client.set(redis_keys(queue_key).ticks, "what is this")

    assert lease(queue, queue_key, 1) == [entry(1, 0)]
    assert len(redis_connection.client.get(redis_keys(queue_key).ticks).split()) == 24


def test_long_lists_of_two_priorities_are_served_in_turn_and_shortened_by_what_was_taken(
    redis_connection, queue_key
):
    queue = RedisQueue(redis_connection)
    each = [entry(n, (4, 6)[n % 2]) for n in range(300)]
    queue.enqueue(queue_key, each, NOW)
    found = [one for n in range(3) for one in lease(queue, queue_key, 100, f"a.n.{n}")]

    assert found == [*each[1::2], *each[::2]]
    assert queue.depth(queue_key).queued == 0


def test_the_servers_own_clock_counts_where_none_is_given(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    queue.enqueue(queue_key, [entry(1, 0), entry(2, 10, 86_400_000 * 30)], NOW)

    # By the server it is long after both; by the caller's clock no tick has been.
    assert lease(queue, queue_key, 1, ageing=Ageing(interval_seconds=0.05)) != []
    assert redis_connection.client.exists(redis_keys(queue_key).ticks)


def test_older_versions_find_what_waits_for_a_host_in_lists_of_other_priorities(
    redis_connection, queue_key
):
    """Older versions read a place as a host; entries that they defer and leave are found here."""
    queue = RedisQueue(redis_connection)
    deferred(queue, queue_key, [entry(1, 5), entry(2, 10), entry(3, 0)])
    client, keys = redis_connection.client, redis_keys(queue_key)

    places = client.zrangebyscore(keys.parked_due, "-inf", AT)
    assert places == [b"a.example", b"a.example 0", b"a.example 10"]
    lists = [host_list(queue_key, place.decode()) for place in places]
    assert [client.llen(one) for one in lists] == [1, 1, 1]
    assert set(client.hgetall(keys.parked)) == {*places, b"*"}

    # The usual priority's list is where it has always been.
    assert lists[0] == f"cf:{{{queue_key.tenant}:docs}}:at_host:main:a.example"
    client.rpush(lists[0], b'{"id":7,"biz":"docs","ts":1}')
    client.hset(keys.parked, "a.example", f"2 2 1 {2**53}")
    found = of_host(queue, queue_key, 9)
    assert [one.priority for one in found] == [10, 5, 5, 0]


@pytest.mark.parametrize("lost", ["parked", "parked_due", "parked_low"])
def test_figures_of_several_priorities_that_are_lost_are_made_anew(
    redis_connection, queue_key, lost
):
    queue = RedisQueue(redis_connection)
    each = [entry(1, 5), entry(2, 10), entry(3, 0)]
    deferred(queue, queue_key, each)
    assert redis_connection.client.delete(redis_keys(queue_key)._asdict()[lost]) == 1

    assert queue.deferred(queue_key, NOW, 99)[0].host == "a.example"
    assert of_host(queue, queue_key, 9) == [each[1], each[0], each[2]]
    assert queue.deferred(queue_key, UNTIL, 99) == []
    assert queue.depth(queue_key).deferred == 0
    assert redis_connection.client.keys(f"cf:{{{queue_key.tenant}:*parked*") == []
