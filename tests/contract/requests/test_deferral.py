"""Parking: requests wait for their host, in its list, in order; nothing of it is lost or leaks."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from infra.local.redis_server import ENV_URL, RedisServer
from tests.fakes.queue import MemoryQueue
from tests.fakes.recovery import MemoryQueueRebuild
from tests.fakes.submission import MemoryIntake
from tests.kit.config import IntakeLimits
from tests.kit.kernel import QueueKey, to_ms
from tests.kit.patience import patient
from tests.kit.politeness import DeferredHost
from tests.kit.queue import (
    LOOKED_AT,
    READY_EACH,
    Depth,
    Load,
    RedisQueue,
    RedisQueueRebuild,
    host_list,
    redis_keys,
)
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry
from tests.kit.submission import RedisIntake

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=5)
LATER = NOW + timedelta(seconds=10)
UNTIL = NOW + timedelta(seconds=60)
A, B = "a.example", "b.example"


def entries(count, first=0):
    return [Entry(n, "docs", 1_000 + n) for n in range(first, first + count)]


def deferred(queue, queue_key, hosts, token="w.n.1", first=0):
    """Submit, lease and park so many for each host, each due at its time."""
    parts = []
    for host, due, count in hosts:
        parts.append((host, due, entries(count, first)))
        first += count
    queue.enqueue(queue_key, [one for _, _, part in parts for one in part], NOW)
    while queue.lease(queue_key, token, 10_000, NOW, UNTIL):
        pass
    assert queue.defer(queue_key, token, parts) == sum(count for _, _, count in hosts)


# ---- in order -----------------------------------------------------------------------------------


def test_what_is_deferred_is_no_longer_served_by_the_queue(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 3)])

    assert queue.lease(queue_key, "x.n.1", 10, UNTIL + LATER.resolution, UNTIL) == []
    assert queue.depth(queue_key) == Depth(
        queued=3, deferred=3, leased=0, delayed=0, oldest_ts=1_000, deferred_ts=1_000
    )


def test_a_host_is_reported_when_its_time_has_come_the_longest_due_first(queue, queue_key):
    deferred(queue, queue_key, [(A, LATER, 2), (B, SOON, 3), ("c.example", UNTIL, 1)])

    assert queue.deferred(queue_key, NOW, 10) == []
    expected = [
        DeferredHost(host=B, count=3, ready_ts=to_ms(SOON)),
        DeferredHost(host=A, count=2, ready_ts=to_ms(LATER)),
    ]
    assert queue.deferred(queue_key, LATER, 10) == expected
    assert queue.deferred(queue_key, LATER, 1) == expected[:1]
    assert queue.deferred(queue_key, LATER, 0) == []


def test_a_hosts_requests_are_served_in_the_order_of_deferral(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 5), (B, SOON, 1)])

    first = queue.lease_deferred(queue_key, "x.n.1", [(A, 2, LATER), (B, 9, LATER)], UNTIL)
    queue.defer(queue_key, "x.n.1", [(A, LATER, first[A][:1])])
    second = queue.lease_deferred(queue_key, "y.n.1", [(A, 9, UNTIL)], UNTIL)

    assert first == {A: entries(2), B: entries(1, first=5)}
    assert second == {A: [*entries(3, first=2), *entries(1)]}
    assert queue.depth(queue_key).queued == 0
    assert queue.deferred(queue_key, UNTIL, 9) == []


def test_a_host_of_which_some_are_left_is_looked_at_again_at_the_time_given(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 5)])

    assert queue.lease_deferred(queue_key, "x.n.1", [(A, 0, LATER)], UNTIL) == {A: []}
    assert queue.deferred(queue_key, SOON, 9) == []
    assert queue.lease_deferred(queue_key, "x.n.1", [(A, 2, UNTIL)], UNTIL) == {A: entries(2)}
    assert queue.deferred(queue_key, UNTIL, 9) == [
        DeferredHost(host=A, count=3, ready_ts=to_ms(UNTIL))
    ]


def test_only_what_the_token_holds_is_deferred(queue, queue_key):
    queue.enqueue(queue_key, entries(3), NOW)
    queue.lease(queue_key, "x.n.1", 2, NOW, UNTIL)

    assert queue.defer(queue_key, "y.n.1", [(A, SOON, entries(3))]) == 0
    assert queue.defer(queue_key, "x.n.1", [(A, SOON, entries(3))]) == 2
    assert queue.defer(queue_key, "x.n.1", [(A, SOON, entries(3)), (B, SOON, [])]) == 0
    assert queue.defer(queue_key, "x.n.1", []) == 0
    assert queue.depth(queue_key).deferred == 2


def test_a_leased_request_is_not_leased_to_its_token_twice(queue, queue_key):
    repeated = entries(2)
    for token in ("x.n.1", "y.n.1"):
        queue.enqueue(queue_key, repeated, NOW)
        queue.lease(queue_key, token, 2, NOW, UNTIL)
        queue.defer(queue_key, token, [(A, SOON, repeated)])

    assert queue.lease_deferred(queue_key, "z.n.1", [(A, 3, LATER)], UNTIL) == {A: repeated}
    assert queue.depth(queue_key) == Depth(queued=0, leased=2, delayed=0)


def test_nothing_waits_for_a_host_that_nobody_has_deferred_for(queue, queue_key):
    assert queue.lease_deferred(queue_key, "x.n.1", [(A, 5, SOON)], UNTIL) == {A: []}
    assert queue.lease_deferred(queue_key, "x.n.1", [], UNTIL) == {}
    assert queue.deferred(queue_key, UNTIL, 9) == []


def test_a_token_with_the_separator_is_refused(queue, queue_key):
    with pytest.raises(ValueError, match="lease token"):
        queue.lease_deferred(queue_key, "a:{b", [(A, 1, SOON)], UNTIL)


def test_what_is_leased_from_a_host_and_not_finished_comes_back_with_its_lease(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 2)])
    queue.lease_deferred(queue_key, "dead.n.1", [(A, 2, LATER)], SOON)

    assert queue.lease(queue_key, "x.n.1", 9, LATER, UNTIL) == entries(2)


def test_one_queue_cannot_see_another(queue, queue_key):
    others = [
        QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue),
        QueueKey(queue_key.tenant, "news", queue_key.queue),
        QueueKey(queue_key.tenant, queue_key.biz, "second"),
    ]
    deferred(queue, queue_key, [(A, NOW, 2)])

    for other in others:
        assert queue.deferred(other, UNTIL, 9) == []
        assert queue.lease_deferred(other, "x.n.1", [(A, 9, SOON)], UNTIL) == {A: []}
        assert queue.depth(other).queued == 0
    assert queue.depth(queue_key).deferred == 2


# ---- how much there is --------------------------------------------------------------------------


def test_a_load_counts_what_is_due_and_reports_when_the_next_host_is(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 3), (B, LATER, 500)])

    reported = [queue.loads([queue_key], at)[0] for at in (NOW, SOON, LATER)]

    assert reported == [
        Load(ready=0, leased=0, next_ts=to_ms(SOON)),
        Load(ready=3, leased=0, next_ts=to_ms(LATER)),
        Load(ready=3 + READY_EACH, leased=0, next_ts=None),
    ]


def test_of_many_hosts_the_load_is_estimated_by_the_first(queue, queue_key):
    deferred(queue, queue_key, [(f"h{n:03}.example", NOW, 2) for n in range(3 * LOOKED_AT)])

    assert queue.loads([queue_key], NOW)[0].ready == 2 * 3 * LOOKED_AT


@pytest.mark.parametrize("twin", ["memory", "redis", "cluster"])
def test_what_is_deferred_counts_towards_the_backlog(request, queue_key, twin):
    if twin == "memory":
        queue = MemoryQueue()
        intake = MemoryIntake(queue)
    else:
        connection = request.getfixturevalue(f"{twin}_connection")
        queue, intake = RedisQueue(connection), RedisIntake(connection)
    deferred(queue, queue_key, [(A, SOON, 3), (B, SOON, 4)])

    pressure = intake.admit(queue_key, 1, IntakeLimits(max_backlog=7), 1.0, NOW)

    assert (pressure.backlog, pressure.backlog_full) == (7, True)


def test_how_many_wait_in_the_queue_leaves_out_what_is_deferred(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 3)])

    assert queue.enqueue(queue_key, [], NOW) == 0
    assert queue.enqueue(queue_key, entries(2, first=7), NOW) == 2
    assert queue.depth(queue_key).queued == 5


def test_recovery_is_reported_of_the_oldest_that_is_deferred_whatever_the_order(queue, queue_key):
    newest_first = entries(6)[::-1]
    queue.enqueue(queue_key, newest_first, NOW)
    queue.lease(queue_key, "w.n.1", 9, NOW, UNTIL)
    for one in newest_first:
        queue.defer(queue_key, "w.n.1", [(A, SOON, [one])])

    reported = []
    for n in range(6):
        reported.append(queue.depth(queue_key).oldest_ts)
        queue.lease_deferred(queue_key, f"x.n.{n}", [(A, 1, SOON)], UNTIL)

    assert reported == [1_000] * 6
    assert queue.depth(queue_key).oldest_ts is None


def test_recovery_is_reported_of_what_still_waits_when_all_that_was_there_before_it_has_left(
    queue, queue_key
):
    deferred(queue, queue_key, [(A, SOON, 2)])
    deferred(queue, queue_key, [(A, SOON, 2)], first=4_000)

    queue.lease_deferred(queue_key, "x.n.1", [(A, 2, LATER)], UNTIL)

    assert queue.depth(queue_key).deferred_ts == 1_000 + 4_000


def test_recovery_is_reported_of_progress_in_a_list_that_never_ends(queue, queue_key):
    deferred(queue, queue_key, [(A, SOON, 10)])
    reported = []
    for n in range(1, 30):
        new = entries(1, first=10 * n)
        queue.enqueue(queue_key, new, NOW)
        queue.lease(queue_key, "w.n.1", 1, NOW, UNTIL)
        queue.defer(queue_key, "w.n.1", [(A, SOON, new)])
        queue.lease_deferred(queue_key, f"x.n.{n}", [(A, 1, SOON)], UNTIL)
        reported.append(queue.depth(queue_key).oldest_ts)

    assert all(first <= second for first, second in pairwise(reported))
    assert reported[-1] >= 1_000 + 10 * 10


# ---- filling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("twin", ["memory", "redis", "cluster"])
@pytest.mark.parametrize("hosts", [1, 1_203])
def test_clearing_drops_what_is_deferred_for_however_many_hosts(request, queue_key, twin, hosts):
    if twin == "memory":
        queue = MemoryQueue()
        rebuild = MemoryQueueRebuild(queue)
    else:
        connection = request.getfixturevalue(f"{twin}_connection")
        queue, rebuild = RedisQueue(connection), RedisQueueRebuild(connection)
    deferred(queue, queue_key, [(f"h{n}.example", SOON, 2) for n in range(hosts)])
    held = queue.lease_deferred(queue_key, "x.n.1", [("h0.example", 1, LATER)], UNTIL)["h0.example"]

    rebuild.clear(queue_key, "one")

    assert queue.depth(queue_key) == Depth(queued=0, leased=1, delayed=0)
    assert queue.deferred(queue_key, UNTIL, 9) == []
    assert queue.loads([queue_key], UNTIL)[0].next_ts is None
    assert queue.defer(queue_key, "x.n.1", [(A, SOON, held)]) == 1
    assert rebuild.fill(queue_key, "one", entries(2), 5)
    assert queue.depth(queue_key).queued == 3


def test_clearing_leaves_no_key_of_what_was_deferred(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    deferred(queue, queue_key, [(f"h{n}.example", SOON, 2) for n in range(50)])

    RedisQueueRebuild(redis_connection).clear(queue_key, "one")

    left = redis_connection.client.keys(f"cf:{{{queue_key.tenant}:*")
    assert set(left) == {
        redis_keys(queue_key).filled.encode(),
        redis_keys(queue_key).submitted.encode(),
    }


def test_serving_the_last_leaves_no_key_of_what_was_deferred(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    deferred(queue, queue_key, [(A, SOON, 2), (B, SOON, 1)])

    queue.lease_deferred(queue_key, "x.n.1", [(A, 5, LATER), (B, 5, LATER)], UNTIL)

    left = redis_connection.client.keys(f"cf:{{{queue_key.tenant}:*")
    keys = redis_keys(queue_key)
    assert set(left) == {key.encode() for key in (keys.leases, keys.submitted, keys.ticks)}


# ---- what Redis has lost ------------------------------------------------------------------------


@pytest.fixture
def on_redis(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    deferred(queue, queue_key, [(A, SOON, 3), (B, LATER, 2)])
    return queue


def lose(connection: RedisConnection, queue_key: QueueKey, *names: str) -> None:
    for name in names:
        key = host_list(queue_key, A) if name == "list" else redis_keys(queue_key)._asdict()[name]
        assert connection.client.delete(key) == 1


def served(queue, queue_key):
    """Lease the entries of all deferred hosts until there is no such host; return them by host."""
    found = {}
    for n in range(20):
        hosts = queue.deferred(queue_key, UNTIL, 1)
        if not hosts:
            return found
        reported = [(one.host, max(1, one.count), UNTIL) for one in hosts]
        for host, part in queue.lease_deferred(queue_key, f"x.n.{n}", reported, UNTIL).items():
            found.setdefault(host, []).extend(part)
    raise AssertionError("a host is told for ever")


@pytest.mark.parametrize(
    "lost",
    [
        ("parked",),
        ("parked_due",),
        ("parked_low",),
        ("parked_due", "parked_low"),
        ("parked", "parked_low"),
    ],
    ids="-".join,
)
def test_what_waits_is_served_whichever_of_its_figures_are_lost(
    redis_connection, on_redis, queue_key, lost
):
    lose(redis_connection, queue_key, *lost)

    assert on_redis.loads([queue_key], UNTIL)[0].ready > 0
    assert served(on_redis, queue_key) == {A: entries(3), B: entries(2, first=3)}
    assert on_redis.depth(queue_key) == Depth(queued=0, leased=5, delayed=0)
    left = redis_connection.client.keys(f"cf:{{{queue_key.tenant}:*")
    keys = redis_keys(queue_key)
    assert set(left) == {key.encode() for key in (keys.leases, keys.submitted, keys.ticks)}


def test_a_lost_list_is_forgotten_so_that_recovery_looks_for_what_it_held(
    redis_connection, on_redis, queue_key
):
    lose(redis_connection, queue_key, "list")
    assert on_redis.depth(queue_key).oldest_ts == 1_000

    assert served(on_redis, queue_key) == {A: [], B: entries(2, first=3)}
    assert on_redis.depth(queue_key) == Depth(queued=0, leased=2, delayed=0)


def test_figures_that_were_lost_are_right_again_after_a_look(redis_connection, on_redis, queue_key):
    before = on_redis.depth(queue_key)
    lose(redis_connection, queue_key, "parked_due", "parked_low")
    redis_connection.client.hdel(redis_keys(queue_key).parked, "*")

    on_redis.deferred(queue_key, NOW, 1)

    assert on_redis.depth(queue_key) == before
    assert [one.count for one in on_redis.deferred(queue_key, NOW, 9)] == [3, 2]


def test_a_list_whose_figures_are_lost_is_found_when_its_host_is_deferred_for_again(
    redis_connection, on_redis, queue_key
):
    lose(redis_connection, queue_key, "parked", "parked_due", "parked_low")
    assert on_redis.depth(queue_key).queued == 0
    new = entries(1, first=9)
    on_redis.enqueue(queue_key, new, NOW)
    on_redis.lease(queue_key, "w.n.2", 1, NOW, UNTIL)

    on_redis.defer(queue_key, "w.n.2", [(A, SOON, new)])

    assert on_redis.depth(queue_key).deferred == 4
    assert served(on_redis, queue_key) == {A: [*entries(3), *new]}


def test_nothing_of_what_waits_ends_by_itself(redis_connection, on_redis, queue_key):
    keys = redis_keys(queue_key)
    lives = {
        redis_connection.client.ttl(key)
        for key in (keys.parked, keys.parked_due, keys.parked_low, host_list(queue_key, A))
    }

    assert lives == {-1}


def test_a_deferred_request_costs_as_much_as_a_queued_one(monkeypatch):
    """A full queue moves to one host's list without needing more room."""
    monkeypatch.delenv(ENV_URL, raising=False)
    with RedisServer() as server, RedisConnection(patient(server.url)) as connection:
        queue, queue_key = RedisQueue(connection), QueueKey("acme", "documentation", "main")
        for batch in range(20):
            first = 7_000_000_000_000_000_000 + batch * 1_000
            part = [Entry(first + n, queue_key.biz, to_ms(NOW) + n) for n in range(1_000)]
            queue.enqueue(queue_key, part, NOW)
        before = connection.client.info("memory")["used_memory"]
        while found := queue.lease(queue_key, "w.n.1", 1_000, NOW, UNTIL):
            queue.defer(queue_key, "w.n.1", [(A, SOON, found)])
        after = connection.client.info("memory")["used_memory"]

    assert (after - before) / 20_000 <= 10
