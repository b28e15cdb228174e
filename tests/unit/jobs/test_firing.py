"""Fires while an earlier job has not ended: skipped, kept, or in its place."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.jobs import JobState
from tests.kit.kernel import NotFoundError, QuotaExceededError
from tests.kit.schedules import Missed, OutcomeKind, Overlap
from tests.kit.submission import fire_name
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import make_biz
from tests.kit.worlds.schedules import Clocked, at

HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> Clocked:
    return Clocked()


def test_a_fire_may_be_skipped_while_an_earlier_job_has_not_ended(world):
    world.put(overlap=Overlap.SKIP)
    world.now += HOUR
    world.tick()
    world.now += HOUR

    assert world.tick() == 0

    last = world.get().last_outcome
    assert (last.kind, last.fire_at) == (OutcomeKind.SKIPPED, at(14))
    assert last.why.startswith("hourly.20260301T130000Z ")
    assert (world.get().last_fired_at, world.get().fire_at) == (at(13), at(15))
    world.jobs.finish(world.jobs.open()[0])
    world.now += HOUR
    assert world.tick() == 1


def test_a_fire_may_wait_for_an_earlier_job(world):
    world.put(overlap=Overlap.QUEUE)
    world.now += HOUR
    world.tick()
    world.now += 2 * HOUR

    assert world.tick() == 0
    assert world.outcome() == (OutcomeKind.WAITING, at(14))
    assert world.schedules.due(world.now, 9) == [], "nobody else waits behind it"
    world.jobs.finish(world.jobs.open()[0])
    world.now += timedelta(minutes=1)
    assert world.tick() == 1
    assert world.names()[-1] == "hourly.20260301T140000Z"
    world.jobs.finish(world.jobs.open()[0])
    world.now += timedelta(minutes=1)
    assert world.tick() == 1
    assert world.names()[-1] == "hourly.20260301T150000Z"


def test_of_what_waits_the_latest_is_enough_where_the_schedule_says_so(world):
    world.put(overlap=Overlap.QUEUE, missed=Missed.LATEST)
    world.now += HOUR
    world.tick()
    for _ in range(3):
        world.now += HOUR
        world.tick()
    world.jobs.finish(world.jobs.open()[0])
    world.now += timedelta(minutes=1)

    assert world.tick() == 1
    assert world.names()[-1] == "hourly.20260301T160000Z"
    assert world.get().fire_at == at(17)


def test_a_queue_of_fires_has_an_end(world):
    world.put(cron="* * * * *", overlap=Overlap.QUEUE)
    world.now += timedelta(minutes=1)
    world.tick()
    world.now += timedelta(days=400)

    world.tick()

    kept = world.get()
    assert kept.fire_at == world.now - timedelta(minutes=59)
    assert kept.last_outcome.kind is OutcomeKind.WAITING


def test_a_fire_may_take_the_place_of_an_earlier_job(world):
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR
    world.tick()
    world.now += HOUR

    assert world.tick() == 1

    old, new = world.jobs.kept.values()
    assert (old.state, new.state) == (JobState.CANCELLING, JobState.EXPANDING)
    cancelled_at = old.cancelled_at
    world.now += HOUR
    world.tick()
    assert world.jobs.kept[old.key].cancelled_at == cancelled_at, "it is cancelled once"


def test_what_cannot_take_a_jobs_place_leaves_it_running(world):
    world.keep_spider("https://example.org/x")
    world.put_spider(overlap=Overlap.REPLACE)
    world.now += HOUR
    world.tick()
    world.spiders.delete("default", "docs", "shop")
    world.now += HOUR

    assert world.tick() == 0
    assert world.outcome() == (OutcomeKind.FAILED, at(14))
    with pytest.raises(NotFoundError):
        world.run()
    assert [job.state for job in world.jobs.open()] == [JobState.EXPANDING]


@pytest.mark.parametrize("by_hand", [False, True])
def test_jobs_that_an_older_version_left_running_side_by_side_are_all_replaced(world, by_hand):
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR
    world.tick()
    [left] = world.jobs.open()
    world.jobs.create(replace(left, name="beside", created_at=world.now + 9 * HOUR))
    world.now += timedelta(minutes=30) if by_hand else HOUR

    if by_hand:
        world.run("key")
    else:
        world.tick()

    states = [job.state for job in world.jobs.open()]
    assert states == [JobState.CANCELLING, JobState.CANCELLING, JobState.EXPANDING]


def test_who_finds_the_job_of_its_fire_replaced_meanwhile_leaves_the_one_by_hand_alone(world):
    """However far apart the clocks of the two are."""
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR
    healthy, world.schedules = world.schedules, Failing(world.schedules, advance=1)
    world.tick()
    world.schedules = healthy
    world.now -= timedelta(minutes=3)
    by_hand = world.run()
    world.now += timedelta(minutes=4)

    assert world.tick() == 1

    [fired, run] = world.jobs.open()
    assert (fired.state, run.state) == (JobState.CANCELLING, JobState.EXPANDING)
    assert run == by_hand


def test_a_biz_that_has_as_many_open_jobs_as_it_may_has_fires_wait(world):
    world.tree = replace(world.tree, bizs={"default": {"docs": make_biz(open_jobs=2)}})
    for name in ("first", "second", "third"):
        world.put(name=name)
    world.now += HOUR

    assert world.tick() == 2
    assert world.outcome("third") == (OutcomeKind.WAITING, at(13))
    assert "2 open jobs" in world.get("third").last_outcome.why
    with pytest.raises(QuotaExceededError):
        world.run(name="third")
    world.jobs.finish(world.jobs.open()[0])
    world.now += timedelta(minutes=1)
    assert world.tick() == 1


def test_where_no_more_jobs_may_be_open_one_still_takes_anothers_place(world):
    world.tree = replace(world.tree, bizs={"default": {"docs": make_biz(open_jobs=1)}})
    world.put(overlap=Overlap.REPLACE)
    for _ in range(3):
        world.now += HOUR
        world.tick()

    assert [job.state for job in world.jobs.open()] == [JobState.CANCELLING, JobState.EXPANDING]
    assert world.outcome() == (OutcomeKind.WAITING, at(15)), "until the first has been cancelled"


def test_a_job_of_others_under_a_fires_name_is_not_taken_for_it(world):
    world.put(name="other", cron="0 13 * * *")
    world.now += HOUR
    world.tick()
    [job] = world.jobs.open()
    world.jobs.create(replace(job, name=fire_name("hourly", at(14)), schedule=None))
    world.put()
    world.now += HOUR

    assert world.tick() == 0
    assert world.outcome() == (OutcomeKind.SKIPPED, at(14))
    assert world.get().fire_at == at(15)


def test_jobs_of_other_schedules_bizs_and_tenants_are_in_nobodys_way(world):
    for changes in ({"name": "other"}, {"tenant": "acme"}):
        world.put(overlap=Overlap.SKIP, **changes)
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR

    assert world.tick() == 3
    assert {job.state for job in world.jobs.open()} == {JobState.EXPANDING}
