"""The profile and its weight say how many examples a test has."""

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.examples import COUNTS, examples


@pytest.fixture(params=COUNTS)
def count(request: pytest.FixtureRequest) -> int:
    """The profile's; the one of this run is in force again afterwards."""
    before = settings.get_current_profile_name()
    settings.load_profile(request.param)
    yield COUNTS[request.param]
    settings.load_profile(before)


def test_a_test_has_its_share_of_what_the_profile_gives(count):
    assert settings().max_examples == examples().max_examples == count
    assert examples(0.5).max_examples == count // 2
    assert examples(2, steps=30).max_examples == 2 * count
    assert examples(2, steps=30).stateful_step_count == 30


def test_however_little_it_weighs_it_has_more_than_the_simplest_one(count):
    assert examples(0.001).max_examples >= 3


def test_what_takes_long_has_a_bound(count):
    assert examples(most=50).max_examples == min(count, 50)


def test_no_health_check_is_lost(count):
    asked = [HealthCheck.function_scoped_fixture]

    found = examples(suppress_health_check=asked).suppress_health_check

    assert set(found) == {HealthCheck.too_slow, *asked}


def test_only_the_quick_ones_are_the_same_each_time(count):
    assert settings().derandomize == (count == COUNTS["quick"])
    assert settings().deadline is None
