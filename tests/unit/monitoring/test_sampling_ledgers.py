"""Ledgers in a look: audited in turn, and what hangs or is slow costs no others."""

from collections import Counter
from datetime import timedelta
from threading import Event

import msgspec

from tests.fakes.queue import MemoryOverview
from tests.kit.config import Thresholds
from tests.kit.kernel import QueueKey
from tests.kit.monitoring import Bounds, QueueSample, Sample
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, OTHER, World, make_biz, make_tree
from tests.kit.worlds.monitoring import put, sample


def of(seen: Sample, queue_key: QueueKey) -> QueueSample:
    [found] = [one for one in seen.queues if one.queue_key == queue_key]
    return found


def whats(seen: Sample) -> list[str]:
    return [one.what for one in seen.unread]


# ---- the ledger ----------------------------------------------------------------------------------


def test_a_difference_is_reported_of_its_biz_and_summed_without_signs(world):
    put(world, 6)
    requests = world.store.state.of(DOCS).requests
    for request_id in list(requests)[:2]:
        del requests[request_id]

    seen = sample(world)

    assert (of(seen, DOCS).difference, of(seen, OTHER).difference) == (2, 0)
    assert seen.fleet.difference == 2


def test_queues_take_turns_where_a_node_is_not_to_count_all_that_is_open(world):
    put(world, 4)
    put(world, 1, "acme")

    audited = Counter()
    for _ in range(20):
        seen = sample(world, bounds=Bounds(audited_keys=1_000))
        assert (of(seen, DOCS).ledger.pending, of(seen, OTHER).ledger.pending) == (4, 1)
        audited.update(one.queue_key for one in seen.queues if one.difference is not None)
        world.now += timedelta(minutes=1)

    assert all(8 <= audited[queue_key] <= 12 for queue_key in (DOCS, OTHER))
    assert whats(sample(world)) == []


def test_an_audit_has_what_is_left_of_the_sampling_time(world):
    put(world, 2)
    reported = []

    class Reporting(Failing):
        def audit(self, queue_key, biz, now, job=None, *, within_seconds=None):
            reported.append(within_seconds)
            return world.ledgers.audit(queue_key, biz, now, job)

    sample(world, ledgers=Reporting(world.ledgers), bounds=Bounds(audited_by_seconds=5.0))

    assert len(reported) == 2
    assert all(0 < within <= 5 for within in reported)


def test_a_slow_audit_never_costs_the_totals(world):
    put(world, 2)
    stuck = Event()

    class Slow(Failing):
        def audit(self, queue_key, biz, now, job=None, *, within_seconds=None):
            stuck.wait()

    try:
        seen = sample(world, ledgers=Slow(world.ledgers), bounds=Bounds(audited_by_seconds=0.2))
    finally:
        stuck.set()

    assert whats(seen) == ["audit of acme/docs", "audit of default/docs"]
    assert (of(seen, DOCS).ledger.pending, of(seen, DOCS).records) == (2, 0)


def test_a_node_that_hangs_costs_the_queues_of_others_nothing():
    stuck = Event()
    [first] = make_biz().generations
    on = {
        node: make_biz(generations=(msgspec.structs.replace(first, nodes=(node,)),))
        for node in ("bad", "good")
    }
    bizs = {f"{node}{n:03}": biz for node, biz in on.items() for n in range(50)}
    world = World(tree=msgspec.structs.replace(make_tree(), bizs={"default": bizs}))

    class Hanging(Failing):
        def totals(self, queue_key, biz, now, job=None):
            if biz is on["bad"]:
                stuck.wait()
            return world.ledgers.totals(queue_key, biz, now, job)

    try:
        bounds = Bounds(sample_seconds=0.5, audited_by_seconds=2.0)
        seen = sample(world, ledgers=Hanging(world.ledgers), bounds=bounds)
    finally:
        stuck.set()

    lost = [one.queue_key.biz for one in seen.queues if one.ledger is None]
    assert lost == [f"bad{n:03}" for n in range(50)]
    assert whats(seen) == [f"ledger of default/{biz}" for biz in lost]
    assert all(one.difference == 0 for one in seen.queues if one.queue_key.biz.startswith("good"))


def test_it_is_not_always_the_same_queues_that_there_is_no_time_for():
    bizs = {f"b{n:02}": make_biz() for n in range(20)}
    world = World(tree=msgspec.structs.replace(make_tree(), bizs={"default": bizs}))
    firsts = []

    class Asked(Failing):
        def totals(self, queue_key, biz, now, job=None):
            firsts.append(queue_key.biz)
            return world.ledgers.totals(queue_key, biz, now, job)

    begun = set()
    for _ in range(15):
        firsts.clear()
        sample(world, ledgers=Asked(world.ledgers), bounds=Bounds(threads=1))
        begun.update(firsts[:4])
        world.now += timedelta(minutes=1)

    assert begun == set(bizs)


def test_looking_changes_nothing(world):
    put(world, 5)
    queue = msgspec.json.encode(world.queue.depth(DOCS))

    first, second = sample(world), sample(world)

    assert msgspec.structs.replace(first, took_seconds=0) == msgspec.structs.replace(
        second, took_seconds=0
    )
    assert msgspec.json.encode(world.queue.depth(DOCS)) == queue


def test_a_hundred_queues_cost_one_look_at_the_queues(world):
    class Counting:
        def __init__(self, port: object) -> None:
            self.port, self.calls = port, []

        def __getattr__(self, name: str) -> object:
            self.calls.append(name)
            return getattr(self.port, name)

    bizs = {f"b{number}": make_biz() for number in range(100)}
    world.tree = msgspec.structs.replace(world.tree, bizs={"default": bizs})
    queue, overview = Counting(world.queue), Counting(MemoryOverview(world.queue))

    seen = sample(world, queue=queue, overview=overview)

    assert seen.fleet.queues == 100
    assert sorted(queue.calls + overview.calls) == ["counts", "depths", "loads"]


def test_thresholds_are_those_of_the_stage(world):
    stage = msgspec.structs.replace(
        world.tree.stage, thresholds=Thresholds(oldest_waiting_seconds=5)
    )
    world.tree = msgspec.structs.replace(world.tree, stage=stage)
    put(world, 1)
    world.now += timedelta(seconds=6)

    assert of(sample(world), DOCS).late
