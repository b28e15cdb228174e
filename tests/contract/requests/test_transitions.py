"""A biz's own states: who changes them at the same moment, what is counted, and what is kept."""

import threading
from collections.abc import Iterable
from datetime import timedelta

import pytest

from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_record,
    a_request,
    done_with,
    ledgers_of,
    snowflakes,
)
from tests.kit.implementations import fixture_over
from tests.kit.mongo import MongoRequestStore
from tests.kit.requests import Dead, Ledger, Request, Retry, State, Transited, Transition

#: Two open states and two final ones.
HELD, PARKED, REVIEWED, CLOSED = 100, 999, 1_000, 2**31 - 1
STATES = {"held": HELD, "parked": PARKED, "reviewed": REVIEWED, "closed": CLOSED}
WEEK = timedelta(days=7)
GRACE = timedelta(seconds=300)

store = fixture_over(MongoRequestStore)


@pytest.fixture
def fleet(store: MongoRequestStore, tenant: str) -> Fleet:
    return Fleet(store, tenant, a_biz(states=STATES))


def change(
    fleet: Fleet, requests: Iterable[Request], before: int, after: int, now=NOW
) -> list[Transited | None]:
    asked = Transition(before=before, after=after, by="api:acme", why="as we wish")
    ids = [one.id for one in requests]
    found = fleet.store.transition(fleet.queue_key, fleet.biz, ids, asked, now)
    return [found.get(one) for one in ids]


def changed(
    fleet: Fleet, requests: Iterable[Request], before: int, after: int, now=NOW
) -> list[bool]:
    found = change(fleet, requests, before, after, now)
    return [one is not None and one.changed for one in found]


def work(fleet: Fleet, requests: list[Request], *fields: dict, now=NOW) -> None:
    claims = fleet.claim(requests, now=now)
    assert len(claims) == len(requests)
    assert not fleet.settle([done_with(claim, *fields) for claim in claims], now)


def test_what_is_pending_is_held_by_nobody_and_let_go_again(fleet: Fleet) -> None:
    requests = fleet.submit(4)

    assert changed(fleet, requests[:2], State.PENDING, HELD) == [True, True]

    assert {claim.request.id for claim in fleet.claim(requests)} == {one.id for one in requests[2:]}
    assert (fleet.audit().pending, fleet.audit().own[HELD], fleet.audit().others) == (0, 2, 2)
    assert fleet.audit().open == 4
    assert {one.id for one in fleet.unqueued(before=NOW + WEEK)} == set()

    assert changed(fleet, requests[:1], HELD, State.PENDING) == [True]
    assert len(fleet.claim(requests, "later")) == 1
    assert fleet.get(requests[0]).attempts == 1


def test_a_finished_request_keeps_its_records_and_counts_as_what_it_has_become(
    fleet: Fleet,
) -> None:
    requests = fleet.submit(3)
    work(fleet, requests, {"n": 1}, {"n": 2})

    assert all(changed(fleet, requests[:2], State.DONE, REVIEWED))
    assert all(changed(fleet, requests[:1], REVIEWED, CLOSED))

    ledger = fleet.audit()
    assert (ledger.done, ledger.own[REVIEWED], ledger.own[CLOSED], ledger.open) == (1, 1, 1, 0)
    assert len(fleet.records()) == 6
    assert [fleet.get(one).records for one in requests] == [2, 2, 2]
    assert all(changed(fleet, requests[:1], CLOSED, State.DONE))
    assert fleet.audit().done == 2


def test_the_timeline_says_who_made_it_what_and_why(fleet: Fleet) -> None:
    [request] = fleet.submit(1)

    change(fleet, [request], State.PENDING, HELD)

    event = fleet.get(request).timeline[-1]
    assert (event.state, event.by, event.why, event.at) == (HELD, "api:acme", "as we wish", NOW)
    assert fleet.find()[0].timeline[-1].state == HELD
    assert [one.request.id for one in fleet.find(state=HELD)] == [request.id]


def test_only_what_is_in_the_state_expected_is_changed_and_that_once(fleet: Fleet) -> None:
    pending, waits, gone = [*fleet.submit(2), a_request(fleet.queue_key, snowflakes(1)[0] - 5)]
    [claim] = fleet.claim([waits])
    fleet.settle([(claim, Retry(NOW + MINUTE, "slow"))])

    first = change(fleet, [pending, waits, gone], State.PENDING, HELD)
    again = change(fleet, [pending, waits, gone], State.PENDING, HELD)

    assert [one and (one.state, one.changed) for one in first] == [
        (State.PENDING, True),
        (State.WAITING, False),
        None,
    ]
    assert [one and (one.state, one.changed) for one in again] == [
        (HELD, False),
        (State.WAITING, False),
        None,
    ]
    assert len(fleet.get(pending).timeline) == 2
    assert fleet.audit().others == 1


def test_no_other_tenant_changes_it(fleet: Fleet, store: MongoRequestStore) -> None:
    [request] = fleet.submit(1)
    rival = Fleet(store, f"x{fleet.queue_key.tenant}"[:31], fleet.biz)

    assert change(rival, [request], State.PENDING, HELD) == [None]
    assert fleet.get(request).state == State.PENDING


def test_a_request_that_waits_for_its_next_attempt_begins_anew_when_it_is_let_go(
    fleet: Fleet,
) -> None:
    [request] = fleet.submit(1)
    [claim] = fleet.claim([request])
    fleet.settle([(claim, Retry(NOW + MINUTE, "slow", "Throttled"))])

    assert changed(fleet, [request], State.WAITING, HELD) == [True]
    assert fleet.get(request).due_at is None
    assert fleet.unqueued(now=NOW + 2 * MINUTE) == []
    assert changed(fleet, [request], HELD, State.PENDING) == [True]

    found = fleet.get(request)
    assert (found.attempts, found.error, found.reason, found.worker) == (0, None, None, None)
    assert fleet.audit().pending == 1


def test_a_worker_that_has_it_and_one_who_changes_it_do_not_both_win(
    store: MongoRequestStore, tenant: str
) -> None:
    fleet = Fleet(store, tenant, a_biz(states=STATES))
    requests = fleet.submit(60)
    held: list[bool] = []

    def hold() -> None:
        for start in range(0, 60, 10):
            held.extend(changed(fleet, requests[start : start + 10], State.PENDING, HELD))

    holder = threading.Thread(target=hold)
    holder.start()
    won = {
        claim.request.id
        for start in range(50, -1, -10)
        for claim in fleet.claim(requests[start : start + 10])
    }
    holder.join()

    of_us = {one.id for one, did in zip(requests, held, strict=True) if did}
    assert won | of_us == {one.id for one in requests}
    assert not won & of_us
    assert (fleet.audit().leased, fleet.audit().others) == (len(won), len(of_us))


def test_two_who_change_the_same_one_change_it_once(fleet: Fleet) -> None:
    requests = fleet.submit(30)
    work(fleet, requests)
    won: list[list[bool]] = []

    def review(after: int) -> None:
        won.append(changed(fleet, requests, State.DONE, after))

    threads = [threading.Thread(target=review, args=(one,)) for one in (REVIEWED, CLOSED)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert all(sum(did) == 1 for did in zip(*won, strict=True))
    ledger = fleet.audit()
    assert (ledger.done, ledger.others) == (0, 30)


def test_what_is_open_expires_in_its_own_state_and_what_has_ended_does_not(fleet: Fleet) -> None:
    requests = fleet.submit(3)
    work(fleet, requests[2:])
    changed(fleet, requests[:1], State.PENDING, HELD)
    changed(fleet, requests[2:], State.DONE, REVIEWED)

    assert fleet.expire(NOW + WEEK) == 2

    ledger = fleet.audit(NOW + WEEK)
    assert (ledger.expired, ledger.own[HELD], ledger.own[REVIEWED]) == (2, 0, 1)
    assert fleet.get(requests[0]).state == State.EXPIRED
    assert fleet.get(requests[2]).state == REVIEWED


def test_what_mongodb_removes_of_final_states_is_counted_for_ever(fleet: Fleet) -> None:
    requests = fleet.submit(4)
    work(fleet, requests)
    changed(fleet, requests, State.DONE, REVIEWED)
    fleet.expire(NOW)
    fleet.reconcile(NOW)
    remove(fleet, requests)

    later = NOW + WEEK + GRACE * 4
    fleet.expire(later)

    assert fleet.reconcile(later) == []
    assert (fleet.audit(later).own[REVIEWED], fleet.audit(later).expired) == (4, 0)


def test_what_mongodb_removes_of_open_states_while_no_recovery_runs_is_booked_as_expired(
    fleet: Fleet,
) -> None:
    requests = fleet.submit(4)
    changed(fleet, requests, State.PENDING, PARKED)
    fleet.expire(NOW)
    fleet.reconcile(NOW)
    remove(fleet, requests)

    later = NOW + WEEK + GRACE * 4
    [correction] = summed(fleet.reconcile(later))

    assert correction == ("expired", 4)
    assert (fleet.audit(later).expired, fleet.audit(later).others) == (4, 0)


def summed(corrections: list) -> list[tuple[str, int]]:
    assert len({one.term for one in corrections}) == 1
    return [(corrections[0].term, sum(one.count for one in corrections))]


def remove(fleet: Fleet, requests: list[Request]) -> None:
    """Remove requests silently, as MongoDB's TTL monitor does."""
    if hasattr(fleet.store, "state"):
        kept = fleet.store.state.of(fleet.queue_key).requests
        for request in requests:
            del kept[request.id]
        return
    ids = [request.id for request in requests]
    for node in ("east", "west"):
        for database in ("one", "two"):
            for number in range(2):
                of = fleet.store.nodes.database(node, fleet.queue_key.tenant, database)
                of[f"shop.requests_{number:03d}"].delete_many({"_id": {"$in": ids}})


def test_a_configuration_that_forgets_a_state_changes_nothing_of_what_is_counted(
    fleet: Fleet, store: MongoRequestStore
) -> None:
    requests = fleet.submit(4)
    work(fleet, requests[2:])
    changed(fleet, requests[:2], State.PENDING, HELD)
    changed(fleet, requests[2:], State.DONE, REVIEWED)
    forgot = Fleet(store, fleet.queue_key.tenant, a_biz())

    assert forgot.audit() == Ledger(submitted=4, own={HELD: 2, REVIEWED: 2})
    assert {one.state for one in forgot.find()} == {HELD, REVIEWED}
    newest = forgot.find(newest=True, limit=9)
    assert {one.state for one in newest} == {HELD, REVIEWED}
    assert ledgers_of(store).totals(forgot.queue_key, forgot.biz, NOW) == forgot.audit()


def test_its_job_counts_what_has_ended_in_final_states_and_waits_for_the_rest(
    fleet: Fleet,
) -> None:
    requests = [a_request(fleet.queue_key, i, job="june") for i in snowflakes(3)]
    fleet.insert(requests)
    work(fleet, requests[:2])
    changed(fleet, requests[:1], State.DONE, REVIEWED)
    changed(fleet, requests[2:], State.PENDING, HELD)

    ledger = fleet.audit(job="june")

    fleet.submit(1)
    assert [one.state for one in fleet.find(job="june")] == [REVIEWED, State.DONE, HELD]
    assert [one.request for one in fleet.find(job="june", state=HELD)] == requests[2:]
    assert (ledger.submitted, ledger.done, ledger.ended, ledger.open) == (3, 1, 2, 1)
    assert fleet.store.cancel_job(fleet.queue_key, fleet.biz, "june", 10, "api:acme", NOW) == 1
    assert (fleet.audit(job="june").open, fleet.audit(job="june").cancelled) == (0, 1)


def test_an_open_one_is_cancelled_as_any_that_no_worker_has(fleet: Fleet) -> None:
    open_one, ended = fleet.submit(2)
    changed(fleet, [open_one], State.PENDING, HELD)
    changed(fleet, [ended], State.PENDING, REVIEWED)

    assert fleet.cancel(open_one).state == State.CANCELLED
    assert fleet.cancel(ended).state == REVIEWED
    assert (fleet.audit().cancelled, fleet.audit().own[REVIEWED]) == (1, 1)


def test_a_dead_letter_that_is_settled_otherwise_is_dead_no_more(fleet: Fleet) -> None:
    [request] = fleet.submit(1)
    [claim] = fleet.claim([request])
    fleet.settle([(claim, Dead("gone", "PageGone"))])

    assert changed(fleet, [request], State.DEAD, CLOSED) == [True]

    assert (fleet.audit().dead, fleet.audit().own[CLOSED]) == (0, 1)
    assert fleet.get(request).error == "gone"


def test_a_page_that_was_read_in_part_leaves_no_records_when_it_ends(fleet: Fleet) -> None:
    [request] = fleet.submit(1)
    [claim] = fleet.claim([request])
    assert fleet.store.store_part(fleet.queue_key, fleet.biz, claim, [a_record(claim)], NOW)
    fleet.settle([(claim, Retry(NOW + MINUTE, "slow"))])

    assert changed(fleet, [request], State.WAITING, HELD) == [True]
    assert len(fleet.records()) == 1
    assert changed(fleet, [request], HELD, CLOSED) == [True]

    assert fleet.records() == []


def test_what_is_too_old_to_be_worked_on_does_not_become_pending(fleet: Fleet) -> None:
    [request] = fleet.submit(1)
    changed(fleet, [request], State.PENDING, HELD)

    [found] = change(fleet, [request], HELD, State.PENDING, NOW + WEEK)

    assert (found.changed, found.late, found.state) == (False, True, HELD)
    assert fleet.get(request).state == HELD
