"""policy.turn_order: turns by weight, nobody starves, a lull saves nothing up."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.policy.turn_order import Turns

weights_of = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 100), min_size=1)


def served(weights: dict[str, int], turns: int, of: Turns[str] | None = None) -> list[str]:
    of = of or Turns()
    return [of.taken(of.order(weights)[0], weights) for _ in range(turns)]


def test_a_weight_of_three_beside_one_has_thirty_of_forty_turns():
    assert Counter(served({"a": 3, "b": 1}, 40)) == {"a": 30, "b": 10}


@given(weights_of)
def test_a_round_gives_everybody_as_many_turns_as_it_weighs(weights):
    whole = sum(weights.values())
    assert Counter(served(weights, whole)) == weights


@given(weights_of)
def test_nobody_waits_for_longer_than_a_round(weights):
    whole = sum(weights.values())
    order = served(weights, 3 * whole)
    for one in weights:
        places = [-1, *(n for n, who in enumerate(order) if who == one), len(order)]
        assert max(b - a for a, b in pairwise(places)) <= whole


@given(st.lists(st.tuples(weights_of, st.integers(1, 30)), max_size=8))
def test_whoever_comes_and_goes_nobody_with_work_waits_for_more_than_twice_a_round(phases):
    turns: Turns[str] = Turns()
    waited: Counter[str] = Counter()
    longest = 2 * max((sum(weights.values()) for weights, _ in phases), default=0) + 6
    for weights, count in phases:
        for one in set(waited) - weights.keys():
            del waited[one]
        for _ in range(count):
            who = turns.taken(turns.order(weights)[0], weights)
            waited.update(weights.keys() - {who})
            waited[who] = 0
            assert max(waited.values()) <= longest


def test_who_had_no_work_has_saved_nothing_up():
    turns: Turns[str] = Turns()
    served({"a": 1, "b": 1}, 3, turns)
    served({"a": 1}, 50, turns)

    assert Counter(served({"a": 1, "b": 1}, 10, turns)) == {"a": 5, "b": 5}
