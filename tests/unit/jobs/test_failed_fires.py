"""Schedules know of their last fire that failed, and whether the last one did."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.schedules import LONG_WAIT, Missed, Outcome, OutcomeKind, Overlap
from tests.kit.submission import fire_name
from tests.kit.worlds.memory import make_biz, make_tree
from tests.kit.worlds.schedules import Clocked, at

HOUR = timedelta(hours=1)
LATE = at(13) + LONG_WAIT
NO_RULE = make_tree(make_biz(rules={}))


@pytest.fixture
def world() -> Clocked:
    return Clocked()


def failing(world: Clocked) -> list[str]:
    return [one.name for one in world.schedules.failing(9)]


@pytest.mark.parametrize(
    ("kind", "as_meant", "seconds", "has_failed"),
    [
        (OutcomeKind.STARTED, False, 0, False),
        (OutcomeKind.FAILED, False, 0, True),
        (OutcomeKind.SKIPPED, False, 0, True),
        (OutcomeKind.SKIPPED, True, 0, False),
        (OutcomeKind.WAITING, False, 299, False),
        (OutcomeKind.WAITING, False, 300, True),
        (OutcomeKind.WAITING, True, 9_999, False),
    ],
)
def test_what_waits_for_long_or_is_skipped_by_no_policy_has_failed(
    kind, as_meant, seconds, has_failed
):
    late = at(13) + timedelta(seconds=seconds)
    outcome = Outcome(kind=kind, fire_at=at(13), at=late, as_meant=as_meant)

    assert outcome.has_failed is has_failed


def test_a_schedule_whose_rule_is_gone_fails_until_a_fire_works_and_keeps_the_failure(world):
    world.put()
    there, world.tree, world.now = world.tree, NO_RULE, world.now + HOUR

    assert world.tick() == 0

    failure = world.get().last_failure
    assert failure == world.get().last_outcome
    assert (failure.fire_at, failing(world)) == (at(13), ["hourly"])
    assert "rule" in failure.why
    world.tree, world.now = there, world.now + HOUR
    assert world.tick() == 2
    kept = world.get()
    assert (kept.last_outcome.kind, kept.last_failure) == (OutcomeKind.STARTED, failure)
    assert failing(world) == []
    world.now += HOUR
    assert world.put(cron="5 * * * *").last_failure == failure, "it is put anew"


@pytest.mark.parametrize("overlap", list(Overlap))
def test_a_biz_with_as_many_open_jobs_as_it_may_is_a_failure_once_it_lasts(world, overlap):
    world.tree = make_tree(make_biz(open_jobs=0))
    world.put(overlap=overlap)
    world.now += HOUR
    world.tick()
    assert failing(world) == []

    world.now = LATE
    world.tick()

    assert world.outcome() == (OutcomeKind.WAITING, at(13))
    assert failing(world) == ["hourly"]


def test_a_name_that_a_job_of_others_has_is_a_failure_though_nothing_waits(world):
    world.put()
    by_hand = world.run()
    world.jobs.create(replace(by_hand, name=fire_name("hourly", at(13)), schedule=None))
    world.now += HOUR

    world.tick()

    assert world.outcome() == (OutcomeKind.SKIPPED, at(13))
    assert failing(world) == ["hourly"]


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_what_is_skipped_or_waits_as_its_overlap_says_has_not_failed(world, overlap):
    world.put(overlap=overlap)
    for _ in range(3):
        world.now += HOUR
        world.tick()

    assert world.get().last_outcome.job is None
    assert (world.get().last_failure, failing(world)) == (None, [])


def test_what_is_passed_over_as_too_late_has_not_failed(world):
    world.put(missed=Missed.SKIP)
    world.now += 5 * HOUR + timedelta(minutes=30)

    world.tick()

    assert world.outcome()[0] is OutcomeKind.SKIPPED
    assert (world.get().last_failure, failing(world)) == (None, [])


@pytest.mark.parametrize("wrong", [{"rules": {}}, {"open_jobs": 0}])
def test_a_fire_that_could_not_start_in_time_has_failed_and_why_stays_known(world, wrong):
    world.put(missed=Missed.SKIP)
    there, world.tree = world.tree, make_tree(make_biz(**wrong))
    world.now += HOUR
    world.tick()
    reason = world.get().last_outcome.why

    for _ in range(12):
        world.now += timedelta(minutes=1)
        world.tick()

    last = world.get().last_outcome
    assert (last.kind, last.fire_at) == (OutcomeKind.SKIPPED, at(13))
    assert "late by more than 300 seconds" in last.why
    assert reason in last.why
    assert (world.get().last_failure, failing(world)) == (last, ["hourly"])
    world.tree, world.now = there, at(14)
    assert world.tick() == 1
    assert failing(world) == []


@pytest.mark.parametrize("what", ["paused", "deleted", "changed"])
def test_one_that_somebody_has_paused_deleted_or_changed_since_does_not_fail(world, what):
    world.put()
    world.now += HOUR
    there, world.tree = world.tree, NO_RULE
    world.tick()
    world.tree, world.now = there, world.now + timedelta(minutes=1)

    match what:
        case "paused":
            world.enable(enabled=False)
        case "deleted":
            world.planning.delete(there, "default", "docs", "hourly")
        case _:
            world.put(priority=3)

    assert failing(world) == []
    if what == "paused":
        world.now += timedelta(minutes=1)
        assert world.enable(enabled=True).last_failure is not None
        assert failing(world) == [], "it is about a fire that is not tried again"


def test_a_failure_of_a_paused_schedule_is_none_to_mend(world):
    failed = Outcome(kind=OutcomeKind.FAILED, fire_at=at(13), at=LATE)
    schedule = replace(world.put(), last_outcome=failed)

    assert schedule.is_failing
    assert not replace(schedule, enabled=False).is_failing
    assert replace(schedule, put_at=None).is_failing
    assert not replace(schedule, last_outcome=None).is_failing
