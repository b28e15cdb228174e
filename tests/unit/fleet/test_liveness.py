"""The failure detector: what it makes of silences, whatever the history."""

import math
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import DetectorLimits
from tests.kit.fleet import (
    HIGHEST_PHI,
    WINDOW,
    Health,
    WorkerHeartbeats,
    WorkerStatus,
    judge,
    phi,
    status,
    worth_a_look,
)

DEFAULT = DetectorLimits()
EACH_SECOND = (1_000,) * WINDOW

SILENCES = st.integers(0, 10**10)
HISTORIES = st.lists(st.integers(0, 600_000), max_size=WINDOW)
LIMITS = st.builds(
    DetectorLimits,
    beat_seconds=st.floats(0.01, 10),
    threshold=st.floats(1, 30),
    pause_seconds=st.floats(0, 600),
    deviation_seconds=st.floats(0.001, 600),
)


def silent(ms: int, intervals: tuple[int, ...] = EACH_SECOND) -> WorkerHeartbeats:
    return WorkerHeartbeats(
        worker="w", silent_ms=ms, intervals=intervals, worker_status=WorkerStatus(done=7)
    )


@given(SILENCES, SILENCES, HISTORIES, LIMITS)
def test_phi_grows_with_the_silence(one, other, intervals, limits):
    shorter, longer = sorted((one, other))

    assert phi(shorter, intervals, limits) <= phi(longer, intervals, limits)


@given(SILENCES | st.floats(0, 1e300), HISTORIES, LIMITS)
def test_phi_is_a_number_between_0_and_its_highest(silence, intervals, limits):
    assert 0 <= phi(silence, intervals, limits) <= HIGHEST_PHI


@given(SILENCES, HISTORIES, st.integers(0, 60_000), LIMITS)
def test_a_slower_history_tolerates_a_longer_silence(silence, intervals, more, limits):
    slower = [interval + more for interval in intervals]

    assert phi(silence, slower, limits) <= phi(silence, intervals, limits) + 1e-9


@given(SILENCES, st.integers(0, 60_000), st.integers(0, 60_000), LIMITS)
def test_a_wider_history_of_the_same_mean_tolerates_a_longer_silence(silence, mean, spread, limits):
    wider = [mean, mean + spread] * (WINDOW // 2)
    steady = [mean + spread / 2] * WINDOW
    suspicion = phi(silence, steady, limits)

    if suspicion > -math.log10(0.5):  # beyond the mean
        assert phi(silence, wider, limits) <= suspicion + 1e-9


@given(HISTORIES, LIMITS, st.data())
def test_nobody_is_dead_below_what_is_worth_a_look(intervals, limits, data):
    below = worth_a_look(limits) // timedelta(milliseconds=1) - 1
    silence = data.draw(st.integers(0, max(0, below)))

    assert judge(silent(silence, tuple(intervals)), limits) is not Health.DEAD


@given(LIMITS)
def test_a_worker_that_beats_as_it_is_asked_to_is_dead_soon_after(limits):
    intervals = (int(limits.beat_seconds * 1_000),) * WINDOW
    soon = worth_a_look(limits) // timedelta(milliseconds=1) + 10

    assert judge(silent(soon, intervals), limits) is Health.DEAD


@pytest.mark.parametrize("intervals", [(), (1_000,), EACH_SECOND, (950, 1_050) * 16])
def test_a_worker_that_beats_each_second_is_dead_after_3_to_7_seconds(intervals):
    assert judge(silent(3_000, intervals), DEFAULT) is Health.ALIVE
    assert judge(silent(7_000, intervals), DEFAULT) is Health.DEAD


def test_a_slow_network_is_given_the_time_it_takes():
    slow = (4_000, 2_000, 6_000, 3_000, 5_000, 4_500, 2_500, 6_000)

    assert judge(silent(8_000, slow), DEFAULT) is Health.ALIVE
    assert judge(silent(30_000, slow), DEFAULT) is Health.DEAD
    assert judge(silent(8_000), DEFAULT) is Health.DEAD


def test_a_slow_network_is_given_time_from_its_first_interval_on():
    assert judge(silent(8_000, ()), DEFAULT) is Health.DEAD
    assert judge(silent(7_000, (6_000,)), DEFAULT) is Health.ALIVE


def test_a_worker_is_suspected_from_half_the_threshold_on():
    found = [judge(silent(ms), DEFAULT) for ms in range(3_000, 5_000, 10)]
    changes = [found[0], *(b for a, b in pairwise(found) if a is not b)]
    first = found.index(Health.SUSPECTED) * 10 + 3_000

    assert changes == [Health.ALIVE, Health.SUSPECTED, Health.DEAD]
    assert phi(first, EACH_SECOND, DEFAULT) == pytest.approx(DEFAULT.threshold / 2, abs=0.2)


def test_phi_is_the_power_of_ten_that_the_normal_tail_has():
    limits = DetectorLimits(beat_seconds=1, pause_seconds=0, deviation_seconds=1)

    # The chances to be beyond 0, 1, 2, 3, 6 and 20 deviations, from tables.
    expected = {0: 0.5, 1: 0.158655, 2: 0.0227501, 3: 0.0013499, 6: 9.8659e-10, 20: 2.7536e-89}
    for deviations, chance in expected.items():
        found = phi(1_000 + 1_000 * deviations, EACH_SECOND, limits)
        assert found == pytest.approx(-math.log10(chance), abs=1e-4)
    assert phi(1_000_000, EACH_SECOND, limits) == HIGHEST_PHI


def test_the_status_has_what_people_want_to_know():
    found = status(silent(60_000), DEFAULT)

    assert found.health is Health.DEAD
    assert (found.worker, found.silent_ms, found.worker_status.done) == ("w", 60_000, 7)
    assert found.phi == HIGHEST_PHI


def test_limits_beyond_reason_do_not_overflow():
    assert worth_a_look(DetectorLimits(pause_seconds=1e308)) == timedelta(days=365)
