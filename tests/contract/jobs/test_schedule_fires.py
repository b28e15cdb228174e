"""Once per fire time over a real MongoDB: schedulers at once, late, dying between two steps."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import msgspec
import pytest
from msgspec.structs import replace

from tests.kit.config import Tenant, Tree
from tests.kit.mongo import MongoNodes
from tests.kit.mongo_nodes import nodes_at
from tests.kit.schedules import MongoSchedules, OutcomeKind, Overlap, Schedule
from tests.kit.submission import fire_name
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import make_biz, make_tree
from tests.kit.worlds.schedules import Clocked, at

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def nodes(mongo_uri: str) -> Iterator[MongoNodes]:
    with nodes_at(mongo_uri) as found:
        yield found


class OneTenants(MongoSchedules):
    """Schedules in MongoDB, with the due ones of one tenant alone."""

    def __init__(self, nodes: MongoNodes, tenant: str) -> None:
        super().__init__(nodes)
        self._tenant = tenant

    def due(self, now, limit):
        return [each for each in super().due(now, 100_000) if each.tenant == self._tenant][:limit]


@pytest.fixture
def world(nodes: MongoNodes, tenant: str) -> Clocked:
    tree: Tree = replace(
        make_tree(), tenants={tenant: Tenant()}, bizs={tenant: {"docs": make_biz()}}
    )
    return Clocked(OneTenants(nodes, tenant), tree)


@pytest.fixture
def get(world: Clocked, tenant: str) -> Callable[[], Schedule]:
    def found() -> Schedule:
        schedule = world.schedules.get(tenant, "docs", "hourly")
        assert schedule is not None
        return schedule

    return found


@pytest.mark.parametrize("overlap", list(Overlap))
def test_schedulers_at_once_start_one_job_for_each_fire_time(world, tenant, get, overlap):
    world.put(tenant=tenant, overlap=overlap)
    world.now += 3 * HOUR
    start = Barrier(4)

    def tick(_: int) -> int:
        start.wait()
        return world.tick()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tick, range(4)))
    world.tick()

    expected = {
        Overlap.ALLOW: [13, 14, 15],
        Overlap.SKIP: [13],
        Overlap.QUEUE: [13],
        Overlap.REPLACE: [13, 14, 15],
    }[overlap]
    assert sorted(world.names()) == [fire_name("hourly", at(hour)) for hour in expected]
    assert world.jobs.created == len(expected)
    assert get().fire_at == (at(14) if overlap is Overlap.QUEUE else at(16))


def test_a_scheduler_that_dies_between_the_job_and_the_schedule_is_made_good(world, tenant, get):
    world.put(tenant=tenant, overlap=Overlap.SKIP)
    world.now += HOUR
    healthy, world.schedules = world.schedules, Failing(world.schedules, advance=1)
    assert world.tick() == 0
    assert (world.jobs.created, get().fire_at) == (1, at(13))

    world.schedules = healthy

    assert world.tick() == 1
    assert (world.jobs.created, get().last_outcome.kind) == (1, OutcomeKind.STARTED)
    assert get().fire_at == at(14)


def test_a_tick_replayed_with_an_old_list_changes_nothing(world, tenant, get):
    world.put(tenant=tenant, overlap=Overlap.REPLACE)
    world.now += HOUR
    stale = world.schedules.due(world.now, 10)
    world.tick()
    world.now += HOUR
    world.tick()
    before, jobs = get(), dict(world.jobs.kept)

    class Stale:
        def due(self, now, limit):
            return stale

        def __getattr__(self, name):
            return getattr(world.schedules, name)

    firing = replace_ports(world, Stale())
    assert firing.run_due(world.tree, world.now, lambda: 120.0) == 0
    assert (get(), world.jobs.kept) == (before, jobs)


def replace_ports(world, schedules):
    kept, world.schedules = world.schedules, schedules
    try:
        return world.firing
    finally:
        world.schedules = kept


# ---- documents of the version before -------------------------------------------------------------


def old_document(tenant: str) -> dict[str, object]:
    return {
        "_id": f"{tenant}/docs/hourly",
        "tenant": tenant,
        "biz": "docs",
        "name": "hourly",
        "cron": "0 * * * *",
        "time_zone": "UTC",
        "rule": "page",
        "urls": ["https://example.org/1"],
        "missed": "all",
        "enabled": True,
        "next_at": at(13),
        "last_fired_at": at(12),
    }


def test_a_schedule_of_the_version_before_goes_on_as_it_did(world, tenant, get, nodes):
    nodes.control("schedules").insert_one(old_document(tenant))
    old = get()
    assert (old.version, old.fire_at, old.overlap) == (1, at(13), Overlap.ALLOW)
    # What was put before there was a choice reads as often as it did.
    assert old.segment == "biz"
    assert [each.version for each in world.schedules.versions(tenant, "docs", "hourly", 9)] == [1]
    world.now += HOUR

    assert world.tick() == 1

    assert (get().fire_at, get().next_at, get().last_fired_at) == (at(14), at(14), at(13))
    changed = world.put(tenant=tenant, priority=1)
    assert (changed.version, get().segment) == (2, None)
    versions = world.schedules.versions(tenant, "docs", "hourly", 9)
    assert [(each.version, each.put_at is None) for each in versions] == [(2, False), (1, True)]


def test_a_scheduler_of_the_version_before_may_still_go_on_from_a_fire_time(
    world, tenant, get, nodes
):
    """The older version updates ``next_at`` alone, while a deployment is under way."""
    world.put(tenant=tenant)
    nodes.control("schedules").update_one(
        {"_id": f"{tenant}/docs/hourly", "next_at": at(13)},
        {"$set": {"next_at": at(14), "last_fired_at": at(13)}},
    )
    assert get().fire_at == at(14)
    world.now += 2 * HOUR

    assert world.tick() == 1

    assert world.names() == [fire_name("hourly", at(14))]
    assert get().fire_at == at(15)


def test_a_paused_schedule_of_the_version_before_can_be_resumed(world, tenant, get, nodes):
    document = {**old_document(tenant), "enabled": False, "next_at": None}
    nodes.control("schedules").insert_one(document)
    world.now += 5 * HOUR

    assert world.put(tenant=tenant, urls=("https://example.org/1",)).next_at == at(18)
    assert get().version == 2


def test_what_is_kept_of_a_schedule_is_plain(world, tenant, nodes):
    """So that people, and versions to come, can read it."""
    world.put(tenant=tenant)
    document = nodes.control("schedules").find_one({"_id": f"{tenant}/docs/hourly"})

    assert msgspec.json.decode(msgspec.json.encode(document))["overlap"] == "allow"
