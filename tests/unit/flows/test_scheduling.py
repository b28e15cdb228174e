from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.errors import InvalidRequestError, NotFoundError, StoreUnavailableError
from crawlfleet.flows.planning import (
    delete_schedule,
    get_schedule,
    list_schedules,
    put_schedule,
)
from crawlfleet.flows.scheduling import run_due
from crawlfleet.model.biz import IntakeLimits
from crawlfleet.model.schedule import Missed, Schedule
from tests.unit.flows.world import DOCS, START, Broken, Failing, World, make_biz, make_tree

URLS = ("https://example.org/1", "https://example.org/2")


def schedule(**changes: object) -> Schedule:
    settings: dict[str, object] = {
        "tenant": "default",
        "biz": "docs",
        "name": "hourly",
        "cron": "0 * * * *",
        "time_zone": "UTC",
        "rule": "page",
        "urls": URLS,
    }
    return Schedule(**(settings | changes))  # type: ignore[arg-type]


def put(world: World, **changes: object) -> Schedule:
    return put_schedule(world.schedules, world.tree, schedule(**changes), world.now)


def tick(world: World, time_left: float = 120.0, **changes: object) -> tuple[int, int]:
    return run_due(
        world.submission(**changes), world.schedules, world.tree, world.now, lambda: time_left
    )


def pending(world: World) -> int:
    return world.ledger().pending


def test_a_schedule_fires_at_its_time_and_not_before(world):
    put(world)

    assert tick(world) == (0, 0)
    world.now += timedelta(hours=1)
    assert tick(world) == (1, 2)
    assert pending(world) == 2


def test_each_fire_is_a_job(world):
    put(world)
    world.now += timedelta(hours=2)

    tick(world)

    jobs = {kept.request.job for kept in world.store.state.of(DOCS).requests.values()}
    assert jobs == {"hourly.20260301T130000Z", "hourly.20260301T140000Z"}
    assert world.ledgers.audit(DOCS, world.biz, world.now, "hourly.20260301T130000Z").pending == 2


def test_a_schedule_that_fails_in_a_way_nobody_foresaw_does_not_stop_the_others(world):
    put(world, name="a-odd", urls=URLS[:1])
    put(world, name="b-well")
    world.now += timedelta(hours=1)
    open_fire = world.schedules.open_fire

    def odd(fire):
        if fire.schedule == "a-odd":
            raise OverflowError("date value out of range")
        return open_fire(fire)

    world.schedules.open_fire = odd

    assert tick(world) == (1, 2)
    assert len(world.warnings) == 1


def test_two_ticks_of_one_fire_time_create_its_requests_once(world):
    put(world)
    world.now += timedelta(hours=1)

    tick(world)
    assert tick(world) == (0, 0)
    assert pending(world) == 2


def test_two_schedulers_that_read_the_same_schedule_create_its_requests_once(world):
    put(world)
    world.now += timedelta(hours=1)
    stale = world.schedules.due(world.now, 10)

    tick(world)

    class Late:
        def due(self, now, limit):
            return stale

        def __getattr__(self, name):
            return getattr(world.schedules, name)

    run_due(world.submission(), Late(), world.tree, world.now, lambda: 120.0)
    assert pending(world) == 2


def test_a_late_scheduler_creates_every_missed_fire_time(world):
    put(world)
    world.now += timedelta(hours=3)

    assert tick(world) == (3, 6)


def test_a_schedule_may_ask_for_the_latest_missed_fire_time_only(world):
    put(world, missed=Missed.LATEST)
    world.now += timedelta(hours=3)

    assert tick(world) == (1, 2)
    assert get_schedule(world.schedules, world.tree, "default", "docs", "hourly").next_at == (
        START + timedelta(hours=4)
    )


def test_missed_fire_times_without_end_are_created_in_bounded_steps(world):
    put(world, cron="* * * * *", urls=URLS[:1])
    world.now += timedelta(minutes=100)

    assert tick(world) == (60, 60)
    assert tick(world) == (40, 40)


@pytest.mark.parametrize("failing", ["insert", "enqueue", "freeze", "take"])
def test_a_crash_on_the_way_is_finished_by_the_next_tick_with_the_same_ids(world, failing):
    put(world)
    world.now += timedelta(hours=1)
    port = {"insert": "store", "enqueue": "queue", "freeze": "rules", "take": "ids"}[failing]
    broken = Failing(getattr(world, port), **{failing: 1})

    tick(world, **{port: broken})
    tick(world)

    assert pending(world) == 2


def test_a_fire_that_was_stored_but_not_closed_is_closed_without_a_second_effect(world):
    put(world)
    world.now += timedelta(hours=1)
    healthy, world.schedules = world.schedules, Failing(world.schedules, close_fire=1)
    tick(world)
    world.schedules = healthy

    assert tick(world) == (1, 0)
    assert tick(world) == (0, 0)
    assert pending(world) == 2


def test_part_of_a_fire_refused_by_a_node_is_tried_again(world):
    put(world)
    world.now += timedelta(hours=1)

    class HalfDown:
        def insert(self, lane, biz, requests, kept):
            from crawlfleet.model.request import Inserted

            world.store.insert(lane, biz, requests[1:])
            return Inserted(refused={requests[0].id: StoreUnavailableError("mongodb", "down")})

    assert tick(world, store=HalfDown()) == (0, 0)
    assert tick(world) == (1, 1)
    assert pending(world) == 2


def test_a_schedule_whose_rule_is_gone_does_not_keep_others_from_running(world):
    put(world)
    put(world, name="other")
    world.now += timedelta(hours=1)
    gone = world.schedules.get("default", "docs", "hourly")
    from msgspec.structs import replace

    world.schedules.put(replace(gone, rule="gone"))

    assert tick(world) == (1, 2)
    assert "default/docs/hourly" in world.warnings[0]


def test_a_schedule_of_a_biz_that_is_gone_is_reported(world):
    put(world)
    world.now += timedelta(hours=1)
    from msgspec.structs import replace

    world.tree = replace(world.tree, bizs={})

    assert tick(world) == (0, 0)
    assert "no biz" in world.warnings[0]


def test_what_there_is_no_room_for_stays_due_with_one_warning_a_tick():
    limits = IntakeLimits(max_backlog=3)
    world = World(tree=make_tree(make_biz(intake=limits)))
    for name in ("a", "b", "c"):
        put(world, name=name)
    world.now += timedelta(hours=1)

    assert tick(world) == (1, 2)
    assert len(world.warnings) == 1
    assert world.warnings[0].startswith("2 schedules stay due until there is room, default/docs/b")
    assert tick(world) == (0, 0)
    entries = world.queue.lease(DOCS, "w.n.1", 9, world.now, world.now + timedelta(hours=1))
    world.queue.finish(DOCS, "w.n.1", entries, 2, world.now)
    assert tick(world) == (1, 2)
    assert pending(world) == 4


def test_a_fire_does_not_ask_for_the_rate_of_clients_nor_use_it_up():
    limits = IntakeLimits(per_second=0.001, burst=1)
    world = World(tree=make_tree(make_biz(intake=limits)))
    put(world)
    world.now += timedelta(hours=1)

    assert tick(world) == (1, 2)
    assert world.intake.admit(DOCS, 1, limits, 0.85, world.now).admitted
    assert not world.intake.admit(DOCS, 1, limits, 0.85, world.now).admitted
    put(world, name="other", cron="1 * * * *")
    world.now += timedelta(minutes=1)
    assert tick(world) == (1, 2)
    assert not world.intake.admit(DOCS, 1, limits, 0.85, world.now).admitted


def test_a_fire_that_was_persisted_but_not_queued_is_queued_by_the_next_tick(world):
    put(world)
    world.now += timedelta(hours=1)

    class Dying:
        def enqueue(self, lane, entries, now):
            raise OverflowError

    tick(world, queue=Dying())
    assert (pending(world), world.queue.depth(DOCS).queued) == (2, 0)

    assert tick(world) == (1, 0)
    assert (pending(world), world.queue.depth(DOCS).queued) == (2, 2)


def test_what_there_is_no_time_for_stays_due(world):
    put(world)
    world.now += timedelta(hours=1)

    assert tick(world, time_left=5.0) == (0, 0)
    assert tick(world) == (1, 2)


def test_every_mistake_of_a_schedule_is_named_and_nothing_is_stored(world):
    with pytest.raises(InvalidRequestError) as caught:
        put(
            world,
            cron="every day",
            time_zone="Mars/Olympus",
            rule="no",
            urls=("ftp://x/", URLS[0], URLS[0]),
        )

    fields = [problem.field for problem in caught.value.problems]
    assert set(fields) == {"cron", "time_zone", "rule", "urls[0]", "urls[2]"}
    assert list_schedules(world.schedules, world.tree, "default", "docs") == []


def test_an_edit_that_leaves_the_times_alone_does_not_skip_a_fire(world):
    put(world)
    world.now += timedelta(hours=1)

    put(world, urls=URLS[:1])

    assert tick(world) == (1, 1)


def test_a_new_cron_line_counts_from_now(world):
    put(world)
    world.now += timedelta(minutes=90)

    planned = put(world, cron="15 * * * *")

    assert planned.next_at == START + timedelta(minutes=135)


def test_a_disabled_schedule_does_not_fire_and_an_enabled_one_does_not_catch_up(world):
    put(world, enabled=False)
    world.now += timedelta(hours=2)
    assert tick(world) == (0, 0)

    put(world)

    assert tick(world) == (0, 0)
    world.now += timedelta(hours=1)
    assert tick(world) == (1, 2)


def test_a_schedule_is_seen_and_deleted_by_its_tenant_only(world):
    put(world)

    with pytest.raises(NotFoundError):
        get_schedule(world.schedules, world.tree, "acme", "docs", "hourly")
    with pytest.raises(NotFoundError):
        delete_schedule(world.schedules, world.tree, "acme", "docs", "hourly")
    delete_schedule(world.schedules, world.tree, "default", "docs", "hourly")
    with pytest.raises(NotFoundError):
        get_schedule(world.schedules, world.tree, "default", "docs", "hourly")


def test_schedules_that_cannot_be_read_stop_the_tick():
    world = World()

    with pytest.raises(StoreUnavailableError):
        run_due(world.submission(), Broken(), world.tree, START, lambda: 120.0)


def test_a_large_schedule_is_submitted_in_batches():
    world = World(tree=make_tree(make_biz()))
    put(world, urls=tuple(f"https://example.org/{n}" for n in range(2_500)))
    world.now += timedelta(hours=1)

    assert tick(world) == (1, 2_500)


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    st.integers(0, 364),
    st.sampled_from(["30 2 * * *", "0 * * * *", "15 1,3 * * *"]),
    st.lists(st.integers(1, 1_500), min_size=1, max_size=8),
)
def test_each_fire_time_is_created_once_whatever_the_ticks(zone, day, cron, minutes):
    world = World(now=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day))
    world.tree = make_tree(make_biz(ttl_seconds=31_536_000))
    begin = world.now
    put(world, cron=cron, time_zone=zone, urls=URLS[:1])
    created = 0
    for step in minutes:
        world.now += timedelta(minutes=step)
        while (done := tick(world)) != (0, 0):
            created += done[0]

    moment, expected = begin, 0
    from crawlfleet.policy.cron import next_fire

    while (moment := next_fire(schedule(cron=cron, time_zone=zone), moment)) <= world.now:
        expected += 1
    assert created == expected == pending(world)
