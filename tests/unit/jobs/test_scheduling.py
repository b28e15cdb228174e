from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.kernel import NotFoundError, StoreUnavailableError, UnknownBizError
from tests.kit.schedules import (
    OPEN_JOBS,
    Missed,
    OutcomeKind,
    Overlap,
    next_fire,
)
from tests.kit.spiders import Range, Start
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import START
from tests.kit.worlds.schedules import URLS, Clocked, at, schedule

HOUR = timedelta(hours=1)


@pytest.fixture
def world() -> Clocked:
    return Clocked()


def test_a_schedule_fires_at_its_time_and_not_before(world):
    world.put()

    assert world.tick() == 0
    world.now += HOUR
    assert world.tick() == 1
    [job] = world.jobs.open()
    assert (job.name, job.by, job.schedule) == ("hourly.20260301T130000Z", "schedule", "hourly")
    assert (job.fire_at, job.start, job.rule) == (at(13), Start(urls=URLS), "page")
    kept = world.get()
    assert (kept.fire_at, kept.next_at, kept.last_fired_at) == (at(14), at(14), at(13))
    assert kept.last_outcome.job == job.name


def test_each_fire_is_a_job(world):
    world.put()
    world.now += 2 * HOUR

    assert world.tick() == 2

    assert world.names() == ["hourly.20260301T130000Z", "hourly.20260301T140000Z"]


def test_two_ticks_of_one_fire_time_start_its_job_once(world):
    world.put()
    world.now += HOUR

    assert (world.tick(), world.tick()) == (1, 0)
    assert world.jobs.created == 1


class Late:
    """A scheduler's view of schedules that is as old as its list of due ones."""

    def __init__(self, world: Clocked) -> None:
        self._kept = world.schedules
        self._stale = world.schedules.due(world.now, 10)

    def due(self, now, limit):
        return self._stale

    def __getattr__(self, name):
        return getattr(self._kept, name)


def test_a_scheduler_that_goes_on_from_an_old_list_changes_nothing(world):
    world.put()
    world.now += HOUR
    late = Late(world)
    world.tick()
    world.jobs.finish(world.jobs.open()[0])
    before = world.get()

    world.schedules = late

    assert world.tick() == 0
    assert (world.jobs.created, world.get()) == (1, before)


def test_a_crash_between_the_job_and_the_schedule_is_made_good_by_the_next_tick(world):
    world.put(overlap=Overlap.SKIP)
    world.now += HOUR
    healthy, world.schedules = world.schedules, Failing(world.schedules, advance=1)
    assert world.tick() == 0
    assert "default/docs/hourly" in world.warnings[0]
    assert world.jobs.created == 1
    world.schedules = healthy

    assert world.tick() == 1
    assert world.jobs.created == 1
    assert world.outcome() == (OutcomeKind.STARTED, at(13)), "its own job is none in its way"
    assert world.get().fire_at == at(14)


@pytest.mark.parametrize(
    ("port", "call"),
    [("jobs", "create"), ("jobs", "get"), ("jobs", "count_open"), ("rules", "keep_version")],
)
def test_a_part_that_fails_leaves_the_fire_for_the_next_tick(world, port, call):
    world.put()
    world.now += HOUR
    setattr(world, port, Failing(getattr(world, port), **{call: 1}))

    assert world.tick() == 0
    kept = world.get()
    assert world.outcome() == (OutcomeKind.FAILED, at(13))
    assert "a part" in kept.last_outcome.why
    assert (kept.fire_at, kept.last_fired_at) == (at(13), None)
    world.now += timedelta(minutes=1)

    assert world.tick() == 1
    assert world.outcome() == (OutcomeKind.STARTED, at(13))
    assert world.jobs.created == 1


def test_a_late_scheduler_creates_every_missed_fire_time(world):
    world.put()
    world.now += 3 * HOUR

    assert world.tick() == 3


def test_a_schedule_may_ask_for_the_latest_missed_fire_time_only(world):
    world.put(missed=Missed.LATEST)
    world.now += 3 * HOUR

    assert world.tick() == 1
    assert world.get().next_at == at(16)
    assert "passed over" in world.get().last_outcome.why


def test_a_schedule_may_skip_what_is_too_late(world):
    world.put(missed=Missed.SKIP, tolerance_seconds=600)
    world.now += 3 * HOUR + timedelta(minutes=5)

    assert world.tick() == 1
    assert world.names() == ["hourly.20260301T150000Z"]
    assert "600 seconds" in world.get().last_outcome.why
    world.now += HOUR + timedelta(minutes=10)
    assert world.tick() == 0
    assert world.outcome() == (OutcomeKind.SKIPPED, at(16))
    assert (world.get().fire_at, world.get().last_fired_at) == (at(17), at(15))


def test_missed_fire_times_without_end_are_created_in_bounded_steps(world):
    world.put(cron="* * * * *", urls=URLS[:1])
    world.now += timedelta(minutes=100)

    assert world.tick() == 60
    assert world.tick() == 40
    assert world.tick() == 0


def test_jobs_that_never_end_are_bounded_and_no_fire_is_lost(world):
    world.put(cron="* * * * *", urls=URLS[:1])
    for _ in range(3):
        world.now += timedelta(minutes=50)
        world.tick()
    world.tick()

    assert len(world.jobs.open()) == OPEN_JOBS
    assert world.outcome()[0] is OutcomeKind.WAITING
    for job in world.jobs.open():
        world.jobs.finish(job)
    world.now += timedelta(minutes=1)
    world.tick()
    assert world.jobs.created == 151


def test_a_schedule_whose_rule_is_gone_is_reported_and_does_not_keep_others_from_running(world):
    world.put()
    world.put(name="other")
    world.now += HOUR
    gone = world.get()
    world.schedules.put(replace(gone, rule="gone", version=2), gone)

    assert world.tick() == 1
    assert "default/docs/hourly" in world.warnings[0]
    assert world.outcome()[0] is OutcomeKind.FAILED
    assert "rule" in world.get().last_outcome.why


def test_a_schedule_of_a_biz_that_is_gone_is_reported_and_fires_once_that_is_back(world):
    world.put()
    world.now += HOUR
    tree, world.tree = world.tree, replace(world.tree, bizs={})

    assert world.tick() == 0
    assert "no biz" in world.warnings[0]

    world.tree = tree
    assert (world.outcome()[0], world.tick()) == (OutcomeKind.FAILED, 0)
    world.now += timedelta(minutes=5)
    assert world.tick() == 1


def test_schedules_of_a_biz_that_was_removed_are_shown_and_can_be_ended(world):
    world.put()
    world.put(name="daily")
    world.now += HOUR
    world.tree = replace(world.tree, bizs={})
    world.tick()
    of_biz = "default", "docs"

    shown = world.planning.of_biz(world.tree, *of_biz)
    assert [one.name for one in shown] == ["daily", "hourly"]
    for one in shown:
        assert one.is_failing
        assert "its biz was removed" in one.last_outcome.why
        assert "delete the schedule" in one.last_outcome.why
    assert not world.enable(enabled=False).enabled
    with pytest.raises(UnknownBizError):
        world.enable(enabled=True)
    assert len(world.planning.versions(world.tree, *of_biz, "hourly")) == 2
    for one in shown:
        world.planning.delete(world.tree, *of_biz, one.name)
    with pytest.raises(UnknownBizError):
        world.planning.of_biz(world.tree, *of_biz)
    with pytest.raises(UnknownBizError):
        world.get()


def test_a_schedule_that_there_is_not_is_told_those_there_are(world):
    world.put()
    world.put(name="daily")

    with pytest.raises(NotFoundError, match="no schedule called 'dayly'; there are: daily, hourly"):
        world.get("dayly")


def test_what_has_failed_goes_behind_others_that_are_due(world):
    """A thousand broken ones of one tenant are read once in five minutes, not before all others."""
    world.put(name="broken")
    kept = world.get("broken")
    world.schedules.put(replace(kept, rule="gone", version=2), kept)
    world.now += HOUR
    world.tick()
    world.put(name="well")
    world.now = at(14)

    assert [each.name for each in world.schedules.due(world.now, 1)] == ["broken"]
    world.tick()
    world.now = at(15)
    assert [each.name for each in world.schedules.due(world.now, 9)] == ["broken", "well"]
    assert world.schedules.due(world.now, 9)[0].next_at > at(14)


def test_a_fault_that_nobody_foresaw_is_reported_without_its_words(world):
    world.put(name="a-odd", urls=URLS[:1])
    world.put(name="b-well")
    world.now += HOUR
    create = world.jobs.create

    def odd(job):
        if job.schedule == "a-odd":
            raise OverflowError("at 10.0.0.7")
        return create(job)

    world.jobs.create = odd

    assert world.tick() == 1
    assert len(world.warnings) == 1
    assert "a part" in world.get("a-odd").last_outcome.why


def test_what_there_is_no_time_for_stays_due(world):
    world.put()
    world.now += HOUR

    assert world.tick(lambda: 5.0) == 0
    assert world.tick() == 1


def test_time_that_ends_between_two_fires_leaves_the_second_due(world):
    world.put()
    world.now += 2 * HOUR
    times = iter([100.0, 100.0, 5.0])

    assert world.tick(lambda: next(times)) == 1
    assert world.get().fire_at == at(14)


def test_a_schedule_that_is_paused_while_it_fires_stops(world):
    world.put()
    world.now += 3 * HOUR
    create = world.jobs.create

    def pausing(job):
        world.enable(enabled=False)
        return create(job)

    world.jobs.create = pausing

    assert world.tick() == 1
    assert world.jobs.created == 1
    assert (world.get().enabled, world.get().next_at) == (False, None)


def test_schedules_that_cannot_be_read_stop_the_tick(world):
    world.schedules = Broken()

    with pytest.raises(StoreUnavailableError):
        world.firing.run_due(world.tree, START, lambda: 120.0)


# ---- what it crawls ------------------------------------------------------------------------------


def test_a_large_schedule_is_one_job(world):
    world.put(urls=tuple(f"https://example.org/{n}" for n in range(10_000)))
    world.now += HOUR

    assert world.tick() == 1
    assert world.jobs.open()[0].size == 10_000


def test_a_schedule_of_a_spider_runs_its_newest_version_with_values(world):
    world.keep_spider()
    world.put_spider(values={"kind": "new"}, priority=9)
    world.keep_spider("https://example.org/second/{kind}")
    world.now += HOUR

    world.tick()

    [job] = world.jobs.open()
    assert (job.spider, job.spider_version, job.priority) == ("shop", 2, 9)
    assert job.start.pattern == "https://example.org/second/new"


def test_a_schedule_may_stay_with_a_version_of_its_spider(world):
    world.keep_spider()
    world.put_spider(values={"kind": "new"}, spider_version=1)
    world.keep_spider("https://example.org/second/{kind}")
    world.now += HOUR

    world.tick()

    [job] = world.jobs.open()
    assert (job.spider_version, job.priority) == (1, 7)


@pytest.mark.parametrize("version", [None, 1])
def test_a_spider_that_is_deleted_is_reported_and_others_go_on(world, version):
    world.keep_spider()
    world.put_spider(values={"kind": "new"}, spider_version=version, name="a-gone")
    world.put()
    world.spiders.delete("default", "docs", "shop")
    world.now += HOUR

    assert world.tick() == 1
    assert world.get("a-gone").last_outcome.why == "this biz keeps no spider called 'shop'"


def test_a_rule_may_have_a_start_of_its_own(world):
    pattern = "https://example.org/{day}/{page}"
    start = Start(pattern=pattern, values={"page": Range(last=5)})
    world.put(urls=(), start=start, values={"day": "x"})
    world.now += HOUR

    world.tick()

    [job] = world.jobs.open()
    assert (job.size, job.start.pattern) == (5, "https://example.org/x/{page}")


# ---- jitter --------------------------------------------------------------------------------------


def test_a_fire_with_jitter_comes_later_and_is_named_for_its_fire_time(world):
    planned = world.put(jitter_seconds=1_800)
    assert at(13) < planned.next_at <= at(13, 30)
    assert planned.fire_at == at(13)

    world.now = planned.next_at - timedelta(seconds=1)
    assert world.tick() == 0
    world.now = planned.next_at
    assert world.tick() == 1
    assert world.names() == ["hourly.20260301T130000Z"]
    assert (world.get().fire_at, world.get().last_fired_at) == (at(14), at(13))


# ---- ticks of any kind ---------------------------------------------------------------------------


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    st.integers(0, 364),
    st.sampled_from(["30 2 * * *", "0 * * * *", "15 1,3 * * *"]),
    st.sampled_from([0, 1, 600, 3_600]),
    st.lists(st.integers(1, 1_500), min_size=1, max_size=8),
)
def test_each_fire_time_has_its_job_once_whatever_the_ticks(zone, day, cron, jitter, minutes):
    world = Clocked()
    begin = world.now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    world.put(cron=cron, time_zone=zone, urls=URLS[:1], jitter_seconds=jitter)
    started = 0
    for step in minutes:
        world.now += timedelta(minutes=step)
        while done := world.tick():
            started += done
            for job in world.jobs.open():
                world.jobs.finish(job)
    world.now += timedelta(hours=1)  # so that jitter is over
    started += world.tick()

    moment, expected = begin, []
    while (moment := next_fire(schedule(cron=cron, time_zone=zone), moment)) <= world.now:
        expected.append(moment)
    fired = [job.fire_at for job in world.jobs.kept.values()]
    assert fired == expected[: len(fired)]
    assert len(expected) - len(fired) <= (1 if jitter else 0)
    assert started == len(fired)
