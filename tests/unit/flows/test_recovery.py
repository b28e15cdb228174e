from datetime import timedelta

from msgspec.structs import replace

from crawlfleet.flows import recovery
from crawlfleet.flows.recovery import RecoveryPorts, recover
from crawlfleet.flows.submission import submit
from crawlfleet.model.request import Entry, State
from crawlfleet.model.submission import Submission
from crawlfleet.model.times import to_ms
from tests.unit.flows.world import DOCS, Broken, World


def submitted(world: World, count: int, **changes: object) -> list[Entry]:
    submissions = [Submission(url=f"https://example.org/{n}") for n in range(count)]
    receipts = submit(
        world.submission(**changes), world.tree, "default", "docs", submissions, world.now
    )
    return [Entry(receipt.id, "docs", to_ms(world.now)) for receipt in receipts]


def run(world: World, time_left: float = 120.0, **changes: object):
    ports = {"store": world.store, "queue": world.queue, "warn": world.warn} | changes
    return recover(RecoveryPorts(**ports), world.tree, world.now, lambda: time_left)


def test_what_is_persisted_but_not_queued_is_queued(world):
    entries = submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 3

    leased = world.queue.lease(DOCS, "t", 10, world.now, world.now + timedelta(seconds=9))
    assert sorted(entry.id for entry in leased) == [entry.id for entry in entries]


def test_a_submission_on_its_way_to_the_queue_is_left_alone(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=2)

    assert run(world).requeued == 0


def test_what_is_queued_is_not_queued_again(world):
    submitted(world, 3)
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 0
    assert world.queue.depth(DOCS).queued == 3


def test_a_hole_in_the_middle_is_found_when_its_turn_comes(world):
    submitted(world, 1)
    world.now += timedelta(seconds=10)
    [lost] = submitted(world, 1, queue=Broken())
    world.now += timedelta(seconds=10)
    submitted(world, 1)
    world.now += timedelta(seconds=10)
    assert run(world).requeued == 0
    [first] = world.queue.lease(DOCS, "t", 1, world.now, world.now + timedelta(seconds=9))
    world.store.claim(
        DOCS, world.biz, [first], "w", world.now, world.now + timedelta(seconds=9), "t"
    )

    assert run(world).requeued == 1

    [next_one] = world.queue.lease(DOCS, "u", 1, world.now, world.now + timedelta(seconds=9))
    assert next_one.id == lost.id


def test_a_lease_that_ended_long_ago_is_queued_again(world):
    entries = submitted(world, 1, queue=Broken())
    until = world.now + timedelta(seconds=9)
    world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "t")
    world.now += timedelta(minutes=2)

    assert run(world).requeued == 1


def test_what_no_worker_takes_is_not_queued_again_in_each_round(world):
    entries = submitted(world, 3, queue=Broken())
    until = world.now + timedelta(seconds=9)
    world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "t")
    world.now += timedelta(minutes=2)

    assert [run(world).requeued for _ in range(3)] == [3, 0, 0]
    assert world.queue.depth(DOCS).queued == 3


def test_what_passed_its_time_to_live_is_counted_once_and_not_queued(world):
    submitted(world, 4, queue=Broken())
    world.now += timedelta(seconds=world.biz.ttl_seconds + 1)

    first, second = run(world), run(world)

    assert (first.expired, first.requeued, second.expired) == (4, 0, 0)
    assert world.store.totals(DOCS, world.biz, world.now)[0][State.EXPIRED] == 4


def test_a_lane_that_fails_in_a_way_nobody_foresaw_does_not_stop_the_others(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)
    expire = world.store.expire

    def odd(lane, biz, now):
        if lane.tenant == "acme":
            raise KeyError("ts")
        return expire(lane, biz, now)

    world.store.expire = odd

    assert run(world).requeued == 3
    assert "acme/docs could not be recovered" in world.warnings[-1]


def test_a_lane_that_does_not_answer_does_not_stop_the_others(world):
    assert run(world, queue=Broken()).requeued == 0
    assert len(world.warnings) == len(world.tree.lanes())


def test_a_round_ends_before_its_time_does_and_the_next_begins_elsewhere(world):
    asked = []

    class Watched:
        def depth(self, lane):
            asked.append(lane)
            return world.queue.depth(lane)

    run(world, time_left=5.0, queue=Watched())
    assert asked == []
    run(world, queue=Watched())
    world.now += timedelta(minutes=1)
    run(world, queue=Watched())

    assert asked[0] != asked[2]
    assert set(asked[:2]) == set(asked[2:]) == set(world.tree.lanes())


def test_a_stage_without_bizs_has_nothing_to_recover(world):
    world.tree = replace(world.tree, bizs={})

    assert run(world).requeued == 0


def test_more_than_one_call_carries_comes_back_in_its_order(world, monkeypatch):
    monkeypatch.setattr(recovery, "CHUNK", 2)
    entries = []
    for _ in range(5):
        entries += submitted(world, 1, queue=Broken())
        world.now += timedelta(seconds=1)
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 5
    assert run(world).requeued == 0
    until = world.now + timedelta(seconds=9)
    assert world.queue.lease(DOCS, "t", 9, world.now, until) == entries
