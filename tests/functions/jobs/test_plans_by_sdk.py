"""Spiders, schedules and jobs through the SDK, on the real handlers behind an HTTP door."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import a_web
from tests.functions.door import Door
from tests.functions.runs import a_learnt_run
from tests.kit.jobs import MongoDemands
from tests.kit.kernel import (
    ConflictError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    QuotaExceededError,
    UnknownBizError,
    UnknownTenantError,
)
from tests.kit.sdk import Client, WaitTimeoutError
from tests.kit.worlds.functions import World, default_bizs
from tests.waiting import eventually

BIZ = "docs"
PATTERN = "https://shop.example/{kind}/{page}"
#: In Europe's zones clocks are shifted on one of these nights, whenever it is asked.
SUNDAYS = "30 2 * 3,10 0"


@pytest.fixture
def fleet(world: World, standing_door: Door) -> Iterator[Client]:
    with Client(standing_door.url, standing_door.keys["acme"]) as client:
        yield client


def put_shop(fleet: Client, **changes):
    values = {"kind": ["a", "b"], "page": range(1, 11)}
    return fleet.put_spider(
        BIZ, "shop", **{"rule": "page", "pattern": PATTERN, "values": values} | changes
    )


def finished(world: World, fleet: Client, name: str) -> bool:
    world.work()
    tick(world)
    return fleet.job(BIZ, name).ended


# ---- spiders -------------------------------------------------------------------------------------


def test_a_spider_that_is_put_twice_has_two_versions_and_each_is_read(fleet):
    first = put_shop(fleet)
    again = put_shop(fleet)
    second = put_shop(
        fleet,
        values={"kind": ["a"], "page": range(0, 91, 10)},
        priority=8,
        link={"seconds_below": 0.5},
        description="Its shop.",
    )

    assert (first.version, first.tasks, first.places, again) == (1, 20, (), first)
    assert [each.version for each in fleet.spider_versions(BIZ, "shop")] == [2, 1]
    assert [each.tasks for each in fleet.spider_versions(BIZ, "shop")] == [10, 20]
    assert fleet.spider(BIZ, "shop") == second
    assert fleet.spider(BIZ, "shop", version=1) == first
    assert (second.priority, second.description, second.executor) == (8, "Its shop.", None)
    assert second.link["seconds_below"] == 0.5
    assert second.start["values"]["page"] == {"first": 0, "last": 90, "step": 10}


def test_spiders_are_listed_page_by_page_after_what_the_configuration_has(fleet):
    for name in ("a", "b", "c"):
        fleet.put_spider(BIZ, name, rule="page", urls="https://shop.example/")

    found = [(each.origin, each.name) for each in fleet.spiders(BIZ, page_size=2)]

    assert found == [("configuration", "page"), ("kept", "a"), ("kept", "b"), ("kept", "c")]


def test_a_spider_that_a_schedule_starts_stays_and_else_goes(fleet):
    put_shop(fleet)
    fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", spider="shop")

    with pytest.raises(ConflictError, match="nightly"):
        fleet.delete_spider(BIZ, "shop")
    fleet.delete_schedule(BIZ, "nightly")
    fleet.delete_spider(BIZ, "shop")

    for call in (fleet.spider, fleet.spider_versions, fleet.delete_spider):
        with pytest.raises(NotFoundError, match="'shop'"):
            call(BIZ, "shop")


# ---- schedules -----------------------------------------------------------------------------------


def test_a_schedule_of_a_spider_is_put_changed_and_its_versions_are_read(fleet):
    put_shop(fleet, values={"page": range(1, 4)})
    made = fleet.put_schedule(
        BIZ,
        "nightly",
        cron="0 3 * * *",
        time_zone="Europe/Berlin",
        spider="shop",
        version=1,
        values={"kind": "new"},
        priority=7,
        overlap="skip",
        missed="skip",
        tolerance_seconds=120,
        jitter_seconds=60,
    )
    changed = fleet.put_schedule(
        BIZ, "nightly", cron="0 4 * * *", spider="shop", values={"kind": "b"}
    )

    assert (made.name, made.version, made.spider, made.spider_version) == ("nightly", 1, "shop", 1)
    assert (made.values, made.priority, made.overlap, made.missed) == (
        {"kind": "new"},
        7,
        "skip",
        "skip",
    )
    assert made.fire_at <= made.next_at <= made.fire_at + timedelta(seconds=60)
    assert changed == fleet.schedule(BIZ, "nightly") == fleet.schedules(BIZ)[0]
    versions = fleet.schedule_versions(BIZ, "nightly")
    assert [(each.version, each.cron) for each in versions] == [(2, "0 4 * * *"), (1, "0 3 * * *")]
    assert (versions[1].time_zone, versions[1].tolerance_seconds) == ("Europe/Berlin", 120)
    assert len(fleet.schedule_versions(BIZ, "nightly", 1)) == 1


def test_the_next_runs_and_where_clocks_are_shifted(fleet):
    fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", rule="page", urls="https://a.example/")

    nights = fleet.schedule_runs(BIZ, "nightly")
    sundays = fleet.preview_schedule(BIZ, SUNDAYS, time_zone="Europe/Berlin", count=20)

    assert len(nights) == 5
    assert [each.at for each in nights] == [
        fleet.schedule(BIZ, "nightly").next_at + timedelta(days=n) for n in range(5)
    ]
    forward, back = ([each for each in sundays if each.shift_seconds == by] for by in (3600, -3600))
    assert forward
    assert back
    # 02:30 is left out in March, and there twice in October, of which one run is made.
    assert {each.local_at.strftime("%m %H:%M %z") for each in forward} <= {
        "03 03:00 +0200",
        "03 03:30 +0200",
    }
    assert {each.local_at.hour for each in back} == {2}
    assert len({each.at for each in sundays}) == 20
    with pytest.raises(InvalidRequestError) as caught:
        fleet.preview_schedule(BIZ, "often", time_zone="Mars/Olympus")
    assert {each.field for each in caught.value.problems} >= {"cron"}


def test_a_schedule_is_paused_and_resumed(fleet):
    fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", rule="page", urls="https://a.example/")

    paused = fleet.pause_schedule(BIZ, "nightly")
    assert (paused.enabled, paused.next_at) == (False, None)
    assert len(fleet.schedule_runs(BIZ, "nightly", 3)) == 3
    resumed = fleet.resume_schedule(BIZ, "nightly")
    assert (resumed.enabled, resumed.version) == (True, 3)
    assert resumed.next_at > datetime.now(UTC)


def test_a_schedule_that_is_run_twice_under_one_key_makes_one_job(fleet):
    put_shop(fleet)
    fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", spider="shop", overlap="skip")

    first = fleet.run_schedule(BIZ, "nightly", idempotency_key="now-1")
    again = fleet.run_schedule(BIZ, "nightly", idempotency_key="now-1")

    assert (first, first.schedule, first.size) == (again, "nightly", 20)
    assert [each.name for each in fleet.jobs(BIZ, schedule="nightly")] == [first.job]
    assert fleet.job(BIZ, first.job).spider == "shop"
    with pytest.raises(ConflictError, match=first.job):
        fleet.run_schedule(BIZ, "nightly", idempotency_key="now-2")


def test_what_is_no_schedule_is_refused_by_each_of_its_fields_and_nothing_is_kept(fleet):
    with pytest.raises(InvalidRequestError) as caught:
        fleet.put_schedule(BIZ, "x", cron="61 * * * *", time_zone="Mars/Olympus", spider="none")
    assert {each.field for each in caught.value.problems} >= {"cron", "time_zone", "spider"}

    assert fleet.schedules(BIZ) == []
    for call in (
        fleet.schedule,
        fleet.pause_schedule,
        fleet.resume_schedule,
        fleet.run_schedule,
        fleet.schedule_runs,
        fleet.schedule_versions,
        fleet.delete_schedule,
    ):
        with pytest.raises(NotFoundError, match="'x'"):
            call(BIZ, "x")


# ---- jobs ----------------------------------------------------------------------------------------


def test_a_job_of_a_spider_is_run_waited_for_and_its_run_is_shown(fleet, world):
    seen = []
    with a_web() as web:
        fleet.put_spider(
            BIZ, "shop", rule="page", pattern=f"{web.url}/{{page}}", values={"page": range(10, 16)}
        )
        job = fleet.start_job(BIZ, spider="shop", priority=9, name="june")
        assert (job.state, job.size, job.spider, job.spider_version) == ("expanding", 6, "shop", 1)
        with pytest.raises(WaitTimeoutError) as caught:
            fleet.wait_job(BIZ, "june", timeout=0)
        assert caught.value.unfinished == 6
        eventually(lambda: finished(world, fleet, "june"))
        done = fleet.wait_job(BIZ, "june", progress=seen.append)

    assert (done.state, done.counts["done"], done.counts["dead"]) == ("done", 5, 1)
    assert (done.ledger.submitted, done.ledger.dead) == (6, 1)
    assert (seen, done.progress.ended, done.progress.ended_share) == ([done], 6, 1.0)
    assert [each.name for each in fleet.jobs(BIZ, spider="shop")] == ["june"]
    run = fleet.run(BIZ, "june")
    assert (run.records, run.workers, run.counts["done"]) == (5, 1, 5)
    a_learnt_run(MongoDemands(world.own.nodes), world.tenants["acme"], "may", "shop")
    [demand] = fleet.demands(BIZ)
    assert demand == fleet.demand(BIZ, "shop")
    assert (demand.runs, demand.usage.bandwidth.average) == (1, 100.0)
    for call in (fleet.demand, fleet.run):
        with pytest.raises(NotFoundError):
            call(BIZ, "never")

    # What failed is worked on again: the page that robots.txt forbids fails once more.
    retried = fleet.retry_job(BIZ, "june", rule="current")
    assert (retried.retried, retried.skipped, retried.more, retried.job.state) == (
        1,
        0,
        False,
        "running",
    )


def test_jobs_are_of_a_pattern_or_of_urls_and_are_listed_by_state(fleet):
    start = {"pattern": PATTERN, "values": {"page": {"last": 50}}}
    pages = fleet.start_job(BIZ, rule="page", start=start, values={"kind": "new"}, name="pages")
    urls = fleet.start_job(BIZ, urls=(f"https://a.example/{n}" for n in range(3)), name="urls")

    assert (pages.size, pages.values) == (50, {"kind": "new"})
    assert fleet.job(BIZ, "pages").pattern == "https://shop.example/new/{page}"
    assert (urls.size, urls.rule, urls.spider) == (3, "page", None)
    assert fleet.cancel_job(BIZ, "urls").state == "cancelled"
    assert fleet.cancel_job(BIZ, "urls").state == "cancelled"
    found = fleet.jobs(BIZ, state=["expanding", "running"], page_size=1)
    assert [each.name for each in found] == ["pages"]
    assert [each.name for each in fleet.jobs(BIZ, page_size=1)] == ["urls", "pages"]
    with pytest.raises(ConflictError, match="cancelled"):
        fleet.retry_job(BIZ, "urls")


def test_a_name_or_a_key_stands_for_one_job(fleet):
    order = {"rule": "page", "urls": ["https://a.example/"]}

    named = [fleet.start_job(BIZ, **order, name="june") for _ in range(2)]
    keyed = [fleet.start_job(BIZ, **order, idempotency_key="order-1") for _ in range(2)]

    assert named[0] == named[1]
    assert keyed[0] == keyed[1]
    other = order | {"urls": ["https://b.example/"]}
    with pytest.raises(ConflictError, match="choose another name"):
        fleet.start_job(BIZ, **other, name="june")
    with pytest.raises(KeyReusedError):
        fleet.start_job(BIZ, **other, idempotency_key="order-1")


def test_an_open_place_of_a_spider_takes_several_values_and_a_range(fleet):
    put_shop(fleet, values={})
    order = {"spider": "shop", "name": "june"}
    values = {"kind": ["a", "b c"], "page": range(1, 4)}

    job = fleet.start_job(BIZ, **order, values=values)

    assert (job.size, job.values) == (6, {})
    pages = {"last": 3}
    assert fleet.job(BIZ, "june").places == {"kind": ("a", "b c"), "page": pages}
    assert fleet.start_job(BIZ, **order, values=values).created_at == job.created_at
    with pytest.raises(ConflictError):
        fleet.start_job(BIZ, **order, values={"kind": "a", "page": range(1, 4)})
    for wrong, field in (
        ({"kind": ["a", "a"]}, "values.kind"),
        ({"kind": ["a", ".."]}, "values.kind[1]"),
        ({"kind": []}, "values.kind"),
        ({"kind": [str(n) for n in range(1_001)]}, "values.kind"),
        ({"page": {"first": 1, "last": 10**9}}, "values"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            fleet.start_job(BIZ, spider="shop", values={"kind": "a", "page": "1"} | wrong)
        assert [each.field for each in caught.value.problems] == [field]


def test_a_schedule_fires_with_every_one_of_its_values(fleet):
    put_shop(fleet, values={})
    values = {"kind": ["a", "b"], "page": range(0, 91, 10)}
    kept = {"kind": ("a", "b"), "page": {"first": 0, "last": 90, "step": 10}}

    made = fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", spider="shop", values=values)
    again = fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", spider="shop", values=values)

    assert (made.values, again.version) == (kept, 1)
    assert fleet.schedule(BIZ, "nightly").values == kept
    assert fleet.run_schedule(BIZ, "nightly").size == 20


def test_what_is_no_job_is_refused_and_what_is_not_there_not_found(fleet):
    with pytest.raises(NotFoundError, match="'never'"):
        fleet.start_job(BIZ, spider="never")
    put_shop(fleet, values={"page": range(1, 3)})
    with pytest.raises(NotFoundError, match="version 9"):
        fleet.start_job(BIZ, spider="shop", version=9, values={"kind": "a"})
    for wrong, field in (
        ({"spider": "shop"}, "values"),
        ({"urls": ["ftp://a.example/"]}, "start.urls[0]"),
        ({"urls": ["https://a.example/"], "rule": "none"}, "rule"),
        ({"urls": ["https://a.example/"], "pool": "none"}, "pool"),
        ({"urls": ["https://a.example/"], "priority": 11}, "priority"),
        ({"start": {"pattern": "https://{host}/"}, "values": {"host": "a"}}, "start.pattern"),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            fleet.start_job(BIZ, **wrong)
        assert any(each.field.startswith(field) for each in caught.value.problems), str(
            caught.value
        )
    assert list(fleet.jobs(BIZ)) == []
    for call in (fleet.job, fleet.cancel_job, fleet.retry_job, fleet.wait_job):
        with pytest.raises(NotFoundError, match="'never'"):
            call(BIZ, "never")


def test_too_many_open_jobs_are_reported_at_once_whoever_starts_them(fleet, world):
    bizs = default_bizs()
    bizs["acme"][BIZ]["open_jobs"] = 1
    world.push(bizs)
    put_shop(fleet)
    fleet.put_schedule(BIZ, "nightly", cron="0 3 * * *", spider="shop")
    fleet.start_job(BIZ, spider="shop", name="june")

    began = datetime.now(UTC)
    for start in (
        lambda: fleet.start_job(BIZ, spider="shop", name="july"),
        lambda: fleet.run_schedule(BIZ, "nightly"),
    ):
        with pytest.raises(QuotaExceededError, match="1 open jobs"):
            start()
    # Tried again it would be refused again until a job has ended, five seconds later each time.
    assert datetime.now(UTC) - began < timedelta(seconds=5)


def test_nothing_of_another_tenant_is_seen_and_a_wrong_key_sees_nothing(fleet, standing_door):
    put_shop(fleet)
    fleet.start_job(BIZ, spider="shop", name="june")

    with Client(standing_door.url, standing_door.keys["rival"]) as rival:
        assert [each.origin for each in rival.spiders(BIZ)] == ["configuration"]
        assert (list(rival.jobs(BIZ)), rival.schedules(BIZ), list(rival.demands(BIZ))) == (
            [],
            [],
            [],
        )
        for call, name in ((rival.spider, "shop"), (rival.job, "june"), (rival.cancel_job, "june")):
            with pytest.raises(NotFoundError):
                call(BIZ, name)
    for key in ("unheard-of", standing_door.keys["nobody"]):
        with Client(standing_door.url, key) as stranger, pytest.raises(UnknownTenantError):
            stranger.start_job(BIZ, urls=["https://a.example/"])
    with pytest.raises(UnknownBizError, match="'elsewhere'"):
        fleet.start_job("elsewhere", urls=["https://a.example/"])
