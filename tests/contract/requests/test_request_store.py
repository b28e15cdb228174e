"""ports.RequestStore: the same promises from memory and from a real MongoDB."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from uuid import uuid4

import pytest

from tests.contract.store_cases import (
    LONG_AGO,
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    entries_of,
    object_ids,
    snowflakes,
    uuids,
)
from tests.kit.kernel import QueueKey, RequestId, from_ms, to_ms
from tests.kit.mongo import MongoRequestStore
from tests.kit.requests import Entry, Retry, State

SECOND = timedelta(seconds=1)


# ---- insertion and look-up ---------------------------------------------------------------------


def test_inserted_requests_are_found_whole(fleet: Fleet) -> None:
    requests = [
        a_request(
            fleet.queue_key, i, NOW + timedelta(milliseconds=n), job="job-1" if n % 2 else None
        )
        for n, i in enumerate(snowflakes(30))
    ]

    inserted = fleet.insert(requests)

    assert (inserted.existing, inserted.refused) == (frozenset(), {})
    for request in requests:
        tracked = fleet.get(request)
        assert tracked.request == request
        assert type(tracked.request.id) is int
        assert (tracked.state, tracked.attempts, tracked.worker) == (State.PENDING, 0, None)
        assert [(e.state, e.why) for e in tracked.timeline] == [(State.PENDING, "submitted")]


def test_requests_inserted_again_are_reported_and_left_alone(fleet: Fleet) -> None:
    old = fleet.submit(5)
    claims = fleet.claim(old)
    more = [a_request(fleet.queue_key, i, NOW) for i in snowflakes(3, NOW + SECOND)]

    inserted = fleet.insert([*old, *more])
    again = fleet.insert(old[:1])

    assert inserted.existing == {r.id for r in old}
    assert inserted.refused == {}
    assert again.existing == {old[0].id}
    assert len(claims) == 5
    assert fleet.totals() == ({State.LEASED: 5, State.PENDING: 3}, 0)


def test_inserting_nothing_changes_nothing(fleet: Fleet) -> None:
    assert fleet.insert([]).refused == {}
    assert fleet.claim([]) == []
    assert fleet.settle([]) == set()
    assert fleet.renew([], NOW) == set()
    fleet.release([])
    assert fleet.totals() == ({}, 0)


def test_an_unstorable_request_is_refused_alone(fleet: Fleet) -> None:
    good, bad = [a_request(fleet.queue_key, i) for i in snowflakes(2)]
    bad = a_request(
        fleet.queue_key, bad.id, body=type(bad.body)(url="\ud800", rule="r", rule_version="v")
    )

    inserted = fleet.insert([bad, good])

    assert set(inserted.refused) == {bad.id}
    assert fleet.get(good) is not None
    assert fleet.get(bad) is None


@pytest.mark.parametrize(
    "issue",
    [snowflakes, uuids, object_ids, lambda number, at: list(range(at.minute, at.minute + number))],
    ids=["snowflake", "uuid", "objectid", "counter"],
)
def test_every_kind_of_id_is_found_after_nodes_and_shards_change(
    store: MongoRequestStore, tenant: str, issue: Callable[[int, datetime], list[RequestId]]
) -> None:
    change = NOW - MINUTE
    before = Fleet(store, tenant, a_biz(generations=(a_generation(),)))
    after = Fleet(
        store,
        tenant,
        a_biz(
            generations=(
                a_generation(),
                a_generation(starts_at=change, nodes=("north",), databases=("three",), shards=5),
            )
        ),
    )
    hour = timedelta(hours=1)
    old = [a_request(before.queue_key, i, change - hour) for i in issue(20, change - hour)]
    known = {r.id for r in old}
    new = [a_request(before.queue_key, i, NOW) for i in issue(41, NOW) if i not in known][-20:]

    before.insert(old)
    after.insert(new)

    assert [after.get(r).request for r in [*old, *new]] == [*old, *new]
    assert len(after.find()) == 40
    claims = after.claim([*old, *new])
    assert {c.request.id for c in claims} == {r.id for r in [*old, *new]}
    assert after.settle([done_with(c, {"n": 1}) for c in claims]) == set()
    assert after.totals() == ({State.DONE: 40}, 40)
    assert len(after.records()) == 40


# ---- claims ------------------------------------------------------------------------------------


def test_a_claim_gives_the_request_and_counts_the_attempt(fleet: Fleet) -> None:
    requests = fleet.submit(10)

    claims = fleet.claim(requests, token="t1", worker="w1")

    assert sorted(c.request.id for c in claims) == [r.id for r in requests]
    assert {(c.token, c.attempt) for c in claims} == {("t1", 1)}
    assert {c.entry for c in claims} == set(entries_of(requests))
    tracked = fleet.get(requests[0])
    assert (tracked.state, tracked.worker, tracked.attempts) == (State.LEASED, "w1", 1)
    assert tracked.due_at == NOW + MINUTE


def test_each_of_two_racing_workers_wins_what_the_other_does_not(fleet: Fleet) -> None:
    requests = fleet.submit(200)
    start = Barrier(4)

    def race(token: str) -> list:
        start.wait()
        return [c for i in range(0, 200, 20) for c in fleet.claim(requests[i : i + 20], token)]

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(race, ["a", "b", "c", "d"]))

    owners = [c.request.id for claims in won for c in claims]
    assert sorted(owners) == [r.id for r in requests]
    assert all(fleet.get(c.request).attempts == 1 for claims in won for c in claims)


def test_wrong_biz_time_or_tenant_claims_nothing(fleet: Fleet, tenant: str) -> None:
    requests = fleet.submit(2)
    first, second = entries_of(requests)
    other_biz = Fleet(fleet.store, tenant)
    other_biz.queue_key = QueueKey(tenant, "news", "main")

    def claim(entry: Entry) -> list:
        return fleet.store.claim(
            fleet.queue_key, fleet.biz, [entry], "w", NOW, NOW + MINUTE, uuid4().hex
        )

    assert claim(Entry(first.id, "news", first.ts)) == []
    assert claim(Entry(first.id, first.biz, first.ts + 1)) == []
    assert claim(Entry(first.id + 10**6, first.biz, first.ts)) == []
    assert other_biz.claim(requests) == []
    assert Fleet(fleet.store, tenant + "x").claim(requests) == []
    assert fleet.get(requests[0]).state == State.PENDING
    assert len(claim(second)) == 1


def test_the_time_of_another_entry_in_the_batch_does_not_help(fleet: Fleet) -> None:
    ids = snowflakes(40)
    requests = [a_request(fleet.queue_key, i, NOW + n * SECOND) for n, i in enumerate(ids)]
    fleet.insert(requests)
    times = [to_ms(r.queued_at) for r in requests]
    shifted = [Entry(i, "shop", at) for i, at in zip(ids, [*times[1:], times[0]], strict=True)]

    assert fleet.store.claim(fleet.queue_key, fleet.biz, shifted, "w", NOW, NOW + MINUTE, "t") == []

    tracked = fleet.find()
    assert {(t.state, t.attempts, t.due_at, len(t.timeline)) for t in tracked} == {
        (State.PENDING, 0, None, 1)
    }
    both = [*shifted, *entries_of(requests)]
    claims = fleet.store.claim(fleet.queue_key, fleet.biz, both, "w", NOW, NOW + MINUTE, "t")
    assert sorted(c.request.id for c in claims) == ids


def test_a_living_lease_holds_and_an_ended_one_is_taken_over(fleet: Fleet) -> None:
    requests = fleet.submit(4)
    first = fleet.claim(requests, "first")

    assert fleet.claim(requests, "second", NOW + MINUTE - SECOND) == []
    taken = fleet.claim(requests, "second", NOW + MINUTE)

    assert [c.attempt for c in taken] == [2, 2, 2, 2]
    assert fleet.renew(first, NOW + 9 * MINUTE) == {r.id for r in requests}
    assert fleet.settle([done_with(c, {"n": 1}) for c in first]) == {r.id for r in requests}
    assert fleet.totals() == ({State.LEASED: 4}, 0)


def test_the_same_token_may_ask_again_for_what_it_won(fleet: Fleet) -> None:
    requests = fleet.submit(4)
    claims = fleet.claim(requests, "t")

    again = fleet.claim(requests, "t", NOW + SECOND)

    assert {c.request.id for c in again} == {c.request.id for c in claims}
    assert {c.attempt for c in again} == {1}


def test_a_request_past_its_time_to_live_is_not_claimed(fleet: Fleet) -> None:
    requests = fleet.submit(2)

    late = NOW + timedelta(seconds=fleet.biz.ttl_seconds)

    assert fleet.claim(requests, now=late) == []
    assert len(fleet.claim(requests, now=late - SECOND)) == 2


def test_a_renewed_lease_lives_longer(fleet: Fleet) -> None:
    requests = fleet.submit(3)
    claims = fleet.claim(requests)

    assert fleet.renew(claims, NOW + 3 * MINUTE) == set()

    assert fleet.claim(requests, "other", NOW + 2 * MINUTE) == []
    assert len(fleet.claim(requests, "other", NOW + 3 * MINUTE)) == 3


def test_released_requests_wait_again_without_an_attempt_counted(fleet: Fleet) -> None:
    requests = fleet.submit(3)
    claims = fleet.claim(requests)

    fleet.release(claims, "out of time")
    fleet.release(claims, "a second time")

    tracked = fleet.get(requests[0])
    assert (tracked.state, tracked.attempts, tracked.due_at) == (State.PENDING, 0, None)
    assert [e.why for e in tracked.timeline] == ["submitted", "claimed", "out of time"]
    assert {c.attempt for c in fleet.claim(requests, "other")} == {1}


# ---- cancelling --------------------------------------------------------------------------------


def test_pending_and_waiting_requests_are_cancelled(fleet: Fleet) -> None:
    pending, waiting = fleet.submit(2)
    (claim,) = fleet.claim([waiting])
    fleet.settle([(claim, Retry(NOW + MINUTE, "slow"))])

    assert fleet.cancel(pending).state == State.CANCELLED
    tracked = fleet.cancel(waiting)

    assert (tracked.state, tracked.due_at) == (State.CANCELLED, None)
    assert (tracked.timeline[-1].by, tracked.timeline[-1].why) == ("a caller", "cancelled")
    assert fleet.claim([pending, waiting], now=NOW + 2 * MINUTE) == []
    assert fleet.unqueued(before=NOW + MINUTE, now=NOW + 2 * MINUTE) == []


def test_what_is_leased_or_final_is_not_cancelled(fleet: Fleet) -> None:
    leased, done, cancelled = fleet.submit(3)
    fleet.claim([leased])
    fleet.settle([done_with(c, {"n": 1}) for c in fleet.claim([done])])
    fleet.cancel(cancelled)

    assert fleet.cancel(leased).state == State.LEASED
    assert fleet.cancel(done).state == State.DONE
    assert len(fleet.cancel(cancelled).timeline) == 2
    assert fleet.cancel(a_request(fleet.queue_key, 12345)) is None


def test_a_moment_before_the_epoch_of_ids_is_no_trouble(fleet: Fleet) -> None:
    request = a_request(fleet.queue_key, 5, from_ms(to_ms(LONG_AGO) - 10**10))
    fleet.insert([request])

    assert fleet.get(request).request == request
    assert fleet.claim([request]) == []


# ---- what is another's ----------------------------------------------------------------------


def test_of_what_is_anothers_or_waits_it_is_known_when_it_may_be_claimed(fleet: Fleet) -> None:
    pending, leased, waiting, done = fleet.submit(4)
    claims = {claim.request.id: claim for claim in fleet.claim([leased, waiting, done])}
    due_at = NOW + 7 * MINUTE
    fleet.settle([(claims[waiting.id], Retry(due_at, "later")), done_with(claims[done.id])])
    entries = entries_of([pending, leased, waiting, done])

    found = dict(fleet.store.due(fleet.queue_key, fleet.biz, entries))

    assert found.keys() == {entries[1], entries[2]}
    assert found[entries[2]] == due_at
    assert found[entries[1]] > NOW


def test_an_entry_of_another_time_is_nobodys(fleet: Fleet) -> None:
    [request] = fleet.submit(1)
    fleet.claim([request])
    [entry] = entries_of([request])

    other = Entry(entry.id, entry.biz, entry.ts + 1)

    assert fleet.store.due(fleet.queue_key, fleet.biz, [other]) == []
