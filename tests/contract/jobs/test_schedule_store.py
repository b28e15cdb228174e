"""ports.ScheduleStore over memory and a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import msgspec

from tests.kit.implementations import fixture_over
from tests.kit.schedules import (
    SCAN_GAP,
    Missed,
    MongoSchedules,
    Outcome,
    OutcomeKind,
    Overlap,
    Schedule,
)
from tests.kit.spiders import Range, Start

NOON = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


store = fixture_over(MongoSchedules)


def a_schedule(tenant: str, name: str = "daily", **changes: object) -> Schedule:
    facts: dict = {
        "tenant": tenant,
        "biz": "shop",
        "name": name,
        "cron": "0 12 * * *",
        "time_zone": "Europe/Vienna",
        "rule": "detail",
        "urls": ("https://site.example/a", "https://site.example/ü"),
        "fire_at": NOON,
        "next_at": NOON,
    }
    return Schedule(**{**facts, **changes})


def everything(tenant: str, **changes: object) -> Schedule:
    """A schedule whose fields all differ from what they usually are."""
    return a_schedule(
        tenant,
        rule=None,
        urls=(),
        start=Start(pattern="https://a.example/{n}/{x}", values={"n": Range(last=2**53)}),
        spider="shop_2",
        spider_version=7,
        values={"x": "y"},
        priority=0,
        overlap=Overlap.QUEUE,
        missed=Missed.SKIP,
        tolerance_seconds=61,
        jitter_seconds=3_600,
        version=3,
        put_at=NOON - HOUR,
        next_at=NOON + timedelta(seconds=17),
        last_fired_at=NOON - 24 * HOUR,
        last_outcome=Outcome(
            kind=OutcomeKind.SKIPPED, fire_at=NOON - HOUR, at=NOON, job="j", why="it had to be"
        ),
        last_failure=Outcome(
            kind=OutcomeKind.WAITING, fire_at=NOON - HOUR, at=NOON, why="why", as_meant=True
        ),
        **changes,
    )


def due(store: MongoSchedules, tenant: str, now: datetime) -> list[str]:
    return [s.name for s in store.due(now, 10_000) if s.tenant == tenant]


def test_a_schedule_is_kept_replaced_listed_and_deleted(store: MongoSchedules, tenant: str) -> None:
    first = a_schedule(tenant, missed=Missed.LATEST, last_fired_at=NOON - HOUR)
    other = a_schedule(tenant, "another", enabled=False, fire_at=None, next_at=None)
    assert store.put(first, None) is True
    assert store.put(other, None) is True

    assert store.get(tenant, "shop", "daily") == first
    assert store.of_biz(tenant, "shop") == [other, first]
    assert store.count(tenant, "shop") == 2
    assert store.put(a_schedule(tenant, cron="0 13 * * *", version=2), first) is True
    assert store.get(tenant, "shop", "daily").cron == "0 13 * * *"
    assert store.delete(tenant, "shop", "daily") is True
    assert store.delete(tenant, "shop", "daily") is False
    assert store.get(tenant, "shop", "daily") is None
    assert store.of_biz(tenant, "shop") == [other]


def test_every_field_of_a_schedule_comes_back(store: MongoSchedules, tenant: str) -> None:
    schedule = everything(tenant)
    store.put(schedule, None)

    assert store.get(tenant, "shop", "daily") == schedule
    changed = msgspec.structs.replace(schedule, urls=("https://b.example/",), version=4)
    assert store.put(changed, schedule) is True
    assert store.get(tenant, "shop", "daily") == changed


def test_only_what_stands_is_replaced(store: MongoSchedules, tenant: str) -> None:
    first = a_schedule(tenant)
    second = a_schedule(tenant, version=2, priority=1)
    assert store.put(second, first) is False, "nothing stands"
    store.put(first, None)
    assert store.put(second, None) is False, "something does"
    store.put(second, first)

    assert store.put(a_schedule(tenant, version=2, priority=2), first) is False
    store.advance(second, msgspec.structs.replace(second, fire_at=NOON + HOUR, next_at=NOON + HOUR))
    third = a_schedule(tenant, version=3)
    assert store.put(third, second) is False, "it has fired meanwhile"
    standing = store.get(tenant, "shop", "daily")
    assert (standing.priority, standing.fire_at) == (1, NOON + HOUR)
    assert store.put(third, standing) is True


def test_of_many_that_put_at_once_one_does(store: MongoSchedules, tenant: str) -> None:
    start = Barrier(6)

    def put(number: int) -> bool:
        start.wait()
        return store.put(a_schedule(tenant, priority=number), None)

    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(put, range(6)))

    assert sorted(done) == [False] * 5 + [True]
    assert store.get(tenant, "shop", "daily").priority == done.index(True)


def test_the_last_fifty_versions_are_kept_as_they_were_put(
    store: MongoSchedules, tenant: str
) -> None:
    standing = everything(tenant)
    store.put(standing, None)
    for number in range(4, 56):
        changed = msgspec.structs.replace(standing, version=number, priority=number % 10)
        assert store.put(changed, standing)
        standing = changed

    found = store.versions(tenant, "shop", "daily", 60)

    assert [each.version for each in found] == list(range(55, 5, -1))
    kept = ("fire_at", "next_at", "last_fired_at", "last_outcome", "last_failure")
    assert found[0] == msgspec.structs.replace(standing, **dict.fromkeys(kept))
    assert [each.priority for each in found[:3]] == [5, 4, 3]
    assert len(store.versions(tenant, "shop", "daily", 3)) == 3
    assert store.versions(tenant + "b", "shop", "daily", 3) == []
    store.delete(tenant, "shop", "daily")
    assert store.versions(tenant, "shop", "daily", 3) == []
    store.put(a_schedule(tenant), None)
    assert [each.version for each in store.versions(tenant, "shop", "daily", 9)] == [1]


def test_due_are_those_whose_time_has_come_oldest_first(store: MongoSchedules, tenant: str) -> None:
    past = NOON - timedelta(days=10_000)  # before anything that other tests leave
    store.put(a_schedule(tenant, "late", next_at=past + HOUR), None)
    store.put(a_schedule(tenant, "early", next_at=past), None)
    store.put(a_schedule(tenant, "off", next_at=past, enabled=False), None)
    store.put(a_schedule(tenant, "never", next_at=None), None)

    assert due(store, tenant, past - HOUR) == []
    assert due(store, tenant, past) == ["early"]
    assert due(store, tenant, past + HOUR) == ["early", "late"]
    assert len(store.due(NOON, 1)) == 1
    for name in ("late", "early"):
        store.delete(tenant, "shop", name)


def on_from(schedule: Schedule, fire_at: datetime | None, **changes: object) -> Schedule:
    changes = {"fire_at": fire_at, "next_at": fire_at, **changes}
    return msgspec.structs.replace(schedule, **changes)


def test_the_next_one_that_comes_due_is_known_by_its_moment(
    store: MongoSchedules, tenant: str
) -> None:
    for name, minute, enabled in (("a", 2, True), ("b", 1, False), ("c", 3, True)):
        # Long ago, as those of other tests are not.
        next_at = NOON - 90 * HOUR + timedelta(minutes=minute)
        store.put(a_schedule(tenant, name, next_at=next_at, enabled=enabled), None)

    def next_due(after: int, until: int) -> float | None:
        first, last = (NOON - 90 * HOUR + timedelta(minutes=each) for each in (after, until))
        found = store.next_due(first, last)
        return None if found is None else (found - NOON + 90 * HOUR).total_seconds()

    assert [next_due(0, 5), next_due(2, 5), next_due(3, 5)] == [120, 180, None]
    assert [next_due(0, 2), next_due(0, 1)] == [120, None]


def test_a_schedule_advances_once_over_all_schedulers(store: MongoSchedules, tenant: str) -> None:
    schedule = a_schedule(tenant)
    store.put(schedule, None)
    start = Barrier(6)

    def advance(_: int) -> bool:
        start.wait()
        return store.advance(schedule, on_from(schedule, NOON + HOUR, last_fired_at=NOON))

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(advance, range(6))) == [False] * 5 + [True]

    kept = store.get(tenant, "shop", "daily")
    assert (kept.fire_at, kept.next_at, kept.last_fired_at) == (NOON + HOUR, NOON + HOUR, NOON)
    assert store.advance(kept, on_from(kept, None)) is True
    assert due(store, tenant, NOON + 9 * HOUR) == []


def test_what_is_put_off_keeps_its_fire_time(store: MongoSchedules, tenant: str) -> None:
    schedule = a_schedule(tenant)
    store.put(schedule, None)
    outcome = Outcome(kind=OutcomeKind.WAITING, fire_at=NOON, at=NOON, why="another has not ended")

    later = on_from(schedule, NOON, next_at=NOON + HOUR, last_outcome=outcome)
    assert store.advance(schedule, later) is True

    assert store.get(tenant, "shop", "daily") == later
    assert store.advance(schedule, on_from(schedule, NOON + HOUR)) is False, "it was read before"
    assert due(store, tenant, NOON) == []
    assert due(store, tenant, NOON + HOUR) == ["daily"]


def failed(store: MongoSchedules, schedule: Schedule) -> Schedule:
    """Keep a schedule whose last fire has failed."""
    store.put(schedule, None)
    outcome = Outcome(kind=OutcomeKind.FAILED, fire_at=NOON, at=NOON, why="no such rule")
    later = on_from(schedule, NOON, next_at=NOON + HOUR, last_outcome=outcome, last_failure=outcome)
    assert store.advance(schedule, later) is True
    return later


def failing(store: MongoSchedules, *tenants: str) -> list[tuple[str, str]]:
    return [(one.tenant, one.name) for one in store.failing(10_000) if one.tenant in tenants]


def test_those_whose_last_fire_failed_are_listed_until_one_works(
    store: MongoSchedules, tenant: str
) -> None:
    store.put(a_schedule(tenant, "well"), None)
    schedule = failed(store, a_schedule(tenant))

    [found] = [one for one in store.failing(10_000) if one.tenant == tenant]

    assert found == msgspec.structs.replace(schedule, urls=()), "what it crawls is not read"
    started = Outcome(kind=OutcomeKind.STARTED, fire_at=NOON, at=NOON + HOUR, job="j")
    assert store.advance(schedule, on_from(schedule, NOON + HOUR, last_outcome=started)) is True
    assert failing(store, tenant) == []
    assert store.get(tenant, "shop", "daily").last_failure == schedule.last_failure


def test_one_that_fails_is_no_more_once_it_is_paused_changed_or_deleted(
    store: MongoSchedules, tenant: str
) -> None:
    for name in ("changed", "deleted", "paused", "stays"):
        standing = failed(store, a_schedule(tenant, name))
        later = msgspec.structs.replace(standing, version=2, put_at=NOON + HOUR)
        match name:
            case "changed":
                assert store.put(later, standing) is True
            case "deleted":
                assert store.delete(tenant, "shop", name) is True
            case "paused":
                assert store.put(on_from(later, None, enabled=False), standing) is True

    assert failing(store, tenant) == [(tenant, "stays")]


def test_one_tenants_failures_do_not_hide_anothers(store: MongoSchedules, tenant: str) -> None:
    other = f"{tenant}-b"
    for name in ("a", "b", "c"):
        failed(store, a_schedule(tenant, name))
    failed(store, a_schedule(other, "z"))

    assert failing(store, tenant, other)[:2] == [(tenant, "a"), (other, "z")]
    assert len(store.failing(2)) == 2
    assert store.failing(0) == []


def test_a_schedule_put_anew_meanwhile_does_not_advance(store: MongoSchedules, tenant: str) -> None:
    schedule = a_schedule(tenant)
    store.put(schedule, None)
    store.put(a_schedule(tenant, cron="5 5 * * *", version=2), schedule)

    assert store.advance(schedule, on_from(schedule, NOON + HOUR, last_fired_at=NOON)) is False
    unknown = a_schedule(tenant, "unknown")
    assert store.advance(unknown, on_from(unknown, NOON + HOUR)) is False
    assert store.get(tenant, "shop", "daily").last_fired_at is None


def test_a_tenant_cannot_see_or_touch_the_schedules_of_another(
    store: MongoSchedules, tenant: str
) -> None:
    mine = a_schedule(tenant)
    store.put(mine, None)
    other = tenant + "b"
    theirs = a_schedule(other)

    assert store.get(other, "shop", "daily") is None
    assert store.of_biz(other, "shop") == []
    assert store.count(other, "shop") == 0
    assert store.delete(other, "shop", "daily") is False
    assert store.advance(theirs, on_from(theirs, NOON + HOUR)) is False
    store.put(a_schedule(other, cron="1 1 * * *"), None)
    assert store.get(tenant, "shop", "daily") == mine


def test_tenants_have_their_turns(store: MongoSchedules, tenant: str) -> None:
    past = NOON - timedelta(days=20_000)  # before anything that other tests leave
    other = f"{tenant}-b"
    for number in range(4):
        at = past + timedelta(minutes=number)
        store.put(a_schedule(tenant, f"s{number}", next_at=at), None)
    store.put(a_schedule(other, "one", next_at=past + HOUR), None)

    def found(limit: int) -> list[str]:
        return [one.name for one in store.due(past + HOUR, limit)]

    assert found(2) == ["s0", "one"]
    assert found(9) == ["s0", "one", "s1", "s2", "s3"]
    for name in ("s0", "s1", "s2", "s3"):
        store.delete(tenant, "shop", name)
    store.delete(other, "shop", "one")


def test_ticks_that_come_to_no_end_are_behind_since_the_first(store: MongoSchedules) -> None:
    began = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)  # after other tests' looks
    minute = timedelta(minutes=1)
    store.end_scan()

    assert store.begin_scan(began) == began
    assert store.begin_scan(began + minute) == began
    assert store.begin_scan(began + 2 * minute) == began
    store.end_scan()
    assert store.begin_scan(began + 3 * minute) == began + 3 * minute
    late = began + 3 * minute + SCAN_GAP + minute
    assert store.begin_scan(late) == late, "none ran in between"
    store.end_scan()
