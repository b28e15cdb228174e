"""ports.ScheduleStore over memory and a real MongoDB."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import msgspec
import pytest

from crawlfleet.adapters.memory.schedules import MemorySchedules
from crawlfleet.adapters.mongo.schedules import MongoSchedules
from crawlfleet.model.schedule import Fire, Missed, Schedule
from crawlfleet.ports import ScheduleStore
from tests.contract.store_cases import nodes_at

NOON = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "mongo"])
def store(request: pytest.FixtureRequest) -> Iterator[ScheduleStore]:
    if request.param == "memory":
        yield MemorySchedules()
        return
    with nodes_at(request.getfixturevalue("mongo_uri")) as nodes:
        yield MongoSchedules(nodes)


def a_schedule(tenant: str, name: str = "daily", **changes: object) -> Schedule:
    facts: dict = {
        "tenant": tenant,
        "biz": "shop",
        "name": name,
        "cron": "0 12 * * *",
        "time_zone": "Europe/Vienna",
        "rule": "detail",
        "urls": ("https://site.example/a", "https://site.example/ü"),
        "next_at": NOON,
    }
    return Schedule(**{**facts, **changes})


def a_fire(tenant: str, ids: tuple = (1, "ab" * 16), **changes: object) -> Fire:
    facts: dict = {
        "tenant": tenant,
        "biz": "shop",
        "schedule": "daily",
        "fire_at": NOON,
        "queued_at": NOON + timedelta(milliseconds=7),
        "ids": ids,
        "rule_version": "v1",
    }
    return Fire(**{**facts, **changes})


def due(store: ScheduleStore, tenant: str, now: datetime) -> list[str]:
    return [s.name for s in store.due(now, 10_000) if s.tenant == tenant]


def test_a_schedule_is_kept_replaced_listed_and_deleted(store: ScheduleStore, tenant: str) -> None:
    first = a_schedule(tenant, missed=Missed.LATEST, last_fired_at=NOON - HOUR)
    other = a_schedule(tenant, "another", enabled=False, next_at=None)
    store.put(first)
    store.put(other)

    assert store.get(tenant, "shop", "daily") == first
    assert store.of_biz(tenant, "shop") == [other, first]
    store.put(a_schedule(tenant, cron="0 13 * * *"))
    assert store.get(tenant, "shop", "daily").cron == "0 13 * * *"
    assert store.delete(tenant, "shop", "daily") is True
    assert store.delete(tenant, "shop", "daily") is False
    assert store.get(tenant, "shop", "daily") is None
    assert store.of_biz(tenant, "shop") == [other]


def test_due_are_those_whose_time_has_come_oldest_first(store: ScheduleStore, tenant: str) -> None:
    past = NOON - timedelta(days=10_000)  # before anything that other tests leave
    store.put(a_schedule(tenant, "late", next_at=past + HOUR))
    store.put(a_schedule(tenant, "early", next_at=past))
    store.put(a_schedule(tenant, "off", next_at=past, enabled=False))
    store.put(a_schedule(tenant, "never", next_at=None))

    assert due(store, tenant, past - HOUR) == []
    assert due(store, tenant, past) == ["early"]
    assert due(store, tenant, past + HOUR) == ["early", "late"]
    assert len(store.due(NOON, 1)) == 1
    for name in ("late", "early"):
        store.delete(tenant, "shop", name)


def test_a_fire_time_is_opened_once_whoever_comes(store: ScheduleStore, tenant: str) -> None:
    start = Barrier(8)

    def open_one(number: int) -> Fire:
        start.wait()
        return store.open_fire(a_fire(tenant, ids=(number,)))

    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(open_one, range(8)))

    assert len({fire.ids for fire in opened}) == 1
    assert store.open_fire(a_fire(tenant, ids=(99,))) == opened[0]
    later = a_fire(tenant, fire_at=NOON + HOUR)
    assert store.open_fire(later) == later
    assert store.open_fire(a_fire(tenant + "b")) == a_fire(tenant + "b")
    snowflake = store.open_fire(a_fire(tenant + "c", ids=(2**60,)))
    assert type(snowflake.ids[0]) is int


def test_a_closed_fire_says_so(store: ScheduleStore, tenant: str) -> None:
    store.close_fire(a_fire(tenant))  # none there: no effect
    fire = store.open_fire(a_fire(tenant))
    assert fire.done is False

    store.close_fire(fire)

    assert store.open_fire(a_fire(tenant)) == msgspec.structs.replace(fire, done=True)


def test_a_schedule_advances_once_over_all_schedulers(store: ScheduleStore, tenant: str) -> None:
    schedule = a_schedule(tenant)
    store.put(schedule)
    start = Barrier(6)

    def advance(_: int) -> bool:
        start.wait()
        return store.advance(schedule, NOON, NOON + HOUR)

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(advance, range(6))) == [False] * 5 + [True]

    kept = store.get(tenant, "shop", "daily")
    assert (kept.next_at, kept.last_fired_at) == (NOON + HOUR, NOON)
    assert store.advance(kept, NOON + HOUR, None) is True
    assert due(store, tenant, NOON + 9 * HOUR) == []


def test_a_schedule_edited_meanwhile_does_not_advance(store: ScheduleStore, tenant: str) -> None:
    schedule = a_schedule(tenant)
    store.put(a_schedule(tenant, cron="5 5 * * *"))

    assert store.advance(schedule, NOON, NOON + HOUR) is False
    assert store.advance(a_schedule(tenant, "unknown"), NOON, NOON + HOUR) is False
    assert store.get(tenant, "shop", "daily").last_fired_at is None


def test_a_tenant_cannot_see_or_touch_the_schedules_of_another(
    store: ScheduleStore, tenant: str
) -> None:
    mine = a_schedule(tenant)
    store.put(mine)
    other = tenant + "b"

    assert store.get(other, "shop", "daily") is None
    assert store.of_biz(other, "shop") == []
    assert store.delete(other, "shop", "daily") is False
    assert store.advance(a_schedule(other), NOON, NOON + HOUR) is False
    store.put(a_schedule(other, cron="1 1 * * *"))
    assert store.get(tenant, "shop", "daily") == mine
