"""More than a biz may take is refused before anything of it is stored."""

from datetime import timedelta

import pytest

from tests.fakes.submission import MemoryIntake
from tests.kit.config import IntakeLimits
from tests.kit.kernel import BacklogFullError, StoreUnavailableError
from tests.kit.requests import Accepted, Refused
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import World, make_biz, make_tree
from tests.unit.crawling.politeness.sending import entry, ids, send, stored


def crowded(**limits: object) -> World:
    return World(tree=make_tree(make_biz(intake=IntakeLimits(**limits))))


def test_a_full_backlog_refuses_before_ids_are_taken():
    world = crowded(max_backlog=2)
    send(world, entry(1), entry(2))
    last = world.ids.last

    with pytest.raises(BacklogFullError, match=r"max_backlog is 2\b") as caught:
        send(world, entry(3), key="k")

    assert caught.value.retry_after_seconds == 300.0  # nobody works
    assert world.ids.last == last
    assert stored(world) == 2


def test_what_was_accepted_before_is_repeated_without_asking():
    world = crowded(max_backlog=2)
    first = send(world, entry(1), entry(2, "a"), key="k")

    assert ids(send(world, entry(1), entry(2, "a"), key="k", intake=Broken())) == ids(first)
    assert world.warnings == []
    with pytest.raises(BacklogFullError):
        send(world, entry(2, "a"), entry(3, "b"))


def test_what_was_begun_before_the_backlog_was_full_is_finished():
    world = crowded(max_backlog=2)
    with pytest.raises(StoreUnavailableError):
        send(world, entry(1), key="k", store=Failing(world.store, insert=1))
    send(world, entry(2), entry(3))

    [receipt] = send(world, entry(1), key="k")

    assert isinstance(receipt, Accepted)
    assert stored(world) == 3


def test_too_fast_is_reported_when_to_come_back():
    world = crowded(per_second=0.5, burst=2)
    send(world, entry(1), entry(2))

    with pytest.raises(BacklogFullError, match=r"0\.5 requests a second") as caught:
        send(world, entry(3))

    assert caught.value.retry_after_seconds == 2.0
    world.now += timedelta(seconds=2)
    assert isinstance(send(world, entry(3))[0], Accepted)


def test_full_memory_refuses(world):
    intake = MemoryIntake(world.queue, memory=lambda: 0.9)

    with pytest.raises(BacklogFullError, match="redis_memory_ratio"):
        send(world, entry(1), intake=intake)

    assert stored(world) == 0


def test_with_redis_away_a_submission_goes_on(world):
    [receipt] = send(world, entry(1), intake=Broken(), queue=Broken())

    assert isinstance(receipt, Accepted)
    assert stored(world) == 1
    unseen, unqueued = world.warnings
    assert "backlog" in unseen
    assert "by recovery" in unqueued


def test_entries_that_are_not_admitted_take_no_room():
    world = crowded(per_second=1.0, burst=1)

    receipts = send(world, entry(1), entry(2, url="ftp://x/"), entry(3, rule="no"))
    with pytest.raises(BacklogFullError):
        send(world, entry(4))

    assert [type(receipt) for receipt in receipts] == [Accepted, Refused, Refused]
