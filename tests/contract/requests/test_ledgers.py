"""ports.Ledgers over memory and MongoDB: everything submitted is somewhere (SPEC.md H1)."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.contract.store_cases import (
    LONG_AGO,
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_request,
    done_with,
    snowflakes,
)
from tests.kit.implementations import fixture_over
from tests.kit.mongo import MongoRequestStore
from tests.kit.requests import Claim, Coverage, Dead, Ledger, Request, Retry

WEEK = timedelta(days=7)


store = fixture_over(MongoRequestStore)


@pytest.fixture
def fleet(store: MongoRequestStore, tenant: str) -> Fleet:
    return Fleet(store, tenant)


def submit_job(fleet: Fleet, job: str, number: int, worker: int = 7) -> list[Request]:
    requests = [a_request(fleet.queue_key, i, job=job) for i in snowflakes(number, worker=worker)]
    assert fleet.insert(requests).refused == {}
    return requests


def remove(fleet: Fleet, *requests: Request) -> None:
    """Remove requests silently, as MongoDB's TTL monitor does."""
    if hasattr(fleet.store, "state"):
        kept = fleet.store.state.of(fleet.queue_key).requests
        for request in requests:
            del kept[request.id]
        return
    ids = [request.id for request in requests]
    removed = 0
    for node in ("east", "west"):
        for database in ("one", "two"):
            for number in range(2):
                of = fleet.store.nodes.database(node, fleet.queue_key.tenant, database)
                shard = of[f"shop.requests_{number:03d}"]
                removed += shard.delete_many({"_id": {"$in": ids}}).deleted_count
    assert removed == len(ids)


def lose(fleet: Fleet, *requests: Request) -> None:
    """Remove them, once they are counted, as all that MongoDB removes is."""
    fleet.expire(NOW)
    remove(fleet, *requests)


def test_what_was_never_used_has_a_ledger_of_zeros(fleet: Fleet) -> None:
    assert fleet.audit() == Ledger() == fleet.audit(job="none")


def test_every_way_through_the_states_is_counted(fleet: Fleet) -> None:
    requests = fleet.submit(40)
    one = a_request(fleet.queue_key, snowflakes(1, worker=8)[0])
    fleet.insert([one])
    claims = fleet.claim(requests[:30])
    fleet.settle([done_with(c, {"n": 1}) for c in claims[:10]])
    fleet.settle([(c, Dead("gone")) for c in claims[10:15]])
    fleet.settle([(c, Retry(NOW + MINUTE, "slow")) for c in claims[15:21]])
    fleet.release(claims[21:24])
    fleet.cancel(requests[30])
    fleet.cancel(claims[15].request)
    fleet.cancel(claims[0].request)

    assert fleet.audit() == Ledger(
        submitted=41, pending=13, leased=6, waiting=5, done=10, dead=5, cancelled=2
    )
    assert fleet.totals()[1] == 10

    assert fleet.expire(NOW + WEEK) == 13 + 6 + 5
    assert fleet.audit() == Ledger(submitted=41, done=10, dead=5, cancelled=2, expired=24)


def test_ids_that_come_again_are_counted_once(fleet: Fleet) -> None:
    ids = snowflakes(200)
    first = [a_request(fleet.queue_key, i) for i in ids[:120]]
    again = [a_request(fleet.queue_key, i) for i in [*ids[60:], *ids[190:]]]
    single = a_request(fleet.queue_key, snowflakes(1, worker=9)[0])

    fleet.insert(first)
    inserted = fleet.insert(again)
    fleet.insert([single])
    repeated = fleet.insert([single])

    assert inserted.existing == {*ids[60:120], *ids[190:]}
    assert repeated.existing == {single.id}
    assert fleet.audit().submitted == fleet.audit().pending == 201


def test_what_cannot_be_stored_is_not_counted_and_takes_nobody_with_it(fleet: Fleet) -> None:
    requests = [a_request(fleet.queue_key, i) for i in snowflakes(200)]
    broken = requests[50]
    body = type(broken.body)(
        url=broken.body.url, rule="detail", rule_version="v", meta={"n": "\ud800"}
    )
    requests[50] = a_request(fleet.queue_key, broken.id, body=body)

    inserted = fleet.insert(requests)

    assert set(inserted.refused) == {broken.id}
    assert fleet.audit().pending == 199


def test_a_lost_lease_counts_for_nobody(fleet: Fleet) -> None:
    requests = fleet.submit(10)
    late = fleet.claim(requests, "late")
    after = NOW + 2 * MINUTE
    fleet.claim(requests[:4], "other", now=after)

    lost = fleet.settle([done_with(c, {"n": 1}) for c in late], after)
    again = fleet.settle([done_with(c, {"n": 1}) for c in late], after)

    assert lost == {r.id for r in requests[:4]}
    assert again == {r.id for r in requests}
    assert fleet.audit() == Ledger(submitted=10, leased=4, done=6)


def test_several_jobs_are_counted_at_once_by_what_has_ended(fleet: Fleet) -> None:
    red, blue = submit_job(fleet, "red", 60), submit_job(fleet, "blue", 3, worker=8)
    submit_job(fleet, "redder", 5, worker=9)
    claims: list[Claim] = fleet.claim([*red[:20], *blue[:1]])
    fleet.settle([done_with(c, {"n": 1}) for c in claims[:-2]])
    fleet.settle([(c, Dead("gone")) for c in claims[-2:]])
    fleet.cancel(blue[2])

    found = fleet.ledgers.counters(fleet.queue_key, fleet.biz, ["red", "blue", "none"])

    assert found["none"] == Ledger()
    for job in ("red", "blue"):
        one = fleet.audit(job=job)
        assert found[job] == replace(one, pending=one.open, leased=0, waiting=0)
    assert found["red"].submitted == 60
    assert set(found) == {"red", "blue", "none"}
    assert fleet.ledgers.counters(fleet.queue_key, fleet.biz, []) == {}


def test_a_job_is_counted_apart_and_in_its_biz(fleet: Fleet) -> None:
    red, blue = submit_job(fleet, "red", 60), submit_job(fleet, "blue", 3, worker=8)
    fleet.submit(2, NOW + MINUTE)
    claims: list[Claim] = fleet.claim([*red[:20], *blue[:1]])
    fleet.settle([done_with(c, {"n": 1}) for c in claims[:-2]])
    fleet.settle([(c, Dead("gone")) for c in claims[-2:]])
    fleet.cancel(blue[2])
    ended = {c.request.id for c in claims[:-2]}

    found = fleet.audit(job="red"), fleet.audit(job="blue")

    assert [one.submitted for one in found] == [60, 3]
    assert found[0].done == len(ended & {r.id for r in red})
    assert [one.done + one.dead for one in found] == [20, 1]
    assert [one.cancelled for one in found] == [0, 1]
    assert [fleet.ledgers.totals(fleet.queue_key, fleet.biz, NOW, j) for j in ("red", "blue")] == [
        *found
    ]
    assert fleet.audit().submitted == 65
    assert fleet.audit(job="re") == fleet.audit(job="red2") == Ledger()

    fleet.expire(NOW + WEEK)
    assert fleet.audit(job="red").expired == 40


def test_what_has_ended_stays_counted_when_it_is_gone(fleet: Fleet) -> None:
    requests = submit_job(fleet, "red", 20)
    claims = fleet.claim(requests)
    fleet.settle([done_with(c, {"n": 1}) for c in claims[:15]])
    fleet.settle([(c, Dead("gone")) for c in claims[15:]])

    lose(fleet, *requests)

    assert fleet.audit() == fleet.audit(job="red") == Ledger(submitted=20, done=15, dead=5)


def test_what_vanishes_unprocessed_is_a_difference_that_stays(fleet: Fleet) -> None:
    requests = submit_job(fleet, "red", 200)
    fleet.reconcile(NOW)
    lose(fleet, *requests[:3])

    assert fleet.reconcile(NOW + MINUTE) == []

    for job in (None, "red"):
        found = fleet.ledgers.audit(fleet.queue_key, fleet.biz, NOW, job)
        assert (found.difference, found.pending) == (3, 197)
        # By counters alone nobody would know.
        totals = fleet.ledgers.totals(fleet.queue_key, fleet.biz, NOW, job)
        assert (totals.difference, totals.pending) == (0, 200)


def test_an_outage_longer_than_the_grace_is_booked_and_reported(fleet: Fleet) -> None:
    requests = submit_job(fleet, "red", 100)
    assert fleet.reconcile(NOW) == []
    lose(fleet, *requests[:30])
    back = NOW + timedelta(seconds=fleet.biz.expiry_grace_seconds + 61)

    corrections = fleet.reconcile(back)

    assert sum(one.count for one in corrections) == 30
    assert {(one.queue_key, one.term) for one in corrections} == {(fleet.queue_key, "expired")}
    span = f"from {NOW:%Y-%m-%dT%H:%M:%SZ} to {back:%Y-%m-%dT%H:%M:%SZ} no recovery looked"
    assert all(span in one.why for one in corrections)
    assert fleet.audit() == fleet.audit(job="red") == Ledger(submitted=100, pending=70, expired=30)
    assert fleet.reconcile(back) == fleet.reconcile(back + WEEK) == []
    assert fleet.audit().expired == 30


def test_what_an_outage_cannot_explain_is_not_booked(fleet: Fleet) -> None:
    requests = fleet.submit(200)
    fleet.reconcile(NOW)
    ended = fleet.claim(requests[:50])
    fleet.settle([done_with(c, {"n": 1}) for c in ended])
    made_up(fleet, 2)

    corrections = fleet.reconcile(NOW + WEEK)

    assert corrections == []
    assert fleet.ledgers.audit(fleet.queue_key, fleet.biz, NOW).difference == -2


def made_up(fleet: Fleet, number: int) -> None:
    """Take from what is counted: requests that nobody has submitted are there then."""
    if hasattr(fleet.store, "state"):
        fleet.store.state.of(fleet.queue_key).counters[None]["submitted"] -= number
        return
    counts = fleet.store.nodes.database("east", fleet.queue_key.tenant, "one")[
        "shop.requests_counts"
    ]
    key = {"_id": {"k": "biz", "s": 0}}
    assert counts.update_one(key, {"$inc": {"submitted": -number}}, upsert=True).acknowledged


def test_the_first_sweep_takes_what_was_there_before_the_ledger(fleet: Fleet) -> None:
    requests = fleet.submit(100)
    fleet.expire(NOW)
    claims = fleet.claim(requests[:10])
    fleet.settle([done_with(c, {"n": 1}) for c in claims])
    forget_counters(fleet)
    assert fleet.ledgers.audit(fleet.queue_key, fleet.biz, NOW).difference == -90

    corrections = fleet.reconcile(NOW)

    assert sum(one.count for one in corrections) == 90
    assert {one.term for one in corrections} == {"submitted"}
    assert all("begins at" in one.why for one in corrections)
    assert fleet.audit() == Ledger(submitted=90, pending=90)


def forget_counters(fleet: Fleet) -> None:
    if hasattr(fleet.store, "state"):
        fleet.store.state.of(fleet.queue_key).counters.clear()
        return
    for node in ("east", "west"):
        for database in ("one", "two"):
            of = fleet.store.nodes.database(node, fleet.queue_key.tenant, database)
            of["shop.requests_counts"].delete_many({})


def test_a_ledger_is_its_tenants_and_its_bizs_own(fleet: Fleet) -> None:
    submit_job(fleet, "red", 5)
    stranger = Fleet(fleet.store, f"{fleet.queue_key.tenant}x")
    neighbour = Fleet(fleet.store, fleet.queue_key.tenant)
    neighbour.queue_key = type(fleet.queue_key)(fleet.queue_key.tenant, "news", "main")

    for other in (stranger, neighbour):
        assert other.audit() == other.audit(job="red") == Ledger()
        assert other.reconcile(NOW) == []
    assert fleet.audit(job="red").submitted == 5


def test_old_generations_are_part_of_it(fleet: Fleet) -> None:
    fleet.submit(30)
    newer = [*fleet.biz.generations]
    fleet.biz = a_biz(
        generations=(
            *newer,
            type(newer[0])(starts_at=NOW + MINUTE, nodes=("east",), databases=("three",)),
        )
    )
    fleet.submit(20, NOW + 2 * MINUTE)

    assert fleet.audit(NOW + 2 * MINUTE).pending == 50
    assert LONG_AGO < NOW


def test_what_is_worked_on_past_its_time_is_expired_before_mongodb_removes_it(fleet: Fleet) -> None:
    """A lease that is renewed on and on would else be removed uncounted, in mid-work."""
    [request] = fleet.submit(1)
    ttl, grace = fleet.biz.ttl_seconds, fleet.biz.expiry_grace_seconds
    before = NOW + timedelta(seconds=ttl - 1)
    [claim] = fleet.claim([request], now=before, until=before + timedelta(seconds=ttl + grace))

    assert fleet.expire(NOW + timedelta(seconds=ttl + 1)) == 0, "it has half of the grace"
    assert fleet.expire(NOW + timedelta(seconds=ttl + grace / 2 + 1)) == 1

    assert fleet.settle([done_with(claim, {"a": 1})]) == {request.id}
    assert fleet.audit() == Ledger(submitted=1, expired=1)


def test_a_job_counts_what_its_pages_were_read_to_once_by_rule(fleet: Fleet) -> None:
    june, july = submit_job(fleet, "june", 3), submit_job(fleet, "july", 1, worker=8)
    coverage = Coverage(pages=1, records=2, rejected=1, fields={"title": 2, "price.$": 0, "": 1})
    claims = {claim.request.id: claim for claim in fleet.claim([*june, *july])}

    def settle(*requests: Request, read: Coverage | None = coverage) -> set:
        done = [done_with(claims[request.id]) for request in requests]
        return fleet.settle([(claim, replace(end, coverage=read)) for claim, end in done])

    assert settle(*june[:2]) == set()
    assert settle(june[0]) == {june[0].id}  # its lease is over: nothing is counted again
    settle(june[2], read=None)
    settle(*july)

    def read(job: str) -> dict[str, Coverage]:
        return fleet.ledgers.coverage(fleet.queue_key, fleet.biz, job)

    whole = {"title": 4, "price.$": 0, "": 2}
    rule = june[0].body.rule
    assert read("june") == {rule: Coverage(pages=2, records=4, rejected=2, fields=whole)}
    assert read("july") == {rule: coverage}
    assert read("may") == {}
    assert fleet.audit(job="june") == Ledger(submitted=3, done=3)
    assert fleet.audit() == Ledger(submitted=4, done=4)
