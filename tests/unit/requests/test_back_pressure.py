from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import IntakeLimits
from tests.kit.queue import Pressure
from tests.kit.submission import (
    LONGEST_SECONDS,
    MEMORY_SECONDS,
    SHORTEST_SECONDS,
    refusal,
    retry_after,
)

LIMITS = IntakeLimits(max_backlog=1_000)
RATES = st.floats(0, 1e9, allow_nan=False)
BACKLOGS = st.integers(0, 10**9)


@given(backlog=BACKLOGS, most=st.integers(1, 10**9), rate=RATES)
def test_a_full_backlog_asks_for_a_wait_within_bounds(backlog, most, rate):
    pressure = Pressure(backlog=backlog, backlog_full=True)

    wait = retry_after(pressure, IntakeLimits(max_backlog=most), rate)

    assert SHORTEST_SECONDS <= wait <= LONGEST_SECONDS


@given(backlog=BACKLOGS, rate=RATES, faster=RATES)
def test_the_faster_it_is_worked_off_the_sooner_to_come_back(backlog, rate, faster):
    pressure = Pressure(backlog=backlog, backlog_full=True)
    slow, fast = sorted((rate, faster))

    assert retry_after(pressure, LIMITS, fast) <= retry_after(pressure, LIMITS, slow)


@given(backlog=BACKLOGS, more=st.integers(0, 10**6), rate=RATES)
def test_the_more_there_is_the_later_to_come_back(backlog, more, rate):
    less = Pressure(backlog=backlog, backlog_full=True)
    greater = Pressure(backlog=backlog + more, backlog_full=True)

    assert retry_after(less, LIMITS, rate) <= retry_after(greater, LIMITS, rate)


@given(rate=st.floats(1, 19, allow_nan=False))
def test_after_the_wait_a_tenth_of_the_limit_is_worked_off(rate):
    pressure = Pressure(backlog=1_000, backlog_full=True)

    assert round(retry_after(pressure, LIMITS, rate) * rate) == 100


def test_a_backlog_that_nobody_works_off_asks_for_the_longest_wait():
    pressure = Pressure(backlog=1_000, backlog_full=True)

    assert retry_after(pressure, LIMITS, 0.0) == LONGEST_SECONDS


@given(wait=st.floats(0.001, 1e6, allow_nan=False), rate=RATES)
def test_the_rate_asks_for_its_own_wait(wait, rate):
    assert retry_after(Pressure(backlog=5, wait_seconds=wait), LIMITS, rate) == wait


@given(
    full=st.booleans(),
    memory=st.booleans(),
    wait=st.floats(0, 1e4, allow_nan=False),
    rate=RATES,
)
def test_of_several_limits_the_longest_wait_counts(full, memory, wait, rate):
    together = Pressure(backlog=1_000, backlog_full=full, memory_full=memory, wait_seconds=wait)
    alone = [
        Pressure(backlog=1_000, backlog_full=full),
        Pressure(backlog=1_000, memory_full=memory),
        Pressure(backlog=1_000, wait_seconds=wait),
    ]

    waits = [retry_after(one, LIMITS, rate) for one in alone]

    assert retry_after(together, LIMITS, rate) == max(waits)
    assert (max(waits) == 0) == together.admitted


def test_full_memory_asks_for_a_wait_that_no_rate_of_this_biz_shortens():
    pressure = Pressure(backlog=0, memory_full=True)

    assert {retry_after(pressure, LIMITS, rate) for rate in (0.0, 1e6)} == {MEMORY_SECONDS}


def test_the_refusal_names_the_limit_how_much_there_is_and_what_helps():
    rate = IntakeLimits(max_backlog=5_000, per_second=2.5, burst=40)

    def said(**pressure):
        return refusal("docs", Pressure(backlog=4_990, **pressure), rate, 0.85)

    assert "4,990 requests" in said(backlog_full=True)
    assert "max_backlog is 5,000" in said(backlog_full=True)
    assert "85% of its memory" in said(memory_full=True)
    assert "2.5 requests a second" in said(wait_seconds=1.0)
    every = said(backlog_full=True, memory_full=True, wait_seconds=1.0)
    assert every.count("; ") == 2
    assert every.count("come back") == 3
