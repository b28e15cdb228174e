"""Recovery and deferred requests: pending in MongoDB, and not missing in the queue."""

from datetime import timedelta

import pytest

from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS
from tests.kit.worlds.recovery import run, submitted

HOST = "example.org"


@pytest.fixture(autouse=True)
def _whole_queues(world):
    run(world)


def defer(world, entries, token="w.aa.1"):
    """Defer as a worker does that gets no slot."""
    until = world.now + timedelta(seconds=60)
    claims = world.store.claim(DOCS, world.biz, entries, "w", world.now, until, token)
    assert len(claims) == len(entries)
    world.store.release(DOCS, world.biz, claims, "w", "deferred", world.now)
    later = world.now + timedelta(hours=1)
    assert world.queue.defer(DOCS, token, [(HOST, later, entries)]) == len(entries)


def lease(world, count=10, token="w.aa.1"):
    until = world.now + timedelta(seconds=60)
    return world.queue.lease(DOCS, token, count, world.now, until)


def test_what_is_deferred_is_not_queued_again(world):
    submitted(world, 5)
    defer(world, lease(world))
    world.now += timedelta(seconds=30)
    submitted(world, 2)

    for _ in range(3):
        world.now += timedelta(seconds=30)
        assert run(world).requeued == 0
    assert world.queue.depth(DOCS).queued == 7


def test_what_is_deferred_behind_newer_requests_is_not_queued_again(world):
    submitted(world, 2)
    old = lease(world)
    world.now += timedelta(seconds=30)
    submitted(world, 3)
    defer(world, lease(world, token="w.aa.2"), "w.aa.2")
    defer(world, old)
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 0
    assert world.queue.depth(DOCS).deferred == 5


def test_what_was_lost_is_found_although_newer_requests_are_deferred(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)
    submitted(world, 2)
    defer(world, lease(world))
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 3
    assert world.queue.depth(DOCS).queued == 5


def test_a_queue_that_is_filled_again_holds_what_was_deferred_once(world):
    submitted(world, 5)
    defer(world, lease(world))
    world.queue.restart()
    world.now += timedelta(seconds=30)

    assert run(world).requeued == 5
    assert world.queue.depth(DOCS).deferred == 0
    assert len(lease(world, 20, "x.aa.1")) == 5
