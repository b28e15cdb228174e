"""ports.RequestStore.cancel_job: a whole job is cancelled, whatever its workers do meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_record,
    a_request,
    done_with,
    snowflakes,
)
from tests.fakes.requests import MemoryRequestStore
from tests.kit.examples import examples
from tests.kit.kernel import QueueKey
from tests.kit.requests import Dead, Ledger, Retry, State

JOB = "weekly"


def submit(fleet: Fleet, number: int, job: str | None = JOB, worker: int = 7) -> list:
    requests = [a_request(fleet.queue_key, i, job=job) for i in snowflakes(number, worker=worker)]
    assert fleet.insert(requests).refused == {}
    return requests


def cancel(fleet: Fleet, limit: int = 1_000, job: str = JOB) -> int:
    return fleet.store.cancel_job(fleet.queue_key, fleet.biz, job, limit, "a caller", NOW)


def states(fleet: Fleet, requests: list) -> list[int]:
    return [fleet.get(request).state for request in requests]


def test_what_is_pending_waiting_or_leased_is_cancelled_and_counted(fleet: Fleet) -> None:
    requests = submit(fleet, 30)
    claims = fleet.claim(requests[:20])
    assert fleet.settle([done_with(claim, {"n": 1}) for claim in claims[:5]]) == set()
    fleet.settle([(claim, Dead("gone", "PageGone")) for claim in claims[5:8]])
    fleet.settle([(claim, Retry(NOW + MINUTE, "later", "slow")) for claim in claims[8:12]])

    assert cancel(fleet) == 22

    assert fleet.audit(job=JOB) == Ledger(submitted=30, done=5, dead=3, cancelled=22)
    assert fleet.audit() == fleet.audit(job=JOB)
    found = fleet.get(claims[15].request)
    assert found.state == State.CANCELLED
    assert found.due_at is None
    assert (found.timeline[-1].by, found.timeline[-1].why) == ("a caller", "its job was cancelled")


def test_cancelling_again_changes_nothing(fleet: Fleet) -> None:
    requests = submit(fleet, 4)
    cancel(fleet)
    before = [fleet.get(request) for request in requests]

    assert cancel(fleet) == 0

    assert [fleet.get(request) for request in requests] == before
    assert fleet.audit(job=JOB) == Ledger(submitted=4, cancelled=4)


def test_other_jobs_and_what_has_none_go_on(fleet: Fleet) -> None:
    submit(fleet, 5)
    other = submit(fleet, 5, job="other", worker=8)
    alone = submit(fleet, 5, job=None, worker=9)

    assert cancel(fleet) == 5

    assert set(states(fleet, [*other, *alone])) == {State.PENDING}
    assert fleet.audit() == Ledger(submitted=15, pending=10, cancelled=5)


def test_a_job_of_that_name_of_another_tenant_or_biz_goes_on(fleet: Fleet) -> None:
    mine = submit(fleet, 5)
    for queue_key in (
        QueueKey("nobody-else", "shop", "main"),
        QueueKey(fleet.queue_key.tenant, "docs", "main"),
    ):
        assert fleet.store.cancel_job(queue_key, fleet.biz, JOB, 100, "a caller", NOW) == 0

    assert set(states(fleet, mine)) == {State.PENDING}


def test_a_large_job_is_cancelled_in_bounded_rounds(fleet: Fleet) -> None:
    submit(fleet, 100)
    shards = 8

    rounds = []
    while count := cancel(fleet, limit=24):
        rounds.append(count)

    assert sum(rounds) == 100
    assert max(rounds) < 24 + shards
    assert fleet.audit(job=JOB) == Ledger(submitted=100, cancelled=100)


def test_what_is_cancelled_is_neither_claimed_renewed_nor_settled(fleet: Fleet) -> None:
    requests = submit(fleet, 6)
    claims = fleet.claim(requests[:3])
    cancel(fleet)

    ids = {request.id for request in requests[:3]}
    assert fleet.renew(claims, NOW + MINUTE) == ids
    assert fleet.settle([done_with(claim, {"n": 1}) for claim in claims]) == ids
    assert fleet.claim(requests, token="another", now=NOW + timedelta(hours=1)) == []
    assert fleet.records() == []
    assert fleet.unqueued(before=NOW + MINUTE, now=NOW + timedelta(hours=1)) == []
    assert fleet.audit(job=JOB) == Ledger(submitted=6, cancelled=6)


def test_a_page_that_was_read_in_part_leaves_nothing(fleet: Fleet) -> None:
    [claim] = fleet.claim(submit(fleet, 1))
    part = [a_record(claim, n) for n in range(3)]
    assert fleet.store.store_part(fleet.queue_key, fleet.biz, claim, part, NOW)
    assert len(fleet.records()) == 3

    cancel(fleet)

    assert fleet.records() == []
    assert not fleet.store.store_part(fleet.queue_key, fleet.biz, claim, part, NOW)
    assert fleet.records() == []


def test_of_a_settlement_and_a_cancelling_at_once_exactly_one_wins(fleet: Fleet) -> None:
    requests = submit(fleet, 120)
    claims = fleet.claim(requests)
    parts = [claims[n::6] for n in range(6)]
    start = Barrier(len(parts) + 2)

    def settle(part: list) -> set:
        start.wait(60)
        lost = set()
        for claim in part:
            lost |= fleet.settle([done_with(claim, {"n": 1})])
        return lost

    def sweep(_: int) -> int:
        start.wait(60)
        total = 0
        while count := cancel(fleet, limit=16):
            total += count
        return total

    with ThreadPoolExecutor(len(parts) + 2) as threads:
        settling = [threads.submit(settle, part) for part in parts]
        sweeping = [threads.submit(sweep, n) for n in range(2)]
        lost = set().union(*(one.result(60) for one in settling))
        cancelled = sum(one.result(60) for one in sweeping)

    assert cancelled == len(lost)
    ended = dict(zip([r.id for r in requests], states(fleet, requests), strict=True))
    assert {i for i, state in ended.items() if state == State.CANCELLED} == lost
    assert fleet.audit(job=JOB) == Ledger(submitted=120, done=120 - cancelled, cancelled=cancelled)
    assert len(fleet.records()) == 120 - cancelled


@examples(0.6)
@given(
    st.lists(
        st.sampled_from(["submit", "claim", "done", "retry", "dead", "release", "cancel"]),
        max_size=30,
    ),
    st.integers(1, 5),
)
def test_whatever_happens_meanwhile_the_ledger_is_exact(steps: list[str], limit: int) -> None:
    fleet = Fleet(MemoryRequestStore(), "acme")
    claims: list = []
    serial = 0
    for step in steps:
        if step == "submit":
            serial += 1
            requests = submit(fleet, 3, worker=serial)
            continue
        if step == "cancel":
            cancel(fleet, limit)
        elif step == "claim" and serial:
            claims += fleet.claim(requests, token=f"t{len(claims)}")
        elif claims:
            claim = claims.pop()
            ends = {
                "done": done_with(claim, {"n": 1}),
                "retry": (claim, Retry(NOW + MINUTE, "later", "slow")),
                "dead": (claim, Dead("gone", "PageGone")),
            }
            if step in ends:
                fleet.settle([ends[step]])
            else:
                fleet.release([claim])
        fleet.audit(job=JOB)
    while cancel(fleet, limit):
        pass
    ledger = fleet.audit(job=JOB)
    assert ledger.submitted == 3 * serial
    assert ledger.open == 0
