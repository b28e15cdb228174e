"""More schedules than a tick has time for: pages, turns of tenants, and what waits."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.schedules import Missed, OutcomeKind, Overlap
from tests.kit.worlds.schedules import URLS, Clocked, at

HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> Clocked:
    return Clocked()


# ---- many ----------------------------------------------------------------------------------------


def room_for(schedules: int):
    """A tick's time, which is up after so many schedules of one fire."""
    times = iter([100.0] * (2 * schedules))
    return lambda: next(times, 5.0)


def test_more_schedules_than_a_page_has_are_run_in_one_tick(world):
    for number in range(20):
        world.put(name=f"s{number}", urls=URLS[:1])
    stuck = world.get("s3")
    world.schedules.put(replace(stuck, fire_at=at(1), next_at=at(1)), stuck)  # more than a tick's
    world.put(name="often", cron="* * * * *", urls=URLS[:1])
    world.now += 2 * HOUR

    world.firing.run_due(world.tree, world.now, lambda: 120.0, page=3)

    fired = {key[2].partition(".")[0] for key in world.jobs.kept}
    assert fired == {"often", *(f"s{number}" for number in range(20))}


def test_a_tenant_with_many_schedules_does_not_keep_another_from_its_turn(world):
    for number in range(20):
        world.put(name=f"s{number}", tenant="acme", urls=URLS[:1])
    world.put(name="one", urls=URLS[:1])
    world.now += HOUR

    assert world.tick(room_for(3)) == 3
    assert world.get("one").last_fired_at == at(13)


def test_what_waited_for_others_schedules_is_not_too_late(world):
    for number in range(20):
        world.put(name=f"s{number:02}", missed=Missed.SKIP, cron="0 0 * * *", urls=URLS[:1])
    world.now = at(0, day=2)
    fired = []
    while sum(fired) < 20 and len(fired) < 30:
        fired.append(world.tick(room_for(1)))
        world.now += timedelta(minutes=1)

    assert fired == [1] * 20, "ten minutes too late for a tolerance of five"
    assert {world.get(f"s{number:02}").last_outcome.kind for number in range(20)} == {
        OutcomeKind.STARTED
    }


def test_what_passed_while_no_scheduler_ran_is_too_late_whatever_the_last_tick_left(world):
    for name in ("first", "second"):
        world.put(name=name, missed=Missed.SKIP, cron="0 0 * * *", urls=URLS[:1])
    world.now = at(0, day=2)
    assert world.tick(room_for(1)) == 1
    world.now += HOUR

    assert world.tick() == 0
    assert world.get("second").last_outcome.kind is OutcomeKind.SKIPPED


def test_schedules_have_so_much_of_a_tick_and_no_more(world):
    for name in ("first", "second", "third"):
        world.put(name=name, urls=URLS[:1])
    world.now += HOUR
    times = iter([0.0, 1.0, 2.0, 30.5])

    def clock() -> float:
        return next(times)

    made = world.firing.run_due(world.tree, world.now, lambda: 120.0, clock=clock)
    assert made == 1, "what is left is jobs' to be made and ended"


def test_what_waits_long_is_looked_at_less_often(world):
    world.put(overlap=Overlap.QUEUE)
    world.now += HOUR
    world.tick()
    world.now += HOUR
    pauses = []
    for _ in range(6):
        world.tick()
        pauses.append((world.get().next_at - world.now).total_seconds())
        world.now = world.get().next_at

    assert pauses == [30, 60, 120, 240, 300, 300]
