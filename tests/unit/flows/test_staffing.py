from datetime import timedelta

from crawlfleet.flows.staffing import staff
from crawlfleet.model.request import Entry
from tests.unit.flows.world import DOCS, START, World, make_tree


def started(world: World) -> int:
    return staff(world.queue, world.data, world.workers, world, world.tree, world.clock)


def test_an_idle_fleet_starts_nobody(world):
    assert started(world) == 0
    assert world.woken == []


def test_a_backlog_starts_what_is_missing_and_only_once():
    world = World(tree=make_tree(max_consumers=3, requests_per_consumer=10))
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(25)], START)
    world.workers.beat("w", START)

    assert started(world) == 2
    assert started(world) == 0
    assert world.woken == [2]


def test_the_stage_bounds_hold():
    world = World(tree=make_tree(min_consumers=1, max_consumers=2, requests_per_consumer=1))

    assert started(world) == 1
    world.queue.enqueue(DOCS, [Entry(n, "docs", n) for n in range(99)], START)
    assert started(world) == 1


def test_items_that_wait_to_be_stored_want_somebody(world):
    world.data.put(DOCS, [b"{}"])

    assert started(world) == 1


def test_retries_that_are_not_due_want_nobody(world):
    later = START + timedelta(hours=1)
    world.queue.enqueue(DOCS, [Entry(1, "docs", 1)], START)
    [entry] = world.queue.lease(DOCS, "t", 1, START, later)
    world.queue.delay(DOCS, "t", [(entry, later)])

    assert started(world) == 0
    world.now = later
    assert started(world) == 1
