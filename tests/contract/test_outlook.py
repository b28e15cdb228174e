"""The contract of Outlook: what lies ahead of the workers, at a bounded cost."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.broken_servers import closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import Lane, StoreUnavailableError
from tests.kit.queue import LaneWork, Outlook, RedisOutlook, RedisQueue, RequestQueue, lane_keys
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = timedelta(seconds=10)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


both = fixture_over(RequestQueue, Outlook)


def fill(queue, lane: Lane, count: int) -> None:
    queue.enqueue(lane, [Entry(n, lane.biz, 1_000 + n) for n in range(count)], NOW)


def test_of_nothing_there_is_nothing(both, lane):
    _, outlook = both

    assert outlook.works([lane], NOW, SOON, 9) == [LaneWork()]
    assert outlook.works([], NOW, SOON, 9) == []
    assert outlook.glimpse(lane, 5) == []


def test_each_entry_is_counted_once_wherever_it_is(both, lane):
    queue, outlook = both
    fill(queue, lane, 20)
    leased = queue.lease(lane, "t", 12, NOW, after(60))
    queue.delay(lane, "t", [(leased[0], after(5)), (leased[1], after(11))])
    queue.park(lane, "t", [("b", after(3), leased[2:5]), ("a", after(600), leased[5:10])])

    (found,) = outlook.works([lane], NOW, SOON, 9)

    assert found == LaneWork(
        queued=8,
        leased=2,
        due=1,
        parked=8,
        hosts=2,
        hosts_due=1,
        sample=(("b", 3), ("a", 5)),
        oldest_ts=1_002,
    )
    assert found.backlog == 19
    assert found.can_go_on


def test_leases_that_have_ended_are_to_be_had_again(both, lane):
    queue, outlook = both
    fill(queue, lane, 3)
    queue.lease(lane, "t", 2, NOW, after(1))

    (found,) = outlook.works([lane], after(2), SOON, 9)

    assert (found.queued, found.leased) == (3, 0)


def test_what_waits_for_later_is_nothing_that_can_go_on(both, lane):
    queue, outlook = both
    fill(queue, lane, 2)
    one, other = queue.lease(lane, "t", 2, NOW, after(60))
    queue.delay(lane, "t", [(one, after(3600))])
    queue.park(lane, "t", [("a", after(3600), [other])])

    (found,) = outlook.works([lane], NOW, SOON, 9)

    assert not found.can_go_on


def test_no_more_hosts_are_named_than_asked_for_the_soonest_first(both, lane):
    queue, outlook = both
    fill(queue, lane, 30)
    leased = queue.lease(lane, "t", 30, NOW, after(60))
    queue.park(lane, "t", [(f"h{n}", after(30 - n), [one]) for n, one in enumerate(leased)])

    (found,) = outlook.works([lane], NOW, SOON, 3)

    assert [host for host, _ in found.sample] == ["h29", "h28", "h27"]
    assert (found.hosts, found.parked) == (30, 30)
    assert outlook.works([lane], NOW, SOON, 0)[0].sample == ()


def test_lanes_are_seen_in_the_order_asked_for(both, lane):
    queue, outlook = both
    other = Lane(lane.tenant, "shop", "main")
    fill(queue, lane, 2)

    found = outlook.works([other, lane], NOW, SOON, 9)

    assert [one.queued for one in found] == [0, 2]


def test_a_glimpse_is_of_the_whole_length_and_takes_nothing(both, lane):
    queue, outlook = both
    fill(queue, lane, 101)

    found = outlook.glimpse(lane, 5)

    assert [entry.id for entry in found] == [0, 25, 50, 75, 100]
    assert [entry.id for entry in outlook.glimpse(lane, 1)] == [0]
    assert len(outlook.glimpse(lane, 1_000)) == 101
    assert outlook.glimpse(lane, 0) == []
    assert queue.depth(lane).queued == 101


class Counting(RedisConnection):
    """Asks about four lanes at once, and counts them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lanes_at_once=4)
        self.rounds: list[int] = []

    def as_far_as_may_be(self, script, each):
        self.rounds.append(len(each))
        return super().as_far_as_may_be(script, each)


def test_lanes_beyond_a_round_trip_are_asked_in_the_next(redis_url, lane):
    """However many there are, no answer takes so long that the server seems to be away."""
    counting = Counting(redis_url)
    queue, outlook = RedisQueue(counting), RedisOutlook(counting)
    lanes = [Lane(lane.tenant, f"biz{n}", lane.queue) for n in range(11)]
    for n, one in enumerate(lanes):
        fill(queue, one, n)
    counting.rounds.clear()

    assert [work.queued for work in outlook.works(lanes, NOW, SOON, 9)] == [*range(11)]
    assert [depth.queued for depth in queue.depths(lanes)] == [*range(11)]
    assert [load.ready for load in queue.loads(lanes, NOW)] == [*range(11)]
    assert counting.rounds == [4, 4, 3] * 3
    counting.close()


def test_of_many_lanes_nothing_is_told_where_redis_is_away(lane):
    lanes = [Lane(lane.tenant, f"biz{n}", lane.queue) for n in range(11)]

    with closed_port() as dead, RedisConnection(f"redis://{dead}", lanes_at_once=4) as away:
        with pytest.raises(StoreUnavailableError):
            RedisOutlook(away).works(lanes, NOW, SOON, 9)
        with pytest.raises(StoreUnavailableError):
            RedisQueue(away).depths(lanes)


def test_what_is_no_entry_is_not_glimpsed(redis_connection, lane):
    redis_connection.client.lpush(lane_keys(lane).queue, b'{"id":7,"biz":"docs","ts":1}', b"junk")

    found = RedisOutlook(redis_connection).glimpse(lane, 5)

    assert found == [Entry(7, "docs", 1)]
    assert RedisOutlook(redis_connection).works([lane], NOW, SOON, 1)[0].oldest_ts == 1


def test_a_host_whose_figures_are_lost_has_at_least_one(redis_connection, lane):
    queue = RedisQueue(redis_connection)
    fill(queue, lane, 2)
    leased = queue.lease(lane, "t", 2, NOW, after(60))
    queue.park(lane, "t", [("a", NOW, leased)])
    redis_connection.client.delete(lane_keys(lane).parked)

    (found,) = RedisOutlook(redis_connection).works([lane], NOW, SOON, 9)

    assert found.sample == (("a", 1),)
    assert found.can_go_on
