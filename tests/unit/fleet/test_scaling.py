"""Look, decide, act: who is started, who is told to leave, and what nobody does blindly."""

from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.kit.fleet import AT_ONCE, FLEET_POOL, SPARE, ScalingTarget, Throughput
from tests.kit.kernel import StoreUnavailableError, to_ms
from tests.kit.requests import Entry
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.fleet import queued, scaled
from tests.kit.worlds.memory import DOCS, START, World, make_tree

MINUTE = timedelta(minutes=1)


def drained(world: World) -> None:
    world.queue.flush()


def come(world: World, count: int) -> list[str]:
    """So many workers beat."""
    names = [f"w{n}" for n in range(count)]
    for name in names:
        world.workers.beat(name, world.now)
    return names


def asked_to_leave(world: World, names: list[str]) -> list[str]:
    return [
        n for n in names if world.targets.report_throughput(FLEET_POOL, n, None, world.now).leaves
    ]


@pytest.fixture
def world() -> World:
    return World(tree=make_tree(max_consumers=8, requests_per_consumer=10, quiet_seconds=100))


def test_an_idle_fleet_starts_nobody(world):
    found = scaled(world)

    assert (found.target.needed, found.started, found.backlog) == (0, 0, 0)
    assert world.woken == []


def test_a_backlog_starts_what_is_missing_and_only_once(world):
    queued(world, 25)
    come(world, 1)

    assert scaled(world).started == 2
    assert scaled(world).started == 0
    assert world.woken == [2]


def test_items_that_wait_to_be_stored_want_somebody(world):
    world.data.put(DOCS, [b"{}"])

    assert scaled(world).started == 1


def test_retries_that_are_not_due_want_nobody(world):
    later = START + timedelta(hours=1)
    queued(world, 1)
    [entry] = world.queue.lease(DOCS, "t", 1, START, later)
    world.queue.delay(DOCS, "t", [(entry, later)])

    assert scaled(world).started == 0
    world.now = later
    assert scaled(world).started == 1


def test_the_concurrency_is_raised_before_anybody_is_started(world):
    order = []

    class Noting:
        ceiling = 100

        def current(self):
            return 2

        def change(self, count):
            order.append(("allowed", count))

    class Waker:
        def wake(self, count):
            order.append(("started", count))

    queued(world, 50)
    found = scaled(world, limit=Noting(), waker=Waker())

    assert order == [("allowed", 5 + SPARE), ("started", 5)]
    assert found.limit == 5 + SPARE


def test_concurrency_that_is_right_is_left_alone(world):
    queued(world, 50)
    scaled(world)
    changes = []
    world.limit.change = changes.append

    scaled(world)

    assert changes == []


def test_no_more_are_wanted_than_the_stages_ceiling_bears(world):
    queued(world, 500)

    found = scaled(world, limit=type(world.limit)(3))

    assert (found.target.needed, found.started, found.limit) == (3, 3, 3)


def test_going_down_lowers_the_concurrency_step_by_step_and_never_to_nothing(world):
    queued(world, 80)
    come(world, 8)
    scaled(world)
    drained(world)

    seen = []
    for _ in range(40):
        world.now += MINUTE
        come(world, 8)
        seen.append(scaled(world).limit)

    assert seen[0] == 8 + SPARE
    assert seen == sorted(seen, reverse=True)
    assert all(before - after <= 2 for before, after in pairwise(seen))
    assert seen[-1] == SPARE


def test_fewer_are_asked_to_leave_gently_and_the_rest_stays(world):
    queued(world, 80)
    names = come(world, 8)
    scaled(world)
    drained(world)
    queued(world, 5)

    gone: list[str] = []
    for _ in range(4):
        world.now += MINUTE
        for name in set(names) - set(gone):
            world.workers.beat(name, world.now)
        scaled(world)
        leaving = asked_to_leave(world, [n for n in names if n not in gone])
        assert len(leaving) <= 2
        for name in leaving:
            world.workers.leave(name)
        gone += leaving

    assert 2 <= len(gone) <= 4


def test_an_account_without_room_keeps_what_it_has_and_starts_no_more_than_that(world):
    queued(world, 80)
    limit = type(world.limit)(100, count=3, room=3)

    found = scaled(world, limit=limit)

    assert (found.target.needed, found.limit, found.started) == (8, 3, 3)
    assert any("10 workers" in said and "for 3" in said for said in world.warnings)


def test_lambda_that_throttles_leaves_the_concurrency_and_starts_what_is_missing(world):
    queued(world, 20)

    found = scaled(world, limit=Unanswering())

    assert (found.limit, found.started) == (None, 2)
    assert any("concurrency" in warning for warning in world.warnings)


class Unanswering:
    """Lambda, throttled: nothing is told and nothing changed."""

    ceiling = 100

    def current(self):
        raise StoreUnavailableError("lambda", "TooManyRequestsException")

    change = current


def test_workers_that_cannot_be_started_are_reserved_for_some_seconds_only(world):
    queued(world, 20)

    assert scaled(world, waker=Broken()).started == 0
    assert scaled(world).started == 0
    world.now += timedelta(seconds=11)
    assert scaled(world).started == 2
    assert any("started" in warning for warning in world.warnings)


@pytest.mark.parametrize("part", ["targets", "workers"])
def test_while_redis_is_away_nothing_is_decided_and_nobody_started(world, part):
    queued(world, 50)
    limit = type(world.limit)(100, count=7)

    with pytest.raises(StoreUnavailableError):
        scaled(world, **{part: Broken()}, limit=limit)

    assert world.woken == []
    assert limit.current() == 7


def test_a_look_that_fails_changes_nothing(world):
    queued(world, 50)

    with pytest.raises(StoreUnavailableError):
        scaled(world, forecast=world.ahead(sampler=Broken()))

    assert world.targets.read(FLEET_POOL).version == 0
    assert world.woken == []


def test_redis_that_goes_away_between_the_decision_and_the_start_starts_nobody(world):
    queued(world, 50)

    with pytest.raises(StoreUnavailableError):
        scaled(world, workers=Failing(world.workers, reserve_wake=1))

    assert world.woken == []


def test_an_alarm_that_comes_twice_starts_nobody_twice(world):
    queued(world, 50)

    found = [scaled(world).started for _ in range(3)]

    assert found == [5, 0, 0]


def test_an_alarm_that_comes_late_goes_by_what_there_is_then(world):
    queued(world, 50)
    drained(world)

    assert scaled(world).started == 0


def test_two_who_decide_at_once_are_of_one_mind(world):
    queued(world, 50)

    class Interrupted:
        """A target store where another decider comes between read and settle."""

        def __init__(self, targets):
            self._targets, self.left = targets, 1
            self.throughputs = targets.throughputs

        def read(self, pool):
            return self._targets.read(pool)

        def settle(self, pool, read, target):
            if self.left:
                self.left -= 1
                scaled(world)
            return self._targets.settle(pool, read, target)

    found = scaled(world, targets=Interrupted(world.targets))

    assert found.target.needed == 5
    assert world.woken == [5]
    # The other's decision, what it was allowed, and ours.
    assert world.targets.read(FLEET_POOL).version == 3


def test_who_never_gets_to_decide_goes_by_what_others_have(world):
    queued(world, 50)

    class Busy:
        def __init__(self, targets):
            self.read, self.throughputs = targets.read, targets.throughputs
            standing = targets.read(FLEET_POOL)
            targets.settle(
                FLEET_POOL, standing, ScalingTarget(needed=3, kept=3, at_ms=standing.now_ms)
            )

        def settle(self, pool, read, target):
            return False

    assert scaled(world, targets=Busy(world.targets)).started == 3


def test_places_are_filled_up_to_what_the_account_gave_and_no_call_is_refused(world):
    """Each worker that ends would call for all missing ones, for which the account has no room."""
    queued(world, 80)
    limit = type(world.limit)(100, count=3, room=3)
    scaled(world, limit=limit)
    come(world, 3)

    assert world.targets.read(FLEET_POOL).target.allowed == 3
    for _ in range(3):
        assert world.target().replace_missing(world.clock) == 0
    world.workers.leave("w0")
    assert world.target().replace_missing(world.clock) == 1
    assert world.woken == [3, 1]


def test_what_is_allowed_again_is_noted_and_what_is_not_known_changes_no_note(world):
    queued(world, 80)
    scaled(world, limit=type(world.limit)(100, count=3, room=3))
    scaled(world, limit=Unanswering())
    assert world.targets.read(FLEET_POOL).target.allowed == 3

    scaled(world)

    assert world.targets.read(FLEET_POOL).target.allowed == 8 + SPARE


def test_many_are_reserved_and_called_for_some_at_a_time(world):
    """However slow the calls, no reservation ends before its worker can be there."""
    world.tree = make_tree(max_consumers=100, requests_per_consumer=1)
    queued(world, 500)
    live = []

    class Slow:
        def wake(self, count):
            world.now += timedelta(seconds=4)
            for _ in range(count):
                live.append(f"w{len(live)}")
                world.workers.beat(live[-1], world.now)

    assert scaled(world, waker=Slow()).started == 100
    assert len(live) == 100


def test_workers_that_never_come_are_not_called_for_on_and_on(world):
    world.tree = make_tree(max_consumers=100, requests_per_consumer=1)
    queued(world, 500)
    called = []

    class Lost:
        def wake(self, count):
            world.now += timedelta(seconds=11)
            called.append(count)

    scaled(world, waker=Lost())

    assert 100 <= sum(called) < 100 + AT_ONCE


def test_a_queue_is_staffed_by_what_workers_have_shown_of_it(world):
    world.tree = make_tree(replace(world.biz, planned_seconds=100.0), max_consumers=50)
    world.queue.enqueue(DOCS, [Entry(n, "docs", to_ms(START)) for n in range(800)], START)
    world.targets.report_throughput(
        FLEET_POOL,
        "w",
        Throughput(per_second=400.0),
        world.now,
        {DOCS.path: Throughput(per_second=2.0)},
    )

    assert scaled(world).target.needed == 5
