"""ports.RequestStore: what becomes of claimed requests, and their records."""

from datetime import timedelta

import msgspec
import pytest

from tests.contract.store_cases import MINUTE, NOW, Fleet, a_record, a_request, done_with
from tests.kit.requests import Dead, Done, Retry, State, all_shards

SECOND = timedelta(seconds=1)


def test_each_kind_of_outcome_is_kept_with_its_reason(fleet: Fleet) -> None:
    requests = fleet.submit(3)
    done, retry, dead = fleet.claim(requests, worker="w")
    due_at = NOW + 5 * SECOND

    lost = fleet.settle(
        [
            done_with(done, {"title": "a"}, {"title": "b", "tags": ["x"], "no": None}),
            (retry, Retry(due_at, "503 from the site")),
            (dead, Dead("404", "PageGone")),
        ],
        NOW + SECOND,
        "w",
    )

    assert lost == set()
    first, second, third = (fleet.get(c.request) for c in (done, retry, dead))
    assert (first.state, first.records, first.error) == (State.DONE, 2, None)
    assert (second.state, second.error, second.due_at) == (
        State.WAITING,
        "503 from the site",
        due_at,
    )
    assert (third.state, third.error, third.due_at) == (State.DEAD, "404", None)
    assert [(e.state, e.by, e.at) for e in first.timeline] == [
        (State.PENDING, "router", NOW),
        (State.LEASED, "w", NOW),
        (State.DONE, "w", NOW + SECOND),
    ]
    assert [r.fields for r in fleet.records(request_id=done.request.id)] == [
        {"title": "a"},
        {"title": "b", "tags": ["x"], "no": None},
    ]
    assert fleet.records(request_id=done.request.id)[1] == a_record(
        done, 1, title="b", tags=["x"], no=None
    )


def test_the_addresses_that_an_attempt_asked_stand_in_the_timeline(fleet: Fleet) -> None:
    # Of so many, some share a shard, where what is done alike is one update.
    requests = fleet.submit(12)
    retry, dead, *done = fleet.claim(requests, worker="w")
    asked = {each.request.id: (f"192.0.2.{n}", "192.0.2.99") for n, each in enumerate(done)}

    fleet.settle(
        [
            (retry, Retry(NOW + SECOND, "503 from the site", peers=("192.0.2.44",))),
            (dead, Dead("cannot be connected to", "ConnectFailed")),
            *((each, Done((), peers=asked[each.request.id])) for each in done),
        ],
        NOW + SECOND,
        "w",
    )

    asked |= {retry.request.id: ("192.0.2.44",), dead.request.id: ()}
    assert {one.id: fleet.get(one).timeline[-1].peers for one in requests} == asked


def test_a_waiting_request_is_claimed_again_and_then_done(fleet: Fleet) -> None:
    requests = fleet.submit(1)
    (claim,) = fleet.claim(requests, "t1")
    fleet.settle([(claim, Retry(NOW + SECOND, "slow"))])

    (again,) = fleet.claim(requests, "t2", NOW + SECOND)
    fleet.settle([done_with(again, {"n": 1})], NOW + 2 * SECOND)

    tracked = fleet.get(requests[0])
    assert (again.attempt, tracked.attempts, tracked.state) == (2, 2, State.DONE)
    assert (tracked.error, tracked.due_at) == (None, None)
    assert [int(e.state) for e in tracked.timeline] == [0, 2, 3, 2, 1]


def test_a_waiting_request_is_not_claimed_before_its_time(fleet: Fleet) -> None:
    requests = fleet.submit(3)
    claims = fleet.claim(requests, "t1")
    fleet.settle([(claim, Retry(NOW + 10 * SECOND, "slow")) for claim in claims[:2]])

    early = fleet.claim(requests, "repeat", NOW + 9 * SECOND)  # its entry was in the queue twice
    due = fleet.claim(requests, "t2", NOW + 10 * SECOND)

    assert early == []
    assert {claim.request.id for claim in due} == {claim.request.id for claim in claims[:2]}
    assert {claim.attempt for claim in due} == {2}


def test_a_late_worker_writes_nothing_records_included(fleet: Fleet) -> None:
    requests = fleet.submit(20)
    late = fleet.claim(requests, "late")
    newer = fleet.claim(requests[:10], "newer", NOW + MINUTE)

    lost = fleet.settle([done_with(c, {"by": "late"}) for c in late], NOW + MINUTE)

    assert lost == {r.id for r in requests[:10]}
    assert fleet.totals() == ({State.LEASED: 10, State.DONE: 10}, 10)
    assert fleet.settle([done_with(c, {"by": "newer"}) for c in newer], NOW + MINUTE) == set()
    assert sorted(r.fields["by"] for r in fleet.records()) == ["late"] * 10 + ["newer"] * 10


def test_settling_twice_changes_nothing(fleet: Fleet) -> None:
    claims = fleet.claim(fleet.submit(5))
    outcomes = [done_with(c, {"n": 1}, {"n": 2}) for c in claims]
    fleet.settle(outcomes)
    before = [fleet.get(c.request) for c in claims]

    lost = fleet.settle(outcomes, NOW + SECOND)
    worse = fleet.settle([(c, Dead("no")) for c in claims], NOW + SECOND)

    assert lost == worse == {c.request.id for c in claims}
    assert [fleet.get(c.request) for c in claims] == before
    assert len(fleet.records()) == 10


def test_one_claim_named_twice_in_a_batch_is_settled_once(fleet: Fleet) -> None:
    (claim,) = fleet.claim(fleet.submit(1))

    assert fleet.settle([done_with(claim, {"n": 1}), done_with(claim, {"n": 1})]) == set()

    assert fleet.totals() == ({State.DONE: 1}, 1)


def test_claims_of_several_leases_are_settled_together(fleet: Fleet) -> None:
    requests = fleet.submit(12)
    claims = [c for n in range(4) for c in fleet.claim(requests[n * 3 : n * 3 + 3], f"t{n}")]

    outcomes = [
        (c, Done((a_record(c),)) if n % 3 else Dead(f"reason {n}")) for n, c in enumerate(claims)
    ]

    assert fleet.renew(claims, NOW + 2 * MINUTE) == set()
    assert fleet.settle(outcomes) == set()
    assert fleet.totals() == ({State.DONE: 8, State.DEAD: 4}, 8)


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "field",
    [2**63, -(2**70), "x" * 17_000_000, "\ud800", {"a\0b": 1}, nested(190), {1, 2}],
    ids=["int", "negative", "17 MB", "surrogate", "key", "depth", "type"],
)
def test_a_record_that_cannot_be_stored_kills_only_its_own_request(
    fleet: Fleet, field: object
) -> None:
    claims = fleet.claim(fleet.submit(7))
    bad = claims[3]

    settled = fleet.settled(
        [done_with(c, {"n": 1}, {"f": field if c is bad else "fine"}) for c in claims]
    )

    assert settled.lost == set()
    assert list(settled.unstorable) == [bad.request.id]
    assert settled.unstorable[bad.request.id].reason == "Unstorable"
    assert fleet.totals() == ({State.DONE: 6, State.DEAD: 1}, 12)
    tracked = fleet.get(bad.request)
    assert (tracked.state, tracked.records) == (State.DEAD, 0)
    assert tracked.error.startswith("no records stored: ")


def test_awkward_but_storable_records_come_back_as_they_were(fleet: Fleet) -> None:
    fields = {"$set": {"a.b": 1}, "": 0, "big": 2**63 - 1, "nested": nested(100), "x.y": -(2**63)}
    (claim,) = fleet.claim(fleet.submit(1))

    fleet.settle([done_with(claim, fields)])

    assert fleet.records()[0].fields == fields
    assert msgspec.json.decode(msgspec.json.encode(fleet.records()[0].fields)) == fields


def test_reasons_are_kept_readable_whatever_a_site_sent(fleet: Fleet) -> None:
    dead, retry = fleet.claim(fleet.submit(2))

    lost = fleet.settle(
        [(dead, Dead("\ud800" * 9_000, "\ud800")), (retry, Retry(NOW, "\udfff", "\udfff"))]
    )

    assert lost == set()
    assert len(fleet.get(dead.request).error) <= 2_000
    assert fleet.get(retry.request).error == "?"


def test_records_of_an_earlier_life_are_replaced(fleet: Fleet) -> None:
    requests = fleet.submit(3)
    first = fleet.claim(requests)
    fleet.settle([done_with(c, {"life": 1}, {"life": 1}) for c in first])
    later = NOW + timedelta(seconds=fleet.biz.ttl_seconds + fleet.biz.expiry_grace_seconds + 1)
    _remove(fleet, requests, later)
    fleet.insert([a_request(fleet.queue_key, r.id, later) for r in requests])

    again = [a_request(fleet.queue_key, r.id, later) for r in requests]
    lost = fleet.settle([done_with(c, {"life": 2}) for c in fleet.claim(again, "t", later)], later)

    assert lost == set()
    assert [r.fields for r in fleet.records()] == [{"life": 2}] * 3


def _remove(fleet: Fleet, requests: list, later: object) -> None:
    """Remove requests as the TTL does, without its delay."""
    shards = getattr(fleet.store, "shards", None)
    if shards is None:
        fleet.expire(later)
        return
    for shard in all_shards(fleet.biz):
        shards.requests(fleet.queue_key, fleet.biz, shard).delete_many({})


def test_the_timeline_keeps_the_last_fifty_events(fleet: Fleet) -> None:
    (request,) = fleet.submit(1)
    for _ in range(30):
        fleet.release(fleet.claim([request]), "again")

    timeline = fleet.get(request).timeline

    assert len(timeline) == 51
    assert (timeline[0].why, timeline[-1].why) == ("submitted", "again")


def test_what_is_another_workers_by_now_is_not_reported_as_dead(fleet: Fleet) -> None:
    requests = fleet.submit(2)
    late = fleet.claim(requests, "late")
    fleet.claim(requests[:1], "newer", NOW + MINUTE, NOW + 2 * MINUTE)

    settled = fleet.settled([done_with(c, {"f": 2**70}) for c in late], NOW + MINUTE)

    assert settled.lost == {requests[0].id}
    assert list(settled.unstorable) == [requests[1].id]
