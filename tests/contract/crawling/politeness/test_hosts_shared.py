"""Tenants share the slots and the permits of a host."""

import pytest

from tests.contract.host_cases import EXACT
from tests.fakes.host_scheduler import MAX_TENANTS
from tests.kit.config import HostLimits
from tests.kit.politeness import DEMAND_SECONDS, HORIZON_SECONDS


def compete(street, seconds, polls, answer=0.05, **shares):
    """Tenants ask at their own pace, and download what they get at once; slots by tenant."""
    left = dict.fromkeys(polls, 0.0)
    ends: list[tuple[float, str]] = []
    end = street.time.seconds + seconds
    while street.time.seconds < end:
        now = street.time.seconds
        for of, every in polls.items():
            if left[of] > now + EXACT:
                continue
            left[of] = now + every
            done = [one for one in ends if one[1] == of and one[0] <= now]
            ends = [one for one in ends if one not in done]
            running = sum(one[1] == of for one in ends)
            if done:
                street.report(of, of, running, answered=len(done), seconds=answer)
            grant = street.ask(of, of, count=1_000, running=running, share=shares.get(of, 1))
            first = now + grant.wait_seconds
            ends += [(first + n * grant.interval_seconds + answer, of) for n in range(grant.count)]
        street.wait(0.05)
    return {of: len(street.moments(of)) for of in polls}


@pytest.mark.parametrize("slower", [0.05, 0.5, 1.0])
def test_two_tenants_share_a_host_however_often_each_asks(street, slower):
    street.limits = HostLimits(per_second=10, concurrency=100)

    found = compete(street, 40, {"quick": 0.05, "slow": slower})

    assert sum(found.values()) >= 0.95 * 400
    # Half of all, less what the other had ahead when it was alone, and one slot.
    assert min(found.values()) >= 200 - HORIZON_SECONDS * 10 - 1


def test_three_tenants_share_a_host(street):
    street.limits = HostLimits(per_second=20, concurrency=100)

    found = compete(street, 30, {"a": 0.05, "b": 0.35, "c": 0.7})

    assert sum(found.values()) >= 0.95 * 600
    assert min(found.values()) >= 200 - HORIZON_SECONDS * 20 - 2


def test_tenants_have_slots_of_a_host_by_their_shares(street):
    street.limits = HostLimits(per_second=20, concurrency=100)

    found = compete(street, 40, {"a": 0.05, "b": 0.35, "c": 0.7}, a=2, b=5)

    assert sum(found.values()) >= 0.95 * 800
    for tenant, part in {"a": 2 / 8, "b": 5 / 8, "c": 1 / 8}.items():
        assert abs(found[tenant] - 800 * part) <= HORIZON_SECONDS * 20 + 2


def test_a_share_that_is_changed_holds_from_the_next_ask_on(street):
    street.limits = HostLimits(per_second=20, concurrency=100)
    compete(street, 20, {"a": 0.05, "b": 0.05})
    before = len(street.moments("a"))

    compete(street, 40, {"a": 0.05, "b": 0.05}, a=3)

    assert abs(len(street.moments("a")) - before - 600) <= HORIZON_SECONDS * 20 + 2


def test_tenants_have_permits_by_their_shares(street):
    """Answers take long, so permits are what there is too little of."""
    street.limits = HostLimits(per_second=100, concurrency=8)

    found = compete(street, 60, {"a": 0.05, "b": 0.05}, answer=0.5, a=3)

    assert found["a"] / found["b"] == pytest.approx(3, rel=0.15)


def test_a_tenant_that_comes_later_waits_for_no_more_than_the_horizon(street):
    street.limits = HostLimits(per_second=10, concurrency=100)
    compete(street, 20, {"first": 0.05})
    arrived = street.time.seconds
    before = len(street.slots)

    compete(street, 10, {"first": 0.05, "later": 0.5})

    assert street.moments("later")[0] <= arrived + HORIZON_SECONDS + 1
    after = [of for _, of, _ in street.slots[before:]]
    assert after.count("later") >= 50 - HORIZON_SECONDS * 10 - 1


def test_an_idle_tenant_costs_the_others_nothing(street):
    street.limits = HostLimits(per_second=10, concurrency=8)
    compete(street, 5, {"acme": 0.1, "idle": 0.1})
    street.report("idle", "idle", running=0, answered=1, seconds=0.05)
    before = len(street.moments("acme"))

    compete(street, DEMAND_SECONDS, {"acme": 0.1})
    while_it_counts = len(street.moments("acme")) - before
    compete(street, 10, {"acme": 0.1})
    later = len(street.moments("acme")) - before - while_it_counts

    assert while_it_counts >= 0.9 * DEMAND_SECONDS * 10 - HORIZON_SECONDS * 10
    assert later >= 99
    assert street.state.tenants == ("acme",)


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_tenants_share_permits_too_few_for_them(street, concurrency):
    """Answers take long, so permits are what there is too little of."""
    street.limits = HostLimits(per_second=100, concurrency=concurrency)

    found = compete(street, 60, {"a": 0.05, "b": 0.3, "c": 0.2}, answer=0.5)

    possible = 60 / 0.5 * concurrency
    assert sum(found.values()) >= 0.4 * possible
    assert min(found.values()) >= 0.15 * sum(found.values())


def test_a_tenant_that_holds_more_than_its_share_makes_room(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    assert street.ask("w1", "acme", count=100).permits == 8
    assert street.ask("w2", "beta", count=100).why == "concurrency"
    street.wait(2)

    refused = street.ask("w1", "acme", count=100, running=8)
    assert (refused.count, refused.why) == (0, "share")
    street.report("w1", "acme", running=4, answered=4, seconds=0.5)
    again = street.ask("w1", "acme", count=100, running=4)
    other = street.ask("w2", "beta", count=100)

    assert again.permits == 4
    assert other.permits == 4


def test_more_tenants_than_are_remembered_wait(street):
    street.limits = HostLimits(per_second=0.01, concurrency=1)
    for n in range(MAX_TENANTS):
        street.ask("w", f"t{n}", count=5)

    late = street.ask("w", "late", count=5)
    assert (late.count, late.why) == (0, "share")
    assert late.ready_seconds > 0
    street.wait(200)
    assert street.ask("w", "late", count=5).count == 1
