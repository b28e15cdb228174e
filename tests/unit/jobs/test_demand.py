"""The known demand of a spider's runs: an average of all, the maxima of the latest."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.jobs import PEAKS, JobDemand, Usage, learn

FIELDS = ("memory", "cpu", "bandwidth")
NOTHING = JobDemand(tenant="acme", biz="shop", spider="pages")
figures = st.floats(min_value=0, max_value=1e15)
anything = st.floats(allow_nan=True, allow_infinity=True)


def usages(values: st.SearchStrategy[float]) -> st.SearchStrategy[Usage]:
    names = (*FIELDS, *(f"{field}_max" for field in FIELDS))
    return st.builds(Usage, **dict.fromkeys(names, values))


def learnt(runs: list[Usage]) -> JobDemand:
    demand = NOTHING
    for run in runs:
        demand = learn(demand, run)
    return demand


def test_the_first_run_is_what_is_known_and_later_ones_weigh_as_many_as_they_are() -> None:
    first = learn(NOTHING, Usage(memory=100, memory_max=300, cpu=1, bandwidth=5))
    assert (first.runs, first.usage.memory, first.usage.memory_max) == (1, 100, 300)

    third = learn(learn(first, Usage(memory=200, memory_max=200)), Usage(memory=600))

    assert (third.runs, third.usage.memory, third.usage.memory_max) == (3, 300, 600)
    assert third.usage.cpu == pytest.approx(1 / 3)


@given(st.lists(usages(anything), max_size=30))
def test_no_reading_makes_a_demand_anything_but_a_number_from_zero_up(runs: list[Usage]) -> None:
    demand = learnt(runs)

    for field in FIELDS:
        average = getattr(demand.usage, field)
        assert math.isfinite(average)
        assert 0 <= average <= getattr(demand.usage, f"{field}_max") < math.inf
    assert demand.runs == len(runs)
    assert len(demand.peaks) <= PEAKS


@given(st.lists(usages(figures), min_size=1, max_size=30))
def test_the_average_lies_between_the_least_and_the_most_of_the_runs(runs: list[Usage]) -> None:
    demand = learnt(runs)

    for field in FIELDS:
        values = [getattr(run, field) for run in runs]
        average = getattr(demand.usage, field)
        assert min(values) <= average <= max(values)
        assert average == pytest.approx(math.fsum(values) / len(values), rel=1e-9)


@given(
    st.lists(usages(figures), min_size=1, max_size=15).flatmap(
        lambda runs: st.tuples(st.just(runs), st.permutations(runs))
    )
)
def test_the_order_of_the_runs_does_not_matter(both: tuple[list[Usage], list[Usage]]) -> None:
    one, other = map(learnt, both)

    for field in FIELDS:
        assert getattr(one.usage, field) == pytest.approx(getattr(other.usage, field), rel=1e-9)
        maximum = f"{field}_max"
        assert getattr(one.usage, maximum) == pytest.approx(getattr(other.usage, maximum))


def test_a_maximum_counts_until_enough_runs_have_come_after_it() -> None:
    runs = [Usage(memory=1, memory_max=1_000)] + [Usage(memory=1, memory_max=2)] * (PEAKS - 1)
    assert learnt(runs).usage.memory_max == 1_000

    assert learnt([*runs, Usage(memory=1, memory_max=2)]).usage.memory_max == 2


def test_a_run_without_a_reading_does_not_move_what_is_known() -> None:
    known = learn(NOTHING, Usage(memory=100, cpu=2))

    unread = learn(known, Usage(memory=math.nan, cpu=-1, bandwidth=math.inf))

    assert (unread.usage.memory, unread.usage.cpu, unread.usage.bandwidth) == (100, 2, 0)
