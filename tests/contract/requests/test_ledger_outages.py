"""Tests of the ledger's corrections after recovery has not run for a while."""

from datetime import timedelta

from tests.contract.requests.test_ledgers import remove, submit_job
from tests.contract.store_cases import MINUTE, NOW, Fleet, a_biz, a_generation
from tests.kit.requests import Ledger


def test_an_outage_a_little_longer_than_the_grace_is_booked(fleet: Fleet) -> None:
    requests = submit_job(fleet, "red", 100)
    fleet.expire(NOW)
    assert fleet.reconcile(NOW) == []
    # What expired right after that sweep is MongoDB's to remove once the grace has passed.
    remove(fleet, *requests[:30])

    corrections = fleet.reconcile(NOW + timedelta(seconds=fleet.biz.expiry_grace_seconds + 20))

    assert sum(one.count for one in corrections) == 30
    assert fleet.audit() == fleet.audit(job="red") == Ledger(submitted=100, pending=70, expired=30)


def test_what_was_removed_before_recovery_ever_ran_is_expired_and_stays_submitted(
    fleet: Fleet,
) -> None:
    requests = submit_job(fleet, "red", 100)
    remove(fleet, *requests[:30])

    corrections = fleet.reconcile(NOW)

    assert sum(one.count for one in corrections) == 30
    assert {one.term for one in corrections} == {"expired"}
    assert fleet.audit() == fleet.audit(job="red") == Ledger(submitted=100, pending=70, expired=30)


def test_what_was_left_in_an_old_generation_expires_after_an_outage_too(fleet: Fleet) -> None:
    """MongoDB leaves alone what is not counted, and no claim takes it any more."""
    [old] = fleet.biz.generations
    fleet.submit(1)
    fleet.submit(60, NOW + timedelta(seconds=1))
    newer = a_generation(starts_at=NOW + MINUTE, nodes=("east",), databases=("three",))
    fleet.biz = a_biz(generations=(old, newer))

    back = NOW + timedelta(seconds=3 * fleet.biz.ttl_seconds)

    assert fleet.expire(back) == 61
    assert fleet.audit(back) == Ledger(submitted=61, expired=61)
