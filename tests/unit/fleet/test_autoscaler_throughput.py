"""Throughputs are learnt from busy workers, and little from the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import FleetLimits
from tests.kit.fleet import LEAST_BUSY, ScalingState, decide, learnt
from tests.kit.fleet import scaling_capacity as capacity
from tests.kit.worlds.fleet import NOW, of, queue_key, throughputs


@given(st.floats(0.01, 1000), st.floats(0.001, 1))
def test_a_workers_throughput_is_no_less_than_it_does_and_no_more_than_it_has_reported(
    per_second, busy
):
    found = capacity(per_second, busy)

    assert per_second <= found.per_second <= 4 * per_second + 1e-9
    assert found.is_least == (busy < LEAST_BUSY)


def test_nothing_is_learnt_of_who_does_nothing():
    assert capacity(0.0, 0.5) is None
    assert capacity(5.0, 0.0) is None


known_throughputs = st.one_of(st.none(), throughputs)


@given(known_throughputs, st.lists(st.tuples(st.floats(0.01, 1000), st.floats(0.0001, 0.249))))
def test_workers_that_have_little_to_do_never_lower_what_is_known(known, done):
    found = known
    for per_second, busy in done:
        found = learnt(found, capacity(per_second, busy))

    assert found is None if known is None else found >= known


@given(known_throughputs, st.floats(0.1, 10_000), st.floats(LEAST_BUSY, 1))
def test_who_is_busy_is_believed_in_the_end_whatever_was_known(known, true, busy):
    for _ in range(300):
        known = learnt(known, capacity(true * busy, busy))

    assert known == pytest.approx(true, rel=1e-3)


def test_a_trickle_inflates_no_burst():
    """A page a second, of half a second: 64 runners could do 128 and were asked for one."""
    limits = FleetLimits(max_consumers=100)
    trickle = capacity(1.0, 0.5 / 64)
    burst = of(queue_key(20_000, seconds_left=600.0))

    for known in (None, 128.0):
        scaling_state = ScalingState(now_ms=NOW, throughput=learnt(known, trickle))
        assert decide(scaling_state, burst, limits, live=0).needed == 1


def test_a_host_that_one_can_keep_busy_gets_one_whatever_waits_for_it():
    """A worker that waits for a host is nearly idle, and has not shown that it can do no more."""
    shown = capacity(10.0, 10 * 0.5 / 64)
    waiting = of(queue_key(20_000, seconds_left=600.0, polite_per_second=10.0))

    scaling_state = ScalingState(now_ms=NOW, throughput=learnt(None, shown))

    assert decide(scaling_state, waiting, FleetLimits(max_consumers=100), live=1).needed == 1
