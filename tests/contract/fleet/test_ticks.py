"""The contract of RedisTicks: the latest tick that ended, how long ago, and what of it failed."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.fleet import RedisTicks, Ticked, TickPart
from tests.kit.implementations import backend_over
from tests.kit.kernel import StoreUnavailableError
from tests.kit.queue import fleet_keys
from tests.waiting import eventually

backend = backend_over(RedisTicks)


@pytest.fixture
def ticks(backend):
    return backend[RedisTicks]


def test_at_first_no_tick_is_known_and_it_is_reported_for_how_long_one_has_been_asked_for(ticks):
    found = ticks.last()

    assert (found.seconds_ago, found.took_seconds, found.faults) == (None, 0.0, {})
    assert found.awaited_seconds == 0
    eventually(lambda: ticks.last().awaited_seconds > 0, what="it is asked for since then")
    assert ticks.last().seconds_ago is None

    ticks.note(1.0, {})
    assert ticks.last().seconds_ago is not None
    assert ticks.last().awaited_seconds == 0


def test_the_latest_tick_is_reported_with_what_of_it_failed_and_gets_older(ticks):
    ticks.note(9.0, {TickPart.SEEDS: 1})
    ticks.note(1.5, {TickPart.SCHEDULES: 3, TickPart.SCALING: 1})

    found = ticks.last()

    assert (found.took_seconds, found.faults) == (1.5, {"schedules": 3, "scaling": 1})
    assert found.seconds_ago is not None
    assert 0 <= found.seconds_ago < 30
    eventually(lambda: ticks.last().seconds_ago > found.seconds_ago, what="it gets older")


def test_a_tick_without_faults_ends_the_faults_of_the_one_before(ticks):
    ticks.note(1.0, {TickPart.WATCH: 2})
    ticks.note(0.25, {})

    found = ticks.last()
    assert (found.took_seconds, found.faults) == (0.25, {})


@examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(0, 1e6).map(lambda it: round(it, 3)),
    st.dictionaries(st.sampled_from(TickPart), st.integers(1, 10**9)),
)
def test_whatever_is_noted_is_read_again(ticks, took, faults):
    ticks.note(took, faults)

    found = ticks.last()
    assert found.took_seconds == pytest.approx(took)
    assert found.faults == faults


def test_fleets_on_the_same_redis_have_ticks_of_their_own(redis_connection, tenant):
    RedisTicks(redis_connection, fleet=tenant).note(1.0, {})

    assert RedisTicks(redis_connection, fleet=f"{tenant}-other").last() == Ticked()


@pytest.mark.parametrize(
    "lie",
    [b"", b" ", b"yesterday", b"1 2 schedules", b"1 2 schedules many", b"\xff 1", b"x" * 9_000],
)
def test_a_redis_that_says_something_else_is_as_good_as_away(redis_connection, tenant, lie):
    redis_connection.client.set(fleet_keys(tenant).tick, lie)

    with pytest.raises(StoreUnavailableError):
        RedisTicks(redis_connection, fleet=tenant).last()


def test_a_server_whose_clock_was_set_back_has_ticked_just_now(redis_connection, tenant):
    redis_connection.client.set(fleet_keys(tenant).tick, b"99999999999999 1")

    assert RedisTicks(redis_connection, fleet=tenant).last().seconds_ago == 0


def test_what_fails_between_ticks_is_reported_with_the_latest_one(ticks):
    ticks.note(1.0, {TickPart.SEEDS: 2})
    for what in ("a", "b", "a"):
        ticks.report_fault(TickPart.STARTS, what)
    ticks.report_fault(TickPart.SEEDS, "c")

    assert ticks.last().faults == {"seeds": 3, "starts": 2}
    ticks.note(1.0, {})
    assert ticks.last().faults == {"seeds": 1, "starts": 2}


def test_what_failed_long_ago_is_reported_no_more(backend):
    ticks = backend.make(RedisTicks, between_seconds=0.2)
    ticks.note(1.0, {})
    ticks.report_fault(TickPart.STARTS, "a")

    eventually(lambda: ticks.last().faults == {}, what="it is forgotten")


def test_of_what_fails_between_ticks_so_much_is_kept_and_no_more(backend):
    ticks = backend.make(RedisTicks, most_between=3)
    ticks.note(1.0, {})
    for number in range(5):
        ticks.report_fault(TickPart.STARTS, f"event-{number}")

    assert ticks.last().faults == {"starts": 3}
