"""Keeping spiders: what is checked, listed, and not deleted."""

from dataclasses import replace

import pytest

from tests.fakes.jobs import MemoryJobs
from tests.fakes.schedules import MemorySchedules
from tests.fakes.spiders import MemorySpiders
from tests.kit.jobs import Job, JobOrder, JobStarter, JobState
from tests.kit.kernel import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnknownBizError,
)
from tests.kit.schedules import Schedule, ScheduleService
from tests.kit.spiders import (
    HOLD,
    LARGEST_PLAN,
    MOST_VERSIONS,
    ConfiguredSpider,
    LinkNeeds,
    Range,
    SpiderPlan,
    SpiderService,
    Start,
)
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import World

PATTERN = Start(pattern="https://a.example/{x}/{p}", values={"p": Range(last=9)})


@pytest.fixture
def ports() -> SpiderService:
    return SpiderService(spiders=MemorySpiders(), schedules=MemorySchedules(), jobs=MemoryJobs())


def put(
    ports: SpiderService, world: World, name: str = "all", biz: str = "docs", **changes: object
):
    plan = SpiderPlan(**{"rule": "page", "start": PATTERN, **changes})
    return ports.put(world.tree, "default", biz, name, plan, {"main", "far"}, world.now)


def delete(ports: SpiderService, world: World, name: str = "all") -> None:
    ports.delete(world.tree, "default", "docs", name, world.now)


def start(ports: SpiderService, world: World, job: str, name: str = "all") -> Job:
    starting = JobStarter(jobs=ports.jobs, spiders=ports.spiders, rules=world.rules)
    order = JobOrder(
        tenant="default", biz="docs", by="api", name=job, spider=name, values={"x": "1"}
    )
    return starting.start(world.tree, order, world.now)


def end(ports: SpiderService, world: World, job: str) -> None:
    cancelled = ports.jobs.cancel("default", "docs", job, world.now)
    assert ports.jobs.end(cancelled, JobState.CANCELLED, {}, world.now)


def versions(ports: SpiderService, name: str = "all") -> list[int]:
    return [one.version for one in ports.spiders.versions("default", "docs", name, 1_000)]


def put_until(ports: SpiderService, world: World, last: int) -> None:
    """Put versions until the newest is that one."""
    for number in range(versions(ports)[0] + 1, last + 1):
        put(ports, world, link=LinkNeeds(bytes_per_second_above=number))


def newest(last: int) -> list[int]:
    """The versions that a spider keeps of its own, where the newest is that one."""
    return list(range(last, last - MOST_VERSIONS, -1))


def test_a_version_stays_while_an_open_job_names_it_and_no_longer(ports, world):
    put(ports, world, priority=1)
    job = start(ports, world, "june")
    put_until(ports, world, MOST_VERSIONS + 2)
    assert versions(ports) == [*newest(MOST_VERSIONS + 2), 1]

    world.now += HOLD
    put_until(ports, world, MOST_VERSIONS + 3)
    assert versions(ports) == [*newest(MOST_VERSIONS + 3), 1]

    end(ports, world, job.name)
    put_until(ports, world, MOST_VERSIONS + 4)
    assert versions(ports) == newest(MOST_VERSIONS + 4)


def schedule_of(version: int, **changes: str) -> Schedule:
    facts: dict = {"name": "nightly", "spider": "all", "values": {"x": "1"}}
    return Schedule(
        tenant="default",
        biz="docs",
        cron="0 3 * * *",
        time_zone="UTC",
        spider_version=version,
        **(facts | changes),
    )


def test_a_version_stays_while_a_schedule_names_it(ports, world):
    put(ports, world, priority=1)
    planning = ScheduleService(schedules=ports.schedules, spiders=ports.spiders)
    planning.put(world.tree, schedule_of(1), world.now)
    world.now += HOLD
    put_until(ports, world, MOST_VERSIONS + 2)
    assert versions(ports) == [*newest(MOST_VERSIONS + 2), 1]

    ports.schedules.delete("default", "docs", "nightly")
    put_until(ports, world, MOST_VERSIONS + 3)
    assert versions(ports) == newest(MOST_VERSIONS + 3)


def test_what_a_schedule_is_about_to_name_stays_meanwhile(ports, world):
    put(ports, world, priority=1)
    put_until(ports, world, MOST_VERSIONS)

    class Overtaken:
        """Somebody changes the spider between its check and the schedule's being there."""

        def put(self, *args, **kwargs):
            put_until(ports, world, MOST_VERSIONS + 1)
            assert versions(ports) == [*newest(MOST_VERSIONS + 1), 1]
            return ports.schedules.put(*args, **kwargs)

        def __getattr__(self, name):
            return getattr(ports.schedules, name)

    planning = ScheduleService(schedules=Overtaken(), spiders=ports.spiders)

    assert planning.put(world.tree, schedule_of(1), world.now).spider_version == 1
    assert versions(ports) == [*newest(MOST_VERSIONS + 1), 1]


def test_a_spider_is_deleted_though_what_is_left_of_it_cannot_be_forgotten(ports, world):
    put(ports, world)

    delete(replace(ports, jobs=Failing(ports.jobs, open_versions=1)), world)

    assert ports.spiders.get("default", "docs", "all") is None


def test_who_deletes_a_spider_clears_others_away_whose_jobs_have_ended(ports, world):
    names = [f"s{number}" for number in range(12)]
    for name in names:
        put(ports, world, name)
        start(ports, world, name, name)
        delete(ports, world, name)
        assert versions(ports, name) == [1]
    world.now += HOLD
    for name in names[:-1]:
        end(ports, world, name)

    for name in ("s12", "s13"):
        put(ports, world, name)
        delete(ports, world, name)

    assert ports.spiders.deleted("default", "docs", None, 100) == [names[-1]]


def fields(caught: pytest.ExceptionInfo[InvalidRequestError]) -> list[str]:
    return [problem.field for problem in caught.value.problems]


def test_a_spider_is_kept_and_distinguished_from_what_stands(ports, world):
    first, new = put(ports, world, pool="far")
    again, other = put(ports, world, pool="far")
    changed, third = put(ports, world, pool="main")

    assert (new, other, third) == (True, False, True)
    assert (first.version, again, changed.version) == (1, first, 2)
    assert ports.get(world.tree, "default", "docs", "all", 1) == first
    assert ports.get(world.tree, "default", "docs", "all", None) == changed
    assert ports.list_versions(world.tree, "default", "docs", "all") == [changed, first]


def test_every_error_is_named_and_nothing_kept(ports, world):
    start = Start(pattern="https://{host}/", values={"y": ("a", "a")})
    link = LinkNeeds(test_url="ftp://a.example/")

    with pytest.raises(InvalidRequestError) as caught:
        put(ports, world, rule="none", start=start, link=link, pool="moon")

    assert fields(caught) == [
        "start.pattern",
        "start.values.y",
        "start.values.y",
        "rule",
        "link.test_url",
        "pool",
    ]
    assert ports.spiders.of_biz("default", "docs", None, 9) == []


def test_urls_that_may_not_be_submitted_are_refused(ports, world):
    with pytest.raises(InvalidRequestError) as caught:
        put(ports, world, start=Start(urls=("https://a.example/", "https://user:x@a.example/")))
    assert fields(caught) == ["start.urls[1]"]

    with pytest.raises(InvalidRequestError) as caught:
        put(ports, world, start=Start(pattern="https://a.example:99999/{p}"))
    assert fields(caught) == ["start.pattern"]


def test_a_plan_is_bounded(ports, world):
    urls = tuple(f"https://a.example/{n}/{'x' * 1_000}" for n in range(LARGEST_PLAN // 1_000))

    with pytest.raises(InvalidRequestError) as caught:
        put(ports, world, start=Start(urls=urls))

    assert fields(caught) == ["start"]
    put(ports, world, start=Start(urls=urls[: len(urls) // 2]))


def test_what_the_configuration_has_is_listed_first(ports, world):
    for name in ("b", "a", "page"):
        put(ports, world, name)
    found = []
    cursor, more = None, True
    while more:
        page = ports.list_all(world.tree, "default", "docs", cursor=cursor, limit=1)
        found += [(type(one).__name__, one.name) for one in page.items]
        cursor, more = page.cursor, page.more

    configured = [("ConfiguredSpider", name) for name in sorted(world.biz.readers)]
    assert found == [*configured, *(("KeptSpider", name) for name in ("a", "b", "page"))]
    rest = ports.list_all(world.tree, "default", "docs", cursor=cursor, limit=9)
    assert (rest.items, rest.cursor, rest.more) == ([], cursor, False)
    whole = ports.list_all(world.tree, "default", "docs", cursor=None, limit=len(found))
    assert ([one.name for one in whole.items], whole.more) == ([name for _, name in found], False)


@pytest.mark.parametrize("cursor", ["", "x", "c.", "k./", "z.page", "k." + "a" * 65])
def test_a_cursor_of_another_list_is_refused(ports, world, cursor):
    with pytest.raises(InvalidRequestError, match="cursor"):
        ports.list_all(world.tree, "default", "docs", cursor=cursor, limit=1)


def test_a_rule_is_shown_where_nothing_is_kept_of_that_name(ports, world):
    found = ports.get(world.tree, "default", "docs", "page", None)

    assert found == ConfiguredSpider(
        name="page",
        version=world.biz.rules["page"].version,
        executor=None,
        description=world.biz.rules["page"].description,
    )
    with pytest.raises(NotFoundError):
        ports.get(world.tree, "default", "docs", "page", 1)


def test_what_schedules_start_is_not_deleted(ports, world):
    put(ports, world)
    put(ports, world, "other")
    planning = ScheduleService(schedules=ports.schedules, spiders=ports.spiders)
    for number in range(7):
        planning.put(world.tree, schedule_of(1, name=f"s{number}"), world.now)
    planning.put(world.tree, schedule_of(1, name="t", spider="other"), world.now)
    with pytest.raises(ConflictError, match=r"s0, s1, s2, s3, s4 and 2 more"):
        delete(ports, world)

    for number in range(7):
        ports.schedules.delete("default", "docs", f"s{number}")
    world.now += HOLD
    delete(ports, world)
    with pytest.raises(NotFoundError):
        delete(ports, world)
    with pytest.raises(NotFoundError):
        ports.list_versions(world.tree, "default", "docs", "all")


def test_who_deletes_second_is_reported_that_there_is_none(ports, world):
    put(ports, world)

    class Quicker:
        """A spider store where another caller deletes the spider just before."""

        def delete(self, *key):
            assert ports.spiders.delete(*key)
            return ports.spiders.delete(*key)

        def __getattr__(self, name):
            return getattr(ports.spiders, name)

    with pytest.raises(NotFoundError):
        delete(replace(ports, spiders=Quicker()), world)


def test_there_has_to_be_a_biz(ports, world):
    with pytest.raises(UnknownBizError):
        put(ports, world, biz="nothing")
    with pytest.raises(UnknownBizError):
        ports.list_all(world.tree, "rival", "docs", cursor=None, limit=1)


@pytest.mark.parametrize(
    ("order", "fields"),
    [
        ({}, ["start"]),
        ({"start": Start()}, ["start.urls"]),
        ({"rule": "nothing", "start": PATTERN, "values": {"x": "1"}}, ["rule"]),
    ],
)
def test_an_order_without_a_spider_says_which_rule_reads_what(world, ports, order, fields):
    starting = JobStarter(jobs=ports.jobs, spiders=ports.spiders, rules=world.rules)
    wanted = JobOrder(tenant="default", biz="docs", by="api", **order)

    with pytest.raises(InvalidRequestError) as refused:
        starting.start(world.tree, wanted, world.now)

    assert [problem.field for problem in refused.value.problems] == fields
