"""Records are found by job, rule, time, host and field, from either end of time, cheaply."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.contract.crawling.records.test_keyed_records import key_of, moved
from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_record,
    a_request,
    a_store,
    snowflakes,
)
from tests.kit.kernel import to_ms
from tests.kit.mongo import BY_JOB, MongoRecordSearch, MongoRequestStore, Shards
from tests.kit.requests import Done, Record, RecordFilter, all_shards, keyed_homes

SECOND = timedelta(seconds=1)


def a_library(fleet: Fleet) -> list[Record]:
    """Thirty records of two jobs and of none, half a second apart; every third has its own key."""
    made = []
    for n, request_id in enumerate(snowflakes(30, NOW)):
        job = (None, "may", "june")[n % 3]
        request = a_request(fleet.queue_key, request_id, job=job)
        assert fleet.insert([request]).refused == {}
        (claim,) = fleet.claim([request])
        at = NOW + n // 2 * SECOND
        record = replace(
            a_record(
                claim,
                0,
                at,
                title=f"page {n}",
                price=n if n % 4 else None,
                tags=["history", n] if n % 2 else [],
                **{"a.b$": "x"},
            ),
            job=job,
            rule="list" if n % 5 == 0 else "detail",
            rule_version="v2" if n >= 20 else "v1",
            url=f"https://{'WWW' if n % 2 else 'shop'}.example:8443/{n}?of=shop.example",
            key=key_of(n) if n % 7 == 0 else None,
        )
        assert fleet.settle([(claim, Done((record,)))], at) == set()
        made.append(record)
    return made


@pytest.fixture
def fleet(mongo_connection, tenant: str) -> Fleet:
    return Fleet(MongoRequestStore(mongo_connection), tenant)


@pytest.fixture
def search(fleet: Fleet) -> MongoRecordSearch:
    return MongoRecordSearch(fleet.store.shards)


def pages(fleet: Fleet, search: MongoRecordSearch, limit: int, **wanted) -> Iterator[list[Record]]:
    after = None
    for _ in range(1_000):
        page = search.find(
            fleet.queue_key, fleet.biz, RecordFilter(**wanted), after=after, limit=limit
        )
        assert len(page.records) <= limit
        yield list(page.records)
        after = page.reached
        if after is None:
            return
    raise AssertionError("a search never came to its end")


def found(fleet: Fleet, search: MongoRecordSearch, limit: int = 1_000, **wanted) -> list[str]:
    return [
        record.fields["title"] for page in pages(fleet, search, limit, **wanted) for record in page
    ]


def titles(made: list[Record], wanted) -> list[str]:
    return sorted(one.fields["title"] for one in made if wanted(one))


@pytest.mark.parametrize("limit", [1, 4, 1_000])
@pytest.mark.parametrize("newest", [False, True])
def test_records_are_found_by_what_they_are_each_once_in_their_order(
    fleet: Fleet, search, limit: int, newest: bool
) -> None:
    made = a_library(fleet)
    for wanted, is_meant in (
        ({"job": "june"}, lambda one: one.job == "june"),
        ({"job": "never"}, lambda one: False),
        ({"rule": "list"}, lambda one: one.rule == "list"),
        (
            {"rule": "list", "rule_version": "v2"},
            lambda one: (one.rule, one.rule_version) == ("list", "v2"),
        ),
        ({"host": "www.example"}, lambda one: "WWW" in one.url),
        ({"host": "example"}, lambda one: False),
        ({"field": "price"}, lambda one: one.fields["price"] is not None),
        ({"field": "price", "value": "7"}, lambda one: one.fields["price"] == 7),
        ({"field": "title", "value": "page 3"}, lambda one: one.fields["title"] == "page 3"),
        ({"field": "a.b$", "value": "x"}, lambda one: True),
        ({"field": "a"}, lambda one: False),
        ({"field": "tags", "value": "history"}, lambda one: "history" in one.fields["tags"]),
        ({"field": "tags", "value": "7"}, lambda one: 7 in one.fields["tags"]),
        ({"field": "tags", "value": '["history",7]'}, lambda one: 7 in one.fields["tags"]),
        ({"field": "tags", "value": "hist"}, lambda one: False),
        (
            {"since": NOW + 3 * SECOND, "until": NOW + 9 * SECOND},
            lambda one: NOW + 3 * SECOND <= one.stored_at < NOW + 9 * SECOND,
        ),
        (
            {"job": "may", "host": "shop.example", "since": NOW + SECOND},
            lambda one: one.job == "may" and "//shop" in one.url and one.stored_at > NOW,
        ),
        ({}, lambda one: True),
    ):
        each = [
            one for page in pages(fleet, search, limit, newest=newest, **wanted) for one in page
        ]

        times = [one.stored_at for one in each]
        assert times == sorted(times, reverse=newest), wanted
        assert sorted(one.fields["title"] for one in each) == titles(made, is_meant), wanted
        assert all(one in made for one in each), wanted


def test_a_search_reads_so_many_keys_and_says_how_far_it_came(fleet: Fleet) -> None:
    a_library(fleet)
    short = MongoRecordSearch(fleet.store.shards, scan=1, least_scan=1)

    each = list(pages(fleet, short, 1_000, field="price", value="29"))

    assert len(each) > 2
    assert [one.fields["title"] for page in each for one in page] == ["page 29"]
    both = [sorted(found(fleet, short, 2, rule="list", newest=way)) for way in (False, True)]
    assert both[0] == both[1] != []


def test_records_of_a_job_are_read_along_their_index_and_without_it_all_the_same(
    fleet: Fleet, search
) -> None:
    made = a_library(fleet)
    shards = Shards(fleet.store.nodes)
    each = [shards.records(fleet.queue_key, fleet.biz, one) for one in all_shards(fleet.biz)]
    each += [shards.keyed(fleet.queue_key, fleet.biz, one) for one in keyed_homes(fleet.biz)]
    each = [one for one in each if one.index_information()]  # something was written there
    meant = titles(made, lambda one: one.job == "june")

    # A collection that is older than the index is searched along the time.
    assert all(BY_JOB not in one.index_information() for one in each)
    assert sorted(found(fleet, search, 3, job="june")) == meant

    assert fleet.index() == []
    assert all(BY_JOB in one.index_information() for one in each)
    assert sorted(found(fleet, search, 3, job="june")) == meant
    for one in each:  # only the index of jobs is left to lead there
        one.drop_index("by_storing")
    assert sorted(found(fleet, search, 3, job="june")) == meant
    assert sorted(found(fleet, search, 3, job="june", rule="detail")) == titles(
        made, lambda one: (one.job, one.rule) == ("june", "detail")
    )
    keys = [one.find({}, hint=BY_JOB).explain()["executionStats"] for one in each]
    assert sum(stats["totalKeysExamined"] for stats in keys) == 20


@pytest.fixture
def two_nodes(mongo_uri, tenant) -> Iterator[MongoRequestStore]:
    with a_store("mongo", mongo_uri) as made:
        assert isinstance(made, MongoRequestStore)
        yield made


def test_what_a_newer_home_has_replaced_is_not_found(two_nodes, tenant: str) -> None:
    fleet = Fleet(two_nodes, tenant)
    claims = fleet.claim(fleet.submit(6))
    records = [
        replace(a_record(claim, title=f"old {n}"), key=key_of(n)) for n, claim in enumerate(claims)
    ]
    fleet.settle([(c, Done((r,))) for c, r in zip(claims[:3], records, strict=False)])
    fleet.biz = moved(NOW + SECOND)
    later = NOW + MINUTE / 2
    new = replace(records[0], stored_at=later, fields={"title": "new 0"})
    fleet.settle([(claims[3], Done((new,)))], later)
    search = MongoRecordSearch(two_nodes.shards)

    for limit in (1, 9):
        for newest in (False, True):
            titles_found = found(fleet, search, limit, newest=newest)
            assert sorted(titles_found) == ["new 0", "old 1", "old 2"]


def test_a_tenant_finds_no_other_ones_records(fleet: Fleet, search, tenant: str) -> None:
    a_library(fleet)
    theirs = Fleet(fleet.store, f"{tenant}x", a_biz())

    for wanted in ({}, {"job": "june"}, {"rule": "list"}, {"newest": True}):
        assert found(theirs, search, **wanted) == []


def test_the_position_of_a_request_stands_before_its_records(fleet: Fleet, search) -> None:
    made = a_library(fleet)

    page = search.find(
        fleet.queue_key,
        fleet.biz,
        RecordFilter(job="june"),
        after=(to_ms(NOW + 8 * SECOND), "0"),
        limit=99,
    )

    assert len(page.records) == len(
        [one for one in made if one.job == "june" and one.stored_at >= NOW + 8 * SECOND]
    )
