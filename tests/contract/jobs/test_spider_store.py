"""ports.SpiderStore over memory and a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from msgspec.structs import replace

from tests.kit.implementations import Backend, backend_over
from tests.kit.kernel import QuotaExceededError
from tests.kit.mongo_nodes import nodes_at
from tests.kit.spiders import HOLD, LinkNeeds, MongoSpiders, Range, SpiderPlan, Start

NOON = datetime.now(UTC).replace(microsecond=123_000)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


backend = backend_over(MongoSpiders)


@pytest.fixture
def store(backend: Backend) -> MongoSpiders:
    return backend[MongoSpiders]


def a_plan(page: str = "page", **changes: object) -> SpiderPlan:
    start = Start(
        pattern="https://site.example/{zone}/{page}?of={kind}",
        values={"zone": ("ü", "a b"), "page": Range(last=100)},
    )
    return replace(SpiderPlan(rule=page, start=start), **changes)


def test_every_field_of_a_plan_is_kept(store: MongoSpiders, tenant: str) -> None:
    plan = a_plan(
        priority=9,
        pool="europe",
        description="Käse.$ {} \N{SNOWMAN}",
        link=LinkNeeds(test_url="https://site.example/t", seconds_below=0.5),
    )

    made = store.put(tenant, "shop", "all", plan, NOON + timedelta(microseconds=7))

    assert (made.tenant, made.biz, made.name, made.version) == (tenant, "shop", "all", 1)
    assert (made.plan, made.put_at) == (plan, NOON)
    assert store.get(tenant, "shop", "all") == made == store.get(tenant, "shop", "all", 1)
    kept = store.get(tenant, "shop", "all").plan
    assert list(kept.start.values) == ["zone", "page"]


def test_a_plan_that_is_put_again_makes_no_version_and_another_one_does(
    store: MongoSpiders, tenant: str
) -> None:
    first = store.put(tenant, "shop", "all", a_plan(), NOON)
    again = store.put(tenant, "shop", "all", a_plan(), NOON + HOUR)
    reported = store.put(tenant, "shop", "all", a_plan(description="new words"), NOON + HOUR)
    second = store.put(tenant, "shop", "all", a_plan(priority=1), NOON + HOUR)
    back = store.put(tenant, "shop", "all", a_plan(), NOON + 2 * HOUR)

    assert again == first
    assert reported == replace(first, plan=a_plan(description="new words"))
    assert [second.version, back.version] == [2, 3]
    assert store.get(tenant, "shop", "all") == back
    assert store.versions(tenant, "shop", "all", 10) == [back, second, reported]
    assert store.versions(tenant, "shop", "all", 1) == [back]
    assert store.get(tenant, "shop", "all", 1) == reported
    assert store.get(tenant, "shop", "all", 4) is None


def test_another_order_of_the_values_is_another_plan(store: MongoSpiders, tenant: str) -> None:
    plan = a_plan()
    turned = replace(plan.start, values=dict(reversed(plan.start.values.items())))

    store.put(tenant, "shop", "all", plan, NOON)

    assert store.put(tenant, "shop", "all", replace(plan, start=turned), NOON).version == 2


def test_those_who_put_at_once_make_a_version_each(store: MongoSpiders, tenant: str) -> None:
    start = Barrier(8)

    def put(number: int) -> int:
        start.wait()
        return store.put(tenant, "shop", "all", a_plan(f"r{number}"), NOON).version

    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(put, range(8)))

    assert sorted(versions) == list(range(1, 9))
    kept = store.versions(tenant, "shop", "all", 100)
    assert {f"r{number}" for number in range(8)} == {one.plan.rule for one in kept}
    assert store.get(tenant, "shop", "all") == kept[0]


def test_the_same_plan_put_at_once_is_one_version(store: MongoSpiders, tenant: str) -> None:
    start = Barrier(6)

    def put(_: int) -> int:
        start.wait()
        return store.put(tenant, "shop", "all", a_plan(), NOON).version

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(put, range(6))) == {1}

    assert len(store.versions(tenant, "shop", "all", 100)) == 1


def test_spiders_are_listed_by_name_page_by_page(store: MongoSpiders, tenant: str) -> None:
    for name in ("b", "a", "a-1", "0"):
        store.put(tenant, "shop", name, a_plan(), NOON)
        store.put(tenant, "shop", name, a_plan(priority=2), NOON)
    store.put(tenant, "books", "z", a_plan(), NOON)

    assert [one.name for one in store.of_biz(tenant, "shop", None, 10)] == ["0", "a", "a-1", "b"]
    page = store.of_biz(tenant, "shop", "0", 2)
    assert [(one.name, one.version) for one in page] == [("a", 2), ("a-1", 2)]
    assert store.of_biz(tenant, "shop", "b", 2) == []


def test_of_a_deleted_spider_what_is_named_stays_until_it_is_named_no_more(
    store: MongoSpiders, tenant: str
) -> None:
    first = store.put(tenant, "shop", "all", a_plan(), NOON)
    store.put(tenant, "shop", "all", a_plan(priority=1), NOON)

    assert store.delete(tenant, "shop", "all") is True
    assert store.delete(tenant, "shop", "all") is False
    assert store.forget(tenant, "shop", "all", {1}, NOON) == 1

    assert store.get(tenant, "shop", "all") is None
    assert store.of_biz(tenant, "shop", None, 10) == []
    assert store.get(tenant, "shop", "all", 1) == first
    assert store.get(tenant, "shop", "all", 2) is None
    assert store.deleted(tenant, "shop", None, 10) == ["all"]
    assert store.forget(tenant, "shop", "all", set(), NOON) == 1
    assert store.forget(tenant, "shop", "all", set(), NOON) == 0
    assert store.get(tenant, "shop", "all", 1) is None
    assert store.deleted(tenant, "shop", None, 10) == []
    # A number that a job names stands for one plan, also when the job has ended.
    latest = store.put(tenant, "shop", "all", a_plan("other"), NOON)
    assert latest.version == 3
    assert store.get(tenant, "shop", "all") == latest
    assert store.versions(tenant, "shop", "all", 10) == [latest]


def test_what_is_held_stays_until_what_names_it_must_have_been_kept(
    store: MongoSpiders, tenant: str
) -> None:
    first = store.put(tenant, "shop", "all", a_plan(), NOON)
    store.hold(first, NOON - HOUR)
    store.hold(first, NOON)
    store.delete(tenant, "shop", "all")

    assert store.forget(tenant, "shop", "all", (), NOON + HOLD - SECOND) == 0
    assert store.get(tenant, "shop", "all", 1) == first
    assert store.forget(tenant, "shop", "all", (), NOON + HOLD) == 1
    assert store.get(tenant, "shop", "all", 1) is None


def test_deleted_spiders_are_listed_by_name_as_long_as_they_have_versions(
    store: MongoSpiders, tenant: str
) -> None:
    for name in ("c", "a", "b", "d"):
        store.put(tenant, "shop", name, a_plan(), NOON)
        if name != "d":
            store.delete(tenant, "shop", name)

    assert store.deleted(tenant, "shop", None, 2) == ["a", "b"]
    assert store.deleted(tenant, "shop", "a", 9) == ["b", "c"]
    assert store.deleted(tenant, "books", None, 9) == []
    assert store.deleted(tenant + "b", "shop", None, 9) == []
    store.forget(tenant, "shop", "b", (), NOON)
    store.put(tenant, "shop", "c", a_plan("other"), NOON)
    assert store.deleted(tenant, "shop", None, 9) == ["a"]


def test_who_starts_a_job_while_its_spider_is_deleted_keeps_the_version(
    store: MongoSpiders, tenant: str
) -> None:
    first = store.put(tenant, "shop", "all", a_plan(), NOON)
    store.delete(tenant, "shop", "all")
    store.forget(tenant, "shop", "all", (), NOON)

    store.hold(first, NOON)

    assert store.get(tenant, "shop", "all") is None
    assert store.get(tenant, "shop", "all", 1) == first
    assert store.deleted(tenant, "shop", None, 9) == ["all"]
    latest = store.put(tenant, "shop", "all", a_plan("other"), NOON)
    assert store.get(tenant, "shop", "all") == latest
    assert (latest.version, store.get(tenant, "shop", "all", 1)) == (2, first)


def test_old_versions_are_forgotten_unless_they_are_named_or_held(
    backend: Backend, tenant: str
) -> None:
    store = backend.make(MongoSpiders, most_versions=3)
    made = [store.put(tenant, "shop", "all", a_plan(f"r{number}"), NOON) for number in range(7)]
    store.hold(made[3], NOON)
    assert len(store.versions(tenant, "shop", "all", 100)) == 7

    assert store.forget(tenant, "shop", "all", [2, 7, 99], NOON) == 2

    assert [one.version for one in store.versions(tenant, "shop", "all", 100)] == [7, 6, 5, 4, 2]
    assert store.get(tenant, "shop", "all", 2) == made[1]
    assert store.get(tenant, "shop", "all", 3) is None
    assert store.forget(tenant, "shop", "all", (), NOON + HOLD) == 2
    assert [one.version for one in store.versions(tenant, "shop", "all", 100)] == [7, 6, 5]
    assert store.get(tenant, "shop", "all") == made[-1]


def test_of_what_was_never_kept_nothing_is_forgotten(store: MongoSpiders, tenant: str) -> None:
    store.put(tenant, "shop", "all", a_plan(), NOON)

    assert store.forget(tenant, "shop", "none", (), NOON) == 0
    assert store.forget(tenant + "b", "shop", "all", (), NOON) == 0
    assert len(store.versions(tenant, "shop", "all", 9)) == 1


def test_a_biz_keeps_so_many_spiders_and_no_more(backend: Backend, tenant: str) -> None:
    store = backend.make(MongoSpiders, most_spiders=2)
    for name in ("a", "b"):
        store.put(tenant, "shop", name, a_plan(), NOON)

    with pytest.raises(QuotaExceededError, match="at most 2 spiders"):
        store.put(tenant, "shop", "c", a_plan(), NOON)

    assert store.put(tenant, "shop", "a", a_plan(priority=1), NOON).version == 2
    store.put(tenant, "books", "c", a_plan(), NOON)
    store.delete(tenant, "shop", "b")
    store.put(tenant, "shop", "c", a_plan(), NOON)
    with pytest.raises(QuotaExceededError):
        store.put(tenant, "shop", "b", a_plan(), NOON)


def test_a_tenant_cannot_see_or_touch_the_spiders_of_another(
    store: MongoSpiders, tenant: str
) -> None:
    mine = store.put(tenant, "shop", "all", a_plan(), NOON)
    other = tenant + "b"

    assert store.get(other, "shop", "all") is None
    assert store.get(other, "shop", "all", 1) is None
    assert store.of_biz(other, "shop", None, 10) == []
    assert store.versions(other, "shop", "all", 10) == []
    assert store.delete(other, "shop", "all") is False
    store.put(other, "shop", "all", a_plan("other"), NOON)
    assert store.get(tenant, "shop", "all") == mine


def test_a_version_whose_writer_died_is_shown_by_the_next_one(mongo_uri: str, tenant: str) -> None:
    with nodes_at(mongo_uri) as nodes:
        store = MongoSpiders(nodes)
        store.put(tenant, "shop", "all", a_plan(), NOON)
        heads = nodes.control("spiders")
        [head] = heads.find({"_id": {"$regex": f"^{tenant}/"}})
        store.put(tenant, "shop", "all", a_plan("lost"), NOON)
        heads.replace_one({"_id": head["_id"]}, head)  # the version is written, and not shown

        fresh = MongoSpiders(nodes)
        assert fresh.get(tenant, "shop", "all").version == 1
        assert fresh.put(tenant, "shop", "all", a_plan("next"), NOON).version == 3

        assert [one.plan.rule for one in fresh.versions(tenant, "shop", "all", 9)] == [
            "next",
            "lost",
            "page",
        ]


def test_a_spider_of_another_release_is_left_out_of_lists(
    mongo_uri: str, tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    with nodes_at(mongo_uri) as nodes:
        store = MongoSpiders(nodes)
        for name in ("a", "b"):
            store.put(tenant, "shop", name, a_plan(), NOON)
        nodes.control("spiders").update_one(
            {"_id": f"{tenant}/shop/a"}, {"$set": {"plan": b'{"rule": "page", "later": 1}'}}
        )

        assert [one.name for one in store.of_biz(tenant, "shop", None, 10)] == ["b"]

    assert "a kept spider cannot be read" in caplog.text
