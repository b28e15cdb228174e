"""The TTL indexes: MongoDB itself removes what is past its time (SPEC.md A5, A9)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.contract.store_cases import (
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    revocation_of,
    snowflakes,
)
from tests.kit.config import Biz
from tests.kit.mongo import MongoNodes, MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import State
from tests.waiting import eventually


@pytest.fixture
def nodes(mongo_uri: str) -> Iterator[MongoNodes]:
    with nodes_at(mongo_uri) as made:
        yield made


def small_biz(**changes: object) -> Biz:
    one = a_generation(nodes=("east",), databases=("one",), shards=1)
    return a_biz(generations=(one,), **changes)


def ttl_of(nodes: MongoNodes, fleet: Fleet, part: str) -> int | None:
    database = nodes.database("east", fleet.queue_key.tenant, "one")
    indexes = database[f"shop.requests_{part}"].index_information()
    return indexes.get("ttl", {}).get("expireAfterSeconds")


def test_mongodb_removes_what_is_past_its_time_and_the_count_stays(
    nodes: MongoNodes, tenant: str
) -> None:
    biz = small_biz(ttl_seconds=1, expiry_grace_seconds=1, records_ttl_seconds=1)
    fleet = Fleet(MongoRequestStore(nodes), tenant, biz)
    # In a while: nothing is to be removed before it is counted, though the machine stands still.
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
    requests = [a_request(fleet.queue_key, i, now) for i in snowflakes(10, now)]
    fleet.insert(requests)
    claims = fleet.claim(requests[:4], now=now)
    fleet.settle([done_with(c, {"n": 1}, at=now) for c in claims], now)

    expired = fleet.expire(now + timedelta(seconds=1))

    assert expired == 6
    eventually(holds=lambda: fleet.find(now=now) == [])
    eventually(holds=lambda: fleet.records() == [])
    assert fleet.totals(now) == ({State.DONE: 4, State.EXPIRED: 6}, 0)
    assert fleet.get(requests[0]) is None
    assert fleet.claim(requests, now=now) == []


def test_recovery_makes_nothing_for_a_biz_that_nobody_uses(nodes: MongoNodes, tenant: str) -> None:
    fleet = Fleet(MongoRequestStore(nodes), tenant, small_biz())
    revocation, now = revocation_of(fleet.store), datetime.now(UTC)
    place = fleet.queue_key, fleet.biz

    assert fleet.expire(now) == 0
    assert fleet.reconcile(now) == fleet.unqueued(now=now) == fleet.index(now) == []
    assert fleet.totals(now) == ({}, 0)
    assert fleet.audit(now).difference == 0
    assert revocation.pools(*place, {"large"}, now) == set()
    assert revocation.pending(*place, since=0, before=now, now=now, limit=9) == []
    assert revocation.waiting(*place, now=now, limit=9) == []
    assert revocation.held(*place, now=now, limit=9) == []
    assert nodes.database("east", tenant, "one").list_collection_names() == []

    fleet.submit(3)
    assert fleet.expire(now + timedelta(days=30)) == 3
    assert fleet.totals(now) == ({State.EXPIRED: 3}, 0)


def test_a_changed_time_to_live_reaches_the_indexes_and_back(
    nodes: MongoNodes, tenant: str
) -> None:
    fleet = Fleet(MongoRequestStore(nodes), tenant, small_biz(ttl_seconds=100))
    fleet.submit(1, datetime.now(UTC))

    def in_force(**changes: object) -> tuple[int | None, int | None]:
        fleet.biz = small_biz(**changes)
        fleet.expire(datetime.now(UTC))
        return ttl_of(nodes, fleet, "000"), ttl_of(nodes, fleet, "000_records")

    assert in_force(ttl_seconds=100) == (400, None)
    assert in_force(ttl_seconds=200, records_ttl_seconds=300) == (500, 300)
    assert in_force(ttl_seconds=100, records_ttl_seconds=90) == (400, 90)
    assert in_force(ttl_seconds=200, records_ttl_seconds=90) == (500, 90)
    assert in_force(ttl_seconds=200) == (500, None)
    another_process = MongoRequestStore(nodes)
    fleet.store = another_process
    assert in_force(ttl_seconds=70, expiry_grace_seconds=0) == (70, None)


def test_a_shorter_time_to_live_is_brought_by_recovery_after_it_has_marked(
    nodes: MongoNodes, tenant: str
) -> None:
    fleet = Fleet(MongoRequestStore(nodes), tenant, small_biz())
    now = datetime.now(UTC).replace(microsecond=0)
    old = now - timedelta(hours=1)
    requests = [a_request(fleet.queue_key, i, old) for i in snowflakes(50, old)]
    fleet.insert(requests)
    held = fleet.claim(requests[:2], now=now)
    fleet.biz = small_biz(ttl_seconds=60, expiry_grace_seconds=0)

    writer = Fleet(MongoRequestStore(nodes), tenant, fleet.biz)
    writer.submit(20, now)
    assert ttl_of(nodes, fleet, "000") == 604_800 + 300

    # What is held is marked too: MongoDB is about to remove it, whoever works on it.
    assert fleet.expire(now) == 50
    assert ttl_of(nodes, fleet, "000") == 60
    lost = fleet.settle([done_with(c, {"n": 1}, at=now) for c in held], now)
    assert lost == {claim.request.id for claim in held}

    eventually(holds=lambda: len(fleet.find(now=now)) == 20)
    assert fleet.totals(now)[0] == {State.EXPIRED: 50, State.PENDING: 20}


def test_mongodb_removes_nothing_that_the_ledger_has_not_counted(
    nodes: MongoNodes, tenant: str
) -> None:
    biz = small_biz(ttl_seconds=60, expiry_grace_seconds=0)
    fleet = Fleet(MongoRequestStore(nodes), tenant, biz)
    now = datetime.now(UTC).replace(microsecond=0)
    old = now - timedelta(minutes=5)
    single, *batch = [a_request(fleet.queue_key, i, old) for i in snowflakes(41, old)]
    fleet.reconcile(old)
    fleet.insert([single])
    fleet.insert(batch)

    eventually(holds=lambda: len(fleet.find(now=now)) == 1)

    assert fleet.expire(now) == 1
    [correction] = fleet.reconcile(now)
    assert correction.count == 40
    assert fleet.totals(now) == ({State.EXPIRED: 41}, 0)
    eventually(holds=lambda: fleet.find(now=now) == [])
    assert fleet.totals(now) == ({State.EXPIRED: 41}, 0)


def test_a_ttl_index_of_before_the_ledger_is_replaced(nodes: MongoNodes, tenant: str) -> None:
    fleet = Fleet(MongoRequestStore(nodes), tenant, small_biz())
    requests = nodes.database("east", tenant, "one")["shop.requests_000"]
    requests.create_index("ts", name="ttl", expireAfterSeconds=604_800 + 300)

    fleet.submit(30)
    assert "partialFilterExpression" not in requests.index_information()["ttl"]
    fleet.expire(datetime.now(UTC))

    ttl = requests.index_information()["ttl"]
    assert (ttl["partialFilterExpression"], ttl["expireAfterSeconds"]) == (
        {"call": {"$gte": 0}},
        604_800 + 300,
    )


def test_indexes_stand_from_the_first_insertion_and_every_statement_uses_them(
    nodes: MongoNodes, tenant: str
) -> None:
    fleet = Fleet(MongoRequestStore(nodes), tenant, small_biz())
    fleet.submit(300)
    database = nodes.database("east", tenant, "one")
    admin = nodes.client("east").get_database(database.name)
    admin.command("profile", 2)

    requests = [t.request for t in fleet.find()]
    claims = fleet.claim(requests[:100])
    fleet.renew(claims, fleet.biz.generations[0].starts_at)
    fleet.settle([done_with(c, {"n": 1}) for c in claims[:99]])
    fleet.release(claims[99:])
    fleet.cancel(requests[100])
    fleet.get(requests[100])
    fleet.find(state=0, after=(0, "1"))
    fleet.find(after=(int(requests[9].queued_at.timestamp() * 1000), str(requests[9].id)))
    fleet.records(limit=5)
    fleet.records(request_id=claims[0].request.id)
    fleet.unqueued()
    fleet.expire(datetime.now(UTC) + timedelta(days=30))
    fleet.totals()
    admin.command("profile", 0)

    seen = list(admin["system.profile"].find({"ns": {"$regex": r"shop\.requests_000"}}))
    plans = {(p["op"], p.get("planSummary", "")) for p in seen if p.get("planSummary")}
    assert len(plans) >= 8
    assert not [plan for _, plan in plans if "COLLSCAN" in plan]
    assert not [p for p in seen if p.get("hasSortStage")]
    statements = [p for p in seen if p["op"] in ("query", "update")]
    assert len(statements) >= 15
    assert max(p.get("docsExamined", 0) for p in statements) <= 300
    paged = [p for p in statements if p["command"].get("limit") == 1000]
    assert all(p["keysExamined"] <= p["nreturned"] + 20 for p in paged)
