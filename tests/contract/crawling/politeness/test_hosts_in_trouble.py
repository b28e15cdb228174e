"""A host that refuses or is slow is left alone for a while, and asked as it can answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract import host_cases
from tests.contract.host_cases import EXACT
from tests.kit.config import HostLimits
from tests.kit.kernel import to_ms
from tests.kit.politeness import STRAINED_ORIGINS, OwnAnswers
from tests.kit.queue import host_key


def test_nothing_is_granted_in_a_back_off_and_it_reports_when_it_is_over(street):
    street.ask("w1", count=3)
    street.report("w1", running=2, overloads=1)

    grant = street.ask("w2", count=5)

    assert (grant.count, grant.why, grant.ready_seconds) == (0, "back-off", 2.0)
    assert to_ms(street.state.back_off_until) == to_ms(street.time()) + 2_000
    assert street.state.overload == 1
    street.wait(1.999)
    assert street.ask("w2", count=5).count == 0
    street.wait(0.001)
    assert street.ask("w2", count=5).count > 0
    assert street.state.back_off_until is None


def test_a_back_off_doubles_with_each_further_overload_up_to_its_cap(street):
    street.limits = HostLimits(backoff_seconds=2, max_backoff_seconds=20)
    spans = []
    for _ in range(6):
        street.report(overloads=1)
        spans.append(street.ask(count=1).ready_seconds)
        street.wait(spans[-1])

    assert spans == [2, 4, 8, 16, 20, 20]


def test_what_began_before_a_back_off_does_not_count_again(street):
    for n in range(8):
        street.report(f"w{n}", overloads=3)

    assert street.state.overload == 1
    assert street.ask(count=1).ready_seconds == 2.0


@pytest.mark.parametrize(("asked", "waited"), [(1, 2), (120, 120), (90_000, 86_400)])
def test_a_retry_after_counts_where_it_is_longer_up_to_its_cap(street, asked, waited):
    street.report(overloads=1, retry_after_seconds=asked)

    assert street.ask(count=1).ready_seconds == waited


def test_a_longer_retry_after_counts_in_a_back_off_too(street):
    street.report("w1", overloads=1)
    street.report("w2", overloads=1, retry_after_seconds=60)

    assert street.ask(count=1).ready_seconds == 60
    assert street.state.overload == 1


def test_after_a_back_off_the_host_is_tried_before_it_is_trusted(street):
    for _ in range(4):
        street.report(overloads=1)
        street.wait(street.ask(count=1).ready_seconds)
    intervals = []
    for _ in range(6):
        intervals.append(street.ask(count=1).interval_seconds)
        street.report(answered=1, seconds=0.05)
        street.wait(5)

    assert intervals == [1.6, 0.8, 0.4, 0.2, 0.1, 0.1]
    assert street.state.overload == 0


def test_an_answer_in_a_back_off_says_nothing_of_the_time_after_it(street):
    street.report(overloads=1)
    street.report(answered=5, seconds=0.1)

    assert street.state.overload == 1


def test_a_quick_host_is_never_slowed(street):
    for _ in range(50):
        street.report(answered=10, seconds=0.75)  # 8 at once, 0.1 s apart: 0.8 s
        street.wait(1)

    assert street.state.interval_seconds == 0
    assert street.ask(count=1).interval_seconds == 0.1


def test_a_slow_host_is_asked_for_as_much_as_its_concurrency_at_once(street):
    for _ in range(12):
        street.report(answered=4, seconds=8)
        street.wait(1)

    assert street.state.answer_seconds == pytest.approx(8, rel=0.01)
    assert street.state.interval_seconds == pytest.approx(1, rel=0.01)
    assert street.ask(count=99).count <= 3


def test_one_slow_page_does_not_slow_a_quick_host(street):
    for _ in range(10):
        street.report(answered=10, seconds=0.05)
    street.report(answered=1, seconds=30)

    assert street.ask(count=1).interval_seconds <= 0.2
    for _ in range(3):
        street.report(answered=5, seconds=0.05)
    assert street.state.interval_seconds == 0


def test_a_host_that_becomes_quick_again_is_asked_as_before(street):
    for _ in range(12):
        street.report(answered=4, seconds=8)
    for _ in range(6):
        street.report(answered=4, seconds=0.1)

    assert street.ask(count=1).interval_seconds == 0.1


def test_without_adaption_only_the_limits_count(street):
    street.limits = HostLimits(adaptive=False)
    for _ in range(12):
        street.report(answered=4, seconds=8)
        street.report(overloads=1)
        street.wait(street.ask(count=1).ready_seconds)

    assert street.ask(count=1).interval_seconds == 0.1


@given(
    seen=st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100), st.booleans()), max_size=30),
    per_second=st.sampled_from([0.1, 5.0, 100.0]),
)
def test_a_host_is_never_asked_faster_than_its_limits(seen, per_second):
    street = host_cases.in_memory("h.example", host_cases.Time())
    street.limits = HostLimits(per_second=per_second)
    for answered, seconds, overloads in seen:
        street.report(answered=answered, seconds=seconds, overloads=int(overloads))
        street.wait(3)
        assert street.ask(count=1).interval_seconds >= 1 / per_second - EXACT


# ---- whose overload counts for whom ------------------------------------------------------------


def test_what_only_one_tenant_goes_by_keeps_no_other_from_the_host(street):
    for _ in range(14):
        street.report(tenant="acme", own=OwnAnswers(overloads=1))
        street.wait(600)
    street.report(tenant="acme", own=OwnAnswers(overloads=1))

    assert street.ask(tenant="acme").why == "back-off"
    grant = street.ask(tenant="beta")
    assert (grant.count, grant.interval_seconds) == (1, 0.1)
    assert (street.state.overload, street.state.back_offs) == (0, {})
    assert set(street.seen_by(tenant="acme").back_offs) == {f"https://{street.host}"}


def test_overload_is_that_of_a_scheme_a_host_and_a_port(street):
    street.report(overloads=1, origin=f"https://{street.host}:8443")

    assert street.ask(origin=f"https://{street.host}:8443").why == "back-off"
    assert street.ask(origin=f"https://{street.host}").count == 1
    street.wait(1)
    assert street.ask(origin=f"http://{street.host}:8443").count == 1
    assert street.ask(origin="").why == "back-off"
    assert (street.state.overload, street.state.back_off_until) == (0, None)
    assert set(street.state.back_offs) == {f"https://{street.host}:8443"}


def test_an_answer_of_a_proxy_ends_nothing_that_the_host_itself_has_asked_for(street):
    street.report(overloads=1, own=OwnAnswers(overloads=1))
    street.wait(2)

    street.report(own=OwnAnswers(answered=1))
    assert street.state.overload == 1
    street.report(answered=1)
    assert street.seen_by(tenant="acme").overload == 0


def test_slow_proxies_slow_their_own_tenant_down_alone(street):
    for _ in range(12):
        street.report(own=OwnAnswers(answered=4, seconds=8))
        street.wait(1)

    assert street.ask(tenant="beta").interval_seconds == 0.1
    assert street.ask(tenant="acme").interval_seconds == pytest.approx(1, rel=0.01)
    assert (street.state.answer_seconds, street.state.interval_seconds) == (0, 0)


def test_of_more_origins_than_are_remembered_those_go_whose_back_off_ends_first(street):
    origins = [f"https://{street.host}:{port}" for port in range(1, 2 * STRAINED_ORIGINS + 1)]
    for origin in origins:
        street.report(overloads=1, own=OwnAnswers(overloads=1), origin=origin)
        street.wait(0.01)

    assert set(street.state.back_offs) == set(origins[STRAINED_ORIGINS:])
    assert set(street.seen_by(tenant="acme").back_offs) == set(origins[STRAINED_ORIGINS:])


def test_the_overload_that_older_versions_kept_for_a_whole_host_is_obeyed_until_it_is_over(
    redis_connection, tenant
):
    street = host_cases.on_redis(redis_connection, f"{tenant}.example", host_cases.Time())
    now = to_ms(street.time()) * 1_000
    kept = f"{now} 100000 {now + 8_000_000} 3 50000 0 8000000 29538720 0 0 1 0 0 0 0 0"
    redis_connection.client.hset(host_key(street.host), "*", kept)

    waiting = street.ask(tenant="beta")
    assert (waiting.why, waiting.ready_seconds, street.state.overload) == ("back-off", 8.0, 3)
    assert set(street.state.back_offs) == {""}
    intervals = []
    for _ in range(4):
        street.wait(9)
        intervals.append(street.ask(count=1).interval_seconds)
        street.report(answered=1, seconds=0.05)
    assert intervals == [0.8, 0.4, 0.2, 0.1]
    assert street.state.overload == 0
