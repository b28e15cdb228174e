"""The contract of RequestQueue, over both implementations, with every instant a worker may die."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.kernel import QueueKey, to_ms
from tests.kit.queue import Depth, Load, Rates, RedisQueue
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERM = timedelta(seconds=60)
LATER = NOW + TERM  # when a lease given at NOW has just ended
FIRST_ID = 1 << 60


def entries(count: int, *, biz: str = "docs", first: int = 0) -> list[Entry]:
    return [Entry(FIRST_ID + n, biz, to_ms(NOW) + n) for n in range(first, first + count)]


def lease(
    queue: RedisQueue, queue_key: QueueKey, token: str = "a", count: int = 10, now: datetime = NOW
) -> list[Entry]:
    return queue.lease(queue_key, token, count, now, now + TERM)


# ---- order --------------------------------------------------------------------------------------


def test_entries_are_leased_in_the_order_they_were_enqueued(queue, queue_key):
    queue.enqueue(queue_key, entries(3), NOW)
    queue.enqueue(queue_key, entries(2, first=3), NOW)

    assert lease(queue, queue_key, count=4) == entries(4)
    assert lease(queue, queue_key, count=4) == entries(1, first=4)
    assert lease(queue, queue_key, count=4) == []


@pytest.mark.parametrize("count", [1, 1000, 9001])
def test_a_batch_of_any_size_survives_the_round_trip(queue, queue_key, count):
    queue.enqueue(queue_key, entries(count), NOW)

    assert lease(queue, queue_key, "a", count) == entries(count)
    assert queue.renew(queue_key, "a", entries(count), LATER) == []
    assert queue.give_back(queue_key, "a", entries(count)) == count
    assert lease(queue, queue_key, "b", count) == entries(count)
    assert queue.finish(queue_key, "b", entries(count), count, NOW) == count


def test_every_kind_of_id_comes_back_as_it_was(queue, queue_key):
    kinds = [Entry(one, "docs", 1) for one in (1, 2**63 - 1, "ab" * 12, "0f" * 16)]
    queue.enqueue(queue_key, kinds, NOW)

    assert lease(queue, queue_key) == kinds


def test_nothing_is_leased_for_a_count_below_one(queue, queue_key):
    queue.enqueue(queue_key, entries(1), NOW)

    assert lease(queue, queue_key, count=0) == []
    assert lease(queue, queue_key, count=-1) == []


def test_empty_batches_change_nothing(queue, queue_key):
    queue.enqueue(queue_key, [], NOW)
    queue.requeue(queue_key, [])

    assert queue.renew(queue_key, "a", [], LATER) == []
    assert queue.finish(queue_key, "a", [], 0, NOW) == 0
    assert queue.give_back(queue_key, "a", []) == 0
    assert queue.delay(queue_key, "a", []) == 0
    assert queue.depths([]) == []
    assert queue.per_second(queue_key, NOW) == ({}, {})


def test_recovered_entries_are_served_next_and_not_counted(queue, queue_key):
    queue.enqueue(queue_key, entries(2, first=5), NOW)
    queue.requeue(queue_key, entries(2))

    assert queue.depth(queue_key).oldest_ts == to_ms(NOW)
    assert lease(queue, queue_key) == entries(2) + entries(2, first=5)
    assert queue.per_second(queue_key, NOW + timedelta(seconds=1)) == ({to_ms(NOW) // 1000: 2}, {})


def test_a_repeated_entry_is_leased_to_a_token_once(queue, queue_key):
    queue.enqueue(queue_key, entries(1) + entries(3), NOW)

    assert lease(queue, queue_key, "a", 3) == entries(3)
    assert queue.depth(queue_key).leased == 3


def test_a_token_that_could_be_mistaken_for_an_entry_is_refused(queue, queue_key):
    with pytest.raises(ValueError, match="token"):
        lease(queue, queue_key, "a:{")


# ---- leases -------------------------------------------------------------------------------------


def test_an_entry_is_leased_to_one_of_many_threads(queue, queue_key):
    queue.enqueue(queue_key, entries(400), NOW)

    with ThreadPoolExecutor(20) as pool:
        leased = pool.map(lambda n: lease(queue, queue_key, f"w{n}", 7), range(80))
        found = [entry for batch in leased for entry in batch]

    assert sorted(found, key=lambda entry: entry.ts) == entries(400)


def test_a_leased_entry_is_not_leased_again_before_its_time(queue, queue_key):
    queue.enqueue(queue_key, entries(1), NOW)
    lease(queue, queue_key, "a")

    assert lease(queue, queue_key, "b", now=LATER - timedelta(milliseconds=1)) == []


def test_what_a_dead_worker_leased_is_leased_to_the_next_one_first(queue, queue_key):
    queue.enqueue(queue_key, entries(3), NOW)
    lease(queue, queue_key, "dead", 2)

    assert lease(queue, queue_key, "b", now=LATER) == entries(3)
    assert lease(queue, queue_key, "c", now=LATER) == []


def test_reclaimed_entries_beyond_the_batch_stay_for_the_next_lease(queue, queue_key):
    queue.enqueue(queue_key, entries(5), NOW)
    lease(queue, queue_key, "dead", 5)

    assert lease(queue, queue_key, "b", 2, LATER) == entries(2)
    assert lease(queue, queue_key, "c", 9, LATER) == entries(3, first=2)


def test_finishing_twice_is_counted_as_held_once(queue, queue_key):
    queue.enqueue(queue_key, entries(2), NOW)
    batch = lease(queue, queue_key)

    assert queue.finish(queue_key, "a", batch, 2, NOW) == 2
    assert queue.finish(queue_key, "a", batch, 0, NOW) == 0
    assert queue.depth(queue_key) == Depth(queued=0, leased=0, delayed=0)


def test_finishing_after_another_token_reclaimed_changes_nothing(queue, queue_key):
    queue.enqueue(queue_key, entries(1), NOW)
    batch = lease(queue, queue_key, "slow")
    lease(queue, queue_key, "quick", now=LATER)

    assert queue.finish(queue_key, "slow", batch, 0, LATER) == 0
    assert queue.give_back(queue_key, "slow", batch) == 0
    assert queue.delay(queue_key, "slow", [(batch[0], LATER)]) == 0
    assert queue.depth(queue_key) == Depth(queued=0, leased=1, delayed=0)
    assert queue.finish(queue_key, "quick", batch, 1, LATER) == 1


def test_a_lease_that_ended_but_was_not_reclaimed_is_still_the_tokens(queue, queue_key):
    queue.enqueue(queue_key, entries(2), NOW)
    batch = lease(queue, queue_key)

    assert queue.renew(queue_key, "a", batch, LATER + TERM) == []
    assert lease(queue, queue_key, "b", now=LATER) == []
    assert queue.finish(queue_key, "a", batch, 2, LATER) == 2


def test_a_renewed_lease_ends_later(queue, queue_key):
    queue.enqueue(queue_key, entries(1), NOW)
    batch = lease(queue, queue_key)
    queue.renew(queue_key, "a", batch, LATER + TERM)

    assert lease(queue, queue_key, "b", now=LATER + TERM - timedelta(milliseconds=1)) == []
    assert lease(queue, queue_key, "b", now=LATER + TERM) == batch


def test_renewing_reports_the_entries_that_are_lost(queue, queue_key):
    queue.enqueue(queue_key, entries(4), NOW)
    batch = lease(queue, queue_key)
    queue.finish(queue_key, "a", batch[:1], 1, NOW)
    lease(queue, queue_key, "b", 1, LATER)

    assert queue.renew(queue_key, "a", batch, LATER + TERM) == batch[:2]
    assert queue.renew(queue_key, "nobody", batch, LATER + TERM) == batch


def test_given_back_entries_are_served_next_in_their_order(queue, queue_key):
    queue.enqueue(queue_key, entries(5), NOW)
    batch = lease(queue, queue_key, "a", 3)
    queue.finish(queue_key, "a", batch[1:2], 1, NOW)

    assert queue.give_back(queue_key, "a", batch) == 2
    assert lease(queue, queue_key, "b") == [batch[0], batch[2], *entries(2, first=3)]


def test_what_was_leased_to_somebody_who_never_heard_of_it_is_served_next_in_its_order(
    queue, queue_key
):
    queue.enqueue(queue_key, entries(5), NOW)
    lease(queue, queue_key, "a", 3)

    assert queue.return_unconfirmed(queue_key, "a", LATER) == 3
    assert queue.return_unconfirmed(queue_key, "a", LATER) == 0
    assert lease(queue, queue_key, "b") == entries(5)


def test_what_waited_for_a_host_and_was_leased_in_vain_is_queued(queue, queue_key):
    queue.enqueue(queue_key, entries(2), NOW)
    queue.defer(queue_key, "a", [("example.org", NOW, lease(queue, queue_key, "a"))])
    queue.lease_deferred(queue_key, "b", [("example.org", 2, NOW)], LATER)

    assert queue.return_unconfirmed(queue_key, "b", LATER) == 2
    depth = queue.depth(queue_key)
    assert (depth.queued, depth.deferred, depth.leased) == (2, 0, 0)


def test_only_what_a_token_holds_until_then_is_disclaimed(queue, queue_key):
    queue.enqueue(queue_key, entries(4), NOW)
    (renewed,) = lease(queue, queue_key, "a", 1)
    queue.renew(queue_key, "a", [renewed], LATER + TERM)
    for token in ("a", "a:b", "other"):
        lease(queue, queue_key, token, 1)

    assert queue.return_unconfirmed(queue_key, "a", LATER + timedelta(milliseconds=1)) == 0
    assert queue.return_unconfirmed(queue_key, "a", LATER) == 1
    assert queue.depth(queue_key).leased == 3
    assert lease(queue, queue_key, "b") == entries(1, first=1)


# ---- retries ------------------------------------------------------------------------------------


def test_a_delayed_entry_is_leased_when_its_time_has_come_and_first(queue, queue_key):
    queue.enqueue(queue_key, entries(4), NOW)
    batch = lease(queue, queue_key, "a", 3)
    soon, at_once = NOW + timedelta(seconds=5), NOW
    held = queue.delay(queue_key, "a", [(batch[0], soon), (batch[1], at_once), (batch[2], soon)])

    assert held == 3
    assert lease(queue, queue_key, "b", 1) == [batch[1]]
    assert lease(queue, queue_key, "b", 9, soon) == [batch[0], batch[2], *entries(1, first=3)]
    assert queue.depth(queue_key).delayed == 0


def test_due_retries_come_before_ended_leases_and_those_before_the_queue(queue, queue_key):
    queue.enqueue(queue_key, entries(3), NOW)
    retried = lease(queue, queue_key, "a", 1)
    orphaned = lease(queue, queue_key, "b", 1)
    queue.delay(queue_key, "a", [(retried[0], LATER)])

    assert [lease(queue, queue_key, f"c{n}", 1, LATER) for n in range(3)] == [
        retried,
        orphaned,
        entries(1, first=2),
    ]


def test_a_delayed_entry_is_no_longer_leased(queue, queue_key):
    queue.enqueue(queue_key, entries(1), NOW)
    batch = lease(queue, queue_key)
    queue.delay(queue_key, "a", [(batch[0], LATER + TERM)])

    assert lease(queue, queue_key, "b", now=LATER) == []
    assert queue.renew(queue_key, "a", batch, LATER) == batch
    assert queue.finish(queue_key, "a", batch, 0, NOW) == 0


# ---- depth and rates ----------------------------------------------------------------------------


def test_depth_reports_what_is_queued_leased_and_delayed(queue, queue_key):
    queue.enqueue(queue_key, entries(6), NOW)
    batch = lease(queue, queue_key, "a", 3)
    queue.delay(queue_key, "a", [(batch[0], LATER)])

    assert queue.depth(queue_key) == Depth(
        queued=3, leased=2, delayed=1, oldest_ts=to_ms(NOW) + 3, heads={5: to_ms(NOW) + 3}
    )


def test_depths_of_many_queues_come_in_their_order(queue, tenant):
    queues = [QueueKey(tenant, f"biz{n}", "main") for n in range(5)]
    for n, one in enumerate(queues):
        queue.enqueue(one, entries(n), NOW)

    assert [depth.queued for depth in queue.depths(queues)] == [0, 1, 2, 3, 4]
    assert queue.depths(queues)[0] == Depth(queued=0, leased=0, delayed=0)


def test_rates_look_at_the_last_full_1_5_and_60_seconds(queue, queue_key):
    for age, count in ((61, 1000), (60, 60), (6, 60), (5, 10), (1, 5), (0, 700)):
        queue.enqueue(queue_key, entries(count), NOW - timedelta(seconds=age))
    queue.finish(queue_key, "a", [], 30, NOW - timedelta(seconds=2))

    submitted, processed = queue.rates(queue_key, NOW + timedelta(milliseconds=999))

    assert submitted == Rates(per_1s=5.0, per_5s=3.0, per_60s=2.25)
    assert processed == Rates(per_1s=0.0, per_5s=6.0, per_60s=0.5)


def test_counts_by_second_cover_the_last_full_minute(queue, queue_key):
    second = to_ms(NOW) // 1000
    for age in (200, 61, 60, 1, 0):
        queue.enqueue(queue_key, entries(age + 1), NOW - timedelta(seconds=age))
    queue.finish(queue_key, "a", [], 3, NOW - timedelta(seconds=1))

    assert queue.per_second(queue_key, NOW) == ({second - 60: 61, second - 1: 2}, {second - 1: 3})


def test_counts_of_one_second_add_up_over_threads(queue, queue_key):
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda n: queue.enqueue(queue_key, entries(n), NOW), range(1, 41)))

    assert queue.rates(queue_key, NOW + timedelta(seconds=1))[0].per_1s == sum(range(1, 41))


def test_phases_add_up(queue, queue_key):
    assert queue.phases(queue_key) == {}

    queue.add_phases(queue_key, {"fetch": 0.5, "store": 0.25})
    queue.add_phases(queue_key, {"fetch": 0.125})
    queue.add_phases(queue_key, {})

    assert queue.phases(queue_key) == {"fetch": 0.625, "store": 0.25}


# ---- strangers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["tenant", "biz"])
def test_one_queue_cannot_see_another(queue, tenant, other):
    ours = QueueKey(tenant, "docs", "main")
    theirs = (
        QueueKey(f"{tenant}x", "docs", "main")
        if other == "tenant"
        else QueueKey(tenant, "d", "main")
    )
    queue.enqueue(ours, entries(2), NOW)
    batch = lease(queue, ours, "a", 1)
    queue.finish(ours, "a", [], 1, NOW)
    queue.add_phases(ours, {"fetch": 1.0})

    assert lease(queue, theirs, "a", now=LATER) == []
    assert queue.renew(theirs, "a", batch, LATER) == batch
    assert queue.finish(theirs, "a", batch, 0, NOW) == 0
    assert queue.give_back(theirs, "a", batch) == 0
    assert queue.delay(theirs, "a", [(batch[0], NOW)]) == 0
    assert queue.depth(theirs) == Depth(queued=0, leased=0, delayed=0)
    assert queue.per_second(theirs, NOW + timedelta(seconds=1)) == ({}, {})
    assert queue.phases(theirs) == {}
    assert queue.depth(ours) == Depth(
        queued=1, leased=1, delayed=0, oldest_ts=to_ms(NOW) + 1, heads={5: to_ms(NOW) + 1}
    )


def test_a_queue_of_another_name_holds_its_own_entries_and_shares_the_biz_rates(queue, tenant):
    before, after = QueueKey(tenant, "docs", "main"), QueueKey(tenant, "docs", "second")
    queue.enqueue(before, entries(3), NOW)

    assert queue.depth(after) == Depth(queued=0, leased=0, delayed=0)
    assert queue.rates(after, NOW + timedelta(seconds=1))[0].per_1s == 3.0


def test_the_load_is_what_a_lease_would_find_and_what_is_held(
    queue: RedisQueue, queue_key: QueueKey
) -> None:
    other = QueueKey("other", queue_key.biz, queue_key.queue)
    queue.enqueue(queue_key, entries(6), NOW)
    [held] = lease(queue, queue_key, "a", 1)
    [ending] = queue.lease(queue_key, "b", 1, NOW, NOW + timedelta(seconds=1))
    [due, later] = lease(queue, queue_key, "c", 2)
    queue.delay(queue_key, "c", [(due, NOW + timedelta(seconds=1)), (later, LATER)])

    now, soon = NOW, NOW + timedelta(seconds=2)
    next_ts, last_ts = to_ms(NOW) + 1_000, to_ms(LATER)
    assert queue.loads([queue_key, other], now) == [
        Load(ready=2, leased=2, next_ts=next_ts),
        Load(ready=0, leased=0),
    ]
    assert queue.loads([queue_key], soon) == [Load(ready=4, leased=1, next_ts=last_ts)]
    assert set(lease(queue, queue_key, "d", 9, soon)) == {due, ending, *entries(2, first=4)}
    assert queue.loads([], now) == []
    assert held not in {due, ending, later}


def test_enqueue_reports_how_many_wait(queue: RedisQueue, queue_key: QueueKey) -> None:
    first = queue.enqueue(queue_key, [Entry(1, queue_key.biz, 1), Entry(2, queue_key.biz, 2)], NOW)
    second = queue.enqueue(queue_key, [Entry(3, queue_key.biz, 3)], NOW)
    third = queue.enqueue(queue_key, [], NOW)

    assert (first, second, third) == (2, 3, 3)
