"""The allowed number of workers: as many as are needed, or as the account has room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.scaling import MemoryLimit
from tests.kit.fleet import FLEET_POOL, PROBES, SPARE, allow
from tests.kit.kernel import LimitRefusedError, StoreUnavailableError
from tests.kit.worlds.fleet import queued, scaled
from tests.kit.worlds.memory import World, make_tree


@pytest.fixture
def world() -> World:
    return World(tree=make_tree(max_consumers=8, requests_per_consumer=10, quiet_seconds=100))


@pytest.mark.parametrize("count", [None, 1, 3, 5, 6])
def test_an_account_with_some_room_gives_as_many_as_it_has(world, count):
    """With room for six of eight workers six are allowed, and not the three that there were."""
    queued(world, 80)
    limit = type(world.limit)(100, count=count, room=6)

    found = scaled(world, limit=limit)

    assert (found.target.needed, found.limit, found.started, limit.current()) == (8, 6, 6, 6)
    assert world.targets.read(FLEET_POOL).target.allowed == 6


@given(st.integers(1, 1_000), st.integers(0, 1_000), st.integers(0, 1_000))
def test_as_many_are_allowed_as_the_account_has_by_a_bounded_number_of_calls(want, count, room):
    room = max(room, count)
    limit, calls = MemoryLimit(1_000, count=count or None, room=room), []
    change = limit.change
    limit.change = lambda number: calls.append(number) or change(number)

    found = allow(limit, want)

    assert (found or 0) == min(want, room)
    assert limit.current() == (found or None)
    assert len(calls) <= 1 + PROBES
    if count == room < want:
        assert len(calls) <= 2 or not count
    assert all(count <= number for number in calls) or want < count


def test_lambda_that_stops_to_answer_while_it_is_tried_leaves_what_was_given(world):
    limit = MemoryLimit(100, count=2, room=50)
    tried = iter([LimitRefusedError("no"), None, StoreUnavailableError("lambda", "timeout")])
    change = limit.change

    def changed(count):
        fault = next(tried)
        if fault is not None:
            raise fault
        change(count)

    limit.change = changed

    assert allow(limit, 90) == 3


def test_who_was_held_up_sets_no_concurrency_of_an_older_decision(world):
    """The first decider wants no worker and is delayed; meanwhile another decides on many."""
    limit = MemoryLimit(100, count=9)
    change = limit.change

    def held_up(count):
        limit.change = change
        queued(world, 80)
        assert scaled(world, limit=limit).limit == 8 + SPARE
        change(count)

    limit.change = held_up
    found = scaled(world, limit=limit)

    assert limit.current() == found.limit == 8 + SPARE
    assert found.target.needed == 8
    assert world.targets.read(FLEET_POOL).target.allowed == 8 + SPARE
    assert world.woken == [8]


def test_a_decision_that_redis_has_lost_meanwhile_lowers_no_concurrency(world):
    queued(world, 80)

    class Losing:
        """Redis is emptied when it is decided."""

        def __init__(self, targets):
            self.throughputs, self._targets = targets.throughputs, targets

        def read(self, pool):
            return self._targets.read(pool)

        def settle(self, pool, read, target):
            assert self._targets.settle(pool, read, target)
            self._targets = type(self._targets)(world.workers)
            return True

    found = scaled(world, targets=Losing(world.targets))

    assert (found.target.needed, found.limit, world.limit.current()) == (8, 8 + SPARE, 8 + SPARE)
