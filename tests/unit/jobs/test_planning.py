from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.jobs import JobState
from tests.kit.kernel import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    StoreConflictError,
    UnknownBizError,
)
from tests.kit.schedules import OPEN_JOBS, Missed, Overlap, planning
from tests.kit.spiders import Start
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import START
from tests.kit.worlds.schedules import URLS, Clocked, at, schedule

HOUR = timedelta(hours=1)
PATTERN = Start(pattern="https://example.org/{kind}")


@pytest.fixture
def world() -> Clocked:
    return Clocked()


def refused(world: Clocked, **changes: object) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        world.put(**changes)
    assert world.schedules.of_biz("default", "docs") == []
    return sorted(problem.field for problem in caught.value.problems)


# ---- putting -------------------------------------------------------------------------------------


def test_every_error_of_a_schedule_is_named_and_nothing_is_stored(world):
    urls = ("ftp://x/", URLS[0], URLS[0])
    fields = refused(world, cron="every day", time_zone="Mars/Olympus", rule="no", urls=urls)

    assert fields == ["cron", "rule", "time_zone", "urls[0]", "urls[2]"]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"urls": ()}, ["urls"]),
        ({"rule": None}, ["rule"]),
        ({"rule": None, "urls": ()}, ["rule", "urls"]),
        ({"values": {"x": "y"}}, ["values.x"]),
        ({"spider_version": 2}, ["version"]),
        ({"start": PATTERN, "values": {"kind": "x"}}, ["urls"]),
        ({"urls": (), "start": PATTERN}, ["values.kind"]),
        ({"urls": (), "start": PATTERN, "rule": None, "values": {"kind": "x"}}, ["rule"]),
        ({"urls": (), "start": PATTERN, "values": {"kind": ".."}}, ["values.kind"]),
        ({"urls": (), "start": Start(urls=("ftp://x/",))}, ["start.urls[0]"]),
        ({"urls": (), "start": Start(pattern="https://u:p@example.org/")}, ["start.pattern"]),
        ({"urls": (), "start": PATTERN, "values": {"kind": "x"}, "rule": "no"}, ["rule"]),
        ({"spider": "shop", "rule": None, "urls": ()}, ["spider"]),
        ({"spider": "shop", "start": PATTERN}, ["rule", "spider", "start", "urls"]),
    ],
)
def test_what_a_schedule_crawls_is_named_where_it_is_wrong(world, changes, fields):
    assert refused(world, **changes) == fields


def test_a_schedule_of_a_spider_fills_its_places_and_names_a_version_that_there_is(world):
    world.keep_spider()
    spider = {"spider": "shop", "rule": None, "urls": ()}

    assert refused(world, **spider) == ["values.kind"]
    assert refused(world, **spider, values={"kind": "x"}, spider_version=2) == ["version"]
    assert world.put(**spider, values={"kind": "x"}, spider_version=1).version == 1


def test_a_biz_that_there_is_not_has_no_schedules(world):
    for call in (
        lambda: world.put(biz="nobody"),
        lambda: world.planning.of_biz(world.tree, "default", "nobody"),
        lambda: planning.preview(world.tree, schedule(biz="nobody"), 5, world.now),
    ):
        with pytest.raises(UnknownBizError):
            call()


def test_a_biz_has_so_many_schedules_and_no_more(world):
    kept = world.put()
    for number in range(1, planning.MOST_SCHEDULES):
        world.schedules.put(replace(kept, name=f"s{number}"), None)
    world.put(tenant="acme")

    with pytest.raises(QuotaExceededError, match="1,000"):
        world.put(name="third")
    assert world.put(urls=URLS[:1]).version == 2


def test_an_edit_that_leaves_the_times_alone_does_not_skip_a_fire(world):
    world.put()
    world.now += HOUR

    world.put(urls=URLS[:1])

    assert world.tick() == 1


def test_a_new_cron_line_or_zone_counts_from_now(world):
    world.put()
    world.now += timedelta(minutes=90)

    assert world.put(cron="15 * * * *").next_at == START + timedelta(minutes=135)
    assert world.put(cron="15 * * * *", time_zone="Asia/Kolkata").next_at == at(13, 45)


def test_an_edit_of_one_that_has_failed_is_tried_at_once(world):
    world.put()
    world.now += HOUR
    healthy, world.jobs = world.jobs, Failing(world.jobs, create=1)
    world.tick()
    world.jobs = healthy
    assert world.schedules.due(world.now, 9) == []

    world.put(urls=URLS[:1])

    assert world.tick() == 1


def test_what_changes_nothing_makes_no_version_and_what_does_makes_one(world):
    first = world.put()
    world.now += timedelta(minutes=1)

    assert world.put() == first
    second = world.put(missed=Missed.LATEST)
    assert (second.version, second.put_at, first.put_at) == (2, world.now, START)
    world.tick()
    versions = world.planning.versions(world.tree, "default", "docs", "hourly", limit=5)
    assert [(each.version, each.missed) for each in versions] == [(2, "latest"), (1, "all")]
    assert versions[0].next_at is None, "what a version was put with, not how far it came"


def test_the_last_fifty_versions_are_kept(world):
    for number in range(53):
        world.put(priority=number % 10)

    versions = world.planning.versions(world.tree, "default", "docs", "hourly")

    assert [each.version for each in versions] == list(range(53, 3, -1))
    world.planning.delete(world.tree, "default", "docs", "hourly")
    with pytest.raises(NotFoundError):
        world.planning.versions(world.tree, "default", "docs", "hourly")
    assert world.put().version == 1


def test_two_that_put_at_once_make_two_versions(world):
    world.put()
    get = world.schedules.get
    others = [3]

    class Contended:
        def get(self, *key):
            found = get(*key)
            if others:
                priority = others.pop()
                Clocked(kept).planning.put(world.tree, schedule(priority=priority), world.now)
            return found

        def __getattr__(self, name):
            return getattr(kept, name)

    kept, world.schedules = world.schedules, Contended()

    assert world.put(priority=4).version == 3
    assert [each.priority for each in kept.versions("default", "docs", "hourly", 9)] == [4, 3, None]


def test_a_schedule_that_others_never_leave_alone_is_a_conflict(world):
    class Taken:
        def put(self, *_):
            return False

        def __getattr__(self, name):
            return getattr(kept, name)

    kept, world.schedules = world.schedules, Taken()

    with pytest.raises(StoreConflictError):
        world.put()


# ---- pausing -------------------------------------------------------------------------------------


def test_a_paused_schedule_does_not_fire_and_a_resumed_one_does_not_catch_up(world):
    world.put()
    paused = world.enable(enabled=False)
    assert (paused.enabled, paused.next_at, paused.version) == (False, None, 2)
    assert world.enable(enabled=False) == paused, "it rests already"
    world.now += 2 * HOUR
    assert world.tick() == 0

    assert world.enable(enabled=True).next_at == at(15)
    assert world.tick() == 0
    world.now += HOUR
    assert world.tick() == 1


def test_a_schedule_may_be_put_at_rest(world):
    world.put(enabled=False)
    world.now += 2 * HOUR

    assert world.tick() == 0
    world.put()
    assert world.tick() == 0


def test_nothing_can_be_paused_that_is_not_there_or_another_tenants(world):
    world.put(tenant="acme")

    with pytest.raises(NotFoundError):
        world.enable(enabled=False)


def test_a_schedule_is_seen_and_deleted_by_its_tenant_only(world):
    world.put()

    service = world.planning
    for call in (service.get, service.delete, service.versions):
        with pytest.raises(NotFoundError):
            call(world.tree, "acme", "docs", "hourly")
    assert world.planning.of_biz(world.tree, "acme", "docs") == []
    world.planning.delete(world.tree, "default", "docs", "hourly")
    with pytest.raises(NotFoundError):
        world.get()


# ---- previews ------------------------------------------------------------------------------------


def test_a_preview_begins_with_what_is_due_and_needs_nothing_kept(world):
    world.put()
    world.now += 2 * HOUR

    runs = planning.preview(world.tree, world.get(), 3, world.now)

    assert [run.at for run in runs] == [at(13), at(14), at(15)]
    wanted = schedule(name="new", rule=None, urls=(), cron="30 6 * * *")
    [run] = planning.preview(world.tree, wanted, 1, world.now)
    assert run.fire_at == at(6, 30, day=2)
    assert len(world.schedules.of_biz("default", "docs")) == 1


def test_a_preview_of_what_is_no_line_names_it(world):
    with pytest.raises(InvalidRequestError) as caught:
        planning.preview(world.tree, schedule(cron="often", time_zone="Here"), 5, world.now)

    assert [problem.field for problem in caught.value.problems] == ["time_zone", "cron"]


# ---- run now -------------------------------------------------------------------------------------


def test_a_schedule_runs_now_and_its_fire_times_stay(world):
    before = world.put(priority=3)

    job = world.run()

    assert job.name.startswith("hourly.now.20260301T120000Z.")
    assert (job.by, job.schedule, job.fire_at, job.priority) == ("run_now", "hourly", None, 3)
    assert world.get() == before


def test_under_one_key_a_schedule_runs_once(world):
    world.put(overlap=Overlap.SKIP)

    first = world.run("a key")
    world.now += HOUR

    assert world.run("a key") == first
    assert len(first.name) <= 64
    assert world.jobs.created == 1


def test_a_paused_schedule_can_be_run(world):
    world.put(enabled=False)

    assert world.run().schedule == "hourly"


def test_a_schedule_of_the_longest_name_can_be_run(world):
    name = "a" + "b" * 31
    world.put(name=name)

    assert max(len(world.run(key, name).name) for key in (None, "key")) <= 64


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
def test_a_schedule_that_runs_alone_is_not_run_beside_another(world, overlap):
    world.put(overlap=overlap)
    running = world.run()

    with pytest.raises(ConflictError, match="has not ended"):
        world.run()
    world.now += HOUR
    assert world.tick() == 0, "what was run by hand counts too"
    world.jobs.finish(running)
    assert world.run().name != running.name


def test_a_run_takes_the_place_of_others_where_fires_do(world):
    world.put(overlap=Overlap.REPLACE)
    world.now += HOUR
    world.tick()

    job = world.run()

    old, new = world.jobs.kept.values()
    assert (old.state, new) == (JobState.CANCELLING, job)


def test_runs_by_hand_are_bounded(world):
    world.put()
    for number in range(OPEN_JOBS):
        world.run(f"{number}")

    with pytest.raises(ConflictError):
        world.run()
    assert world.jobs.created == OPEN_JOBS
