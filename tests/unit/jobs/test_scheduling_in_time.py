"""Schedules run in time: within the minute that they are put, and before the next tick."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.schedules import (
    Missed,
    OutcomeKind,
    Overlap,
    ScheduleState,
    state_of,
)
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.schedules import Clocked, at

HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> Clocked:
    return Clocked()


SECOND = timedelta(seconds=1)


def test_a_schedule_that_is_put_in_the_minute_of_its_time_fires_at_once(world):
    world.now += 20 * SECOND
    world.put(cron="0 12 * * *")

    assert world.get().fire_at == at(12)
    assert (world.tick(), world.names()) == (1, ["hourly.20260301T120000Z"])
    assert world.get().fire_at == at(12, day=2)
    # Its line is changed in the same minute, which it has had.
    world.put(cron="0 12,18 * * *")
    assert (world.tick(), world.get().fire_at) == (0, at(18))


@pytest.mark.parametrize("missed", [Missed.LATEST, Missed.SKIP])
def test_under_another_policy_the_minute_that_has_begun_is_none_of_its_times(world, missed):
    world.now += 20 * SECOND

    assert world.put(cron="0 12 * * *", missed=missed).fire_at == at(12, day=2)


def test_a_minute_that_began_while_a_schedule_rested_is_not_made_up_for(world):
    world.now += 20 * SECOND
    world.put(enabled=False)

    assert world.enable(enabled=True).fire_at == at(13)
    world.put(enabled=False)
    assert world.put(cron="0 12 * * *").fire_at == at(12, day=2)


def test_a_time_that_has_come_is_not_lost_where_the_line_is_changed_before_the_tick(world):
    world.put()
    world.now += HOUR + 10 * SECOND

    world.put(cron="30 6 * * *", priority=9)

    assert world.tick() == 1
    assert (world.names(), world.jobs.open()[0].priority) == (["hourly.20260301T130000Z"], 9)
    assert world.get().fire_at == at(6, 30, day=2)


class Seconds:
    """A clock that goes on while somebody sleeps."""

    def __init__(self, world: Clocked, seconds: float) -> None:
        self.world, self.until = world, world.now + timedelta(seconds=seconds)
        self.slept: list[float] = []

    def __call__(self):
        return self.world.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.world.now += timedelta(seconds=seconds)

    def left(self) -> float:
        return (self.until - self.world.now).total_seconds()

    def run(self, ran_at=None) -> int:
        def run(moment):
            return self.world.firing.run_due(self.world.tree, moment, lambda: 120.0)

        since = ran_at or self.world.now
        return self.world.firing.run_in_time(run, since, self, self.left, sleep=self.sleep)


def test_what_comes_due_before_the_next_tick_is_run_when_it_does(world):
    world.now += timedelta(minutes=59, seconds=37)
    for name, changes in (
        ("hourly", {}),
        ("spread", {"jitter_seconds": 20}),
        ("later", {"cron": "1 13 * * *"}),
        ("paused", {"enabled": False}),
    ):
        world.put(name=name, **changes)
    spread = world.get("spread").next_at
    assert at(13) < spread < at(13) + 7 * SECOND
    clock = Seconds(world, 30)

    assert clock.run() == 2

    assert [world.get(name).last_outcome.at for name in ("hourly", "spread")] == [at(13), spread]
    assert (clock.slept[0], sum(clock.slept)) == (23.0, (spread - at(12, 59)).total_seconds() - 37)
    assert world.get("later").last_outcome is None


def test_what_came_due_while_a_tick_did_other_things_is_run_by_it(world):
    world.put()
    ran_at = world.now + timedelta(minutes=59, seconds=59)
    world.now += HOUR + 4 * SECOND
    clock = Seconds(world, 26)

    assert (clock.run(ran_at), clock.slept) == (1, [0.0])


def test_what_cannot_fire_is_left_to_the_next_tick(world):
    world.put()
    world.now += HOUR - SECOND
    world.jobs = Broken()
    clock = Seconds(world, 29)

    assert (clock.run(), clock.slept) == (0, [1.0])


@pytest.mark.parametrize(
    ("changes", "runs", "state"),
    [
        ({}, False, "waiting"),
        ({}, True, "running"),
        ({"enabled": False}, True, "paused"),
        ({"jitter_seconds": 1_800}, False, "waiting"),
        ({"cron": "0 0 29 2 *"}, False, "waiting"),
    ],
)
def test_a_schedule_says_what_it_is_about(world, changes, runs, state):
    world.put(**changes)

    assert state_of(world.get(), world.now, runs=runs) == state


def test_a_schedule_is_due_from_its_time_until_it_has_fired(world):
    world.put(overlap=Overlap.QUEUE)
    world.now += HOUR
    assert state_of(world.get(), world.now, runs=False) is ScheduleState.DUE
    world.tick()
    assert state_of(world.get(), world.now, runs=True) is ScheduleState.RUNNING
    world.now += HOUR

    # Its next job waits for the one before.
    assert (world.tick(), world.outcome()) == (0, (OutcomeKind.WAITING, at(14)))
    assert state_of(world.get(), world.now, runs=True) is ScheduleState.DUE


def test_a_schedule_without_another_time_is_over(world):
    world.put()
    last = replace(world.get(), fire_at=None, next_at=None)

    assert state_of(last, world.now, runs=True) is ScheduleState.RUNNING
    assert state_of(last, world.now, runs=False) is ScheduleState.OVER
