"""The contract of queue samples: the work ahead of the workers, at a bounded cost."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.broken_servers import closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.queue import QueueWork, RedisQueue, RedisQueueSampler, redis_keys
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = timedelta(seconds=10)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


both = fixture_over(RedisQueue, RedisQueueSampler)


def fill(queue, queue_key: QueueKey, count: int) -> None:
    queue.enqueue(queue_key, [Entry(n, queue_key.biz, 1_000 + n) for n in range(count)], NOW)


def test_of_nothing_there_is_nothing(both, queue_key):
    _, sampler = both

    assert sampler.works([queue_key], NOW, SOON, 9) == [QueueWork()]
    assert sampler.works([], NOW, SOON, 9) == []
    assert sampler.sample_queue(queue_key, 5) == []


def test_each_entry_is_counted_once_wherever_it_is(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 20)
    leased = queue.lease(queue_key, "t", 12, NOW, after(60))
    queue.delay(queue_key, "t", [(leased[0], after(5)), (leased[1], after(11))])
    queue.defer(queue_key, "t", [("b", after(3), leased[2:5]), ("a", after(600), leased[5:10])])

    (found,) = sampler.works([queue_key], NOW, SOON, 9)

    assert found == QueueWork(
        queued=8,
        leased=2,
        due=1,
        deferred=8,
        hosts=2,
        hosts_due=1,
        sample=(("b", 3), ("a", 5)),
        oldest_ts=1_002,
    )
    assert found.backlog == 19
    assert found.can_go_on


def test_leases_that_have_ended_are_to_be_had_again(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 3)
    queue.lease(queue_key, "t", 2, NOW, after(1))

    (found,) = sampler.works([queue_key], after(2), SOON, 9)

    assert (found.queued, found.leased) == (3, 0)


def test_what_waits_for_later_is_nothing_that_can_go_on(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 2)
    one, other = queue.lease(queue_key, "t", 2, NOW, after(60))
    queue.delay(queue_key, "t", [(one, after(3600))])
    queue.defer(queue_key, "t", [("a", after(3600), [other])])

    (found,) = sampler.works([queue_key], NOW, SOON, 9)

    assert not found.can_go_on


def test_no_more_hosts_are_named_than_asked_for_the_soonest_first(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 30)
    leased = queue.lease(queue_key, "t", 30, NOW, after(60))
    queue.defer(queue_key, "t", [(f"h{n}", after(30 - n), [one]) for n, one in enumerate(leased)])

    (found,) = sampler.works([queue_key], NOW, SOON, 3)

    assert [host for host, _ in found.sample] == ["h29", "h28", "h27"]
    assert (found.hosts, found.deferred) == (30, 30)
    assert sampler.works([queue_key], NOW, SOON, 0)[0].sample == ()


def test_queues_are_seen_in_the_order_asked_for(both, queue_key):
    queue, sampler = both
    other = QueueKey(queue_key.tenant, "shop", "main")
    fill(queue, queue_key, 2)

    found = sampler.works([other, queue_key], NOW, SOON, 9)

    assert [one.queued for one in found] == [0, 2]


def test_a_queue_sample_is_of_the_whole_length_and_takes_nothing(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 101)

    found = sampler.sample_queue(queue_key, 5)

    assert [entry.id for entry in found] == [0, 25, 50, 75, 100]
    assert [entry.id for entry in sampler.sample_queue(queue_key, 1)] == [0]
    assert len(sampler.sample_queue(queue_key, 1_000)) == 101
    assert sampler.sample_queue(queue_key, 0) == []
    assert queue.depth(queue_key).queued == 101


class Counting(RedisConnection):
    """Asks about four queues at once, and counts them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, queues_at_once=4)
        self.rounds: list[int] = []

    def as_far_as_may_be(self, script, each):
        self.rounds.append(len(each))
        return super().as_far_as_may_be(script, each)


def test_queues_beyond_a_round_trip_are_asked_in_the_next(redis_url, queue_key):
    """However many there are, no answer takes so long that the server seems to be away."""
    counting = Counting(redis_url)
    queue, sampler = RedisQueue(counting), RedisQueueSampler(counting)
    queues = [QueueKey(queue_key.tenant, f"biz{n}", queue_key.queue) for n in range(11)]
    for n, one in enumerate(queues):
        fill(queue, one, n)
    counting.rounds.clear()

    assert [work.queued for work in sampler.works(queues, NOW, SOON, 9)] == [*range(11)]
    assert [depth.queued for depth in queue.depths(queues)] == [*range(11)]
    assert [load.ready for load in queue.loads(queues, NOW)] == [*range(11)]
    assert counting.rounds == [4, 4, 3] * 3
    counting.close()


def test_of_many_queues_nothing_is_reported_where_redis_is_away(queue_key):
    queues = [QueueKey(queue_key.tenant, f"biz{n}", queue_key.queue) for n in range(11)]

    with closed_port() as dead, RedisConnection(f"redis://{dead}", queues_at_once=4) as away:
        with pytest.raises(StoreUnavailableError):
            RedisQueueSampler(away).works(queues, NOW, SOON, 9)
        with pytest.raises(StoreUnavailableError):
            RedisQueue(away).depths(queues)


def test_what_is_no_entry_is_not_sampled(redis_connection, queue_key):
    redis_connection.client.lpush(
        redis_keys(queue_key).queue, b'{"id":7,"biz":"docs","ts":1}', b"junk"
    )

    found = RedisQueueSampler(redis_connection).sample_queue(queue_key, 5)

    assert found == [Entry(7, "docs", 1)]
    assert RedisQueueSampler(redis_connection).works([queue_key], NOW, SOON, 1)[0].oldest_ts == 1


def test_a_host_whose_figures_are_lost_has_at_least_one(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    fill(queue, queue_key, 2)
    leased = queue.lease(queue_key, "t", 2, NOW, after(60))
    queue.defer(queue_key, "t", [("a", NOW, leased)])
    redis_connection.client.delete(redis_keys(queue_key).parked)

    (found,) = RedisQueueSampler(redis_connection).works([queue_key], NOW, SOON, 9)

    assert found.sample == (("a", 1),)
    assert found.can_go_on


def test_what_waits_for_a_quota_is_told_apart_from_what_waits_for_hosts(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 6)
    leased = queue.lease(queue_key, "t", 6, NOW, after(60))
    place = "quota://limit/user:ann:requests:all"
    queue.defer(queue_key, "t", [(place, after(3), leased[:4]), ("a", after(5), leased[4:])])

    (found,) = sampler.works([queue_key], NOW, SOON, 9)

    assert found == QueueWork(
        deferred=6,
        hosts=1,
        hosts_due=1,
        sample=(("a", 2),),
        parked=((place, 4),),
        parked_entries=4,
        oldest_ts=1_000,
    )


def places_of_users(count: int) -> list[str]:
    return [f"quota://limit/user:u{n}:requests:all" for n in range(count)]


def test_what_waits_for_quotas_is_counted_whole_however_few_lists_are_named(both, queue_key):
    queue, sampler = both
    fill(queue, queue_key, 30)
    leased = queue.lease(queue_key, "t", 30, NOW, after(60))
    each = [
        (place, after(3), [one]) for place, one in zip(places_of_users(20), leased, strict=False)
    ]
    queue.defer(queue_key, "t", [*each, ("a", after(50), leased[20:])])

    (found,) = sampler.works([queue_key], NOW, SOON, 4)

    assert (found.parked_entries, len(found.parked), found.deferred) == (20, 4, 30)
    assert found.hosts == 1 >= found.hosts_due


def test_it_is_counted_down_as_it_goes_on_and_nothing_is_left_behind(redis_connection, queue_key):
    queue, sampler = RedisQueue(redis_connection), RedisQueueSampler(redis_connection)
    fill(queue, queue_key, 6)
    leased = queue.lease(queue_key, "t", 6, NOW, after(60))
    places = places_of_users(3)
    parts = [(place, NOW, leased[2 * n : 2 * n + 2]) for n, place in enumerate(places)]
    queue.defer(queue_key, "t", parts)
    assert queue.loads([queue_key], NOW)[0].ready == 6
    redis_connection.client.hdel(redis_keys(queue_key).parked, "*", "*parked", "*accounts")
    queue.deferred(queue_key, NOW, 9)

    queue.lease_deferred(queue_key, "u", [(places[0], 2, NOW), (places[1], 1, NOW)], after(60))
    (found,) = sampler.works([queue_key], NOW, SOON, 9)
    assert (found.parked_entries, found.hosts, found.deferred) == (3, 0, 3)

    queue.lease_deferred(queue_key, "v", [(place, 9, NOW) for place in places], after(60))
    assert sampler.works([queue_key], NOW, SOON, 9)[0].parked_entries == 0
    assert not redis_connection.client.exists(redis_keys(queue_key).parked)


def test_what_waits_is_looked_at_at_once_where_somebody_asks_for_that(both, queue_key):
    queue, _ = both
    fill(queue, queue_key, 3)
    leased = queue.lease(queue_key, "t", 3, NOW, after(60))
    queue.defer(queue_key, "t", [("a", after(50), leased[:1]), ("b", after(50), leased[1:])])

    queue.look_at(queue_key, ["a", "none"], NOW)

    assert [(one.host, one.count) for one in queue.deferred(queue_key, NOW, 9)] == [("a", 1)]
    assert queue.depth(queue_key).leased == 0
