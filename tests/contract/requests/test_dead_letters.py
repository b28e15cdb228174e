"""Dead letters over both stores: made pending again exactly once, or removed."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.contract.dead_letter_cases import SECOND, DeadLetterCases, kill, submit
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
)
from tests.kit.requests import Answer, Dead, Entry, State


@pytest.fixture
def dead_letters(fleet: Fleet) -> DeadLetterCases:
    return DeadLetterCases(fleet)


# ---- replayed ----------------------------------------------------------------------------------


def test_replayed_dead_letters_are_pending_as_if_never_tried(fleet, dead_letters) -> None:
    dead, other = fleet.submit(2)
    kill(fleet, [dead, other], answer=Answer.of("http://a.example/", 404, {}, 0.1, b"no"))
    assert (fleet.audit().dead, fleet.audit().pending) == (2, 0)

    entries = dead_letters.replay([dead], now=NOW + SECOND)

    found = fleet.get(dead)
    assert entries == entries_of([dead])
    assert (found.state, found.attempts, found.request) == (State.PENDING, 0, dead)
    assert (found.error, found.reason, found.answer) == (None, None, None)
    assert (found.due_at, found.worker) == (None, None)
    line = found.timeline[-1]
    assert (line.by, line.at, line.state) == ("api:me", NOW + SECOND, State.PENDING)
    assert line.why.endswith(" v1")
    assert (fleet.audit().dead, fleet.audit().pending) == (1, 1)
    assert dead_letters.ids() == [other.id]


def test_a_replay_counts_in_the_ledger_of_the_job_too(fleet, dead_letters) -> None:
    mine = submit(fleet, 3, worker=1, job="mine")
    other = submit(fleet, 2, worker=2, job="other")
    kill(fleet, [*mine, *other])

    dead_letters.replay(mine[:2])

    assert [fleet.audit(job=job).dead for job in (None, "mine", "other")] == [3, 1, 2]
    assert [fleet.audit(job=job).pending for job in (None, "mine", "other")] == [2, 2, 0]


def test_replaying_twice_is_replaying_once(fleet, dead_letters) -> None:
    requests = fleet.submit(7)
    kill(fleet, requests)

    first = dead_letters.replay([*requests, *requests])
    second = dead_letters.replay(requests)

    assert sorted(e.id for e in first) == sorted(r.id for r in requests)
    assert second == []
    assert fleet.audit().dead == 0
    assert len(fleet.get(requests[0]).timeline) == 4  # submitted, claimed, dead, replayed


def test_two_callers_at_once_never_replay_the_same_dead_letter(fleet, dead_letters) -> None:
    requests = fleet.submit(60)
    kill(fleet, requests)
    callers = 4
    together = Barrier(callers)

    def call(_: int) -> list[Entry]:
        together.wait(60)
        return dead_letters.replay(requests)

    with ThreadPoolExecutor(callers) as executor:
        parts = list(executor.map(call, range(callers)))

    replayed = [entry.id for part in parts for entry in part]
    assert sorted(replayed) == sorted(r.id for r in requests)
    assert (fleet.audit().dead, fleet.audit().pending) == (0, 60)


def test_what_is_not_dead_is_left_alone(fleet, dead_letters) -> None:
    pending, leased, done, unknown = [*fleet.submit(3), a_request(fleet.queue_key, 99)]
    fleet.settle([done_with(c) for c in fleet.claim([done])])
    (claim,) = fleet.claim([leased])
    before = [fleet.get(r) for r in (pending, leased, done)]

    assert dead_letters.replay([pending, leased, done, unknown]) == []
    assert dead_letters.purge([pending, leased, done, unknown]) == 0

    assert [fleet.get(r) for r in (pending, leased, done)] == before
    assert fleet.renew([claim], NOW + MINUTE) == set()


def test_a_late_workers_token_is_worth_nothing_after_a_replay(fleet, dead_letters) -> None:
    (request,) = fleet.submit(1)
    (late,) = fleet.claim([request], "late", until=NOW + SECOND)
    (killer,) = fleet.claim([request], "killer", NOW + MINUTE)
    fleet.settle([(killer, Dead("no", "Internal"))])
    dead_letters.replay([request])
    (new,) = fleet.claim([request], "new", NOW + MINUTE)

    for claim in (late, killer):
        assert fleet.settle([done_with(claim, {"n": 1})]) == {request.id}
        assert fleet.renew([claim], NOW + MINUTE) == {request.id}
    assert (new.attempt, fleet.records()) == (1, [])
    assert fleet.settle([done_with(new, {"n": 2})]) == set()
    assert [r.fields for r in fleet.records()] == [{"n": 2}]


def test_the_rule_version_changes_only_where_it_is_asked_to(fleet, dead_letters) -> None:
    detail = submit(fleet, 2, worker=1)
    listing = submit(fleet, 2, worker=2, rule="list")
    same = submit(fleet, 1, worker=3, rule="same")
    requests = [*detail, *listing, *same]
    kill(fleet, requests)

    dead_letters.replay(requests, {"detail": "v9", "same": "v1", "unused": "v3"})

    versions = {r.id: fleet.get(r).request.body.rule_version for r in requests}
    assert [versions[r.id] for r in requests] == ["v9", "v9", "v1", "v1", "v1"]
    whys = [fleet.get(r).timeline[-1].why for r in requests]
    assert [why.split()[-1] for why in whys] == [versions[r.id] for r in requests]
    assert all(
        fleet.get(r).request.body.url == r.body.url
        and fleet.get(r).request.body.rule == r.body.rule
        for r in requests
    )
    assert {c.request.body.rule_version for c in fleet.claim(detail, "t2")} == {"v9"}


def test_a_replayed_dead_letter_that_dies_again_is_dead_once(fleet, dead_letters) -> None:
    (request,) = fleet.submit(1)
    kill(fleet, [request])
    for _ in range(3):
        dead_letters.replay([request])
        kill(fleet, [request])

    assert fleet.audit().dead == 1
    assert dead_letters.ids() == [request.id]


def test_counters_ids_of_every_generation_are_found(store, tenant) -> None:
    old = a_generation(starts_at=LONG_AGO, nodes=("east",), databases=("one",), shards=3)
    new = a_generation(starts_at=NOW - SECOND, nodes=("west",), databases=("two",), shards=3)
    before = Fleet(store, tenant, a_biz(generations=(old,)))
    after = Fleet(store, tenant, a_biz(generations=(old, new)))
    aged = [a_request(before.queue_key, i, NOW - MINUTE) for i in range(1, 8)]
    fresh = [a_request(after.queue_key, i) for i in range(11, 18)]
    before.insert(aged)
    after.insert(fresh)
    kill(after, [*aged, *fresh])
    dead_letters = DeadLetterCases(after)

    replayed = dead_letters.replay([*aged[:5], *fresh[:5]])
    removed = dead_letters.purge([*aged, *fresh])

    assert sorted(e.id for e in replayed) == [*range(1, 6), *range(11, 16)]
    assert removed == 4
    assert after.audit().dead == 4


# ---- removed -----------------------------------------------------------------------------------


def test_purged_dead_letters_are_gone_and_stay_dead_in_the_ledger(fleet, dead_letters) -> None:
    requests = fleet.submit(9)
    kill(fleet, requests)

    assert dead_letters.purge([*requests[:5], *requests[:5]]) == 5
    assert dead_letters.purge(requests[:5]) == 0

    assert dead_letters.ids() == [r.id for r in requests[5:]]
    assert fleet.get(requests[0]) is None
    ledger = fleet.audit()
    assert (ledger.submitted, ledger.dead, ledger.difference) == (9, 9, 0)


def test_a_single_submission_that_is_purged_at_once_was_submitted(fleet, dead_letters) -> None:
    (request,) = fleet.submit(1)
    kill(fleet, [request])

    dead_letters.purge([request])

    assert (fleet.audit().submitted, fleet.audit().dead) == (1, 1)
