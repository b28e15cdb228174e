"""Priorities in MongoDB: they come back as they were stored, and recovery goes by each."""

from datetime import datetime, timedelta

import pytest

from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_request,
    a_store,
    done_with,
    entries_of,
    revocation_of,
    snowflakes,
)
from tests.kit.implementations import Backend, backend_over
from tests.kit.kernel import LEVELS
from tests.kit.mongo import BY_PRIORITY, BY_STATE, MongoRequestStore, Shards, indexing
from tests.kit.requests import Request, Retry, live_shards

SECOND = timedelta(seconds=1)


def submitted(fleet: Fleet, *priorities: int) -> list[Request]:
    """Submit one request of each priority, one second apart."""
    ids = snowflakes(len(priorities), worker=8)
    requests = [
        a_request(fleet.queue_key, an_id, NOW + n * SECOND, priority=priority)
        for n, (an_id, priority) in enumerate(zip(ids, priorities, strict=True))
    ]
    assert fleet.insert(requests).refused == {}
    return requests


def bounds(usual: datetime = NOW, **own: datetime) -> list[datetime]:
    found = [usual] * LEVELS
    for name, bound in own.items():
        found[int(name[1:])] = bound
    return found


def test_a_priority_is_kept_and_goes_with_every_entry(fleet: Fleet) -> None:
    requests = submitted(fleet, 0, 5, 10)
    revocation = revocation_of(fleet.store)
    of = (fleet.queue_key, fleet.biz)
    until = NOW + MINUTE

    assert [fleet.get(request).request.priority for request in requests] == [0, 5, 10]
    assert revocation.pending(*of, since=0, before=until, now=NOW, limit=9) == entries_of(requests)
    claims = fleet.claim(requests, worker="w")
    assert sorted(claim.request.priority for claim in claims) == [0, 5, 10]
    held = revocation.held(*of, now=NOW, limit=9)
    assert {entry for _, entry in held} == set(entries_of(requests))
    fleet.settle([(claim, Retry(until, "slow")) for claim in claims])
    waiting = revocation.waiting(*of, now=NOW, limit=9)
    assert {entry for entry, _ in waiting} == set(entries_of(requests))
    assert set(fleet.unqueued(before=NOW, now=until)) == set(entries_of(requests))


@pytest.mark.parametrize("indexed", [False, True])
def test_what_is_missing_is_reported_by_the_bound_of_its_own_priority(
    fleet: Fleet, indexed: bool
) -> None:
    requests = submitted(fleet, 0, 10, 5, 0, 10, 5, 3)
    if indexed:
        assert fleet.index() == []
    late = NOW + MINUTE

    def missing_below(*which: int, **own: datetime) -> None:
        found = fleet.unqueued(before=bounds(late, **own), now=NOW)
        assert found == entries_of([requests[n] for n in which])

    missing_below(0, 1, 2, 3, 4, 5, 6)
    missing_below(1, 2, 4, 5, 6, p0=NOW)
    missing_below(0, 1, 2, 3, 4, 6, p5=NOW + 5 * SECOND)
    missing_below(0, 1, 3, 6, p5=NOW, p10=NOW + 2 * SECOND)
    assert fleet.unqueued(before=bounds(NOW), now=NOW) == []


backend = backend_over(MongoRequestStore)


def test_where_many_of_others_wait_the_latest_are_found_and_the_oldest(
    backend: Backend, tenant: str
) -> None:
    # The in-memory fake looks at all there are.
    store = backend.make(MongoRequestStore, **({"scan": 2} if backend.connection else {}))
    fleet = Fleet(store, tenant)
    requests = submitted(fleet, 5, 0, 5, 0, 0, 5)
    fleet.index()

    found = fleet.unqueued(before=bounds(NOW + MINUTE, p0=NOW + SECOND), now=NOW)

    latest, oldest = entries_of([requests[5]]), entries_of([requests[0]])
    assert set(latest + oldest) <= set(found) <= set(entries_of([requests[n] for n in (0, 2, 5)]))


#: So many that each shard has some: what nobody has written to has no indexes.
EVERYWHERE = 200


def test_only_what_has_another_priority_than_the_usual_one_is_in_the_index(mongo_uri, tenant):
    with a_store("mongo", mongo_uri) as store:
        fleet = Fleet(store, tenant)
        fleet.submit(EVERYWHERE)
        shards = Shards(store.nodes)
        each = [
            shards.requests(fleet.queue_key, fleet.biz, one) for one in live_shards(fleet.biz, NOW)
        ]
        # A submission builds no index that a big collection may be without.
        assert all(BY_PRIORITY not in one.index_information() for one in each)

        fleet.expire(NOW)
        assert all(BY_PRIORITY not in one.index_information() for one in each)
        assert fleet.index() == []
        submitted(fleet, 0, 10)

        assert all(BY_PRIORITY in one.index_information() for one in each)
        # Its keys are those alone: whatever it is asked for, it looks at no other.
        keys = [one.find({}, hint=BY_PRIORITY).explain()["executionStats"] for one in each]
        assert sum(stats["totalKeysExamined"] for stats in keys) <= 2
        assert sum(one.count_documents({"priority": 0}, hint=BY_PRIORITY) for one in each) == 1
        assert (
            sum(one.count_documents({"priority": None}, hint=BY_STATE) for one in each)
            == EVERYWHERE
        )


def indexed(fleet: Fleet) -> list[bool]:
    shards = Shards(fleet.store.nodes)
    each = [shards.requests(fleet.queue_key, fleet.biz, one) for one in live_shards(fleet.biz, NOW)]
    return [BY_PRIORITY in one.index_information() for one in each]


def test_the_index_of_a_large_collection_is_left_to_people_who_are_notified_once_an_hour(
    mongo_connection, tenant
):
    # Large is whatever there is.
    fleet, other, later = (
        Fleet(MongoRequestStore(mongo_connection, **options), tenant)
        for options in ({"small": -1}, {"small": -1}, {})
    )
    claims = fleet.claim(fleet.submit(EVERYWHERE)[:1])
    assert not fleet.settle([done_with(claim, {"n": 1}) for claim in claims])

    reported = fleet.index()

    of_requests = [one for one in reported if '"by_priority"' in one]
    of_records = [one for one in reported if "_records" in one or "_keyed" in one]
    # Records are in one place, where nothing was written there is nothing to build.
    assert (len(of_requests), len(of_records)) == (len(indexed(fleet)), 1)
    assert len(of_requests + of_records) == len(reported)
    assert all('"by_job"' in one for one in of_records)
    assert all("partialFilterExpression" in one for one in reported)
    # Whichever process asks: the attempt stands beside the collection.
    assert other.index() == fleet.index() == []
    assert other.index(NOW + 61 * MINUTE) == reported
    assert fleet.index(NOW + 62 * MINUTE) == []
    assert not any(indexed(fleet))
    # What the command builds is what is looked for.
    assert later.index(NOW + 130 * MINUTE) == []
    assert all(indexed(fleet))


def test_building_that_takes_too_long_is_given_up_reported_and_nobodys_trouble(
    mongo_connection, tenant
):
    hasty = MongoRequestStore(mongo_connection, build_seconds=1e-6)
    fleet = Fleet(hasty, tenant)
    other = Fleet(MongoRequestStore(mongo_connection), tenant)
    fleet.submit(EVERYWHERE)

    (reported,) = fleet.index()

    assert "createIndex(" in reported
    assert not any(indexed(fleet))
    # The node is as well as before, for whoever asks.
    assert fleet.expire(NOW) == 0
    assert len(fleet.unqueued(before=NOW + MINUTE)) == EVERYWHERE
    # Of the same collection nobody tries again, and an hour later somebody does.
    other.index()
    assert indexed(fleet).count(False) == 1
    other.index(NOW + 61 * MINUTE)
    assert all(indexed(fleet))


def test_without_time_nothing_is_built(mongo_uri, tenant):
    with a_store("mongo", mongo_uri) as store:
        fleet = Fleet(store, tenant)
        fleet.submit(3)

        assert fleet.index(time_left=indexing.BUILD_SECONDS) == []
        assert not any(indexed(fleet))


def test_a_node_that_is_away_is_passed_by(tenant):
    with a_store("mongo", "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300") as store:
        assert Fleet(store, tenant).index() == []
