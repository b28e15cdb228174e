"""Staggered ends of workers that began at once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.worker import STAGGERED_PART as PART
from tests.kit.worker import early_seconds


@given(st.text(), st.floats(-100, 1e6))
def test_a_worker_uses_most_of_its_time_and_never_more(worker, seconds):
    assert 0 <= early_seconds(worker, seconds) <= max(0.0, seconds) * PART


@pytest.mark.parametrize("count", [10, 40, 200])
def test_of_workers_that_began_at_once_few_end_in_the_same_moment(count):
    """Each worker ends within a moment of its call for the next one: there is room for two more."""
    ends = sorted(early_seconds(f"request-{n}", 900.0) for n in range(count))

    same = sum(after - before < 0.05 for before, after in pairwise(ends))
    assert same <= count / 5
    assert ends[-1] - ends[0] > 0.6 * PART * 900
